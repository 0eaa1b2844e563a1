//! The accounts of a reader: what it saw, what it passed over, what was damaged and where first.

use std::collections::BTreeMap;

use ldplayer_core::Message;

use crate::packet::Refused;

/// Where something was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// Input as the user named it.
    pub file: String,
    /// Packet, row or line number, from 1.
    pub packet: u64,
    /// Octets from the start of the (decompressed) input.
    pub offset: u64,
}

/// One kind of damage.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Damage {
    /// What is wrong, as a stable word such as `truncated_packet`.
    pub reason: &'static str,
    /// How often.
    pub count: u64,
    /// The first place.
    pub first: Place,
}

/// The accounts of one or several inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets (or rows, lines, frames) read.
    pub packets: u64,
    /// DNS messages among them.
    pub dns_messages: u64,
    /// Messages with QR=0.
    pub queries: u64,
    /// Messages with QR=1.
    pub responses: u64,
    /// Foreign or unusable packets by reason, such as `not_dns_port` or `icmp`.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Kinds of messages that the format tells apart, such as `CLIENT_QUERY` of dnstap.
    pub kinds: BTreeMap<&'static str, u64>,
    /// What the format or its writer did not keep, so that a default takes its place: of how many transactions.
    pub lost: BTreeMap<&'static str, u64>,
    /// Damage in the order of first appearance.
    pub damaged: Vec<Damage>,
}

impl Tally {
    /// Counts a packet that is fine but of no use here.
    pub fn skip(&mut self, reason: &'static str) {
        *self.skipped.entry(reason).or_default() += 1;
    }

    /// Counts a transaction of which the format did not keep something.
    pub fn lose(&mut self, what: &'static str) {
        *self.lost.entry(what).or_default() += 1;
    }

    /// Counts a message. One with a damaged question is used all the same: it was really sent, and can be sent again.
    pub(crate) fn count_message(&mut self, message: &Message<'_>) -> Result<(), Refused> {
        self.dns_messages += 1;
        match message.is_response() {
            true => self.responses += 1,
            false => self.queries += 1,
        }
        let damaged = message.counts()[0] > 0 && message.question().is_none();
        if damaged { Err(Refused::Damaged("bad_question")) } else { Ok(()) }
    }

    /// Counts damage; only the first of a kind pays for its place.
    pub fn damage(&mut self, reason: &'static str, place: impl FnOnce() -> Place) {
        match self.damaged.iter_mut().find(|damage| damage.reason == reason) {
            Some(damage) => damage.count += 1,
            None => self.damaged.push(Damage { reason, count: 1, first: place() }),
        }
    }

    /// How often there was damage of this kind; `out_of_order` counts transactions earlier than those before them, by more
    /// than could be sorted.
    pub fn damage_count(&self, reason: &str) -> u64 {
        self.damaged.iter().find(|damage| damage.reason == reason).map_or(0, |damage| damage.count)
    }

    /// Adds the accounts of another input.
    pub fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        self.dns_messages += other.dns_messages;
        self.queries += other.queries;
        self.responses += other.responses;
        let words =
            [(&mut self.skipped, &other.skipped), (&mut self.kinds, &other.kinds), (&mut self.lost, &other.lost)];
        for (mine, theirs) in words {
            for (reason, count) in theirs {
                *mine.entry(reason).or_default() += count;
            }
        }
        for damage in &other.damaged {
            self.damage(damage.reason, || damage.first.clone());
            if let Some(mine) = self.damaged.iter_mut().find(|mine| mine.reason == damage.reason) {
                mine.count += damage.count - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_counts_and_keeps_the_first_place() {
        let place = |packet| Place { file: "a".into(), packet, offset: 0 };
        let (mut a, mut b) = (Tally::default(), Tally::default());
        a.damage("short", || place(3));
        b.damage("short", || place(9));
        b.damage("short", || place(10));
        b.skip("icmp");
        a.merge(&b);
        assert_eq!(a.damaged, [Damage { reason: "short", count: 3, first: place(3) }]);
        assert_eq!((a.damage_count("short"), a.damage_count("long")), (3, 0));
        assert_eq!(a.skipped["icmp"], 1);
    }
}
