//! Text traces: detects the format, reads line by line, and reports damage with its line.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, BufRead, Cursor, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ldplayer_core::Transaction;
use ldplayer_core::damage::{Ending, Flaw};

use super::{dnsperf, formats, ldplayer, note, tsv};
use crate::{Place, Source, Tally, TraceError};

/// Octets read to recognise the format.
const HEAD: usize = 16 * 1024;
/// Lines examined to recognise a format without header.
const SNIFFED_LINES: usize = 20;
/// Longest line in octets: a name of 255 octets takes at most 1,020 in presentation form.
const MAX_LINE: usize = 16 * 1024;
/// Transactions in a batch.
const BATCH: usize = 2_048;

/// Turns lines into transactions.
pub(crate) trait LineParser: Send {
    /// Parses a line that is neither empty nor a comment; `None` for the header.
    fn parse(&mut self, line: &str) -> Result<Option<Transaction>, Flaw>;

    /// Whether the line is a comment.
    fn is_comment(&self, line: &str) -> bool {
        line.starts_with('#')
    }

    /// Why a line that is neither empty nor a comment is left out, if it is.
    fn skipped(&self, _line: &str) -> Option<&'static str> {
        None
    }

    /// Whether lines have neither times nor clients.
    fn is_list(&self) -> bool {
        false
    }
}

/// A text trace of any format.
pub(crate) struct TextSource {
    path: PathBuf,
    lines: Lines<Box<dyn BufRead + Send>>,
    parser: Box<dyn LineParser>,
    tally: Tally,
    ending: Ending,
}

impl TextSource {
    /// Recognises the format by the first lines, unless one is chosen for those without a header, or else by the ending.
    ///
    /// # Errors
    /// The system refuses the input, or it is empty or of no known format.
    pub fn open(
        path: &Path,
        mut reader: Box<dyn BufRead + Send>,
        chosen: Option<TextFormat>,
    ) -> Result<Self, TraceError> {
        let mut head = Vec::new();
        let file_error = |source| TraceError::File { path: path.to_owned(), source };
        reader.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(file_error)?;
        let parser = recognise(&head, path, chosen).map_err(|Unknown { what, remedy }| TraceError::Format {
            path: path.to_owned(),
            what,
            remedy,
        })?;
        let start = head.len() - without_mark(&head).len();
        let mut head = Cursor::new(head);
        head.set_position(start as u64);
        let rest: Box<dyn BufRead + Send> = Box::new(head.chain(reader));
        Ok(Self {
            path: path.to_owned(),
            lines: Lines::new(rest, start as u64),
            parser,
            tally: Tally::default(),
            ending: Ending::Open,
        })
    }

    fn take_line(&mut self, batch: &mut Vec<Transaction>) {
        let Some(parsed) = parse_line(self.lines.line(), &mut *self.parser) else { return };
        self.tally.packets += 1;
        match parsed {
            Ok(Parsed::Skipped(reason)) => self.tally.skip(reason),
            Ok(Parsed::Transaction(transaction)) => {
                self.tally.dns_messages += 1;
                self.tally.queries += 1;
                batch.push(transaction);
            }
            Err(flaw) => {
                let (path, lines) = (&self.path, &self.lines);
                let file = || path.display().to_string();
                self.tally.damage(flaw, lines.next - lines.start, || Place {
                    file: file(),
                    packet: lines.number,
                    offset: lines.start,
                });
            }
        }
    }
}

impl TextSource {
    fn read_batch(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let full = batch.len() + BATCH;
        while batch.len() < full {
            match self.lines.advance() {
                Ok(true) => self.take_line(batch),
                Ok(false) => {
                    self.ending = Ending::Whole;
                    return Ok(false);
                }
                Err(source) if self.lines.number == 0 => {
                    return Err(TraceError::File { path: self.path.clone(), source });
                }
                // Decompression failed in the middle: the text before it is kept.
                Err(_) => {
                    let (path, lines) = (&self.path, &self.lines);
                    let (file, packet, offset) = (path.display().to_string(), lines.number + 1, lines.next);
                    self.tally.damage(Flaw::UnreadableRest, 0, || Place { file, packet, offset });
                    self.ending = Ending::Unreadable;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Source for TextSource {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let more = self.read_batch(batch);
        note(&mut self.tally, (self.lines.next, self.ending));
        more
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn is_list(&self) -> bool {
        self.parser.is_list()
    }
}

/// What a line is.
enum Parsed {
    Transaction(Transaction),
    Skipped(&'static str),
}

/// The content or the flaw of a line; `None` for an empty one, a comment or the header.
fn parse_line(line: Line<'_>, parser: &mut dyn LineParser) -> Option<Result<Parsed, Flaw>> {
    let text = match line {
        Line::TooLong => return Some(Err(Flaw::LineTooLong)),
        Line::Octets(octets) => match std::str::from_utf8(octets) {
            // Also where a file with a mark was put behind another.
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(_) => return Some(Err(Flaw::NotUtf8)),
        },
    };
    if text.trim().is_empty() || parser.is_comment(text) {
        return None;
    }
    if let Some(reason) = parser.skipped(text) {
        return Some(Ok(Parsed::Skipped(reason)));
    }
    parser.parse(text).map(|transaction| transaction.map(Parsed::Transaction)).transpose()
}

/// A format without header, which most of the first lines fit.
struct WithoutHeader {
    /// The word to choose it by, and the ending of its files where no lines tell.
    name: &'static str,
    /// Whether a line is of the format.
    is_line: fn(&str) -> bool,
    /// The parser at the start of an input.
    parser: fn() -> Box<dyn LineParser>,
}

/// All formats without header, in the order of trial.
const WITHOUT_HEADER: [WithoutHeader; 2] = [
    WithoutHeader { name: "ldplayer", is_line: ldplayer::is_row, parser: ldplayer::without_header },
    WithoutHeader { name: "dnsperf", is_line: dnsperf::is_query, parser: || Box::new(dnsperf::Queries::default()) },
];

/// A text format without header, chosen in place of what the first lines say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextFormat(&'static str);

impl FromStr for TextFormat {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let names = WITHOUT_HEADER.map(|format| format.name);
        let found = names.into_iter().find(|name| *name == word);
        found.map(Self).ok_or_else(|| format!("unknown text format `{word}`: use {}", names.join(" or ")))
    }
}

impl fmt::Display for TextFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// Why the format of an input is unknown.
#[derive(Debug)]
pub(crate) struct Unknown {
    /// What was found.
    pub what: String,
    /// What the user can do.
    pub remedy: String,
}

/// The parser for an input of this name that begins with `head`.
fn recognise(head: &[u8], path: &Path, chosen: Option<TextFormat>) -> Result<Box<dyn LineParser>, Unknown> {
    if head.is_empty() {
        return Err(Unknown {
            what: "the file is empty".into(),
            remedy: "check that it was written completely".into(),
        });
    }
    if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
        return Err(Unknown {
            what: "the text is in UTF-16".into(),
            remedy: "convert it: iconv -f UTF-16 -t UTF-8 FILE".into(),
        });
    }
    let head = without_mark(head);
    let lines = first_lines(head).ok_or_else(|| not_a_trace(head))?;
    let data = || lines.iter().copied().filter(|line| !line.trim().is_empty() && !line.starts_with(['#', ';']));
    if let Some(parser) = ldplayer::recognise(&lines)? {
        return Ok(parser);
    }
    let Some(first) = data().next() else {
        return Err(Unknown {
            what: "no header and no query in the first lines".into(),
            remedy: "check that it was written completely".into(),
        });
    };
    if let Some(parser) = tsv::recognise(first)? {
        return Ok(parser);
    }
    let majority = |is_line: fn(&str) -> bool| {
        let (fitting, all) =
            data().fold((0, 0), |(fitting, all), line| (fitting + usize::from(is_line(line)), all + 1));
        fitting * 2 > all
    };
    let is_it = |format: &&WithoutHeader| match chosen {
        Some(chosen) => format.name == chosen.0,
        None => majority(format.is_line),
    };
    let by_ending = || WITHOUT_HEADER.iter().find(|format| has_ending(path, format.name));
    if let Some(format) = WITHOUT_HEADER.iter().find(is_it).or_else(by_ending) {
        return Ok((format.parser)());
    }
    if data().any(dnsperf::is_update) {
        return Err(Unknown {
            what: "the file has dynamic updates (dnsperf -u), which are not read".into(),
            remedy: "give queries, a name and a type a line, or a capture of the updates".into(),
        });
    }
    Err(not_a_trace(head))
}

/// Whether a file's name has this ending, by itself or before that of a compression.
fn has_ending(path: &Path, ending: &str) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    name.rsplit('.').take(2).any(|part| part.eq_ignore_ascii_case(ending)) && name.contains('.')
}

/// The text behind the byte order mark of UTF-8, which some editors write.
fn without_mark(head: &[u8]) -> &[u8] {
    head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head)
}

/// The first lines as text; `None` if they are not UTF-8.
fn first_lines(head: &[u8]) -> Option<Vec<&str>> {
    if head.contains(&0) {
        return None;
    }
    let mut lines: Vec<&[u8]> = head.split(|&octet| octet == b'\n').collect();
    if head.len() == HEAD && lines.len() > 1 {
        lines.pop(); // cut in the middle
    }
    // Long comments do not count against the lines examined.
    let mut data = 0;
    let looked_at = lines.into_iter().take_while(|line| {
        data += usize::from(!line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b";"));
        data <= SNIFFED_LINES
    });
    // A damaged line does not rule out the format.
    Some(looked_at.filter_map(|line| std::str::from_utf8(line).ok()).map(|line| line.trim_end_matches('\r')).collect())
}

/// The error for an unknown format, with the beginning of the input.
fn not_a_trace(head: &[u8]) -> Unknown {
    let start = &head[..head.len().min(24)];
    let shown = match std::str::from_utf8(start.split(|&octet| octet == b'\n').next().unwrap_or(start)) {
        Ok(text) if !text.chars().any(char::is_control) => format!("`{text}`"),
        _ => start.iter().take(8).map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(" "),
    };
    Unknown {
        what: format!("unknown format: not a capture, trace or query file (it begins with {shown})"),
        remedy: format!("give {}, also compressed", formats::names()),
    }
}

/// Lines with their numbers and offsets, none longer than [`MAX_LINE`].
struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    too_long: bool,
    /// Number of the current line, from 1.
    number: u64,
    /// Offset of the current line.
    start: u64,
    /// Offset of the next line.
    next: u64,
}

enum Line<'a> {
    Octets(&'a [u8]),
    TooLong,
}

impl<R: BufRead> Lines<R> {
    /// Lines from `offset` on.
    fn new(reader: R, offset: u64) -> Self {
        Self { reader, buffer: Vec::new(), too_long: false, number: 0, start: offset, next: offset }
    }

    /// Reads the next line; `false` at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.buffer.clear();
        self.too_long = false;
        let mut length = self.reader.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut self.buffer)? as u64;
        if length > MAX_LINE as u64 && self.buffer.last() != Some(&b'\n') {
            self.too_long = true;
            length += skip_line(&mut self.reader)?;
        }
        self.number += 1;
        self.start = self.next;
        self.next += length;
        Ok(length > 0)
    }

    fn line(&self) -> Line<'_> {
        if self.too_long {
            return Line::TooLong;
        }
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        Line::Octets(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Skips the rest of a line, and returns its length.
fn skip_line(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            return Ok(skipped);
        }
        let end = available.iter().position(|&octet| octet == b'\n');
        let length = end.map_or(available.len(), |at| at + 1);
        reader.consume(length);
        skipped += length as u64;
        if end.is_some() {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Opens a text as a file named `t`.
    pub(crate) fn open(text: &[u8]) -> Result<TextSource, TraceError> {
        TextSource::open(Path::new("t"), Box::new(Cursor::new(text.to_vec())), None)
    }

    /// All of its transactions, and its accounts.
    pub(crate) fn read_all(text: &[u8]) -> (Vec<Transaction>, Tally) {
        let mut source = open(text).unwrap();
        let mut all = Vec::new();
        while source.read(&mut all).unwrap() {}
        (all, source.tally)
    }

    fn refusal(text: &[u8]) -> String {
        open(text).err().unwrap().to_string()
    }

    #[test]
    fn a_chosen_format_is_taken_whatever_the_first_lines_are() {
        let text = b"what is this\nand that, or not?\nwww.example. A\n";
        assert!(refusal(text).contains("unknown format"));
        let chosen = |word: &str| {
            let reader = Box::new(Cursor::new(text.to_vec()));
            let mut source = TextSource::open(Path::new("t"), reader, Some(word.parse().unwrap())).unwrap();
            let mut all = Vec::new();
            while source.read(&mut all).unwrap() {}
            (all.len(), source.tally.packets)
        };
        assert_eq!((chosen("dnsperf"), chosen("ldplayer")), ((1, 3), (0, 3)));
        assert_eq!(
            "dnsprf".parse::<TextFormat>().unwrap_err(),
            "unknown text format `dnsprf`: use ldplayer or dnsperf"
        );
    }

    #[test]
    fn an_ending_decides_where_no_lines_do() {
        let text = b"what is this\nand that, or not?\nwww.example. A\n";
        let open = |name: &str, text: &[u8]| {
            TextSource::open(Path::new(name), Box::new(Cursor::new(text.to_vec())), None).map(|source| source.is_list())
        };
        for name in ["q.dnsperf", "q.DNSPERF.xz"] {
            assert!(open(name, text).unwrap(), "{name}");
        }
        assert!(!open("q.ldplayer", text).unwrap());
        for name in ["dnsperf", "q.txt", "q.dnsperf.old.xz"] {
            assert!(open(name, text).is_err(), "{name}");
        }
        assert!(open("q.ldplayer", b"www.example. A\n").unwrap(), "lines tell more than a name");
        assert!(open("q.dnsperf", b"\x7fELF\x02\x01\0\0").is_err());
    }

    #[test]
    fn foreign_content_is_refused_in_one_line() {
        for text in [&b"hello world, this is prose\nand more\n"[..], b"\x7fELF\x02\x01\0\0", b"a,b,c\n1,2,3\n"] {
            let refusal = refusal(text);
            assert!(refusal.contains("not a capture, trace or query file"), "{refusal}");
            assert!(!refusal.contains('\n'), "{refusal}");
        }
        assert_eq!(refusal(b""), "t: the file is empty; check that it was written completely");
        assert!(refusal(b"# only\n\n; comments\n").contains("no header and no query"));
    }

    #[test]
    fn damage_is_located_by_line_and_offset() {
        let long = "x".repeat(3 * MAX_LINE);
        let text = format!("a.example A\r\n\n;c\nb.example A\nb.example HTTPZ\n{long}\nc.example NS");
        let (all, tally) = read_all(text.as_bytes());
        assert_eq!((all.len(), tally.packets, tally.queries), (3, 5, 3));
        let place = |packet, offset| Place { file: "t".into(), packet, offset };
        assert_eq!(tally.damaged[0].first, place(5, 29));
        assert_eq!((tally.damaged[0].reason.as_str(), tally.damaged[1].reason.as_str()), ("bad_type", "line_too_long"));
        assert_eq!(tally.damaged[1].first, place(6, 45));
    }

    #[test]
    fn a_rest_that_cannot_be_read_is_located_and_what_came_before_is_kept() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("corrupt"))
            }
        }
        let text = "a.example A\n".repeat(2 * HEAD / 12);
        let reader = io::BufReader::new(Cursor::new(text.clone()).chain(Broken));
        let mut source = TextSource::open(Path::new("t"), Box::new(reader), None).unwrap();
        let mut all = Vec::new();
        while source.read(&mut all).unwrap() {}
        let damage = &source.tally.damaged[0];
        assert_eq!((all.len(), damage.reason.as_str()), (text.len() / 12, "unreadable_rest"));
        assert_eq!((damage.first.packet, damage.first.offset), (1 + all.len() as u64, text.len() as u64));
    }

    #[test]
    fn octets_that_are_no_text_damage_their_line_only() {
        let (all, tally) = read_all(b"a.example A\nb.example A\n\xff\xfe A\nc.example A\n");
        assert_eq!((all.len(), tally.damaged[0].reason.as_str()), (3, "not_utf8"));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(head in "(time\tsrc\tqname\tqtype\n|#fsdb time srcip qname qtype\n|a A\n|)", octets in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut text = head.into_bytes();
            text.extend_from_slice(&octets);
            if let Ok(mut source) = open(&text) {
                let mut all = Vec::new();
                while source.read(&mut all).unwrap() {}
                prop_assert_eq!(source.tally.queries, all.len() as u64);
            }
        }
    }
}
