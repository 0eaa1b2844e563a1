//! Decodes the Huffman code of HPACK (RFC 7541 §5.2, Appendix B).
//!
//! The code is canonical: codes of one length follow each other in the order of their octets, and longer ones follow
//! shorter ones. So the octets of each length say all.

/// Which octets have codes of how many bits.
const CODES: [(u32, &[u8]); GROUPS] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\0$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
    (19, &[92, 195, 208]),
    (20, &[128, 130, 131, 162, 184, 194, 224, 226]),
    (21, &[153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230]),
    (
        22,
        &[
            129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187, 189, 190,
            196, 198, 228, 232, 233,
        ],
    ),
    (
        23,
        &[
            1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174, 175, 180,
            182, 183, 188, 191, 197, 231, 239,
        ],
    ),
    (24, &[9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237]),
    (25, &[199, 207, 234, 235]),
    (26, &[192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255]),
    (27, &[203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254]),
    (
        28,
        &[
            2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127, 220,
            249,
        ],
    ),
    // The last code of this length marks the end of the string, which no string may contain.
    (30, &[10, 13, 22]),
];

/// Lengths that codes have.
const GROUPS: usize = 21;
/// Bits that a code is aligned to.
const WORD: u32 = u32::BITS;

/// The codes of one length, aligned to the left of a word.
struct Group {
    length: u32,
    first: u32,
    /// The word behind the last of them.
    end: u32,
    octets: &'static [u8],
}

static TABLE: [Group; GROUPS] = table();

const fn table() -> [Group; GROUPS] {
    let mut groups = [const { Group { length: 0, first: 0, end: 0, octets: &[] } }; GROUPS];
    let (mut at, mut code) = (0, 0);
    while at < GROUPS {
        let (length, octets) = CODES[at];
        let end = code + ((octets.len() as u32) << (WORD - length));
        groups[at] = Group { length, first: code, end, octets };
        code = end;
        at += 1;
    }
    groups
}

/// The octets of a string in this code; it ends early where the string is invalid.
#[derive(Clone, Debug)]
pub struct Decode<'a> {
    rest: &'a [u8],
    window: u64,
    bits: u32,
    is_invalid: bool,
}

/// Reads a string.
pub const fn decode(octets: &[u8]) -> Decode<'_> {
    Decode { rest: octets, window: 0, bits: 0, is_invalid: false }
}

/// Whether a string can be read to its end.
pub fn is_valid(octets: &[u8]) -> bool {
    let mut decode = decode(octets);
    decode.by_ref().for_each(drop);
    !decode.is_invalid
}

impl Decode<'_> {
    fn fill(&mut self) {
        while self.bits < WORD
            && let Some((&first, rest)) = self.rest.split_first()
        {
            self.window |= u64::from(first) << (u64::BITS - u8::BITS - self.bits);
            self.bits += u8::BITS;
            self.rest = rest;
        }
    }

    /// What is left is less than an octet, and the beginning of the code of the end: all ones.
    const fn ends_well(&self) -> bool {
        self.bits < u8::BITS && self.window.leading_ones() >= self.bits
    }
}

impl Iterator for Decode<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        self.fill();
        let word = (self.window >> WORD) as u32;
        let group = TABLE.iter().find(|group| word < group.end).filter(|group| group.length <= self.bits);
        let Some(group) = group.filter(|_| !self.is_invalid) else {
            self.is_invalid |= !self.ends_well();
            return None;
        };
        self.window <<= group.length;
        self.bits -= group.length;
        group.octets.get(((word - group.first) >> (WORD - group.length)) as usize).copied()
    }
}

/// A string of a header block, in the Huffman code or plain.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    octets: &'a [u8],
    is_coded: bool,
}

impl<'a> Text<'a> {
    /// That of these octets; `None` where they are in the code and no such code is valid.
    pub fn new(octets: &'a [u8], is_coded: bool) -> Option<Self> {
        (!is_coded || is_valid(octets)).then_some(Self { octets, is_coded })
    }

    /// A plain one.
    pub const fn plain(text: &'a str) -> Self {
        Self { octets: text.as_bytes(), is_coded: false }
    }

    /// Its octets.
    pub fn bytes(self) -> impl Iterator<Item = u8> + Clone + 'a {
        let (plain, coded) = if self.is_coded { (&[][..], self.octets) } else { (self.octets, &[][..]) };
        plain.iter().copied().chain(decode(coded))
    }

    /// How many octets it has.
    pub fn len(self) -> usize {
        if self.is_coded { self.bytes().count() } else { self.octets.len() }
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The code of an octet and its length.
    fn code(octet: u8) -> (u64, u32) {
        let group = TABLE.iter().find(|group| group.octets.contains(&octet)).unwrap();
        let place = group.octets.iter().position(|&other| other == octet).unwrap() as u32;
        (u64::from(group.first >> (WORD - group.length)) + u64::from(place), group.length)
    }

    fn encode(octets: &[u8]) -> Vec<u8> {
        let bits = octets.iter().flat_map(|&octet| {
            let (code, length) = code(octet);
            (0..length).rev().map(move |bit| code >> bit & 1 == 1)
        });
        let bits: Vec<bool> = bits.collect();
        let octet = |bits: &[bool]| (0..8).fold(0, |octet, at| octet << 1 | u8::from(*bits.get(at).unwrap_or(&true)));
        bits.chunks(8).map(octet).collect()
    }

    #[test]
    fn every_octet_has_one_code_and_the_codes_fill_the_space_but_for_the_end() {
        let mut octets: Vec<u8> = CODES.iter().flat_map(|(_, octets)| octets.iter().copied()).collect();
        octets.sort_unstable();
        assert_eq!(octets, (0..=255).collect::<Vec<u8>>());
        assert_eq!(TABLE[GROUPS - 1].end, 0xffff_fffc, "30 ones are the end");
    }

    #[test]
    fn codes_are_those_of_appendix_b() {
        for (octet, expected) in [
            (b'0', (0x0, 5)),
            (b'z', (0x7b, 7)),
            (b'&', (0xf8, 8)),
            (b'~', (0x1ffd, 13)),
            (b'\\', (0x7fff0, 19)),
            (0x80, (0xfffe6, 20)),
            (0xe6, (0x1fffe8, 21)),
            (0x09, (0xffffea, 24)),
            (0xff, (0x3ffffee, 26)),
            (0xfe, (0x7fffff0, 27)),
            (0xf9, (0xffffffe, 28)),
            (22, (0x3ffffffe, 30)),
        ] {
            assert_eq!(code(octet), expected, "{octet}");
        }
    }

    #[test]
    fn padding_is_less_than_an_octet_of_ones() {
        assert!(is_valid(&[]) && is_valid(&[0b0000_0111]));
        assert!(!is_valid(&[0b0000_0110]), "padding of other bits");
        assert!(!is_valid(&[0xff]), "a whole octet of padding");
        assert!(!is_valid(&[0b0000_0111, 0xff]));
        assert!(!is_valid(&[0xff, 0xff, 0xff, 0xff]), "the end inside of a string");
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(octets in prop::collection::vec(any::<u8>(), 0..80)) {
            let coded = encode(&octets);
            prop_assert!(is_valid(&coded));
            prop_assert_eq!(decode(&coded).collect::<Vec<u8>>(), octets);
        }

        #[test]
        fn any_octets_come_to_an_end_and_the_valid_ones_are_encoded_so(octets in prop::collection::vec(any::<u8>(), 0..80)) {
            let decoded: Vec<u8> = decode(&octets).collect();
            prop_assert_eq!(is_valid(&octets), encode(&decoded) == octets);
        }
    }
}
