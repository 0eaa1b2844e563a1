//! Decides whether a response with the right ID answers a query.

use ldplayer_core::Message;

/// Whether `response` repeats the question of the query `asked`. An error without a question section is also an answer:
/// servers that could not read the query send such errors (RFC 1035 §4.1.1).
pub fn repeats_question(asked: &[u8], response: &Message<'_>) -> bool {
    let Some(asked) = Message::new(asked) else { return false };
    response.same_question(&asked) || (response.question().is_none() && may_omit_question(response))
}

fn may_omit_question(response: &Message<'_>) -> bool {
    response.counts()[0] == 0 && response.rcode() != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{query, response};

    /// An answer such as BADVERS, whose code is partly in EDNS, was a stray where it had no question.
    #[test]
    fn an_error_without_a_question_answers_whichever_half_of_its_code_is_set() {
        let asked = query(1, 0).wire;
        // The header of an error without a question, with an OPT record whose extended RCODE is this.
        let error = |rcode: u8, extended: u8| {
            let mut wire = response(&asked[..12], rcode);
            wire[4..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1]);
            wire.extend([0, 0, 41, 4, 208, extended, 0, 0, 0, 0, 0]);
            wire
        };
        let answers = |wire: &[u8]| repeats_question(&asked, &Message::new(wire).unwrap());
        assert!(answers(&error(0, 1)), "BADVERS");
        assert!(answers(&error(7, 1)), "BADCOOKIE");
        assert!(answers(&error(1, 0)), "FORMERR");
        assert!(!answers(&error(0, 0)), "NOERROR must repeat the question");
    }
}
