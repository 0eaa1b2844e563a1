//! Checks the signatures and denial chains of a zone as a validating resolver or a zone walker would see them.

mod chain;
mod fault;
mod trust;

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::canonical;
use super::public::{Public, Verdict};
use super::tree::{Name, Tree};
use super::{parallel, signed_sets};
use crate::error::Problem;
use crate::records::Records;
use crate::rtype;

pub use fault::{Fault, LocatedFault};
pub use trust::{Trust, Trusted, ZoneChecked, trust};

/// So many faults of a zone are listed; the others are counted.
pub const LISTED: usize = 50;

/// What was found out about a zone's signatures.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Whether it has keys at all.
    pub is_signed: bool,
    /// DNSKEY data of the keys that sign the keys: one of them is what a DS record must be of.
    pub entries: Vec<Vec<u8>>,
    /// How many signatures were verified.
    pub signatures: usize,
    /// What is wrong, [`LISTED`] at most.
    pub faults: Vec<LocatedFault>,
    /// How many faults there are beyond those listed.
    pub more: usize,
}

impl Checked {
    /// Whether a validating resolver would answer SERVFAIL because of a fault.
    pub fn is_broken(&self) -> bool {
        self.more > 0 || self.faults.iter().any(|found| found.breaks)
    }
}

/// Checks the signatures of a zone, their times at `now` (seconds since 1970), and its chain of NSEC or NSEC3 records. A zone without keys is fine
/// unless it has signatures.
///
/// # Errors
/// When the records are no zone.
pub fn check(records: &Records, now: u32, threads: usize) -> Result<Checked, Problem> {
    let apex = records.apex()?;
    let tree = Tree::new(records, apex);
    let keys: Vec<Public<'_>> = keys(&tree).map(Public::read).collect();
    if keys.is_empty() {
        let stray = records.iter().find(|record| record.rtype == rtype::RRSIG);
        let faults = stray.map(|record| LocatedFault::of(&record, Fault::NoKeys)).into_iter().collect();
        return Ok(Checked { faults, ..Checked::default() });
    }
    let jobs: Vec<(&Name, &[u32])> =
        tree.names().flat_map(|name| signed_sets(&tree, name).map(move |set| (name, set))).collect();
    let algorithms: BTreeSet<u8> = keys.iter().filter(|key| key.is_of_zone()).map(Public::algorithm).collect();
    let entries = Mutex::new(Vec::new());
    let checked = parallel::each(&jobs, threads, |&(name, set)| {
        let checked = check_set(&tree, name, set, &keys, now);
        if tree.rtype(set) == rtype::DNSKEY && set_is_at(&tree, set, apex) {
            let mut entries = entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            entries.extend(checked.signers.iter().map(|&key| keys[key].data().to_vec()));
        }
        checked
    });
    let mut result = Checked { is_signed: true, ..Checked::default() };
    result.entries = entries.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    result.signatures = checked.iter().map(|set| set.verified).sum();
    let summed = fault::summed(&tree, &jobs, &checked, &algorithms);
    let faults = summed.into_iter().chain(checked.into_iter().flat_map(|set| set.faults)).chain(chain::check(&tree)?);
    for found in faults {
        if result.faults.len() < LISTED { result.faults.push(found) } else { result.more += 1 }
    }
    Ok(result)
}

fn keys<'a>(tree: &Tree<'a>) -> impl Iterator<Item = &'a [u8]> {
    let apex = tree.names().next().filter(|name| tree.owner_of(name) == tree.apex());
    let set = apex.and_then(|apex| tree.sets(apex).find(|set| tree.rtype(set) == rtype::DNSKEY));
    set.map(|set| tree.data(set).collect::<Vec<_>>()).unwrap_or_default().into_iter()
}

fn set_is_at(tree: &Tree<'_>, set: &[u32], owner: &[u8]) -> bool {
    tree.owner(set) == owner
}

/// What was found out about a set.
#[derive(Default)]
struct SetChecked {
    faults: Vec<LocatedFault>,
    /// Good signatures that were looked at.
    verified: usize,
    /// The keys that signed it, by place.
    signers: Vec<usize>,
    /// The validity of a good signature where none is valid now: from, to.
    outside: Option<(u32, u32)>,
    /// Algorithms of its signatures, but for those that are wrong.
    algorithms: Vec<u8>,
    /// A TTL of the set, or of a signature, and the original TTL that this signature has, where they differ.
    other_ttl: Option<(u32, u32)>,
}

fn check_set(tree: &Tree<'_>, name: &Name, set: &[u32], keys: &[Public<'_>], now: u32) -> SetChecked {
    let (mut checked, mut is_current) = (SetChecked::default(), false);
    let rtype = tree.rtype(set);
    let signatures = tree.signatures(name, rtype);
    let mut bad = Vec::new();
    for at in signatures {
        let record = tree.record(at);
        match Signature::read(record.data) {
            None => bad.push(LocatedFault::of(&record, Fault::Unreadable(rtype))),
            Some(signature) => match signature.verify(tree, set, keys) {
                Ok(key) => {
                    checked.verified += 1;
                    checked.signers.push(key);
                    is_current |= signature.holds(now);
                    checked.algorithms.push(signature.algorithm);
                    checked.other_ttl = checked.other_ttl.or(signature.other_ttl(tree, set, record.ttl));
                    checked.outside = Some((signature.inception, signature.expiration));
                }
                Err(fault) => {
                    let is_unknown = matches!(fault, Fault::Algorithm(..));
                    checked.algorithms.extend(is_unknown.then_some(signature.algorithm));
                    bad.push(LocatedFault::of(&record, fault));
                }
            },
        }
    }
    if is_current {
        checked.outside = None;
    }
    if bad.is_empty() && checked.verified == 0 {
        bad.push(LocatedFault::of(&tree.record(set[0]), Fault::NotSigned(rtype)));
    }
    // One good signature is enough (RFC 4035 §5.3.3).
    bad.iter_mut().for_each(|found| found.breaks &= checked.verified == 0);
    checked.faults = bad;
    checked
}

/// The fields of an RRSIG record (RFC 4034 §3.1).
struct Signature<'a> {
    covered: u16,
    algorithm: u8,
    labels: u8,
    ttl: u32,
    expiration: u32,
    inception: u32,
    tag: u16,
    signer: &'a [u8],
    /// All fields before the signature.
    head: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Signature<'a> {
    fn read(data: &'a [u8]) -> Option<Self> {
        let fixed: &[u8; 18] = data.first_chunk()?;
        let long = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let length = crate::rdata::name_length(&data[18..])?;
        let (head, signature) = data.split_at(18 + length);
        Some(Self {
            covered: u16::from_be_bytes([fixed[0], fixed[1]]),
            algorithm: fixed[2],
            labels: fixed[3],
            ttl: long(4),
            expiration: long(8),
            inception: long(12),
            tag: u16::from_be_bytes([fixed[16], fixed[17]]),
            signer: &head[18..],
            head,
            signature,
        })
    }

    /// Times are compared modulo 2^32 (RFC 4034 §3.1.5).
    const fn holds(&self, now: u32) -> bool {
        now.wrapping_sub(self.inception) as i32 >= 0 && self.expiration.wrapping_sub(now) as i32 >= 0
    }

    /// A TTL of the set, or `own`, that is not the one which was signed.
    fn other_ttl(&self, tree: &Tree<'_>, set: &[u32], own: u32) -> Option<(u32, u32)> {
        let mut all = set.iter().map(|&at| tree.record(at).ttl).chain([own]);
        all.find(|&ttl| ttl != self.ttl).map(|ttl| (ttl, self.ttl))
    }

    /// The place of the key that it was made with.
    fn verify(&self, tree: &Tree<'_>, set: &[u32], keys: &[Public<'_>]) -> Result<usize, Fault> {
        let (covered, tag, owner) = (self.covered, self.tag, tree.owner(set));
        if !self.signer.eq_ignore_ascii_case(tree.apex()) {
            return Err(Fault::OtherSigner(covered, self.signer.to_vec()));
        }
        if self.labels != canonical::label_count(owner) {
            return Err(Fault::Labels(covered, self.labels));
        }
        let head = canonical::data(rtype::RRSIG, self.head);
        let octets = [&*head, canonical::set(tree, set, owner, self.ttl).as_slice()].concat();
        let (mut fault, mut candidates) = (Fault::NoSuchKey(covered, tag, self.algorithm), keys.iter().enumerate());
        while let Some((at, key)) = candidates.find(|(_, key)| key.may_have_signed(tag, self.algorithm)) {
            match key.verify(&octets, self.signature) {
                Verdict::Good => return Ok(at),
                Verdict::Bad => fault = Fault::Bad(covered, tag),
                Verdict::Unknown => fault = Fault::Algorithm(covered, self.algorithm),
            }
        }
        Err(fault)
    }
}
