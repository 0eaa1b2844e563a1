//! Makes the NSEC chain (RFC 4034 §4, RFC 4035 §2.3) or the NSEC3 chain (RFC 5155 §7.1).

use std::collections::HashSet;

use domain::utils::base32;
use ldplayer_core::name::{MAX_NAME, Presentation};

use super::error::SignError;
use super::tree::{Name, NameStatus, Tree};
use crate::rdata;
use crate::rtype;
use crate::store::{HASH, Labels, Parameters};

/// Most iterations of NSEC3: resolvers take no more as secure, and many take fewer (RFC 9276 §3.2, RFC 5155 §10.3).
pub const MAX_ITERATIONS: u16 = 2500;
/// Most octets of a salt (RFC 5155 §3.2).
pub const MAX_SALT: usize = 255;
/// SHA-1, the only hash algorithm of NSEC3 (RFC 5155 §11).
const SHA1: u8 = 1;
/// The flag of NSEC3 records that may span insecure delegations (RFC 5155 §3.1.2.1).
pub(super) const OPT_OUT: u8 = 1;

/// How it is proved that a name or type is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// By the next name.
    Nsec,
    /// By the next hash of a name.
    Nsec3 {
        /// How often the hash is hashed again, at most [`MAX_ITERATIONS`]. 0 is best practice (RFC 9276).
        iterations: u16,
        /// What is hashed with the name, at most [`MAX_SALT`] octets. None is best practice.
        salt: Vec<u8>,
        /// Whether insecure delegations have no NSEC3 record, nor the names above them where nothing needs one.
        opt_out: bool,
    },
}

impl Denial {
    /// The data of the NSEC3PARAM record (RFC 5155 §4).
    pub(super) fn parameters(&self) -> Option<Vec<u8>> {
        match self {
            Self::Nsec => None,
            Self::Nsec3 { iterations, salt, .. } => Some(head(0, *iterations, salt)),
        }
    }
}

/// A record of the chain.
pub(super) struct DenialRecord {
    pub owner: Vec<u8>,
    pub rtype: u16,
    pub data: Vec<u8>,
}

/// The chain of a zone that has its keys already.
pub(super) fn chain(tree: &Tree<'_>, denial: &Denial) -> Result<Vec<DenialRecord>, SignError> {
    match denial {
        Denial::Nsec => Ok(plain(tree)),
        Denial::Nsec3 { iterations, salt, opt_out } => hashed(tree, *iterations, salt, *opt_out),
    }
}

fn visible<'t>(tree: &'t Tree<'_>) -> impl Iterator<Item = &'t Name> {
    tree.names().filter(|name| name.place != NameStatus::Hidden)
}

/// The types that the zone answers for at a name: at a delegation NS and DS only (RFC 4035 §2.3).
fn types(tree: &Tree<'_>, name: &Name) -> Vec<u16> {
    let all = tree.sets(name).map(|set| tree.rtype(set));
    match name.place {
        NameStatus::Cut => all.filter(|&rtype| matches!(rtype, rtype::NS | rtype::DS)).collect(),
        _ => all.collect(),
    }
}

/// The NSEC records that a zone must have.
pub(super) fn plain(tree: &Tree<'_>) -> Vec<DenialRecord> {
    let names: Vec<&Name> = visible(tree).collect();
    let next = names.iter().skip(1).chain(names.first());
    let link = |(&name, &next): (&&Name, &&Name)| {
        let mut data = tree.owner_of(next).to_vec();
        let mut types = types(tree, name);
        types.extend([rtype::RRSIG, rtype::NSEC]);
        types.sort_unstable();
        rdata::bitmap(&types, &mut data);
        DenialRecord { owner: tree.owner_of(name).to_vec(), rtype: rtype::NSEC, data }
    };
    names.iter().zip(next).map(link).collect()
}

/// A name with its hash and types; without types when there are only names below it.
pub(super) struct Hashed<'a> {
    pub hash: [u8; HASH],
    pub name: &'a [u8],
    pub types: Vec<u16>,
}

fn hashed(tree: &Tree<'_>, iterations: u16, salt: &[u8], opt_out: bool) -> Result<Vec<DenialRecord>, SignError> {
    if tree.apex().len() + 33 > MAX_NAME {
        return Err(SignError::LongApex);
    }
    let parameters = Parameters::sha1(iterations, salt);
    let mut all = hashes(tree, &parameters, opt_out);
    if opt_out {
        let needed = needed(tree, all.iter().map(|one| one.name).collect()).into_iter();
        all.extend(needed.map(|name| Hashed { hash: parameters.hash(name), name, types: Vec::new() }));
        all.sort_unstable_by_key(|one| one.hash);
    }
    ensure_distinct(&all)?;
    let next = all.iter().skip(1).chain(all.first());
    let head = head(if opt_out { OPT_OUT } else { 0 }, iterations, salt);
    Ok(all.iter().zip(next).map(|(one, next)| link(one, &next.hash, head.clone(), tree.apex())).collect())
}

/// The hashes of all names that have an NSEC3 record, in order; without insecure delegations when `opt_out`.
pub(super) fn hashes<'a>(tree: &Tree<'a>, parameters: &Parameters, opt_out: bool) -> Vec<Hashed<'a>> {
    let mut all = Vec::new();
    let mut before: &[u8] = tree.apex();
    for name in visible(tree).filter(|name| !opt_out || name.place != NameStatus::Cut || tree.has(name, rtype::DS)) {
        let owner = tree.owner_of(name);
        for ent in between(owner, before, tree.apex()) {
            all.push(Hashed { hash: parameters.hash(ent), name: ent, types: Vec::new() });
        }
        let mut types = types(tree, name);
        if name.place == NameStatus::Inside || types.contains(&rtype::DS) {
            types.push(rtype::RRSIG);
            types.sort_unstable();
        }
        all.push(Hashed { hash: parameters.hash(owner), name: owner, types });
        before = owner;
    }
    all.sort_unstable_by_key(|one| one.hash);
    all
}

/// Empty non-terminals above opted-out delegations only that must have an NSEC3 record all the same, which RFC 5155 §7.1 allows: without
/// it the closest provable encloser of a name below is further up, and where that one has a child `*`, nothing proves that the
/// name is not there (§8.4): what would deny the wildcard does not exist.
///
/// `known` are the names that have a record.
pub(super) fn needed<'a>(tree: &Tree<'a>, mut known: HashSet<&'a [u8]>) -> Vec<&'a [u8]> {
    let wildcards = above_wildcards(tree);
    let mut needed = Vec::new();
    for name in visible(tree).filter(|name| name.place == NameStatus::Cut) {
        let owner = tree.owner_of(name);
        if known.contains(owner) {
            continue;
        }
        let mut provable = tree.apex();
        for ancestor in ancestors(owner, tree.apex()).rev() {
            let is_known = known.contains(ancestor);
            if !is_known && (ancestor.starts_with(STAR) || wildcards.contains(provable)) {
                known.insert(ancestor);
                needed.push(ancestor);
            }
            if known.contains(ancestor) {
                provable = ancestor;
            }
        }
    }
    needed
}

/// The label `*` (RFC 4592 §2.1.1).
pub(super) const STAR: &[u8] = b"\x01*";

/// The names that have a child `*`, if only because there is a name below that.
fn above_wildcards<'a>(tree: &Tree<'a>) -> HashSet<&'a [u8]> {
    let owners = visible(tree).map(|name| tree.owner_of(name));
    let itself_and_above = owners.flat_map(|owner| std::iter::once(owner).chain(ancestors(owner, tree.apex())));
    itself_and_above.filter(|name| name.len() > tree.apex().len()).filter_map(|name| name.strip_prefix(STAR)).collect()
}

/// The names between `owner` and the apex that have no records: all ancestors but the ancestors of the name before, or the name
/// itself, which have had their turn in canonical order.
fn between<'a>(owner: &'a [u8], before: &'a [u8], apex: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    ancestors(owner, apex).filter(move |ancestor| !crate::store::is_within(before, ancestor))
}

/// The names between `owner` and the apex, from below.
fn ancestors<'a>(owner: &'a [u8], apex: &[u8]) -> impl DoubleEndedIterator<Item = &'a [u8]> {
    let labels = Labels::of(owner);
    let above = labels.count() - Labels::of(apex).count();
    (1..above).map(move |label| &owner[labels.at(label)..])
}

fn ensure_distinct(all: &[Hashed<'_>]) -> Result<(), SignError> {
    let shown = |one: &Hashed<'_>| Presentation(one.name).to_string();
    match all.windows(2).find(|pair| pair[0].hash == pair[1].hash) {
        Some(pair) => Err(SignError::Collision(shown(&pair[0]), shown(&pair[1]))),
        None => Ok(()),
    }
}

/// What NSEC3 and NSEC3PARAM data begin with.
fn head(flags: u8, iterations: u16, salt: &[u8]) -> Vec<u8> {
    let [high, low] = iterations.to_be_bytes();
    let salt = &salt[..salt.len().min(MAX_SALT)];
    let mut data = vec![SHA1, flags, high, low, salt.len() as u8];
    data.extend_from_slice(salt);
    data
}

fn link(one: &Hashed<'_>, next: &[u8; HASH], mut data: Vec<u8>, apex: &[u8]) -> DenialRecord {
    data.push(next.len() as u8);
    data.extend_from_slice(next);
    rdata::bitmap(&one.types, &mut data);
    let label = base32::encode_string_hex(&one.hash).to_ascii_lowercase();
    let mut owner = vec![label.len() as u8];
    owner.extend_from_slice(label.as_bytes());
    owner.extend_from_slice(apex);
    DenialRecord { owner, rtype: rtype::NSEC3, data }
}
