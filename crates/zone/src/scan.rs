//! The lexer of zone files: entries, parentheses, quotes, comments and escapes (RFC 1035 §5.1).

use crate::error::Problem;

/// A field of an entry, its escapes as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    /// The octets, without quotes around them.
    pub raw: &'a [u8],
    /// Whether quotes stood around them.
    pub quoted: bool,
    /// Whether a blank, or the start of the line, stood before it.
    pub apart: bool,
}

impl Field<'_> {
    /// The field as an error shows it, cut where it is long.
    pub fn show(&self) -> String {
        show(self.raw)
    }

    /// Whether this is `\#`, the mark of data in generic form (RFC 3597 §5).
    pub fn is_generic_mark(&self) -> bool {
        !self.quoted && self.raw == b"\\#"
    }
}

/// Octets as an error shows them.
pub(crate) fn show(raw: &[u8]) -> String {
    const MOST: usize = 60;
    let text = String::from_utf8_lossy(&raw[..raw.len().min(MOST)]);
    let end = if raw.len() > MOST { "…" } else { "" };
    format!("{}{end}", text.escape_default())
}

/// Cuts the text of a zone file into fields.
#[derive(Clone, Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    current_line: u32,
    parentheses: u32,
    /// The line of the last field, for errors.
    line: u32,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        Self { text, at: 0, current_line: 1, parentheses: 0, line: 1 }
    }

    /// The same of a text that stands at one line of a file.
    pub fn at_line(text: &'a [u8], line: u32) -> Self {
        Self { current_line: line, line, ..Self::new(text) }
    }

    /// The line of the last field.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Goes to the next entry. `Some(true)` when a blank stands before its first field, `None` at the end of the text.
    pub fn next_entry(&mut self) -> Option<bool> {
        loop {
            let start = self.at;
            while let Some(b' ' | b'\t' | b'\r') = self.peek() {
                self.at += 1;
            }
            let indented = self.at > start;
            match self.peek()? {
                b'\n' => self.newline(),
                b';' => self.skip_comment(),
                _ => {
                    self.line = self.current_line;
                    return Some(indented);
                }
            }
        }
    }

    /// The next field, or `None` where the entry ends.
    #[inline]
    pub fn field(&mut self) -> Result<Option<Field<'a>>, Problem> {
        let mut apart = self.at == 0;
        loop {
            let Some(octet) = self.peek() else { return self.end_of_text() };
            match octet {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\n' if self.parentheses > 0 => self.newline(),
                b'\n' => return Ok(None),
                b';' => self.skip_comment(),
                b'(' => self.open(),
                b')' => self.close()?,
                b'"' => return self.quoted(apart).map(Some),
                _ => return Ok(Some(self.plain(apart))),
            }
            apart = true;
        }
    }

    /// The next field, which must be there.
    #[inline]
    pub fn need(&mut self, expected: &'static str) -> Result<Field<'a>, Problem> {
        self.field()?.ok_or(Problem::Ends(expected))
    }

    /// The next field, left in place.
    pub fn peek_field(&self) -> Result<Option<Field<'a>>, Problem> {
        self.clone().field()
    }

    /// Ends the entry, which must have no more fields.
    pub fn end_entry(&mut self) -> Result<(), Problem> {
        match self.field()? {
            None => Ok(()),
            Some(field) => Err(Problem::Trailing(field.show())),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn end_of_text(&self) -> Result<Option<Field<'a>>, Problem> {
        if self.parentheses > 0 { Err(Problem::Parenthesis) } else { Ok(None) }
    }

    fn newline(&mut self) {
        self.at += 1;
        self.current_line += 1;
    }

    fn skip_comment(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.iter().position(|&octet| octet == b'\n').unwrap_or(rest.len());
    }

    fn open(&mut self) {
        self.at += 1;
        self.parentheses += 1;
        self.line = self.current_line;
    }

    fn close(&mut self) -> Result<(), Problem> {
        self.at += 1;
        self.line = self.current_line;
        self.parentheses = self.parentheses.checked_sub(1).ok_or(Problem::Parenthesis)?;
        Ok(())
    }

    /// A field up to a blank or a sign. A backslash takes what follows with it.
    #[inline]
    fn plain(&mut self, apart: bool) -> Field<'a> {
        let start = self.at;
        while let Some(octet) = self.peek() {
            match octet {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"' => break,
                b'\\' if self.text.get(self.at + 1).is_some_and(|&next| next != b'\n') => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.line = self.current_line;
        Field { raw: &self.text[start..self.at], quoted: false, apart }
    }

    fn quoted(&mut self, apart: bool) -> Result<Field<'a>, Problem> {
        self.line = self.current_line;
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                None => return Err(Problem::Quote),
                Some(b'"') => break,
                Some(b'\\') => self.at += 1,
                Some(_) => {}
            }
            if self.peek() == Some(b'\n') {
                self.current_line += 1;
            }
            self.at += 1;
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(Field { raw, quoted: true, apart })
    }
}

/// Takes the escapes out of a field and gives its octets (RFC 1035 §5.1); `None` for a bad one.
pub(crate) fn unescaped(raw: &[u8]) -> impl Iterator<Item = Option<u8>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let octet = *raw.get(at)?;
        at += 1;
        if octet != b'\\' {
            return Some(Some(octet));
        }
        let Some(&next) = raw.get(at) else { return Some(None) };
        if !next.is_ascii_digit() {
            at += 1;
            return Some(Some(next));
        }
        let value = raw.get(at..at + 3).and_then(decimal);
        at += 3;
        Some(value)
    })
}

/// The octet that three digits give.
fn decimal(digits: &[u8]) -> Option<u8> {
    let digit = |octet: u8| octet.is_ascii_digit().then(|| u16::from(octet - b'0'));
    u8::try_from(digit(digits[0])? * 100 + digit(digits[1])? * 10 + digit(digits[2])?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Result<Vec<Vec<String>>, Problem> {
        let mut scanner = Scanner::new(text.as_bytes());
        let mut entries = Vec::new();
        while let Some(indented) = scanner.next_entry() {
            let mut fields = vec![if indented { "+".to_owned() } else { "-".to_owned() }];
            while let Some(field) = scanner.field()? {
                fields.push(format!("{}{}", field.show(), if field.quoted { "'" } else { "" }));
            }
            entries.push(fields);
        }
        Ok(entries)
    }

    #[test]
    fn entries_are_cut_into_fields() {
        let text = "a b ; c\n\n ; nothing\n  d (e ; f\n g\n) h \"i ; j\"\nk\\ l\\;m";
        let found = entries(text).unwrap();
        assert_eq!(found, [vec!["-", "a", "b"], vec!["+", "d", "e", "g", "h", "i ; j'"], vec!["-", "k\\\\ l\\\\;m"],]);
    }

    #[test]
    fn what_does_not_match_is_told() {
        assert_eq!(entries("a (b\n"), Err(Problem::Parenthesis));
        assert_eq!(entries("a ) b\n"), Err(Problem::Parenthesis));
        assert_eq!(entries("a \"b\n"), Err(Problem::Quote));
        assert_eq!(entries("a \"b\\"), Err(Problem::Quote));
    }

    #[test]
    fn a_field_knows_its_line() {
        let mut scanner = Scanner::new(b"\n\na (\n\n b)\nc");
        scanner.next_entry();
        assert_eq!((scanner.field().unwrap().unwrap().raw, scanner.line()), (&b"a"[..], 3));
        assert_eq!((scanner.field().unwrap().unwrap().raw, scanner.line()), (&b"b"[..], 5));
        assert_eq!(scanner.field().unwrap(), None);
        scanner.next_entry();
        assert_eq!((scanner.field().unwrap().unwrap().raw, scanner.line()), (&b"c"[..], 6));
    }

    #[test]
    fn escapes_give_octets() {
        let octets: Option<Vec<u8>> = unescaped(b"a\\.\\046\\\\").collect();
        assert_eq!(octets.unwrap(), b"a..\\");
        for bad in [&b"\\"[..], b"\\1", b"\\256", b"\\12x"] {
            assert!(unescaped(bad).any(|octet| octet.is_none()), "{bad:?}");
        }
    }
}
