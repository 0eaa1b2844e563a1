//! Header blocks of HPACK (RFC 7541), for a client that needs only the status and content type of a response.
//!
//! Strings are views of the block. We announce a dynamic table of size 0, and most servers then give up theirs. Some go on
//! using one of the default size (h2o does, which dnsdist 1.7 is built on): for their sake there is a table, which holds what
//! fields mean rather than what they say.

use std::collections::VecDeque;

use super::huffman::Text;
use super::table::TABLE;
use crate::doh::Meaning;
use crate::doh::integer::{append_integer, take_integer};

/// The size of dynamic tables that nothing else is said of (RFC 9113 §6.5.2).
const TABLE_SIZE: u32 = 4_096;
/// What an entry counts beside its strings (RFC 7541 §4.1).
const ENTRY: usize = 32;

/// A header block that cannot be read: the connection ends with COMPRESSION_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// The name of a field.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    /// That of an entry of the tables, from 1.
    Entry(u32),
    /// This one.
    Text(Text<'a>),
}

/// What a block is made of (RFC 7541 §6).
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// The field of an entry of the tables, from 1.
    Entry(u32),
    /// A field.
    Field {
        /// Its name.
        name: Name<'a>,
        /// Its value.
        value: Text<'a>,
        /// It becomes an entry.
        is_kept: bool,
    },
    /// The dynamic table has this size from here on.
    Resize(u32),
}

/// The items of a block, up to the first that cannot be read.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    rest: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    meaning: Meaning,
    /// Octets of its name, which is shorter than a block.
    name: u16,
    /// What it counts, at most [`TABLE_SIZE`].
    size: u16,
}

/// The dynamic table, the latest entry first.
#[derive(Debug)]
pub struct Table {
    entries: VecDeque<Entry>,
    size: u32,
    most: u32,
}

/// Reads the items of a block.
pub const fn items(block: &[u8]) -> Items<'_> {
    Items { rest: block }
}

impl<'a> Items<'a> {
    fn read(&mut self, first: u8) -> Option<Item<'a>> {
        match first {
            0x80.. => take_integer(&mut self.rest, 7).filter(|&entry| entry > 0).map(Item::Entry),
            0x40.. => self.field(6, true),
            0x20.. => take_integer(&mut self.rest, 5).map(Item::Resize),
            _ => self.field(4, false),
        }
    }

    fn field(&mut self, bits: u32, is_kept: bool) -> Option<Item<'a>> {
        let name = match take_integer(&mut self.rest, bits)? {
            0 => Name::Text(self.text()?),
            entry => Name::Entry(entry),
        };
        Some(Item::Field { name, value: self.text()?, is_kept })
    }

    fn text(&mut self) -> Option<Text<'a>> {
        let is_coded = self.rest.first()? & 0x80 != 0;
        let length = take_integer(&mut self.rest, 7)? as usize;
        let (octets, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Text::new(octets, is_coded)
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let &first = self.rest.first()?;
        let item = self.read(first);
        if item.is_none() {
            self.rest = &[];
        }
        Some(item.ok_or(Unreadable))
    }
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: VecDeque::new(), size: 0, most: TABLE_SIZE }
    }
}

impl Table {
    /// Reads a block to its end and tells what each of its fields means.
    ///
    /// # Errors
    /// When the block cannot be read.
    pub fn read(&mut self, block: &[u8], mut tell: impl FnMut(Meaning)) -> Result<(), Unreadable> {
        let mut has_begun = false;
        for item in items(block) {
            match item? {
                Item::Resize(size) if has_begun || size > TABLE_SIZE => return Err(Unreadable),
                Item::Resize(size) => {
                    self.most = size;
                    self.shrink(size);
                    continue;
                }
                Item::Entry(number) => tell(self.entry(number)?.meaning),
                Item::Field { name, value, is_kept } => tell(self.field(name, value, is_kept)?),
            }
            has_begun = true;
        }
        Ok(())
    }

    /// The entry of this number in both tables (RFC 7541 §2.3.3).
    fn entry(&self, number: u32) -> Result<Entry, Unreadable> {
        let place = number as usize - 1;
        match TABLE.get(place) {
            Some(&(name, value)) => {
                let (name, value) = (Text::plain(name), Text::plain(value));
                Ok(Entry { meaning: Meaning::of(name.bytes(), value.bytes()), name: name.len() as u16, size: 0 })
            }
            None => self.entries.get(place - TABLE.len()).copied().ok_or(Unreadable),
        }
    }

    fn field(&mut self, name: Name<'_>, value: Text<'_>, is_kept: bool) -> Result<Meaning, Unreadable> {
        let (meaning, name) = match name {
            Name::Text(name) => (Meaning::of(name.bytes(), value.bytes()), name.len()),
            Name::Entry(number) => {
                let named = self.entry(number)?;
                let meaning = if number as usize <= TABLE.len() {
                    Meaning::of(Text::plain(TABLE[number as usize - 1].0).bytes(), value.bytes())
                } else {
                    named.meaning.with(value.bytes())
                };
                (meaning, named.name as usize)
            }
        };
        if is_kept {
            self.keep(meaning, name, value.len());
        }
        Ok(meaning)
    }

    /// Makes an entry, for which the oldest ones make room (RFC 7541 §4.4).
    fn keep(&mut self, meaning: Meaning, name: usize, value: usize) {
        let size = (name + value + ENTRY) as u32;
        self.shrink(self.most.saturating_sub(size));
        if size <= self.most {
            self.size += size;
            self.entries.push_front(Entry { meaning, name: name as u16, size: size as u16 });
        }
    }

    fn shrink(&mut self, size: u32) {
        while self.size > size
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= u32::from(oldest.size);
        }
    }

    /// Octets that it takes beside itself.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

/// Appends a string as it is.
pub fn append_text(out: &mut Vec<u8>, text: &[u8]) {
    append_integer(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// Appends a field whose name is the table's entry `name`, in a way that leaves no trace in the other side's table
/// (RFC 7541 §6.2.2).
pub fn append_field(out: &mut Vec<u8>, name: usize, value: &[u8]) {
    append_integer(out, 0, 4, name);
    append_text(out, value);
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|octet| !octet.is_ascii_whitespace()).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn text(text: Text<'_>) -> String {
        String::from_utf8(text.bytes().collect()).unwrap()
    }

    /// The fields of blocks on one connection, with a table of its own that holds their text.
    #[derive(Default)]
    struct Reader(VecDeque<(String, String)>);

    impl Reader {
        fn entry(&self, number: u32) -> Result<(String, String), Unreadable> {
            let fixed = TABLE.get(number as usize - 1).map(|&(name, value)| (name.to_owned(), value.to_owned()));
            fixed.or_else(|| self.0.get(number as usize - 1 - TABLE.len()).cloned()).ok_or(Unreadable)
        }

        /// Entries are dropped when they are more than `most` octets.
        fn read(&mut self, most: usize, block: &[u8]) -> Result<Vec<(String, String)>, Unreadable> {
            let mut fields = Vec::new();
            for item in items(block) {
                let (field, is_kept) = match item? {
                    Item::Resize(_) => continue,
                    Item::Entry(number) => (self.entry(number)?, false),
                    Item::Field { name, value, is_kept } => {
                        let name = match name {
                            Name::Entry(number) => self.entry(number)?.0,
                            Name::Text(name) => text(name),
                        };
                        ((name, text(value)), is_kept)
                    }
                };
                if is_kept {
                    self.0.push_front(field.clone());
                    while self.0.iter().map(|(name, value)| name.len() + value.len() + ENTRY).sum::<usize>() > most {
                        self.0.pop_back();
                    }
                }
                fields.push(field);
            }
            Ok(fields)
        }
    }

    pub fn read(block: &[u8]) -> Result<Vec<(String, String)>, Unreadable> {
        Reader::default().read(TABLE_SIZE as usize, block)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, Unreadable> {
        Ok(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn meanings(table: &mut Table, block: &[u8]) -> Result<Vec<Meaning>, Unreadable> {
        let mut meanings = Vec::new();
        table.read(block, |meaning| meanings.push(meaning)).map(|()| meanings)
    }

    #[test]
    fn literals_are_those_of_appendix_c_2() {
        // C.2.1 has incremental indexing: an entry that has no room in the table is read all the same.
        let custom = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
        assert_eq!(read(&hex(custom)), pairs(&[("custom-key", "custom-header")]));
        assert_eq!(read(&hex("040c 2f73 616d 706c 652f 7061 7468")), pairs(&[(":path", "/sample/path")]));
        assert_eq!(read(&hex("1008 7061 7373 776f 7264 0673 6563 7265 74")), pairs(&[("password", "secret")]));
        assert_eq!(read(&hex("82")), pairs(&[(":method", "GET")]));
    }

    #[test]
    fn requests_are_those_of_appendices_c_3_and_c_4() {
        let first = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
        let second = [&first[..], &[("cache-control", "no-cache")]].concat();
        let plain = ["8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", "8286 84be 5808 6e6f 2d63 6163 6865"];
        let coded = ["8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", "8286 84be 5886 a8eb 1064 9cbf"];
        for blocks in [plain, coded] {
            let mut reader = Reader::default();
            assert_eq!(reader.read(4_096, &hex(blocks[0])), pairs(&first));
            assert_eq!(reader.read(4_096, &hex(blocks[1])), pairs(&second));
        }
    }

    /// The responses of appendices C.5 and C.6, whose table has 256 octets, so that entries are evicted.
    const RESPONSES: [[&str; 3]; 2] = [
        [
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d \
             546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f \
             6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b \
             2076 6572 7369 6f6e 3d31",
        ],
        [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 \
             8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 \
             dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ],
    ];

    #[test]
    fn responses_are_those_of_appendices_c_5_and_c_6() {
        let (cache, location) = (("cache-control", "private"), ("location", "https://www.example.com"));
        let date = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
        let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
        let last = [
            (":status", "200"),
            cache,
            ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
            location,
            ("content-encoding", "gzip"),
            ("set-cookie", cookie),
        ];
        for blocks in RESPONSES {
            let (mut reader, mut table) = (Reader::default(), Table { most: 256, ..Table::default() });
            let expected = [
                pairs(&[(":status", "302"), cache, date, location]),
                pairs(&[(":status", "307"), cache, date, location]),
                pairs(&last),
            ];
            for (block, expected) in blocks.into_iter().zip(expected) {
                assert_eq!(reader.read(256, &hex(block)), expected);
            }
            for (block, (status, size, entries)) in
                blocks.into_iter().zip([(302, 222, 4), (307, 222, 4), (200, 215, 3)])
            {
                let meanings = meanings(&mut table, &hex(block)).unwrap();
                assert_eq!(meanings[0], Meaning::Status(status));
                assert!(meanings[1..].iter().all(|&meaning| meaning == Meaning::Plain));
                assert_eq!((table.size, table.entries.len()), (size, entries));
            }
        }
    }

    #[test]
    fn a_table_that_is_given_up_holds_nothing() {
        let mut table = Table::default();
        assert_eq!(meanings(&mut table, &hex("20 4803333032")), Ok(vec![Meaning::Status(302)]));
        assert_eq!((table.held(), meanings(&mut table, &[0xbe])), (0, Err(Unreadable)));
        // One that a server goes on using: its entries, and names taken from them.
        let mut table = Table::default();
        assert_eq!(
            meanings(&mut table, &hex("4803333032 40017801 79")),
            Ok(vec![Meaning::Status(302), Meaning::Plain])
        );
        let again = hex("bf be 0f3003333034 0f2f00");
        let expected = [Meaning::Status(302), Meaning::Plain, Meaning::Status(304), Meaning::Plain];
        assert_eq!(meanings(&mut table, &again), Ok(expected.to_vec()));
        assert_eq!(meanings(&mut table, &[0x20, 0xbe]), Err(Unreadable), "it is emptied");
        assert_eq!(meanings(&mut table, &hex("40017801 79 be")), Err(Unreadable), "it stays so");
    }

    #[test]
    fn the_type_and_the_length_of_a_body_are_known_by_whatever_name_they_come() {
        let (typed, length) = (hex("5f 17"), hex("5c 02 3432"));
        let named = [&typed[..], b"application/dns-message", &length].concat();
        let mut table = Table::default();
        let expected = [Meaning::IsMessage(true), Meaning::Length(Some(42))];
        assert_eq!(meanings(&mut table, &named), Ok(expected.to_vec()));
        // The entries made of them, the length first; and their names with other values.
        let again = hex("bf be 0f3001 78 0f2f02 3433 0f2f01 78");
        let expected = [&expected[..], &[Meaning::IsMessage(false), Meaning::Length(Some(43)), Meaning::Length(None)]];
        assert_eq!(meanings(&mut table, &again), Ok(expected.concat()));
        assert_eq!(meanings(&mut table, b"\x00\x0ccontent-type\x01x"), Ok(vec![Meaning::IsMessage(false)]));
        assert_eq!(size_of::<Entry>(), 8);
    }

    #[test]
    fn what_is_damaged_is_unreadable() {
        for (block, why) in [
            (&[0xbe][..], "an entry behind the tables"),
            (&[0x7e, 0x00], "its name"),
            (&[0x80], "entry 0"),
            (&[0x88, 0x20], "a size behind a field"),
            (&[0x3f, 0xe2, 0x1f], "a size above 4,096"),
            (&[0x08], "no value"),
            (&[0x08, 0x05, b'2'], "a value cut short"),
            (&[0x08, 0x81, 0xff], "a Huffman code of ones"),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "an endless integer"),
        ] {
            assert_eq!(meanings(&mut Table::default(), block), Err(Unreadable), "{why}");
        }
    }

    proptest! {
        #[test]
        fn any_blocks_come_to_an_end(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..20)) {
            let mut table = Table::default();
            for block in blocks {
                let told = meanings(&mut table, &block);
                prop_assert!(told.is_err() || told.unwrap().len() <= block.len());
                prop_assert_eq!(table.size, table.entries.iter().map(|entry| u32::from(entry.size)).sum::<u32>());
                prop_assert!(table.size <= table.most && table.held() <= 1_024);
            }
        }

        #[test]
        fn what_is_written_is_read(fields in prop::collection::vec((1usize..62, "[ -~]{0,300}"), 0..6)) {
            let mut block = Vec::new();
            fields.iter().for_each(|(name, value)| append_field(&mut block, *name, value.as_bytes()));
            let expected = fields.into_iter().map(|(name, value)| (TABLE[name - 1].0.to_owned(), value)).collect();
            prop_assert_eq!(read(&block), Ok(expected));
        }
    }
}
