//! Errors in the signatures of a zone.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use ldplayer_core::name::Presentation;

use super::super::tree::{Name, Tree};
use super::SetChecked;
use crate::records::Record;
use crate::rtype::name_of;

/// Something that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedFault {
    /// File and line of the record that it is about, as [`Record::place`]; zeros where no record is there.
    pub place: (u16, u32),
    /// The name that it is about, in wire format.
    pub owner: Vec<u8>,
    /// What is wrong.
    pub fault: Fault,
    /// Whether validating resolvers refuse records for it: not where another signature is good, or where they take an
    /// algorithm that they do not know for none.
    pub breaks: bool,
}

impl LocatedFault {
    pub(super) fn of(record: &Record<'_>, fault: Fault) -> Self {
        // What RFC 4035 §2.2 asks of signers, validators must not ask for (RFC 6840 §5.11); a TTL that is too long is cut (§5.3.3 of the former).
        let breaks = !matches!(
            fault,
            Fault::Algorithm(..) | Fault::Incomplete { .. } | Fault::OtherTtl { .. } | Fault::DsAlgorithm(..)
        );
        Self { place: record.place, owner: record.owner.to_vec(), fault, breaks }
    }

    pub(super) fn at(owner: &[u8], fault: Fault) -> Self {
        Self { place: (0, 0), owner: owner.to_vec(), fault, breaks: true }
    }
}

impl fmt::Display for LocatedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = Presentation(&self.owner);
        match &self.fault {
            Fault::NoKeys => write!(f, "`{owner}` has a signature, but the zone has no keys"),
            Fault::NotSigned(rtype) => write!(f, "{} at `{owner}` is not signed", name_of(*rtype)),
            Fault::Unreadable(rtype) => write!(f, "invalid signature of {} at `{owner}`", name_of(*rtype)),
            Fault::OtherSigner(rtype, signer) => {
                let signer = Presentation(signer);
                write!(f, "the signature of {} at `{owner}` was made by `{signer}`, not by the zone", name_of(*rtype))
            }
            Fault::Labels(rtype, labels) => {
                write!(
                    f,
                    "the signature of {} at `{owner}` has the wrong label count {labels} (RFC 4034 3.1.3)",
                    name_of(*rtype)
                )
            }
            Fault::NoSuchKey(rtype, tag, algorithm) => {
                let rtype = name_of(*rtype);
                write!(
                    f,
                    "the signature of {rtype} at `{owner}` was made by key {tag} of algorithm {algorithm}, which is not in the zone"
                )
            }
            Fault::Bad(rtype, tag) => {
                write!(f, "the signature of {} at `{owner}` by key {tag} does not verify", name_of(*rtype))
            }
            Fault::Algorithm(rtype, algorithm) => {
                let rtype = name_of(*rtype);
                write!(
                    f,
                    "the signature of {rtype} at `{owner}` has algorithm {algorithm}, which is not supported here"
                )
            }
            summed @ (Fault::Times { .. } | Fault::Incomplete { .. } | Fault::OtherTtl { .. }) => {
                write_summed(summed, &owner, f)
            }
            Fault::DsAlgorithm(algorithm) => {
                write!(
                    f,
                    "`{owner}` has a DS record of algorithm {algorithm}, but no key of that algorithm signs the DNSKEY records of its zone (RFC 4035 2.2)"
                )
            }
            Fault::DsOfUnsigned => {
                write!(f, "`{owner}` has a DS record, but its zone is not signed: validating resolvers answer SERVFAIL")
            }
            Fault::DsOfNoKey => {
                write!(
                    f,
                    "no DS record of `{owner}` matches a key that signs the DNSKEY records of its zone: validating resolvers answer SERVFAIL"
                )
            }
            of_chain @ (Fault::NoDenial
            | Fault::NoProof(_)
            | Fault::OptOutGap
            | Fault::StrayProof(_)
            | Fault::Next { .. }
            | Fault::Types { .. }
            | Fault::NoParameters
            | Fault::OtherParameters) => write_of_chain(of_chain, &owner, f),
        }
    }
}

/// Words for what holds for many sets alike.
fn write_summed(fault: &Fault, owner: &Presentation<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::Times { count, total, rtype, from, to } => {
            let (rtype, from, to) = (name_of(*rtype), shown(*from), shown(*to));
            write!(
                f,
                "record sets with signatures that are expired or not yet valid: {count} of {total}, such as {rtype} at `{owner}`, valid from {from} to {to}: sign the zone again (zones sign), or check it at another time (--now)"
            )
        }
        Fault::Incomplete { count, total, rtype, algorithm } => {
            let rtype = name_of(*rtype);
            write!(
                f,
                "record sets without a signature of algorithm {algorithm}, although the zone has a key of it: {count} of {total}, such as {rtype} at `{owner}` (RFC 4035 2.2)"
            )
        }
        Fault::OtherTtl { count, total, rtype, ttl, original } => {
            let rtype = name_of(*rtype);
            write!(
                f,
                "record sets with a TTL other than the signed one: {count} of {total}, such as {rtype} at `{owner}` with {ttl}, signed with {original} (RFC 4034 3.1.4)"
            )
        }
        // The caller has words for the others.
        _ => Ok(()),
    }
}

/// Words for a fault of the chain of NSEC or NSEC3 records.
fn write_of_chain(fault: &Fault, owner: &Presentation<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        Fault::NoDenial => write!(f, "the zone has neither NSEC nor NSEC3 records"),
        Fault::NoProof(kind) => write!(f, "`{owner}` has no {kind} record"),
        Fault::OptOutGap => write!(
            f,
            "`{owner}`, an empty non-terminal above opted-out delegations only, has no NSEC3 record, but a wildcard above it has one: names below it cannot be denied, and validating resolvers answer SERVFAIL (RFC 5155 8.4); zones sign adds the record"
        ),
        Fault::StrayProof(kind) => write!(f, "`{owner}` has an unexpected {kind} record"),
        Fault::Next { kind, found, wanted } => {
            write!(f, "the {kind} record of `{owner}` has the next name `{found}`, expected `{wanted}`")
        }
        Fault::Types { kind, name } => write!(f, "the {kind} record of `{name}` has a wrong type bitmap"),
        Fault::NoParameters => {
            write!(f, "the zone has NSEC3 records but no NSEC3PARAM record for SHA-1 (RFC 5155 4)")
        }
        Fault::OtherParameters => write!(f, "the NSEC3 record of `{owner}` has other parameters than NSEC3PARAM"),
        // The caller has words for the others.
        _ => Ok(()),
    }
}

fn shown(seconds: u32) -> String {
    Timestamp::from_second(seconds.into()).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// What is wrong. Types are numbers; names in presentation form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Signatures without any key.
    NoKeys,
    /// A set of this type that must be signed and is not (RFC 4035 §2.2).
    NotSigned(u16),
    /// An invalid RRSIG record.
    Unreadable(u16),
    /// A signature by another zone, in wire format.
    OtherSigner(u16, Vec<u8>),
    /// A signature of a name with another number of labels.
    Labels(u16, u8),
    /// A signature by a key that is not in the zone: type covered, key tag, algorithm.
    NoSuchKey(u16, u16, u8),
    /// A signature that does not verify: type covered, key tag.
    Bad(u16, u16),
    /// A signature of an algorithm that is not checked.
    Algorithm(u16, u8),
    /// Sets without a signature that is valid now; type and times are the first set's.
    Times {
        /// How many sets.
        count: usize,
        /// Of how many.
        total: usize,
        /// The type of the first of them.
        rtype: u16,
        /// When its signature begins to be valid.
        from: u32,
        /// When it ends to be.
        to: u32,
    },
    /// Sets without a signature of an algorithm among the keys (RFC 4035 §2.2); the type is the first set's.
    Incomplete {
        /// How many sets.
        count: usize,
        /// Of how many.
        total: usize,
        /// The type of the first of them.
        rtype: u16,
        /// The algorithm.
        algorithm: u8,
    },
    /// Sets whose TTL is not the original TTL of their signatures (RFC 4034 §3.1.4); type and TTLs are the first set's.
    OtherTtl {
        /// How many sets.
        count: usize,
        /// Of how many.
        total: usize,
        /// The type of the first of them.
        rtype: u16,
        /// Its TTL, or its signature's, in seconds.
        ttl: u32,
        /// The one that was signed.
        original: u32,
    },
    /// An algorithm of DS records that no key has which signs the keys (RFC 4035 §2.2).
    DsAlgorithm(u8),
    /// A DS record of a zone that is not signed.
    DsOfUnsigned,
    /// DS records none of which matches a key that signs the DNSKEY records of the zone (RFC 4035 §5.2).
    DsOfNoKey,
    /// No chain at all.
    NoDenial,
    /// A name without its NSEC or NSEC3 record.
    NoProof(&'static str),
    /// An empty non-terminal without an NSEC3 record where a wildcard above makes it needed (RFC 5155 §8.4).
    OptOutGap,
    /// A record of the chain for a name that has none.
    StrayProof(&'static str),
    /// A chain that goes elsewhere.
    Next {
        /// `NSEC` or `NSEC3`.
        kind: &'static str,
        /// Where it goes: a name, or a hash.
        found: String,
        /// Where it should go.
        wanted: String,
    },
    /// Other types than there are.
    Types {
        /// `NSEC` or `NSEC3`.
        kind: &'static str,
        /// The name whose types they are.
        name: String,
    },
    /// NSEC3 records without parameters.
    NoParameters,
    /// NSEC3 records with other parameters than the zone's.
    OtherParameters,
}

/// What holds for many sets alike, as one fault of each kind: signatures outside of their time, without an algorithm of `algorithms`, with another TTL.
pub(super) fn summed(
    tree: &Tree<'_>,
    jobs: &[(&Name, &[u32])],
    checked: &[SetChecked],
    algorithms: &BTreeSet<u8>,
) -> Vec<LocatedFault> {
    let total = jobs.len();
    let times = sum(
        tree,
        jobs,
        checked,
        |set| set.outside,
        |count, rtype, (from, to)| Fault::Times { count, total, rtype, from, to },
    );
    let ttls = sum(
        tree,
        jobs,
        checked,
        |set| set.other_ttl,
        |count, rtype, (ttl, original)| Fault::OtherTtl { count, total, rtype, ttl, original },
    );
    let incomplete = algorithms.iter().filter_map(|&algorithm| {
        // A set without any valid signature is reported on its own.
        let lacks = |set: &SetChecked| (set.verified > 0 && !set.algorithms.contains(&algorithm)).then_some(());
        sum(tree, jobs, checked, lacks, |count, rtype, ()| Fault::Incomplete { count, total, rtype, algorithm })
    });
    times.into_iter().chain(ttls).chain(incomplete).collect()
}

/// One fault for all sets selected by `pick`, with the first as example.
fn sum<T>(
    tree: &Tree<'_>,
    jobs: &[(&Name, &[u32])],
    checked: &[SetChecked],
    pick: impl Fn(&SetChecked) -> Option<T>,
    fault: impl Fn(usize, u16, T) -> Fault,
) -> Option<LocatedFault> {
    let mut of_kind = jobs.iter().zip(checked).filter_map(|((_, set), checked)| Some((set, pick(checked)?)));
    let (first, what) = of_kind.next()?;
    let count = 1 + of_kind.count();
    Some(LocatedFault::of(&tree.record(first[0]), fault(count, tree.rtype(first), what)))
}
