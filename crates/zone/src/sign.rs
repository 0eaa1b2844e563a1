//! Signs zones: unsigned records in, signed records out (RFC 4033, 4034, 4035, 5155). No files, no clock.

mod algorithm;
mod canonical;
pub mod check;
mod collisions;
mod denial;
mod error;
mod key;
mod parallel;
mod private;
mod public;
mod set;
mod signature;
mod spec;
mod tree;

use std::collections::BTreeMap;

use ldplayer_core::name::Presentation;

pub use algorithm::Algorithm;
pub use denial::{Denial, MAX_ITERATIONS, MAX_SALT};
pub use error::{KeyError, SignError};
pub use key::{Key, MAX_RSA_BITS, MIN_RSA_BITS, Role, ds, key_tag};
pub use private::{file_stem, private_text, read_private};
pub use set::{Links, Member, StaleParent, links};
pub use signature::Validity;
pub use spec::{KeySpec, Seed};

use crate::error::Problem;
use crate::records::{Record, Records};
use crate::rtype;
use tree::{Name, NameStatus, Tree};

/// How a zone is signed.
#[derive(Clone, Debug)]
pub struct Policy<'a> {
    /// KSKs, which sign the keys, and ZSKs, which sign all else; all are published. At least one of each.
    pub keys: &'a [Key],
    /// How many of the ZSKs sign, the first ones: one, and more while a rollover is done by double signatures (RFC 6781
    /// §4.1.1.2). The others are published only (§4.1.1.1).
    pub active_zsks: usize,
    /// How it is proved that something is not there.
    pub denial: Denial,
    /// So many other keys with the tag of the first ZSK, and so many wrong signatures of it on each set: none, but to see what validators make of it.
    pub collisions: u8,
    /// When the signatures are valid.
    pub validity: Validity,
    /// DS data of delegated zones by their names (wire format, lower case), in place of what the zone has. An empty list
    /// makes the delegation insecure.
    pub delegations: &'a BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Threads that sign, at least one.
    pub threads: usize,
}

/// A signed zone.
#[derive(Clone, Debug)]
pub struct Signed {
    /// Its records in canonical order but for the SOA, which is first, and signatures, which are behind the set that they sign.
    pub records: Records,
    /// How many signatures were made.
    pub signatures: usize,
    /// How many NSEC or NSEC3 records it has.
    pub denials: usize,
    /// Whether it had a ZONEMD record (RFC 8976), which is gone: it was a digest of what the zone was before.
    pub had_digest: bool,
}

/// Signs a zone. What it has of DNSSEC is removed first: DNSKEY, RRSIG, NSEC, NSEC3, NSEC3PARAM, CDS and CDNSKEY; so are records
/// out of the zone. Delegations, glue and what is hidden by a delegation or a DNAME are not signed (RFC 4035 §2.2).
///
/// The same input gives the same output: RSA and Ed25519 have no chance in them, ECDSA signs by RFC 6979.
///
/// # Errors
/// When there is no SOA record, a key fails, two names have one NSEC3 hash, or a DS record stands where nothing is delegated.
pub fn zone(records: &Records, policy: &Policy<'_>) -> Result<Signed, SignError> {
    let apex = records.apex()?;
    let ttls = Ttls::of(records, apex);
    let mut plain = stripped(records, apex, policy)?;
    add_keys(&mut plain, apex, &ttls, policy)?;
    let bare = Tree::new(&plain, apex);
    ensure_delegated(&bare)?;
    let denials = denial::chain(&bare, &policy.denial)?;
    denials.iter().try_for_each(|one| plain.push(&one.owner, one.rtype, ttls.negative, &one.data))?;
    let tree = Tree::new(&plain, apex);
    let sets: Vec<&[u32]> = tree.names().flat_map(|name| signed_sets(&tree, name)).collect();
    let signatures = signature::sign_all(&tree, &sets, policy)?;
    let had_digest = records.iter().any(|record| record.rtype == ZONEMD && record.owner == apex);
    let count = signatures.iter().map(Vec::len).sum();
    Ok(Signed { records: joined(&tree, &signatures)?, signatures: count, denials: denials.len(), had_digest })
}

/// Signs a record set alone, as a version of one of a zone that is signed by the policy: the data of its RRSIG records.
///
/// # Errors
/// A record is invalid for its type, or a key fails.
pub fn set_alone(
    apex: &[u8],
    owner: &[u8],
    (rtype, ttl): (u16, u32),
    data: &[Vec<u8>],
    policy: &Policy<'_>,
) -> Result<Vec<Vec<u8>>, SignError> {
    let mut alone = Records::default();
    data.iter().try_for_each(|data| alone.push(owner, rtype, ttl, data))?;
    let tree = Tree::new(&alone, apex);
    let sets: Vec<&[u32]> = tree.names().flat_map(|name| tree.sets(name)).collect();
    Ok(signature::sign_all(&tree, &sets, policy)?.into_iter().flatten().collect())
}

/// Types that only the child side of a zone cut may have signed at a cut: the parent's (RFC 4035 §2.2, §2.3).
const OF_PARENT: [u16; 2] = [rtype::DS, rtype::NSEC];
const CDS: u16 = 59;
const CDNSKEY: u16 = 60;
const ZONEMD: u16 = 63;

/// TTLs of the records that signing adds.
struct Ttls {
    /// That of the keys before, or of the SOA.
    keys: u32,
    /// RFC 9077 §3.
    negative: u32,
}

impl Ttls {
    fn of(records: &Records, apex: &[u8]) -> Self {
        let first = |rtype| records.iter().find(|record| record.rtype == rtype && record.owner == apex);
        let soa = first(rtype::SOA);
        let minimum = soa.and_then(|soa| soa.data.last_chunk().map(|&octets| u32::from_be_bytes(octets)));
        let ttl = soa.map_or(0, |soa| soa.ttl);
        Self { keys: first(rtype::DNSKEY).map_or(ttl, |key| key.ttl), negative: minimum.unwrap_or(0).min(ttl) }
    }
}

/// The records without those of DNSSEC, and with the DS records that the policy says.
fn stripped(records: &Records, apex: &[u8], policy: &Policy<'_>) -> Result<Records, Problem> {
    let mut plain = Records::default();
    plain.set_class(records.class());
    let is_replaced = |record: &Record<'_>| record.rtype == rtype::DS && policy.delegations.contains_key(record.owner);
    let kept = records.iter().filter(|record| !is_made(record, apex) && !is_replaced(record));
    for record in kept.filter(|record| crate::store::is_within(record.owner, apex)) {
        plain.push(record.owner, record.rtype, record.ttl, record.data)?;
    }
    for delegation in records.iter().filter(|record| record.rtype == rtype::NS) {
        // Each record of a delegation brings them; they are kept once.
        let all = policy.delegations.get(delegation.owner).into_iter().flatten();
        all.into_iter().try_for_each(|data| plain.push(delegation.owner, rtype::DS, delegation.ttl, data))?;
    }
    Ok(plain)
}

/// DS records are allowed at delegations only: signed elsewhere, they would vouch for a zone that cannot be found.
fn ensure_delegated(tree: &Tree<'_>) -> Result<(), SignError> {
    let mut own = tree.names().filter(|name| name.place == NameStatus::Inside);
    match own.find(|name| tree.has(name, rtype::DS)) {
        Some(name) => Err(SignError::LoneDs(Presentation(tree.owner_of(name)).to_string())),
        None => Ok(()),
    }
}

/// Whether a record is one of those that signing makes, or spoils.
fn is_made(record: &Record<'_>, apex: &[u8]) -> bool {
    match record.rtype {
        rtype::RRSIG | rtype::NSEC | rtype::NSEC3 | rtype::NSEC3PARAM => true,
        rtype::DNSKEY | CDS | CDNSKEY | ZONEMD => record.owner == apex,
        _ => false,
    }
}

fn add_keys(plain: &mut Records, apex: &[u8], ttls: &Ttls, policy: &Policy<'_>) -> Result<(), SignError> {
    policy.keys.iter().try_for_each(|key| plain.push(apex, rtype::DNSKEY, ttls.keys, key.data()))?;
    let first = policy.keys.iter().find(|key| key.role() == Role::Zsk).filter(|_| policy.collisions > 0);
    if let Some(first) = first {
        let others = collisions::keys(first, policy.collisions.into())?;
        others.iter().try_for_each(|data| plain.push(apex, rtype::DNSKEY, ttls.keys, data))?;
    }
    match policy.denial.parameters() {
        Some(data) => Ok(plain.push(apex, rtype::NSEC3PARAM, 0, &data)?),
        None => Ok(()),
    }
}

/// The sets of a name that are signed, which signatures are not (RFC 4035 §2.2).
fn signed_sets<'t>(tree: &'t Tree<'_>, name: &'t Name) -> impl Iterator<Item = &'t [u32]> {
    tree.sets(name).filter(move |set| match name.place {
        NameStatus::Inside => tree.rtype(set) != rtype::RRSIG,
        NameStatus::Cut => OF_PARENT.contains(&tree.rtype(set)),
        NameStatus::Hidden => false,
    })
}

/// The records of the tree, and behind each signed set its signatures, which are in the order of [`signed_sets`].
fn joined(tree: &Tree<'_>, signatures: &[Vec<Vec<u8>>]) -> Result<Records, Problem> {
    let mut all = Records::default();
    all.set_class(tree.class());
    let mut signatures = signatures.iter();
    for name in tree.names() {
        let mut signed = signed_sets(tree, name).peekable();
        let with_signatures = |set| (set, signed.next_if_eq(&set).and_then(|_| signatures.next()));
        let mut sets: Vec<_> = tree.sets(name).map(with_signatures).collect();
        // Zone files begin with it by custom, and some programs ask for that.
        sets.sort_by_key(|(set, _)| tree.rtype(set) != rtype::SOA);
        for (set, signatures) in sets {
            let (owner, ttl) = (tree.owner(set), tree.ttl(set));
            tree.data(set).try_for_each(|data| all.push(owner, tree.rtype(set), ttl, data))?;
            let mut made = signatures.into_iter().flatten();
            made.try_for_each(|data| all.push(owner, rtype::RRSIG, ttl, data))?;
        }
    }
    Ok(all)
}
