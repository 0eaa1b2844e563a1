//! What the header fields of a response say that matters for DNS over HTTPS, whatever the version of HTTP.

use ldplayer_core::Reason;

use super::MESSAGE;

/// The fields of the final response on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status, from 200; 0 before it is known.
    pub status: u16,
    /// The body is said to be something else than a DNS message.
    is_other_type: bool,
    /// What `content-length` says.
    length: Option<u16>,
    /// Two fields contradict each other, or one has a value that it cannot have.
    is_malformed: bool,
}

impl ResponseHead {
    /// Takes the value of `content-type`.
    pub fn note_type(&mut self, is_message: bool) {
        self.is_other_type |= !is_message;
    }

    /// Takes the value of `content-length`; `None` is one that is no number. Repeated, it must say the same (RFC 9110 §8.6).
    pub fn note_length(&mut self, length: Option<u16>) {
        self.is_malformed |= length.is_none() || self.length.is_some_and(|known| Some(known) != length);
        self.length = length;
    }

    /// Whether the body is to be read.
    ///
    /// # Errors
    /// Why the response is no answer, which its header block tells already.
    pub const fn check(&self) -> Result<(), Reason> {
        match self.status {
            200 if self.is_other_type || self.is_malformed => Err(Reason::Garbage),
            200 => Ok(()),
            _ => Err(Reason::HttpStatus),
        }
    }

    /// Whether a body of so many octets is what `content-length` promised; `is_whole` when nothing more comes (RFC 9113
    /// §8.1.1, RFC 9114 §4.1.2).
    pub fn allows(&self, octets: usize, is_whole: bool) -> bool {
        self.length.map(usize::from).is_none_or(|length| octets == length || (octets < length && !is_whole))
    }
}

/// Whether the value of `content-type` says that the body is a DNS message: in capital letters or not, with parameters or
/// without (RFC 9110 §8.3.1).
pub fn is_message(value: impl Iterator<Item = u8>) -> bool {
    let mut value = value.skip_while(|&octet| is_blank(octet));
    let is_type = MESSAGE.iter().all(|expected| value.next().is_some_and(|octet| octet.eq_ignore_ascii_case(expected)));
    is_type && value.find(|&octet| !is_blank(octet)).is_none_or(|octet| octet == b';')
}

const fn is_blank(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t')
}

/// The number in the value of `content-length`: digits and nothing else. One beyond the longest message is as good as none.
pub fn length(value: impl Iterator<Item = u8>) -> Option<u16> {
    let mut digits = value.map(|octet| octet.is_ascii_digit().then(|| u16::from(octet - b'0')));
    let first = digits.next()??;
    digits.try_fold(first, |number, digit| number.checked_mul(10)?.checked_add(digit?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_media_type_of_messages_is_one() {
        for value in [
            "application/dns-message",
            "Application/DNS-Message",
            "application/dns-message;a=b",
            " application/dns-message ; a=b",
        ] {
            assert!(is_message(value.bytes()), "{value}");
        }
        for value in [
            "",
            "text/html",
            "application/dns-messages",
            "application/dns-message a",
            "application/dns-json",
            "application/dns",
        ] {
            assert!(!is_message(value.bytes()), "{value}");
        }
    }

    #[test]
    fn lengths_are_digits() {
        for (value, expected) in [("0", Some(0)), ("0042", Some(42)), ("65535", Some(u16::MAX))] {
            assert_eq!(length(value.bytes()), expected, "{value}");
        }
        for value in ["", "65536", "200000", "-1", "+1", "1 ", "1, 1", "0x1"] {
            assert_eq!(length(value.bytes()), None, "{value}");
        }
    }

    #[test]
    fn lengths_that_contradict_each_other_are_no_answer() {
        let with = |lengths: &[Option<u16>]| {
            let mut head = ResponseHead { status: 200, ..ResponseHead::default() };
            lengths.iter().for_each(|&length| head.note_length(length));
            head
        };
        assert_eq!(with(&[Some(5), Some(5)]).check(), Ok(()));
        for lengths in [&[Some(5), Some(6)][..], &[None], &[None, Some(5)], &[Some(5), None]] {
            assert_eq!(with(lengths).check(), Err(Reason::Garbage), "{lengths:?}");
        }
        let head = with(&[Some(5)]);
        assert!(head.allows(5, true) && head.allows(4, false) && !head.allows(4, true) && !head.allows(6, false));
        assert!(with(&[]).allows(70_000, true));
    }

    #[test]
    fn another_status_is_told_before_another_type() {
        let mut head = ResponseHead { status: 404, ..ResponseHead::default() };
        head.note_type(false);
        assert_eq!(head.check(), Err(Reason::HttpStatus));
        head.status = 200;
        assert_eq!(head.check(), Err(Reason::Garbage));
    }
}
