//! Zones in messages, for secondaries: whole (AXFR, RFC 5936) or what changed (IXFR, RFC 1995 §4).

use std::sync::Arc;

use ldplayer_core::message::{HEADER, flag};

use super::query::Query;
use super::{OPT_LENGTH, UDP_SIZE, push_opt};
use crate::store::{Changes, Progress, Walk, Zone, serial};

/// A message gets no further record once it has so many octets.
const FULL: usize = 16_384;
/// Octets of the longest message.
const LONGEST: usize = u16::MAX as usize;

/// The serial number that the asker of an incremental transfer has: in the SOA record of its authority section (RFC 1995 §3).
pub fn serial_of(query: &[u8]) -> Option<u32> {
    let query = Query::read(query)?;
    let question = query.question?;
    query.soa_at(HEADER + question.len()).and_then(serial)
}

impl Zone {
    /// Appends a response that is the SOA record alone: to an asker that has this version (RFC 1995 §4).
    pub fn transfer_soa(&self, query: &[u8], out: &mut Vec<u8>) {
        message(query, &mut { Walk::LAST }, true, |walk| self.next_record(walk), out);
    }

    /// Appends the next response of a transfer of the whole zone.
    pub fn transfer(&self, query: &[u8], walk: &mut Walk, out: &mut Vec<u8>) {
        let is_first = *walk == Walk::default();
        message(query, walk, is_first, |walk| self.next_record(walk), out);
    }

    /// Appends the next response of an incremental transfer. The changes end at this version of the zone.
    pub fn transfer_changes(&self, query: &[u8], changes: &[Arc<Changes>], progress: &mut Progress, out: &mut Vec<u8>) {
        let is_first = *progress == Progress::default();
        message(query, progress, is_first, |progress| self.next_change(changes, progress), out);
    }
}

/// Appends a response with as many of the next records as belong in a message.
fn message<'z, P: Copy>(
    query: &[u8],
    progress: &mut P,
    is_first: bool,
    next: impl Fn(&mut P) -> Option<(&'z [u8], &'z [u8])>,
    out: &mut Vec<u8>,
) {
    let Some(query) = Query::read(query) else { return };
    let (base, mut answers) = (out.len(), 0_u16);
    let edns = query.edns.filter(|_| is_first);
    let question = if is_first { query.question_octets() } else { &[] };
    out.extend_from_slice(&query.octets[..2]);
    let flags = flag::QR | flag::AA | query.flags & flag::RD;
    let words = [flags, u16::from(!question.is_empty()), 0, 0, u16::from(edns.is_some())];
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    out.extend_from_slice(question);
    while out.len() - base < FULL {
        let before = *progress;
        let Some((owner, record)) = next(progress) else { break };
        if out.len() - base + owner.len() + record.len() + OPT_LENGTH > LONGEST {
            if answers == 0 {
                // No message can hold it.
                continue;
            }
            *progress = before;
            break;
        }
        out.extend_from_slice(owner);
        out.extend_from_slice(record);
        answers += 1;
    }
    out[base + 6..base + 8].copy_from_slice(&answers.to_be_bytes());
    if let Some(edns) = edns {
        push_opt(edns, 0, UDP_SIZE, out);
        out.extend_from_slice(&[0, 0]);
    }
}
