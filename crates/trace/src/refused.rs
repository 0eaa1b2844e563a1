//! Reasons why a packet, frame or row gives no message, and counts of messages.

use std::borrow::Cow;
use std::fmt;

use ldplayer_core::Message;
use ldplayer_core::damage::Flaw;

use crate::{Place, Tally};

/// Why a packet yields no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Intact, but not of interest.
    Foreign(&'static str),
    /// Intact, and of a kind that has a number but no word here.
    Unknown(Unknown),
    /// It is damaged.
    Damaged(Flaw),
}

/// A kind of packet by its number in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// A link type of captures (LINKTYPE_ registry).
    LinkType(u32),
    /// An EtherType.
    EtherType(u16),
    /// A service access point of 802.2.
    Llc(u8),
    /// A protocol of PPP.
    Ppp(u16),
    /// A protocol of IP.
    Protocol(u8),
}

/// The reason in the accounts, such as `link_type_147`.
impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(number) => write!(f, "link_type_{number}"),
            Self::EtherType(number) => write!(f, "ethertype_{number:#06x}"),
            Self::Llc(number) => write!(f, "llc_{number:#04x}"),
            Self::Ppp(number) => write!(f, "ppp_{number:#06x}"),
            Self::Protocol(number) => write!(f, "ip_protocol_{number}"),
        }
    }
}

impl Refused {
    /// Counts it; damage as such that caused `octets` of the input to be skipped.
    pub fn count(self, tally: &mut Tally, octets: u64, place: impl FnOnce() -> Place) {
        match self {
            Self::Foreign(reason) => tally.skip(reason),
            Self::Unknown(unknown) => tally.skip(Cow::Owned(unknown.to_string())),
            Self::Damaged(flaw) => tally.damage(flaw, octets, place),
        }
    }
}

/// Counts a message. One with a damaged question is used, too: it was sent, and can be replayed.
pub(crate) fn count_message(tally: &mut Tally, message: &Message<'_>) -> Result<(), Refused> {
    tally.dns_messages += 1;
    match message.is_response() {
        true => tally.responses += 1,
        false => tally.queries += 1,
    }
    if has_bad_question(message) { Err(Refused::Damaged(Flaw::BadQuestion)) } else { Ok(()) }
}

/// Whether the questions that the header counts are not all there, or the first cannot be read.
fn has_bad_question(message: &Message<'_>) -> bool {
    let are_there = || message.behind_questions().is_some_and(|end| end <= message.octets().len());
    message.counts()[0] > 0 && (message.question().is_none() || !are_there())
}
