//! Writes query files of dnsperf and resperf: one name and type per line.

use std::fmt::Write as _;

use ldplayer_core::message::{CLASS_IN, Question};
use ldplayer_core::name::Presentation;
use ldplayer_core::{Message, Transaction};

use super::more_than_a_question;
use crate::columns::type_name_of_dnsperf;

/// Appends the line of a query.
pub(crate) fn write_line(_: &Transaction, message: &Message<'_>, text: &mut String) -> Result<(), &'static str> {
    let asked = not_in_a_list(message)?;
    let start = text.len();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{} {}", Presentation(asked.name), type_name_of_dnsperf(asked.qtype));
    if text[start..].starts_with('#') {
        text.insert(start, '\\'); // else some readers take it for a comment
    }
    Ok(())
}

/// The question of a query, or why it cannot be written: dnsperf asks every line as one question of class IN with opcode QUERY.
fn not_in_a_list<'a>(message: &Message<'a>) -> Result<Question<'a>, &'static str> {
    if message.opcode() != 0 {
        return Err("opcode_not_query");
    }
    if let Some(reason) = more_than_a_question(message) {
        return Err(reason);
    }
    let asked = message.question().ok_or("no_question")?;
    match asked.qclass {
        CLASS_IN if is_printable(asked.name) => Ok(asked),
        CLASS_IN => Err("octets_in_name"),
        _ => Err("class_not_in"),
    }
}

/// Whether a name can be written without `\DDD`: dnsperf does not read these digits as a decimal number.
fn is_printable(mut name: &[u8]) -> bool {
    while let Some((&length, rest)) = name.split_first() {
        let (label, behind) = rest.split_at(usize::from(length).min(rest.len()));
        if !label.iter().all(u8::is_ascii_graphic) {
            return false;
        }
        name = behind;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason for a query with these flags, counts of questions and answers, and class.
    fn reason(flags: u16, counts: [u16; 2], qclass: u16) -> Option<&'static str> {
        let mut octets = vec![0; 4];
        octets[2..].copy_from_slice(&flags.to_be_bytes());
        for word in [counts[0], counts[1], 0, 0] {
            octets.extend_from_slice(&word.to_be_bytes());
        }
        for _ in 0..counts[0] {
            octets.extend_from_slice(&[0, 0, 1]);
            octets.extend_from_slice(&qclass.to_be_bytes());
        }
        not_in_a_list(&Message::new(&octets).unwrap()).err()
    }

    #[test]
    fn what_a_list_cannot_say_is_left_out() {
        assert_eq!(reason(0x0100, [1, 0], CLASS_IN), None);
        for qclass in [3, 4, 254, 255] {
            assert_eq!(reason(0, [1, 0], qclass), Some("class_not_in"));
        }
        for opcode in [1, 2, 4, 5, 6] {
            assert_eq!(reason(opcode << 11, [1, 0], CLASS_IN), Some("opcode_not_query"));
        }
        assert_eq!(reason(0, [2, 0], CLASS_IN), Some("several_questions"));
        assert_eq!(reason(0, [0, 0], CLASS_IN), Some("no_question"));
        assert_eq!(reason(0, [1, 1], CLASS_IN), Some("has_records"));
        let claims_one = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3];
        assert_eq!(not_in_a_list(&Message::new(&claims_one).unwrap()), Err("bad_question"));
    }
}
