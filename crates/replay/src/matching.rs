//! Decides whether a response with the right ID answers a query.

use ldplayer_core::Message;

/// Whether `response` repeats the question of the query `asked`. An error without a question section is also an answer:
/// servers that could not read the query send such errors (RFC 1035 §4.1.1).
pub fn repeats_question(asked: &[u8], response: &Message<'_>) -> bool {
    let Some(asked) = Message::new(asked) else { return false };
    response.same_question(&asked) || (response.question().is_none() && may_omit_question(response))
}

fn may_omit_question(response: &Message<'_>) -> bool {
    response.counts()[0] == 0 && response.header_rcode() != 0
}
