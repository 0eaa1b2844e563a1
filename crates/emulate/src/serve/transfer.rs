//! Zone transfers over a connection (RFC 5936, RFC 9103), message by message as the client reads.

use std::cmp::Ordering;
use std::sync::Arc;

use ldplayer_core::Message;
use ldplayer_zone::{Walk, rtype, serial_of};

use super::index::Group;
use super::set::ZoneSet;

/// A transfer under way. It keeps the zones that it began with.
#[derive(Debug)]
pub struct Transfer {
    set: Arc<ZoneSet>,
    zone: u32,
    query: Box<[u8]>,
    walk: Walk,
    /// The asker has this version.
    is_current: bool,
}

impl Transfer {
    /// The transfer that a query asks for, of a zone of these; `None` if it asks for none, or the zone is not there.
    pub fn of(query: &[u8], set: &Arc<ZoneSet>, group: &Group) -> Option<Self> {
        let question = Message::new(query)?.question()?;
        if !matches!(question.qtype, rtype::AXFR | rtype::IXFR) {
            return None;
        }
        let zone = group.zone(set.zones(), &question.name.to_ascii_lowercase())?;
        let own = set.zones()[zone as usize].serial();
        let known = serial_of(query).filter(|_| question.qtype == rtype::IXFR);
        let is_current = known.zip(own).is_some_and(|(known, own)| compare(known, own).is_some_and(Ordering::is_ge));
        Some(Self { set: Arc::clone(set), zone, query: query.into(), walk: Walk::default(), is_current })
    }

    /// The number of the zone.
    pub const fn zone(&self) -> u32 {
        self.zone
    }

    /// Takes the next message into `message`. False when there is none.
    pub fn next(&mut self, message: &mut Vec<u8>) -> bool {
        message.clear();
        if self.walk.is_done() {
            return false;
        }
        let zone = &self.set.zones()[self.zone as usize];
        if self.is_current {
            zone.transfer_soa(&self.query, message);
            self.walk = Walk::DONE;
        } else {
            zone.transfer(&self.query, &mut self.walk, message);
        }
        true
    }
}

/// How serial numbers follow each other (RFC 1982 §3.2).
fn compare(a: u32, b: u32) -> Option<Ordering> {
    match a.wrapping_sub(b) {
        0 => Some(Ordering::Equal),
        0x8000_0000 => None,
        ahead if ahead < 0x8000_0000 => Some(Ordering::Greater),
        _ => Some(Ordering::Less),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_go_around() {
        assert_eq!(compare(5, 5), Some(Ordering::Equal));
        assert_eq!(compare(0, u32::MAX), Some(Ordering::Greater));
        assert_eq!(compare(u32::MAX, 0), Some(Ordering::Less));
        assert_eq!(compare(0, 1 << 31), None);
    }
}
