//! A zone ready to be served: read-only, compact, with everything precomputed that answers need.

pub(crate) mod build;
mod changes;
mod denial;
mod layout;
mod order;
pub mod table;
mod template;
mod versions;
mod walk;

use std::path::PathBuf;

pub use changes::{Changes, Progress, is_newer};
pub(crate) use denial::{Denial, HASH, Parameters};
pub(crate) use layout::{Layout, target_offset};
pub(crate) use order::{Labels, compare, is_within, push_key};
pub(crate) use table::{SEED, extend};
pub(crate) use template::{Part, Template, Written};
pub use versions::{Pick, Version, VersionedSet, VersionsError, can_vary};
pub use walk::Walk;
pub(crate) use walk::serial;

use ldplayer_net::ahead;

use crate::error::LoadError;
use crate::rtype;

/// No node, set or template.
pub(crate) const NONE: u32 = u32::MAX;
/// The fields of a record before its data, the owner left out: type, class, TTL, length.
pub(crate) const HEAD: usize = 10;

/// Octets of each piece of a zone that are fetched ahead of an answer.
const FETCHED: usize = 512;

/// What keeps records from being a zone.
pub type BuildError = LoadError;

/// A zone. It is never changed, and may be used by all threads.
///
/// What every answer reads stands first, in as few cache lines as it takes (`HOT`).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Zone {
    /// The apex first.
    octets: Box<[u8]>,
    /// In canonical order; the apex first.
    nodes: Box<[Node]>,
    /// Those of a node one behind the other.
    sets: Box<[Set]>,
    /// For each record that names a host, the host's node.
    targets: Box<[u32]>,
    table: table::Table,
    /// The SOA as negative answers have it.
    negative_soa: Set,
    class: u16,
    apex_length: u8,
    apex_labels: u8,
    number: u32,
    denial: Denial,
    templates: template::Templates,
    versions: versions::Versions,
    records: usize,
    file: PathBuf,
}

/// Octets of a zone that every answer reads.
const HOT: usize = std::mem::offset_of!(Zone, denial);

/// A name that is in the zone, if only because there is one below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Where the name is among the octets.
    name: u32,
    pub parent: u32,
    first_set: u32,
    sets: u16,
    pub flags: u8,
    name_length: u8,
    /// The child `*`.
    pub wildcard: u32,
    /// With NSEC: the last record at or before the name. With NSEC3: the one of the name.
    pub proof: u32,
    /// The same for the child `*`, at nodes that have children.
    pub wildcard_proof: u32,
    /// The referral, at a cut.
    pub template: u32,
}

/// The name is delegated.
pub(crate) const CUT: u8 = 1;
/// The name is below a cut or a DNAME.
pub(crate) const OCCLUDED: u8 = 2;
/// The name has a DNAME.
pub(crate) const REDIRECTS: u8 = 4;
/// The name has children.
pub(crate) const PARENT: u8 = 8;

/// Records of one owner and type, and their signatures. In the octets each is type, class, TTL, length, data, as on the
/// wire; the signatures stand behind the records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub rtype: u16,
    pub count: u16,
    pub signatures: u16,
    /// Whether it has other versions.
    pub varies: bool,
    start: u32,
    signed_from: u32,
    end: u32,
    /// Where the targets of its records begin, or [`NONE`].
    targets: u32,
}

/// Where a name is in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is there.
    Node(u32),
    /// It is, or is below, a delegated name.
    Cut(u32),
    /// It is below a name with a DNAME.
    Below(u32),
    /// It is not there; the closest encloser is.
    Missing(u32),
    /// It is not within the zone.
    Outside,
}

/// A set as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RrSet<'a> {
    /// The owner name in wire format, in lower case.
    pub owner: &'a [u8],
    /// TYPE.
    pub rtype: u16,
    /// How many records, signatures left out.
    pub records: usize,
}

impl Zone {
    /// The name of the zone in wire format, in lower case.
    #[inline]
    pub fn apex(&self) -> &[u8] {
        &self.octets[..usize::from(self.apex_length)]
    }

    /// The class of its records.
    pub const fn class(&self) -> u16 {
        self.class
    }

    /// The file that it was read from.
    pub fn file(&self) -> &std::path::Path {
        &self.file
    }

    /// How many records it has, those that are not served left out.
    pub const fn records(&self) -> usize {
        self.records
    }

    /// Octets of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.octets.len()
            + size_of_val(&*self.nodes)
            + size_of_val(&*self.sets)
            + size_of_val(&*self.targets)
            + self.table.memory()
            + self.denial.memory()
            + self.templates.memory()
            + self.versions.memory()
    }

    /// Begins to fetch the zone itself into the processor's caches, as [`Self::fetch_pieces`] reads it.
    #[inline]
    pub fn fetch(&self) {
        ahead::fetch(std::slice::from_ref(self), HOT);
    }

    /// Begins to fetch what an answer reads into the processor's caches: all of a small zone, of a large one the beginning, where the
    /// apex is.
    #[inline]
    pub fn fetch_pieces(&self) {
        ahead::fetch(&self.octets, FETCHED);
        ahead::fetch(&self.nodes, FETCHED);
        ahead::fetch(&self.sets, FETCHED);
        ahead::fetch(&self.targets, FETCHED);
        self.table.fetch_first(FETCHED);
    }

    /// A number for use by the owner of the zone; initially 0.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Sets [`Self::number`].
    pub const fn set_number(&mut self, number: u32) {
        self.number = number;
    }

    /// How many sets there are; a position below it is one of [`Self::rrset`].
    pub fn rrsets(&self) -> usize {
        self.sets.len()
    }

    /// All sets with their positions, by owner in canonical order; NSEC3 records and what belongs to them last.
    pub fn iter_rrsets(&self) -> impl Iterator<Item = (usize, RrSet<'_>)> {
        let of_names = self.nodes.iter().flat_map(|node| node.range().map(|at| (at, self.name(node))));
        let hashed = self.denial.hashed().map(|entry| (entry.set as usize, self.denial_owner(entry)));
        of_names.chain(hashed).map(|(at, owner)| (at, self.shown(at, owner)))
    }

    /// The set at a position below [`Self::rrsets`].
    pub fn rrset(&self, at: usize) -> RrSet<'_> {
        let after = self.nodes.partition_point(|node| node.range().start <= at);
        let node = after.checked_sub(1).map(|before| &self.nodes[before]).filter(|node| node.range().contains(&at));
        let hashed =
            || self.denial.hashed().find(|entry| entry.set as usize == at).map(|entry| self.denial_owner(entry));
        self.shown(at, node.map(|node| self.name(node)).or_else(hashed).unwrap_or(self.apex()))
    }

    fn shown<'a>(&'a self, at: usize, owner: &'a [u8]) -> RrSet<'a> {
        let set = &self.sets[at];
        RrSet { owner, rtype: set.rtype, records: usize::from(set.count) }
    }

    /// The name servers of the zone, as its apex names them.
    pub fn name_servers(&self) -> impl Iterator<Item = &[u8]> {
        let set = self.set_of(&self.nodes[0], rtype::NS);
        set.into_iter().flat_map(|set| self.data(set)).filter_map(|data| layout::target(rtype::NS, data))
    }

    /// The delegated names and the name servers that each is delegated to.
    pub fn delegations(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let cuts = self.nodes.iter().filter(|node| node.flags & CUT != 0);
        let sets = cuts.filter_map(|node| Some((self.name(node), self.set_of(node, rtype::NS)?)));
        sets.flat_map(|(owner, set)| self.data(set).map(move |data| (owner, data)))
            .filter_map(|(owner, data)| Some((owner, layout::target(rtype::NS, data)?)))
    }

    /// The A and AAAA records, glue among them: owner, type, address of 4 or 16 octets.
    pub fn addresses(&self) -> impl Iterator<Item = (&[u8], u16, &[u8])> {
        self.nodes.iter().flat_map(move |node| {
            let sets = self.sets_of(node).iter().filter(|set| matches!(set.rtype, rtype::A | rtype::AAAA));
            sets.flat_map(move |set| self.data(set).map(move |data| (self.name(node), set.rtype, data)))
        })
    }

    pub(crate) fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    pub(crate) fn name(&self, node: &Node) -> &[u8] {
        &self.octets[node.name as usize..][..usize::from(node.name_length)]
    }

    pub(crate) fn sets_of(&self, node: &Node) -> &[Set] {
        &self.sets[node.range()]
    }

    /// A set that has records.
    #[inline]
    pub(crate) fn set_of(&self, node: &Node, rtype: u16) -> Option<&Set> {
        self.sets_of(node).iter().find(|set| set.rtype == rtype && set.count > 0)
    }

    /// The position of a set that has records.
    #[inline]
    pub(crate) fn set_at(&self, node: u32, rtype: u16) -> Option<u32> {
        let range = self.nodes[node as usize].range();
        let sets = &self.sets[range.clone()];
        let at = sets.iter().position(|set| set.rtype == rtype && set.count > 0)?;
        Some((range.start + at) as u32)
    }

    pub(crate) fn set(&self, at: u32) -> &Set {
        &self.sets[at as usize]
    }

    pub(crate) const fn negative_soa(&self) -> &Set {
        &self.negative_soa
    }

    /// Whether the zone's own records are signed.
    pub(crate) const fn is_signed(&self) -> bool {
        self.negative_soa.signatures > 0
    }

    pub(crate) const fn denial(&self) -> &Denial {
        &self.denial
    }

    pub(crate) fn denial_owner(&self, entry: &denial::Entry) -> &[u8] {
        let rest = &self.octets[entry.name as usize..];
        &rest[..crate::rdata::name_length(rest).unwrap_or(0)]
    }

    pub(crate) fn template(&self, node: &Node) -> Option<Template<'_>> {
        self.templates.get(node.template)
    }

    /// The records of a set as on the wire, owners left out.
    #[inline]
    pub(crate) fn wire(&self, set: &Set) -> &[u8] {
        &self.octets[set.start as usize..set.signed_from as usize]
    }

    /// The signatures of a set as on the wire, owners left out.
    #[inline]
    pub(crate) fn signature_wire(&self, set: &Set) -> &[u8] {
        &self.octets[set.signed_from as usize..set.end as usize]
    }

    /// The data of a set's records.
    pub(crate) fn data(&self, set: &Set) -> impl Iterator<Item = &[u8]> {
        entries(self.wire(set)).map(|entry| &entry[HEAD..])
    }

    /// The hosts that a set's records name, for each record the node or [`NONE`].
    pub(crate) fn targets(&self, set: &Set) -> &[u32] {
        match set.targets {
            NONE => &[],
            start => &self.targets[start as usize..][..usize::from(set.count)],
        }
    }

    /// Where a name in lower case is. For DS, a cut is an ordinary name (RFC 4035 §3.1.4.1).
    #[inline]
    pub(crate) fn find(&self, name: &[u8], labels: &Labels, is_ds: bool) -> Place {
        let Some(below) = labels.count().checked_sub(self.apex_labels.into()) else { return Place::Outside };
        if name[labels.at(below)..] != *self.apex() {
            return Place::Outside;
        }
        let (mut at, mut hash) = (0, SEED);
        for label in (0..below).rev() {
            let node = &self.nodes[at as usize];
            if node.flags & (CUT | REDIRECTS) != 0 {
                return if node.flags & CUT != 0 { Place::Cut(at) } else { Place::Below(at) };
            }
            hash = extend(hash, labels.label(name, label));
            let suffix = &name[labels.at(label)..];
            match self.table.find(hash, |found| self.name(&self.nodes[found as usize]) == suffix) {
                Some(found) => at = found,
                None => return Place::Missing(at),
            }
        }
        if self.nodes[at as usize].flags & CUT != 0 && !is_ds { Place::Cut(at) } else { Place::Node(at) }
    }

    /// The node of a name in lower case, below cuts, too.
    pub(crate) fn exact(&self, name: &[u8]) -> Option<u32> {
        let labels = Labels::of(name);
        let below = labels.count().checked_sub(self.apex_labels.into())?;
        if name[labels.at(below)..] != *self.apex() {
            return None;
        }
        let hash = (0..below).rev().fold(SEED, |hash, label| extend(hash, labels.label(name, label)));
        if below == 0 {
            return Some(0);
        }
        self.table.find(hash, |found| self.name(&self.nodes[found as usize]) == name)
    }

    /// The record that proves that a name in lower case is not there: the one whose span it is in.
    #[inline]
    pub(crate) fn cover(&self, name: &[u8], labels: &Labels) -> Option<u32> {
        match self.denial.hash(name) {
            Some(hash) => self.denial.covering(&hash),
            None => self.denial.at_or_before(name, labels, self.apex_labels.into(), |entry| self.denial_owner(entry)),
        }
    }

    /// The record that proves that a node without a child `*` has none.
    pub(crate) fn wildcard_cover(&self, node: &Node) -> Option<u32> {
        let mut name = [0; 2 + ldplayer_core::name::MAX_NAME];
        let length = 2 + node.name_length();
        name[..2].copy_from_slice(b"\x01*");
        name[2..length].copy_from_slice(self.name(node));
        let name = name.get(..length).filter(|name| name.len() <= ldplayer_core::name::MAX_NAME)?;
        self.cover(name, &Labels::of(name))
    }

    /// The labels of a node's name, the root label left out.
    pub(crate) fn label_count(&self, node: u32) -> usize {
        let mut count = usize::from(self.apex_labels);
        let mut parent = self.node(node).parent;
        while parent != NONE {
            count += 1;
            parent = self.node(parent).parent;
        }
        count
    }

    /// The position of a node's first set.
    pub(crate) fn first_set(&self, node: u32) -> u32 {
        self.node(node).first_set
    }

    /// Whether a node's first label is `*` (RFC 4592 §2.1.1).
    pub(crate) fn is_wildcard(&self, node: u32) -> bool {
        self.name(self.node(node)).starts_with(b"\x01*")
    }

    /// Whether a node is below a cut.
    pub(crate) fn is_glue(&self, node: u32) -> bool {
        self.node(node).flags & (OCCLUDED | CUT) != 0
    }
}

impl Node {
    fn range(&self) -> std::ops::Range<usize> {
        self.first_set as usize..self.first_set as usize + usize::from(self.sets)
    }

    pub(crate) const fn name_length(&self) -> usize {
        self.name_length as usize
    }
}

/// Cuts records, owners left out, at their ends.
#[inline]
pub(crate) fn entries(mut wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_be_bytes([*wire.get(8)?, *wire.get(9)?]));
        let (entry, rest) = wire.split_at_checked(HEAD + length)?;
        wire = rest;
        Some(entry)
    })
}
