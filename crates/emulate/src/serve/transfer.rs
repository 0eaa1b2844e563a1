//! Zone transfers over a connection (RFC 5936, RFC 9103), message by message as the client reads.

use std::sync::Arc;

use ldplayer_core::Message;
use ldplayer_zone::{Progress, Walk, is_newer, rtype, serial_of};

use super::index::Group;
use super::set::ZoneSet;

/// A transfer under way. It keeps the zones that it began with.
#[derive(Debug)]
pub struct Transfer {
    set: Arc<ZoneSet>,
    zone: u32,
    query: Box<[u8]>,
    rest: Rest,
}

/// What the asker still has to get.
#[derive(Debug)]
enum Rest {
    Nothing,
    /// The SOA record: it has this version.
    Soa,
    Whole(Walk),
    /// What changed since a serial number.
    Changes(u32, Progress),
}

impl Transfer {
    /// The transfer that a query asks for, of a zone of these; `None` if it asks for none, or the zone is not there.
    pub fn of(query: &[u8], set: &Arc<ZoneSet>, group: &Group) -> Option<Self> {
        let question = Message::new(query)?.question()?;
        if !matches!(question.qtype, rtype::AXFR | rtype::IXFR) {
            return None;
        }
        let zone = group.zone(set.zones(), &question.name.to_ascii_lowercase())?;
        let known = serial_of(query).filter(|_| question.qtype == rtype::IXFR);
        let rest = known.map_or(Rest::Whole(Walk::default()), |known| Rest::since(known, set, zone));
        Some(Self { set: Arc::clone(set), zone, query: query.into(), rest })
    }

    /// The number of the zone.
    pub const fn zone(&self) -> u32 {
        self.zone
    }

    /// Takes the next message into `message`. False when there is none.
    pub fn next(&mut self, message: &mut Vec<u8>) -> bool {
        message.clear();
        let zone = &self.set.zones()[self.zone as usize];
        match &mut self.rest {
            Rest::Soa => {
                zone.transfer_soa(&self.query, message);
                self.rest = Rest::Nothing;
            }
            Rest::Whole(walk) if !walk.is_done() => zone.transfer(&self.query, walk, message),
            Rest::Changes(since, progress) => {
                let changes = self.set.history().since(zone, *since);
                if !progress.is_done(changes.len()) {
                    zone.transfer_changes(&self.query, changes, progress, message);
                }
            }
            Rest::Nothing | Rest::Whole(_) => {}
        }
        !message.is_empty()
    }
}

impl Rest {
    /// For an asker that has the version of this serial number.
    fn since(known: u32, set: &ZoneSet, zone: u32) -> Self {
        let zone = &set.zones()[zone as usize];
        if zone.serial().is_some_and(|own| known == own || is_newer(known, own)) {
            return Self::Soa;
        }
        match set.history().since(zone, known) {
            [] => Self::Whole(Walk::default()),
            _ => Self::Changes(known, Progress::default()),
        }
    }
}
