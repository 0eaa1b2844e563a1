//! Notes oddities of a zone while it is built.

use ldplayer_core::name::Presentation;

use crate::finding::{Finding, Findings, MAX_ITERATIONS, Oddity};
use crate::records::Records;
use crate::rtype;
use crate::store::Set;

/// What was found, in reading and in building.
pub(super) struct Oddities<'a> {
    records: &'a Records,
    found: Findings,
}

impl<'a> Oddities<'a> {
    pub fn new(records: &'a Records) -> Self {
        Self { records, found: records.findings().clone() }
    }

    fn add(&mut self, record: Option<u32>, oddity: impl FnOnce() -> Oddity) {
        let records = self.records;
        self.found.add(|| {
            let (file, line) = record.map_or((0, 0), |record| records.get(record as usize).place);
            Finding { file: records.file(file).to_owned(), line, oddity: oddity() }
        });
    }

    pub fn out_of_zone(&mut self, record: usize) {
        let owner = self.records.get(record).owner;
        self.add(Some(record as u32), || Oddity::OutOfZone(shown(owner)));
    }

    pub fn no_hash(&mut self, record: u32) {
        let owner = self.records.get(record as usize).owner;
        self.add(Some(record), || Oddity::NoHash(shown(owner)));
    }

    pub fn ttls_differ(&mut self, first: u32) {
        let record = self.records.get(first as usize);
        self.add(Some(first), || Oddity::TtlsDiffer(shown(record.owner), rtype::name_of(record.rtype)));
    }

    pub fn second_alias(&mut self, second: u32) {
        let record = self.records.get(second as usize);
        self.add(Some(second), || Oddity::SecondAlias(shown(record.owner), rtype::name_of(record.rtype)));
    }

    /// A CNAME beside other data. NSEC and signatures belong there (RFC 4035 §2.5).
    pub fn of_name(&mut self, owner: &[u8], sets: &[Set], origins: &[u32]) {
        let Some(cname) = sets.iter().position(|set| set.rtype == rtype::CNAME && set.count > 0) else { return };
        // KEY (25) may stand beside a CNAME as well (RFC 3007 §3.1).
        let is_other = |set: &&Set| !matches!(set.rtype, rtype::CNAME | rtype::NSEC | 25) && set.count > 0;
        if let Some(other) = sets.iter().find(is_other) {
            self.add(Some(origins[cname]), || Oddity::CnameAndOther(shown(owner), rtype::name_of(other.rtype)));
        }
    }

    /// A DS record at a name that is not delegated.
    pub fn lone_ds(&mut self, owner: &[u8], sets: &[Set], origins: &[u32]) {
        if let Some(at) = sets.iter().position(|set| set.rtype == rtype::DS && set.count > 0) {
            self.add(Some(origins[at]), || Oddity::LoneDs(shown(owner)));
        }
    }

    /// NSEC3 chains with costly hashes, by NSEC3PARAM at the apex.
    pub fn iterations(&mut self, members: &[u32]) {
        let records = self.records;
        for &at in members.iter().filter(|&&at| records.get(at as usize).rtype == rtype::NSEC3PARAM) {
            let iterations =
                records.get(at as usize).data.get(2..4).map_or(0, |field| u16::from_be_bytes([field[0], field[1]]));
            if iterations > MAX_ITERATIONS {
                self.add(Some(at), || Oddity::Iterations(iterations));
            }
        }
    }

    /// Data below a cut or a DNAME; addresses are glue. What proves that a name is not there is not data.
    pub fn of_occluded(&mut self, owner: &[u8], sets: &[Set], origins: &[u32], cover: &[u8]) {
        let is_data = |set: &Set| !matches!(set.rtype, rtype::A | rtype::AAAA | rtype::NSEC) && set.count > 0;
        if let Some(at) = sets.iter().position(is_data) {
            self.add(Some(origins[at]), || Oddity::Occluded(shown(owner), shown(cover)));
        }
    }

    pub fn no_glue(&mut self, origin: u32, cut: &[u8], server: &[u8]) {
        self.add(Some(origin), || Oddity::NoGlue(shown(cut), shown(server)));
    }

    pub fn no_apex_ns(&mut self, apex: &[u8]) {
        self.add(None, || Oddity::NoApexNs(shown(apex)));
    }

    /// All that was found.
    pub fn into_findings(self) -> Vec<Finding> {
        self.found.list(self.records.file(0))
    }
}

fn shown(name: &[u8]) -> String {
    Presentation(name).to_string()
}
