//! Reasons why a packet, frame or row gives no message, and counts of messages.

use ldplayer_core::Message;
use ldplayer_core::damage::Flaw;

use crate::Tally;

/// Why a packet yields no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Intact, but not of interest.
    Foreign(&'static str),
    /// It is damaged.
    Damaged(Flaw),
}

/// Counts a message. One with a damaged question is used, too: it was sent, and can be replayed.
pub(crate) fn count_message(tally: &mut Tally, message: &Message<'_>) -> Result<(), Refused> {
    tally.dns_messages += 1;
    match message.is_response() {
        true => tally.responses += 1,
        false => tally.queries += 1,
    }
    let damaged = message.counts()[0] > 0 && message.question().is_none();
    if damaged { Err(Refused::Damaged(Flaw::BadQuestion)) } else { Ok(()) }
}
