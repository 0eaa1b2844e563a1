//! Accounts of inputs: what was read, skipped or damaged, where damage was first found, and how much could not be read.
//!
//! One table gives the effect ([`Effect`]) of each flaw: a run over an input that could be read only in part is incomplete, while
//! a query that was malformed when it was sent is part of the traffic.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::printable::Printable;

/// What a flaw means for the completeness of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Part of the input could not be read: results made from it are incomplete.
    Unread,
    /// The input was read, but the capture does not hold everything that was sent.
    NotCaptured,
    /// It was read as it was sent: malformed.
    AsSent,
    /// It was read and used, but is out of order.
    Disorder,
}

macro_rules! flaws {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $effect:ident;)+) => {
        /// What can be wrong with an input. Each flaw has a stable name for files and messages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Flaw {
            $($(#[$doc])* $variant,)+
        }

        impl Flaw {
            /// All flaws.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The stable name, such as `truncated_packet`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// What it means for the completeness of the input.
            pub const fn effect(self) -> Effect {
                match self {
                    $(Self::$variant => Effect::$effect,)+
                }
            }
        }
    };
}

// The rule behind the second column: containers (files, compressed streams, record headers, rows, lines) are made by software that
// writes files, so a fault there is damage. The contents of a sound record are what was on the link.
flaws! {
    /// The file ends within a record.
    TruncatedCapture = "truncated_capture", Unread;
    /// Reading ended early, by a decompression or system error: the rest of the file was not read.
    UnreadableRest = "unreadable_rest", Unread;
    /// An invalid pcap record header, and everything skipped up to the next valid one.
    BadRecord = "bad_record", Unread;
    /// An invalid block of pcapng or C-DNS.
    BadBlock = "bad_block", Unread;
    /// An invalid interface description of pcapng; its packets cannot be read.
    BadInterface = "bad_interface", Unread;
    /// An invalid dnstap frame.
    BadFrame = "bad_frame", Unread;
    /// A dnstap frame with an invalid message.
    BadDnstapMessage = "bad_dnstap_message", Unread;
    /// A dnstap message that is a query where a response should be, or the other way round.
    WrongDirection = "wrong_direction", Unread;
    /// An invalid transaction of C-DNS.
    BadItem = "bad_item", Unread;
    /// A transaction of C-DNS that refers to a missing table entry.
    BadIndex = "bad_index", Unread;
    /// A transaction of C-DNS that is too long for a DNS message.
    LongMessage = "long_message", Unread;
    /// A row group of Parquet whose remaining rows cannot be decoded.
    DamagedRowGroup = "damaged_row_group", Unread;
    /// A row with neither a query, nor a response, nor a name to ask.
    NoMessage = "no_message", Unread;
    /// A line with too few or too many columns.
    WrongNumberOfColumns = "wrong_number_of_columns", Unread;
    /// A line that is not UTF-8.
    NotUtf8 = "not_utf8", Unread;
    /// A line above the maximum length.
    LineTooLong = "line_too_long", Unread;
    /// A time that cannot be read.
    BadTime = "bad_time", Unread;
    /// An address that cannot be read.
    BadAddress = "bad_address", Unread;
    /// A port that cannot be read.
    BadPort = "bad_port", Unread;
    /// An unknown transport.
    BadTransport = "bad_transport", Unread;
    /// A name that cannot be read.
    BadName = "bad_name", Unread;
    /// An unknown type.
    BadType = "bad_type", Unread;
    /// An unknown class.
    BadClass = "bad_class", Unread;
    /// Unknown flags.
    BadFlags = "bad_flags", Unread;
    /// An EDNS column that cannot be read.
    BadEdns = "bad_edns", Unread;
    /// An unknown opcode.
    BadOpcode = "bad_opcode", Unread;
    /// A packet that was cut short when it was captured.
    TruncatedPacket = "truncated_packet", NotCaptured;
    /// A datagram with missing fragments.
    FragmentsLack = "fragments_lack", NotCaptured;
    /// Octets of a TCP connection that are not in the capture.
    TcpGap = "tcp_gap", NotCaptured;
    /// Data of a TCP connection that began before the capture, up to its first message.
    TcpMidStream = "tcp_mid_stream", NotCaptured;
    /// A datagram with overlapping fragments, which receivers drop.
    FragmentsOverlap = "fragments_overlap", AsSent;
    /// A frame too short for its link header.
    ShortFrame = "short_frame", AsSent;
    /// A packet whose IP header makes no sense.
    BadIpHeader = "bad_ip_header", AsSent;
    /// A packet too short for its UDP or TCP header.
    ShortPacket = "short_packet", AsSent;
    /// A length on a TCP connection that is too short for a message.
    TcpBadLength = "tcp_bad_length", AsSent;
    /// A message shorter than a DNS header.
    ShortMessage = "short_message", AsSent;
    /// A message whose question cannot be read; it is still used.
    BadQuestion = "bad_question", AsSent;
    /// A transaction too far out of order to be sorted in; it is still used.
    OutOfOrder = "out_of_order", Disorder;
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An unknown name of a flaw.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of damage `{0}`")]
pub struct UnknownFlaw(String);

impl FromStr for Flaw {
    type Err = UnknownFlaw;

    fn from_str(word: &str) -> Result<Self, UnknownFlaw> {
        Self::ALL.iter().copied().find(|flaw| flaw.as_str() == word).ok_or_else(|| UnknownFlaw(word.to_owned()))
    }
}

impl Serialize for Flaw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Flaw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'_, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Where something was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Input as the user named it.
    pub file: String,
    /// Packet, row or line number, from 1.
    pub packet: u64,
    /// Octets from the start of the (decompressed) input.
    pub offset: u64,
}

/// For use in a sentence: `packet or line 11 at byte 824 of a.pcap`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet or line {} at byte {} of {}", self.packet, self.offset, Printable(&self.file))
    }
}

/// One kind of damage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// What is wrong.
    pub reason: Flaw,
    /// How often.
    pub count: u64,
    /// Octets of the (decompressed) input skipped because of it, as far as known.
    #[serde(default)]
    pub octets: u64,
    /// The first place.
    pub first: Place,
}

/// How the reading of an input ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It has not ended: the caller stopped before the end.
    #[default]
    Open,
    /// At the end of the input.
    Whole,
    /// At the end of the input, in the middle of a record: how much is missing is unknown.
    Cut,
    /// Before the end of the input: the rest could not be read.
    Unreadable,
}

/// How much of one input was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The input as the user named it.
    pub file: String,
    /// Size of the file as stored, compressed or not, in octets; `None` for inputs without a length, such as a pipe.
    pub stored: Option<u64>,
    /// How many of these were read.
    pub reached: u64,
    /// Octets of decompressed content that were read.
    pub content: u64,
    /// Octets of the content skipped as [`Effect::Unread`].
    pub unread: u64,
    /// How the reading ended.
    pub ending: Ending,
}

impl Extent {
    /// The share of the input that was not read, from 0 to 1: what was skipped, and the rest of the file if reading ended early.
    /// `None` where it is unknown: for a pipe, and for a truncated file.
    pub fn unread_share(&self) -> Option<f64> {
        let passed_over = share(self.unread, self.content);
        match self.ending {
            // A truncated file, or one whose damage only shows in its final checksum, was read to its end.
            Ending::Unreadable if self.stored.is_none_or(|stored| self.reached >= stored) => None,
            Ending::Unreadable => Some(1.0 - share(self.reached, self.stored?) * (1.0 - passed_over)),
            Ending::Cut => None,
            _ => Some(passed_over),
        }
    }
}

/// `part / whole`, at most 1, and 0 for an empty whole.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

/// Counts by name; most names are constants.
pub type Counts = BTreeMap<Cow<'static, str>, u64>;

/// The accounts of one or several inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// Packets (or rows, lines, frames) read.
    pub packets: u64,
    /// DNS messages among them.
    pub dns_messages: u64,
    /// Messages with QR=0.
    pub queries: u64,
    /// Messages with QR=1.
    pub responses: u64,
    /// Headers around the IP packets of captures that were taken off, by name, such as `vlan` or `vxlan`.
    pub encapsulations: Counts,
    /// Messages over UDP that a capture has twice: copies of one that came within a millisecond before.
    pub duplicates: u64,
    /// Foreign or unusable packets by reason, such as `not_dns_port` or `icmp`.
    pub skipped: Counts,
    /// Messages by the kinds that the format distinguishes, such as `CLIENT_QUERY` of dnstap.
    pub kinds: Counts,
    /// Fields that the format or its writer did not keep, so that a default is used: the number of transactions for each.
    pub lost: Counts,
    /// Damage in the order of first appearance.
    pub damaged: Vec<Damage>,
    /// How much of each input was read, in the order in which they were named.
    pub inputs: Vec<Extent>,
}

impl Tally {
    /// Counts a packet that is valid but not used.
    pub fn skip(&mut self, reason: impl Into<Cow<'static, str>>) {
        *self.skipped.entry(reason.into()).or_default() += 1;
    }

    /// Counts a transaction for which the format did not keep a field.
    pub fn lose(&mut self, what: &'static str) {
        *self.lost.entry(Cow::Borrowed(what)).or_default() += 1;
    }

    /// Counts damage that caused `octets` of the content to be skipped. `place` is called for the first damage of a kind only.
    pub fn damage(&mut self, reason: Flaw, octets: u64, place: impl FnOnce() -> Place) {
        match self.damaged.iter_mut().find(|damage| damage.reason == reason) {
            Some(damage) => {
                damage.count += 1;
                damage.octets += octets;
            }
            None => self.damaged.push(Damage { reason, count: 1, octets, first: place() }),
        }
    }

    /// How often there was damage of this kind.
    pub fn damage_count(&self, reason: Flaw) -> u64 {
        self.damaged.iter().find(|damage| damage.reason == reason).map_or(0, |damage| damage.count)
    }

    /// Damage because of which part of the inputs could not be read.
    pub fn unread(&self) -> impl Iterator<Item = &Damage> {
        self.damaged.iter().filter(|damage| damage.reason.effect() == Effect::Unread)
    }

    /// Damage that shows that traffic is missing from the inputs.
    pub fn not_captured(&self) -> impl Iterator<Item = &Damage> {
        self.damaged.iter().filter(|damage| damage.reason.effect() == Effect::NotCaptured)
    }

    /// Whether the inputs were read in full, as far as the caller wanted.
    pub fn is_whole(&self) -> bool {
        self.unread().next().is_none()
    }

    /// How much of an input was read.
    pub fn extent(&self, file: &str) -> Option<&Extent> {
        self.inputs.iter().find(|input| input.file == file)
    }

    /// Describes what could not be read: each reason with its count, its first place, and the unread share of that input. `None` if
    /// everything was read.
    pub fn explain_unread(&self) -> Option<String> {
        let sentence = |damage: &Damage| {
            let share = self.extent(&damage.first.file).map_or(String::new(), explain_share);
            format!("{} {}, first at {}{share}", damage.count, damage.reason, damage.first)
        };
        let sentences: Vec<String> = self.unread().map(sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }

    /// Adds the accounts of another input, which may be out of a file: sums stay at the largest number.
    pub fn merge(&mut self, other: &Self) {
        let numbers = [
            (&mut self.packets, other.packets),
            (&mut self.dns_messages, other.dns_messages),
            (&mut self.queries, other.queries),
            (&mut self.responses, other.responses),
            (&mut self.duplicates, other.duplicates),
        ];
        for (mine, theirs) in numbers {
            *mine = mine.saturating_add(theirs);
        }
        let words = [
            (&mut self.encapsulations, &other.encapsulations),
            (&mut self.skipped, &other.skipped),
            (&mut self.kinds, &other.kinds),
            (&mut self.lost, &other.lost),
        ];
        for (mine, theirs) in words {
            for (reason, count) in theirs {
                let mine = mine.entry(reason.clone()).or_default();
                *mine = mine.saturating_add(*count);
            }
        }
        for theirs in &other.damaged {
            match self.damaged.iter_mut().find(|mine| mine.reason == theirs.reason) {
                Some(mine) => {
                    mine.count = mine.count.saturating_add(theirs.count);
                    mine.octets = mine.octets.saturating_add(theirs.octets);
                }
                None => self.damaged.push(theirs.clone()),
            }
        }
        self.inputs.extend_from_slice(&other.inputs);
    }
}

/// The share of an input that was not read, to follow its first place.
fn explain_share(input: &Extent) -> String {
    match input.unread_share() {
        None => "; how much of it was not read is unknown".into(),
        Some(share) if share > 0.0 => format!(", {} % of it not read", percent(share)),
        _ => String::new(),
    }
}

/// A share in percent; a small one keeps two significant digits, so that it never shows as 0.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 0.01 { format!("{percent:.2}") } else { format!("{percent:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(packet: u64) -> Place {
        Place { file: "a".into(), packet, offset: 824 }
    }

    #[test]
    fn merging_adds_counts_and_keeps_the_first_place() {
        let (mut a, mut b) = (Tally::default(), Tally::default());
        a.damage(Flaw::BadRecord, 5, || place(3));
        b.damage(Flaw::BadRecord, 7, || place(9));
        b.damage(Flaw::BadRecord, 0, || place(10));
        b.skip("icmp");
        b.inputs.push(Extent { file: "b".into(), ..Extent::default() });
        a.merge(&b);
        assert_eq!(a.damaged, [Damage { reason: Flaw::BadRecord, count: 3, octets: 12, first: place(3) }]);
        assert_eq!((a.damage_count(Flaw::BadRecord), a.damage_count(Flaw::BadBlock)), (3, 0));
        assert_eq!((a.skipped["icmp"], a.extent("b").is_some(), a.extent("c")), (1, true, None));
    }

    #[test]
    fn each_flaw_has_a_word_of_its_own_that_is_read_again() {
        for flaw in Flaw::ALL {
            assert_eq!(flaw.as_str().parse(), Ok(*flaw));
        }
        assert!("bad_luck".parse::<Flaw>().unwrap_err().to_string().contains("bad_luck"));
    }

    #[test]
    fn accounts_are_read_again_as_they_were_written() {
        let mut tally = Tally { packets: 7, ..Tally::default() };
        tally.damage(Flaw::BadRecord, 5, || place(3));
        tally.skip("icmp");
        tally.inputs.push(Extent { file: "a".into(), ending: Ending::Cut, ..Extent::default() });
        let json = serde_json::to_string(&tally).unwrap();
        assert!(json.contains(r#""damaged":[{"reason":"bad_record","count":1,"#), "{json}");
        assert_eq!(serde_json::from_str::<Tally>(&json).unwrap(), tally);
        // Runs of before extents were told are read, too.
        assert_eq!(serde_json::from_str::<Tally>(r#"{"packets":7}"#).unwrap().packets, 7);
    }

    #[test]
    fn what_was_malformed_when_it_was_sent_leaves_an_input_whole() {
        let mut tally = Tally::default();
        for flaw in [Flaw::BadQuestion, Flaw::ShortMessage, Flaw::BadIpHeader, Flaw::TcpGap, Flaw::OutOfOrder] {
            tally.damage(flaw, 0, || place(1));
        }
        assert!(tally.is_whole() && tally.explain_unread().is_none());
        assert_eq!(tally.not_captured().map(|damage| damage.reason).collect::<Vec<_>>(), [Flaw::TcpGap]);
        tally.damage(Flaw::TruncatedCapture, 4, || place(11));
        assert!(!tally.is_whole());
        let said = tally.explain_unread().unwrap();
        assert_eq!(said, "1 truncated_capture, first at packet or line 11 at byte 824 of a");
    }

    #[test]
    fn the_share_that_was_not_read_is_what_was_passed_over_and_what_lies_behind() {
        let input = |stored, reached, unread, ending| Extent {
            file: "a".into(),
            stored,
            reached,
            content: 1_000,
            unread,
            ending,
        };
        let share = |input: Extent| input.unread_share();
        assert_eq!(share(input(Some(200), 200, 0, Ending::Whole)), Some(0.0));
        assert_eq!(share(input(Some(200), 200, 100, Ending::Whole)), Some(0.1));
        assert_eq!(share(input(Some(200), 50, 0, Ending::Unreadable)), Some(0.75));
        assert_eq!(share(input(Some(200), 100, 500, Ending::Unreadable)), Some(0.75));
        assert_eq!(share(input(None, 100, 0, Ending::Unreadable)), None);
        // The end was reached, so what lacks is not there to be counted.
        assert_eq!(share(input(Some(200), 200, 0, Ending::Unreadable)), None);
        assert_eq!(share(input(Some(200), 200, 0, Ending::Cut)), None);
        // Where reading was not asked to go on, nothing is unread.
        assert_eq!(share(input(Some(200), 50, 0, Ending::Open)), Some(0.0));
        assert_eq!(share(Extent::default()), Some(0.0));
    }

    #[test]
    fn the_share_is_said_of_the_input_that_is_damaged() {
        let mut tally = Tally::default();
        tally.damage(Flaw::UnreadableRest, 0, || place(11));
        let said = |tally: &Tally| tally.explain_unread().unwrap();
        let input = Extent { file: "a".into(), stored: Some(400), reached: 300, ..Extent::default() };
        tally.inputs = vec![Extent { ending: Ending::Unreadable, ..input.clone() }];
        assert!(said(&tally).ends_with("of a, 25.00 % of it not read"), "{}", said(&tally));
        tally.inputs = vec![Extent { ending: Ending::Unreadable, stored: None, ..input.clone() }];
        assert!(said(&tally).ends_with("of a; how much of it was not read is unknown"), "{}", said(&tally));
        tally.inputs = vec![Extent { ending: Ending::Cut, ..input.clone() }];
        assert!(said(&tally).ends_with("was not read is unknown"), "{}", said(&tally));
        let little = Extent { content: 1_000_000, unread: 1, ending: Ending::Whole, ..input };
        tally.inputs = vec![little];
        assert!(said(&tally).ends_with("1.0e-4 % of it not read"), "{}", said(&tally));
    }
}
