//! The response header fields relevant to DNS over HTTPS, for any version of HTTP.

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

/// What a field means for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Its status.
    Status(u16),
    /// The body is a DNS message, or something else.
    IsMessage(bool),
    /// Octets of its body; `None` where that is no number, or more than a message can have.
    Length(Option<u16>),
    /// Nothing.
    Plain,
    /// No response has such a field (RFC 9113 §8.2, §8.3; RFC 9114 §4.2, §4.3).
    Malformed,
}

impl Meaning {
    /// What a field means: `:status` is the only pseudo-header of a response, and names have no capital letters.
    pub fn of(mut name: impl Iterator<Item = u8> + Clone, value: impl Iterator<Item = u8>) -> Self {
        let is = |known: &[u8]| name.clone().eq(known.iter().copied());
        let of_name = if is(b":status") {
            Self::Status(0)
        } else if is(b"content-type") {
            Self::IsMessage(true)
        } else if is(b"content-length") {
            Self::Length(None)
        } else if name.clone().next() == Some(b':') || name.any(|octet| octet.is_ascii_uppercase()) {
            Self::Malformed
        } else {
            Self::Plain
        };
        of_name.with(value)
    }

    /// What a field of the same name with another value means.
    pub fn with(self, value: impl Iterator<Item = u8>) -> Self {
        match self {
            Self::Status(_) => status(value).map_or(Self::Malformed, Self::Status),
            Self::IsMessage(_) => Self::IsMessage(is_message(value)),
            Self::Length(_) => Self::Length(length(value)),
            Self::Plain | Self::Malformed => self,
        }
    }
}

/// What a header block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// That of trailers: it has no status.
    Trailers,
    /// That of a response, with a status from 100.
    Response(ResponseHead),
    /// None that a response may have.
    Malformed,
}

/// A header block that is being read. The status is the only pseudo-header that a response has, and its first field.
#[derive(Debug, Default)]
pub struct BlockReader {
    head: ResponseHead,
    has_begun: bool,
    is_malformed: bool,
}

impl BlockReader {
    /// Takes the next field.
    pub fn take(&mut self, field: Meaning) {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        match field {
            Meaning::Plain => {}
            Meaning::Status(status @ 100..) if is_first => self.head.status = status,
            Meaning::Status(_) | Meaning::Malformed => self.is_malformed = true,
            Meaning::IsMessage(is_message) => self.head.note_type(is_message),
            Meaning::Length(length) => self.head.note_length(length),
        }
    }

    /// The status and content type of a block whose fields have all been read.
    pub const fn end(self) -> Block {
        match self.head.status {
            _ if self.is_malformed => Block::Malformed,
            0 => Block::Trailers,
            _ => Block::Response(self.head),
        }
    }
}

/// The status of three digits.
fn status(mut value: impl Iterator<Item = u8>) -> Option<u16> {
    let mut digit = || value.next().filter(u8::is_ascii_digit).map(|digit| u16::from(digit - b'0'));
    let status = digit()? * 100 + digit()? * 10 + digit()?;
    value.next().is_none().then_some(status)
}

/// Whether the value of `content-type` says that the body is a DNS message: in capital letters or not, with parameters or
/// without (RFC 9110 §8.3.1).
fn is_message(value: impl Iterator<Item = u8>) -> bool {
    let mut value = value.skip_while(|&octet| is_blank(octet));
    let is_type = MESSAGE.iter().all(|expected| value.next().is_some_and(|octet| octet.eq_ignore_ascii_case(expected)));
    is_type && value.find(|&octet| !is_blank(octet)).is_none_or(|octet| octet == b';')
}

const fn is_blank(octet: u8) -> bool {
    matches!(octet, b' ' | b'\t')
}

/// The number in the value of `content-length`: digits and nothing else. One beyond the longest message is as good as none.
fn length(value: impl Iterator<Item = u8>) -> Option<u16> {
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
