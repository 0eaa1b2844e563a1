//! Makes RRSIG records (RFC 4034 §3).

use super::Policy;
use super::canonical;
use super::collisions;
use super::error::{KeyError, SignError};
use super::key::{Key, Role};
use super::parallel;
use super::tree::Tree;
use crate::rtype;

/// When signatures are valid, in seconds since 1970 modulo 2^32 (RFC 4034 §3.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub inception: u32,
    /// Until then.
    pub expiration: u32,
}

/// The signing keys, by the sets that they sign.
struct Signers<'a> {
    of_keys: Vec<&'a Key>,
    of_all: Vec<&'a Key>,
}

impl<'a> Signers<'a> {
    fn of(policy: &Policy<'a>) -> Result<Self, SignError> {
        let with = |role| policy.keys.iter().filter(move |key| key.role() == role);
        let of_keys: Vec<&Key> = with(Role::Ksk).collect();
        let of_all: Vec<&Key> = with(Role::Zsk).take(policy.active_zsks.max(1)).collect();
        if of_keys.is_empty() {
            return Err(SignError::NoKey("KSK"));
        }
        if of_all.is_empty() { Err(SignError::NoKey("ZSK")) } else { Ok(Self { of_keys, of_all }) }
    }

    fn for_type(&self, rtype: u16) -> &[&'a Key] {
        if rtype == rtype::DNSKEY { &self.of_keys } else { &self.of_all }
    }
}

/// Signs sets of the tree; gives for each the data of its RRSIG records.
pub(super) fn sign_all(tree: &Tree<'_>, sets: &[&[u32]], policy: &Policy<'_>) -> Result<Vec<Vec<Vec<u8>>>, SignError> {
    let signers = Signers::of(policy)?;
    let signed = parallel::each(sets, policy.threads, |set| sign_set(tree, set, &signers, policy));
    Ok(signed.into_iter().collect::<Result<_, KeyError>>()?)
}

fn sign_set(
    tree: &Tree<'_>,
    set: &[u32],
    signers: &Signers<'_>,
    policy: &Policy<'_>,
) -> Result<Vec<Vec<u8>>, KeyError> {
    let records = canonical::set(tree, set, tree.owner(set), tree.ttl(set));
    let mut all = Vec::new();
    for (number, key) in signers.for_type(tree.rtype(set)).iter().enumerate() {
        let mut data = head(tree, set, key, policy.validity);
        let before = data.len();
        let signature = key.sign(&[data.as_slice(), records.as_slice()].concat())?;
        data.extend(signature);
        if number == 0 && key.role() == Role::Zsk {
            all.extend(collisions::signatures(&data, before, policy.collisions.into()));
        }
        all.push(data);
    }
    Ok(all)
}

/// The data of an RRSIG record up to the signature.
fn head(tree: &Tree<'_>, set: &[u32], key: &Key, validity: Validity) -> Vec<u8> {
    let mut data = tree.rtype(set).to_be_bytes().to_vec();
    data.extend([key.algorithm().number(), canonical::label_count(tree.owner(set))]);
    for word in [tree.ttl(set), validity.expiration, validity.inception] {
        data.extend(word.to_be_bytes());
    }
    data.extend(key.tag().to_be_bytes());
    data.extend_from_slice(tree.apex());
    data
}
