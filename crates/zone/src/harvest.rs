//! Harvests zones: sends each question of a trace once to a resolver, whose upstream traffic is recorded.
//!
//! [`Questions`] are the different ones, [`Asker`] asks them at a rate, and [`Journal`] keeps what became of each, so that a harvest that
//! ended early goes on. [`lacking`] tells what zones that were built of the record lack and can be asked for.

mod asker;
mod journal;
mod questions;

pub use asker::{Asker, Outcome, Settings};
pub use journal::{Journal, JournalError};
pub use questions::{Question, Questions};

use crate::construct::{Built, InventionKind};

/// QTYPEs of what a zone needs: NS and SOA.
const NEEDED: [u16; 2] = [2, 6];

/// Queries for missing data of zones: NS and SOA records that were made up.
pub fn lacking(built: &Built) -> Vec<Question> {
    let mut questions = Questions::default();
    let made = built.report.made.iter();
    for zone in
        made.filter(|made| matches!(made.kind, InventionKind::Soa | InventionKind::ApexNs | InventionKind::Zone))
    {
        let mut name = Vec::new();
        if ldplayer_core::name::parse(&zone.zone, &mut name).is_ok() {
            name.make_ascii_lowercase();
            NEEDED.into_iter().for_each(|qtype| questions.add(Question { name: name.clone(), qtype }));
        }
    }
    questions.all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::Invention;

    #[test]
    fn zones_are_asked_for_what_was_made_up_once() {
        let made = |kind, zone: &str| Invention { kind, zone: zone.to_owned(), record: String::new() };
        let mut built = Built::default();
        built.report.made = vec![
            made(InventionKind::Soa, "A.example."),
            made(InventionKind::ApexNs, "a.example."),
            made(InventionKind::Address, "b.example."),
            made(InventionKind::Zone, "."),
        ];
        let asked: Vec<(usize, u16)> =
            lacking(&built).iter().map(|question| (question.name.len(), question.qtype)).collect();
        assert_eq!(asked, [(11, 2), (11, 6), (1, 2), (1, 6)]);
    }
}
