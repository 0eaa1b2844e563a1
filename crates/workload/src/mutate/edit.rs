//! In-place edits of a DNS query: header, question and OPT record (RFC 1035 §4.1, RFC 6891 §6.1).

use std::ops::Range;

use ldplayer_core::message::{HEADER, Message, OPT, flag};
use ldplayer_core::name::MAX_NAME;

/// TYPE of TSIG (RFC 8945 §4.2).
const TSIG: u16 = 250;
/// TYPE of SIG, which signs a transaction if its type covered is 0 (RFC 2931 §3).
const SIG: u16 = 24;
/// Octets of an OPT record before its options: root name, type, class, TTL, length.
const OPT_FIXED: usize = 11;
/// Code of the Padding option (RFC 7830 §3).
pub const PADDING: u16 = 12;
/// Default payload size of an added OPT record: small enough to avoid fragmentation.
pub const DEFAULT_SIZE: u16 = 1_232;

/// Why an edit was not made; the query is unchanged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EditError {
    /// The query was not recorded.
    NoQuery,
    /// The message is damaged before the part to edit.
    Damaged,
    /// There is no question.
    NoQuestion,
    /// A signature covers the message (TSIG or SIG(0)).
    Signed,
    /// Other records follow the question, which may point to its name.
    HasRecords,
    /// The name would be longer than 255 octets.
    LongName,
    /// A label would be longer than 63 octets.
    LongLabel,
    /// The template yields no name for this query.
    BadName,
    /// The message would be longer than 65,535 octets.
    LongMessage,
    /// There are more clients than addresses.
    NoAddress,
}

impl EditError {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::NoQuery,
        Self::Damaged,
        Self::NoQuestion,
        Self::Signed,
        Self::HasRecords,
        Self::LongName,
        Self::LongLabel,
        Self::BadName,
        Self::LongMessage,
        Self::NoAddress,
    ];

    /// Its name in statistics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoQuery => "no_query",
            Self::Damaged => "damaged_message",
            Self::NoQuestion => "no_question",
            Self::Signed => "signed_message",
            Self::HasRecords => "has_records",
            Self::LongName => "name_over_255_octets",
            Self::LongLabel => "label_over_63_octets",
            Self::BadName => "no_valid_name",
            Self::LongMessage => "message_over_65535_octets",
            Self::NoAddress => "no_address_left",
        }
    }
}

/// Whether an edit changed the message.
pub type Edited = Result<bool, EditError>;

/// The layout of the message after the question.
#[derive(Clone, Copy, Debug)]
struct Tail {
    /// Start of the OPT record.
    opt: Option<usize>,
    /// End of the OPT record.
    opt_end: usize,
    /// Records other than OPT.
    others: bool,
    /// Whether the last record signs the message.
    signed: bool,
}

/// A query being edited. It is copied on the first change, into a reusable buffer.
#[derive(Debug, Default)]
pub struct Editor {
    wire: Vec<u8>,
    tail: Option<Result<Tail, EditError>>,
    is_loaded: bool,
    /// Whether anything was changed.
    is_changed: bool,
}

impl Editor {
    /// Clears the previous query.
    pub fn reset(&mut self) {
        (self.tail, self.is_loaded, self.is_changed) = (None, false, false);
    }

    /// The query as edited so far, if anything was changed.
    pub fn changed(&self) -> Option<&[u8]> {
        self.is_changed.then_some(&self.wire[..])
    }

    /// The query as edited so far, if it was loaded.
    pub fn current(&self) -> Option<&[u8]> {
        self.is_loaded.then_some(&self.wire[..])
    }

    /// Loads `query`, unless one is loaded.
    pub fn load(&mut self, query: &[u8]) -> Result<(), EditError> {
        if !self.is_loaded {
            Message::new(query).ok_or(EditError::Damaged)?;
            self.wire.clear();
            self.wire.extend_from_slice(query);
            self.is_loaded = true;
        }
        Ok(())
    }

    /// Sets and clears bits of the header flags.
    pub fn set_flags(&mut self, mask: u16, value: u16) -> Edited {
        let before = u16::from_be_bytes([self.wire[2], self.wire[3]]);
        let after = before & !mask | value & mask;
        if before == after {
            return Ok(false);
        }
        self.unsigned()?;
        self.wire[2..4].copy_from_slice(&after.to_be_bytes());
        self.note(true)
    }

    /// Adds an OPT record, or removes it with all options.
    pub fn set_edns(&mut self, wanted: bool) -> Edited {
        let tail = self.tail()?;
        match (tail.opt, wanted) {
            (None, true) => {
                self.add_opt()?;
            }
            (Some(at), false) => {
                self.unsigned()?;
                self.wire.drain(at..tail.opt_end);
                self.count_additional(-1);
                self.tail = None;
            }
            _ => return Ok(false),
        }
        self.note(true)
    }

    /// Sets the DO bit, adding EDNS if need be, or clears it, keeping EDNS.
    pub fn set_do(&mut self, wanted: bool) -> Edited {
        if !wanted && self.tail()?.opt.is_none() {
            return Ok(false);
        }
        let at = self.need_opt()? + 7;
        let flags = u16::from_be_bytes([self.wire[at], self.wire[at + 1]]);
        let set = if wanted { flags | flag::DO } else { flags & !flag::DO };
        self.put(at, &set.to_be_bytes())
    }

    /// Sets the UDP payload size, adding EDNS if need be.
    pub fn set_size(&mut self, size: u16) -> Edited {
        let at = self.need_opt()? + 3;
        self.put(at, &size.to_be_bytes())
    }

    /// Sets the version of EDNS, adding EDNS if need be.
    pub fn set_version(&mut self, version: u8) -> Edited {
        let at = self.need_opt()? + 6;
        self.put(at, &[version])
    }

    /// Replaces the options with this code by one, adding EDNS if need be.
    pub fn set_option(&mut self, code: u16, value: &[u8]) -> Edited {
        let opt = self.need_opt()?;
        let found = self.option_places(opt, code)?;
        if let [only] = &found[..]
            && self.wire[only.start + 4..only.end] == *value
        {
            return Ok(false);
        }
        let removed: usize = found.iter().map(ExactSizeIterator::len).sum();
        if self.wire.len() - removed + 4 + value.len() > usize::from(u16::MAX) {
            return Err(EditError::LongMessage);
        }
        self.unsigned()?;
        self.remove(opt, &found);
        let length = self.options_length(opt);
        let at = opt + OPT_FIXED + length;
        let head = [code.to_be_bytes(), (value.len() as u16).to_be_bytes()];
        self.wire.splice(at..at, head.into_iter().flatten().chain(value.iter().copied()));
        self.set_options_length(opt, length + 4 + value.len());
        self.note(true)
    }

    /// Removes the options with a code; EDNS stays.
    pub fn remove_option(&mut self, code: u16) -> Edited {
        let Some(opt) = self.tail()?.opt else { return Ok(false) };
        let found = self.option_places(opt, code)?;
        if found.is_empty() {
            return Ok(false);
        }
        self.unsigned()?;
        self.remove(opt, &found);
        self.note(true)
    }

    /// Pads the message to a multiple of `block` octets by the Padding option (RFC 7830 §3, RFC 8467 §4.1).
    pub fn pad(&mut self, block: usize) -> Edited {
        let before = self.wire.clone();
        self.remove_option(PADDING)?;
        self.need_opt()?;
        let bare = self.wire.len() + 4;
        let fill = bare.next_multiple_of(block.max(1)) - bare;
        self.set_option(PADDING, &vec![0; fill])?;
        Ok(self.wire != before)
    }

    /// The name of the question.
    pub fn qname(&self) -> Result<&[u8], EditError> {
        let message = Message::new(&self.wire).ok_or(EditError::Damaged)?;
        message.question().map(|question| question.name).ok_or(EditError::NoQuestion)
    }

    /// Sets the name of the question: 255 octets at most, in wire format.
    pub fn set_qname(&mut self, name: &[u8]) -> Edited {
        let length = self.qname()?.len();
        let place = HEADER..HEADER + length;
        if self.wire[place.clone()] == *name {
            return Ok(false);
        }
        if name.len() > MAX_NAME {
            return Err(EditError::LongName);
        }
        self.unsigned()?;
        if name.len() == length {
            self.wire[place].copy_from_slice(name);
        } else {
            if self.tail()?.others || u16::from_be_bytes([self.wire[4], self.wire[5]]) > 1 {
                return Err(EditError::HasRecords);
            }
            let (end, new_end) = (self.wire.len(), self.wire.len() - length + name.len());
            self.wire.resize(end.max(new_end), 0);
            self.wire.copy_within(place.end..end, HEADER + name.len());
            self.wire.truncate(new_end);
            self.wire[HEADER..HEADER + name.len()].copy_from_slice(name);
            self.tail = None;
        }
        self.note(true)
    }

    /// Sets the type of the question.
    pub fn set_qtype(&mut self, qtype: u16) -> Edited {
        let at = HEADER + self.qname()?.len();
        self.put(at, &qtype.to_be_bytes())
    }

    fn note(&mut self, changed: bool) -> Edited {
        self.is_changed |= changed;
        Ok(changed)
    }

    /// Overwrites octets in place.
    fn put(&mut self, at: usize, octets: &[u8]) -> Edited {
        let place = at..at + octets.len();
        if self.wire[place.clone()] == *octets {
            return Ok(false);
        }
        self.unsigned()?;
        self.wire[place].copy_from_slice(octets);
        self.note(true)
    }

    fn unsigned(&mut self) -> Result<(), EditError> {
        match self.tail() {
            Ok(tail) if tail.signed => Err(EditError::Signed),
            // If the tail is damaged, there is no verifiable signature.
            _ => Ok(()),
        }
    }

    /// The layout after the question, determined once.
    fn tail(&mut self) -> Result<Tail, EditError> {
        if let Some(tail) = self.tail {
            return tail;
        }
        let tail = read_tail(&self.wire).ok_or(EditError::Damaged);
        self.tail = Some(tail);
        tail
    }

    /// The offset of the OPT record, which is added if there is none.
    fn need_opt(&mut self) -> Result<usize, EditError> {
        match self.tail()?.opt {
            Some(at) => Ok(at),
            None => self.add_opt(),
        }
    }

    fn add_opt(&mut self) -> Result<usize, EditError> {
        self.unsigned()?;
        if self.wire.len() + OPT_FIXED > usize::from(u16::MAX) {
            return Err(EditError::LongMessage);
        }
        let at = self.wire.len();
        self.wire.push(0);
        for word in [OPT, DEFAULT_SIZE, 0, 0, 0] {
            self.wire.extend_from_slice(&word.to_be_bytes());
        }
        self.count_additional(1);
        let others = self.tail()?.others;
        self.tail = Some(Ok(Tail { opt: Some(at), opt_end: self.wire.len(), others, signed: false }));
        self.is_changed = true;
        Ok(at)
    }

    fn count_additional(&mut self, more: i16) {
        let count = u16::from_be_bytes([self.wire[10], self.wire[11]]).wrapping_add_signed(more);
        self.wire[10..12].copy_from_slice(&count.to_be_bytes());
    }

    /// Octets of the options, as the record says.
    fn options_length(&self, opt: usize) -> usize {
        usize::from(u16::from_be_bytes([self.wire[opt + 9], self.wire[opt + 10]]))
    }

    /// The options with a code, their heads included.
    fn option_places(&self, opt: usize, code: u16) -> Result<Vec<Range<usize>>, EditError> {
        let end = opt + OPT_FIXED + self.options_length(opt);
        let (mut at, mut found) = (opt + OPT_FIXED, Vec::new());
        while at < end {
            let head = self.wire.get(at..at + 4).filter(|_| at + 4 <= end).ok_or(EditError::Damaged)?;
            let next = at + 4 + usize::from(u16::from_be_bytes([head[2], head[3]]));
            if next > end {
                return Err(EditError::Damaged);
            }
            if head[..2] == code.to_be_bytes() {
                found.push(at..next);
            }
            at = next;
        }
        Ok(found)
    }

    fn set_options_length(&mut self, opt: usize, length: usize) {
        self.wire[opt + 9..opt + 11].copy_from_slice(&(length as u16).to_be_bytes());
        self.tail = None;
    }

    /// Removes options.
    fn remove(&mut self, opt: usize, places: &[Range<usize>]) {
        let removed: usize = places.iter().map(ExactSizeIterator::len).sum();
        let length = self.options_length(opt) - removed;
        for place in places.iter().rev() {
            self.wire.drain(place.clone());
        }
        self.set_options_length(opt, length);
    }
}

/// Parses the records after the questions; `None` if incomplete.
fn read_tail(wire: &[u8]) -> Option<Tail> {
    let message = Message::new(wire)?;
    let [_, answers, authorities, additionals] = message.counts();
    let mut at = message.behind_questions()?;
    let mut tail = Tail { opt: None, opt_end: 0, others: false, signed: false };
    for _ in 0..u32::from(answers) + u32::from(authorities) + u32::from(additionals) {
        let (next, rtype) = message.record_at(at)?;
        if rtype == OPT && wire[at] == 0 && tail.opt.is_none() {
            (tail.opt, tail.opt_end) = (Some(at), next);
        } else {
            tail.others = true;
        }
        // A SIG record covers a transaction when its type covered is 0 (RFC 2931 §3).
        let covers_nothing = || wire.get(message.rdata_at(at)?..)?.starts_with(&[0, 0]).then_some(());
        tail.signed = rtype == TSIG || rtype == SIG && covers_nothing().is_some();
        at = next;
    }
    // Trailing octets would end up after an appended record.
    (at == wire.len()).then_some(tail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::message::QueryParts;
    use proptest::prelude::*;

    fn query(edns: Option<(u16, bool)>) -> Vec<u8> {
        let mut wire = Vec::new();
        let name = b"\x03www\x07example\0";
        QueryParts { id: 7, flags: flag::RD, name, qtype: 1, qclass: 1, edns }.compose(&mut wire);
        wire
    }

    fn editor(wire: &[u8]) -> Editor {
        let mut editor = Editor::default();
        editor.load(wire).unwrap();
        editor
    }

    fn wire(editor: &Editor) -> &[u8] {
        editor.changed().unwrap()
    }

    /// The query with a TSIG record that is no real signature.
    fn signed() -> Vec<u8> {
        let mut wire = query(Some((1232, false)));
        wire[11] = 2;
        wire.extend_from_slice(&[0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0]);
        wire
    }

    #[test]
    fn what_is_as_wanted_stays_untouched() {
        let mut editor = editor(&query(Some((1232, true))));
        assert_eq!(editor.set_do(true), Ok(false));
        assert_eq!(editor.set_edns(true), Ok(false));
        assert_eq!(editor.set_size(1232), Ok(false));
        assert_eq!(editor.set_flags(flag::RD, flag::RD), Ok(false));
        assert_eq!(editor.remove_option(8), Ok(false));
        assert_eq!(editor.set_qname(b"\x03www\x07example\0"), Ok(false));
        assert_eq!((editor.set_qtype(1), editor.changed()), (Ok(false), None));
    }

    #[test]
    fn edits_make_the_query_that_would_have_been_composed() {
        let mut editor = editor(&query(None));
        assert_eq!(editor.set_do(true), Ok(true));
        assert_eq!(wire(&editor), query(Some((1232, true))));
        assert_eq!(editor.set_size(4096), Ok(true));
        assert_eq!(editor.set_do(false), Ok(true));
        assert_eq!(wire(&editor), query(Some((4096, false))));
        assert_eq!(editor.set_edns(false), Ok(true));
        assert_eq!(wire(&editor), query(None));
    }

    #[test]
    fn clearing_do_keeps_edns() {
        let mut with = editor(&query(Some((4096, true))));
        assert_eq!(with.set_do(false), Ok(true));
        assert_eq!(wire(&with), query(Some((4096, false))));
        assert_eq!(editor(&query(None)).set_do(false), Ok(false));
    }

    #[test]
    fn options_replace_their_like_and_others_stay() {
        let mut editor = editor(&query(Some((1232, false))));
        editor.set_option(8, &[0, 1, 24, 0, 192, 0, 2]).unwrap();
        editor.set_option(10, b"cookie-8").unwrap();
        editor.set_option(8, &[0, 1, 0, 0]).unwrap();
        assert_eq!(editor.set_option(8, &[0, 1, 0, 0]), Ok(false));
        let theirs = domain::base::Message::from_octets(wire(&editor)).unwrap();
        let opt = theirs.opt().unwrap();
        let codes: Vec<u16> =
            opt.opt().iter::<domain::base::opt::UnknownOptData<_>>().map(|o| o.unwrap().code().to_int()).collect();
        assert_eq!(codes, [10, 8]);
        assert_eq!(editor.remove_option(10), Ok(true));
        assert_eq!(editor.remove_option(8), Ok(true));
        assert_eq!(wire(&editor), query(Some((1232, false))));
    }

    #[test]
    fn padding_fills_a_block_and_is_not_added_to() {
        let mut editor = editor(&query(None));
        assert_eq!(editor.pad(128), Ok(true));
        assert_eq!(wire(&editor).len(), 128);
        assert_eq!(editor.pad(128), Ok(false));
        assert_eq!(editor.pad(468), Ok(true));
        assert_eq!(wire(&editor).len(), 468);
    }

    #[test]
    fn a_name_of_another_length_moves_what_follows() {
        let mut editor = editor(&query(Some((1232, true))));
        assert_eq!(editor.set_qname(b"\x01a\0"), Ok(true));
        assert_eq!(editor.set_qtype(28), Ok(true));
        assert_eq!(editor.set_do(false), Ok(true));
        let message = Message::new(wire(&editor)).unwrap();
        assert_eq!(message.question().map(|q| (q.name, q.qtype)), Some((&b"\x01a\0"[..], 28)));
        assert!(message.edns().is_some_and(|edns| !edns.dnssec_ok && edns.udp_size == 1232));
    }

    #[test]
    fn what_cannot_be_edited_is_kept_for_a_reason() {
        let edits: [fn(&mut Editor) -> Edited; 5] = [
            |e| e.set_do(true),
            |e| e.set_flags(flag::CD, flag::CD),
            |e| e.set_qtype(2),
            |e| e.set_edns(false),
            |e| e.set_option(3, &[]),
        ];
        for edit in edits {
            let mut editor = editor(&signed());
            assert_eq!((edit(&mut editor), editor.changed()), (Err(EditError::Signed), None));
        }
        let mut update = query(None);
        update[9] = 1; // a record in the authority section that points to the name
        update.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(editor(&update).set_qname(b"\x01a\0"), Err(EditError::HasRecords));
        assert_eq!(editor(&query(None)[..20]).set_qtype(1), Err(EditError::NoQuestion));
        assert_eq!(editor(&query(None)[..20]).set_edns(true), Err(EditError::Damaged));
        assert_eq!(Editor::default().load(b"short"), Err(EditError::Damaged));
        assert_eq!(editor(&query(None)).set_option(65_001, &[0; 65_500]), Err(EditError::LongMessage));
    }

    proptest! {
        #[test]
        fn no_message_makes_it_panic(
            head in prop::collection::vec(any::<u8>(), 12), rest in prop::collection::vec(any::<u8>(), 0..60), counts in 0..3_u8,
        ) {
            let mut octets = head;
            octets[4..12].fill(0);
            (octets[5], octets[11]) = (1, counts);
            octets.extend(rest);
            let mut editor = editor(&octets);
            let _ = (editor.set_do(true), editor.set_option(8, b"xy"), editor.pad(64), editor.remove_option(8));
            let _ = (editor.set_qname(b"\x01a\0"), editor.set_qtype(1), editor.set_size(1), editor.set_version(1));
            let _ = (editor.set_edns(false), editor.set_flags(0x7fff, 0x5555));
        }

        #[test]
        fn a_message_damaged_anywhere_is_no_problem(at in 0..60_usize, octet: u8) {
            let mut octets = query(Some((1232, true)));
            let length = octets.len();
            octets[at % length] = octet;
            let mut editor = editor(&octets);
            let _ = (editor.set_option(8, b"xy"), editor.set_qname(b"\x01a\0"), editor.set_do(false), editor.set_edns(false));
        }
    }
}
