//! Owner names of records in canonical order.

use super::oddities::Oddities;
use crate::records::Records;
use crate::store::order::{Labels, is_within, push_key};

/// Records one behind the other that have one owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The first octets of the key, which decide most comparisons.
    prefix: u64,
    key: u32,
    key_length: u16,
    /// The first record.
    pub first: u32,
    /// The one behind the last.
    pub end: u32,
}

/// All runs of records within the zone, sorted.
pub(super) struct Owners {
    keys: Vec<u8>,
    runs: Vec<Run>,
}

impl Owners {
    /// Sorts the owners; out-of-zone records are reported and ignored.
    pub fn sorted(records: &Records, apex: &[u8], oddities: &mut Oddities<'_>) -> Self {
        let mut owners = Self { keys: Vec::with_capacity(records.len() * 8), runs: Vec::new() };
        let mut first = 0;
        while first < records.len() {
            let same = (first + 1..records.len()).take_while(|&other| records.share_owner(first, other)).count();
            let end = first + 1 + same;
            if is_within(records.get(first).owner, apex) {
                owners.push(records.get(first).owner, first, end);
            } else {
                (first..end).for_each(|at| oddities.out_of_zone(at));
            }
            first = end;
        }
        let keys = &owners.keys;
        let key = |run: &Run| &keys[run.key as usize..][..usize::from(run.key_length)];
        owners.runs.sort_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| key(a).cmp(key(b))));
        owners
    }

    fn push(&mut self, owner: &[u8], first: usize, end: usize) {
        let key = self.keys.len();
        push_key(owner, &Labels::of(owner), &mut self.keys);
        let mut prefix = [0; 8];
        let written = &self.keys[key..];
        let length = written.len().min(8);
        prefix[..length].copy_from_slice(&written[..length]);
        // A key has at most two octets for each of a name; the records number no more than 32 bits can.
        let (key_length, key) = (written.len() as u16, key as u32);
        self.runs.push(Run {
            prefix: u64::from_be_bytes(prefix),
            key,
            key_length,
            first: first as u32,
            end: end as u32,
        });
    }

    /// The runs of each name.
    pub fn groups(&self) -> impl Iterator<Item = &[Run]> {
        let key = |run: &Run| &self.keys[run.key as usize..][..usize::from(run.key_length)];
        self.runs.chunk_by(move |a, b| a.prefix == b.prefix && key(a) == key(b))
    }
}
