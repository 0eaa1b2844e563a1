//! Longest-prefix matching, and the file of round-trip times by prefix.

use std::net::IpAddr;
use std::str::FromStr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_core::cidr::Cidr;
use ldplayer_core::time::NS_PER_S;

/// Maximum delay, in nanoseconds (a minute); heavy-tailed distributions are cut here.
pub const LONGEST: i64 = 60 * NS_PER_S;

/// A table of values by address block.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks<T> {
    /// One table per prefix length, longest first.
    lengths: Vec<Length<T>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Length<T> {
    is_v4: bool,
    prefix: u8,
    values: HashMap<u128, T, FixedState>,
}

/// Round-trip times in nanoseconds by prefix.
pub type Prefixes = Blocks<i64>;

/// An error in a file of round-trip times, with its line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line}: `{text}`: expected a prefix and milliseconds such as 192.0.2.0/24,23.5 (at most 60000), each prefix once"
)]
pub struct BadPrefixes {
    line: usize,
    text: String,
}

impl<T> Default for Blocks<T> {
    fn default() -> Self {
        Self { lengths: Vec::new() }
    }
}

impl<T> Blocks<T> {
    /// Sets the value of a block and returns the previous one.
    pub fn insert(&mut self, block: Cidr, value: T) -> Option<T> {
        self.length(block).values.insert(bits(block.first()), value)
    }

    /// The values of all blocks that contain the address, from the smallest block to the largest.
    pub fn of(&self, address: IpAddr) -> impl Iterator<Item = &T> {
        let (is_v4, bits) = (address.is_ipv4(), bits(address));
        let lengths = self.lengths.iter().filter(move |length| length.is_v4 == is_v4);
        lengths.filter_map(move |length| length.values.get(&(bits & length.mask())))
    }

    /// The table of blocks with the same prefix length.
    fn length(&mut self, block: Cidr) -> &mut Length<T> {
        let (is_v4, prefix) = (block.is_ipv4(), block.prefix());
        let at = self.lengths.iter().position(|length| length.is_v4 == is_v4 && length.prefix <= prefix);
        let at = at.unwrap_or(self.lengths.len());
        if self.lengths.get(at).is_none_or(|length| (length.is_v4, length.prefix) != (is_v4, prefix)) {
            self.lengths.insert(at, Length { is_v4, prefix, values: HashMap::default() });
        }
        &mut self.lengths[at]
    }
}

impl<T> Length<T> {
    const fn mask(&self) -> u128 {
        let width = if self.is_v4 { 32 } else { 128 };
        match self.prefix {
            0 => 0,
            prefix => u128::MAX << (width - prefix),
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Parses lines `prefix,ms`; empty lines, comments after `#` and a first line `prefix,ms` are skipped.
impl FromStr for Prefixes {
    type Err = BadPrefixes;

    fn from_str(text: &str) -> Result<Self, BadPrefixes> {
        let mut prefixes = Self::default();
        for (number, whole) in text.lines().enumerate() {
            let line = whole.split('#').next().unwrap_or("").trim();
            if line.is_empty() || (number == 0 && line.replace(' ', "") == "prefix,ms") {
                continue;
            }
            let bad = || BadPrefixes { line: number + 1, text: whole.trim().chars().take(60).collect() };
            let (block, rtt) = parse_line(line).ok_or_else(bad)?;
            if prefixes.insert(block, rtt).is_some() {
                return Err(bad());
            }
        }
        Ok(prefixes)
    }
}

fn parse_line(line: &str) -> Option<(Cidr, i64)> {
    let (block, ms) = line.split_once(',')?;
    let ns = ms.trim().parse::<f64>().ok()? * 1e6;
    // Also false for NaN.
    (0.0..=LONGEST as f64).contains(&ns).then_some(())?;
    Some((block.trim().parse().ok()?, ns.round() as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(prefixes: &Prefixes, address: &str) -> Option<i64> {
        prefixes.of(address.parse().unwrap()).next().copied()
    }

    #[test]
    fn the_longest_prefix_counts() {
        let text = "prefix, ms\n0.0.0.0/0,1\n# a comment\n192.0.2.0/24, 2.5 # office\n\n192.0.2.7,3\n2001:db8::/32,4\n";
        let prefixes: Prefixes = text.parse().unwrap();
        assert_eq!(first(&prefixes, "192.0.2.7"), Some(3_000_000));
        assert_eq!(first(&prefixes, "192.0.2.8"), Some(2_500_000));
        assert_eq!(first(&prefixes, "192.0.3.8"), Some(1_000_000));
        assert_eq!(first(&prefixes, "2001:db8::1"), Some(4_000_000));
        assert_eq!(first(&prefixes, "2001:db9::1"), None);
        let all: Vec<i64> = prefixes.of("192.0.2.7".parse().unwrap()).copied().collect();
        assert_eq!(all, [3_000_000, 2_500_000, 1_000_000]);
    }

    #[test]
    fn a_wrong_line_is_told_by_its_number() {
        let cases = [
            ("x", 1),
            ("192.0.2.0/24,1\n192.0.2.0/33,1", 2),
            ("::/0,-1", 1),
            ("::/0,1\n\n::/0,2", 3),
            ("::/0,NaN", 1),
            ("::,60001", 1),
        ];
        for (text, line) in cases {
            assert_eq!(text.parse::<Prefixes>().unwrap_err().line, line, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_a_search_of_all_blocks(
            blocks in proptest::collection::vec((any::<u32>(), 0..=32_u8, any::<i64>()), 0..20),
            address in any::<u32>(),
        ) {
            let blocks: Vec<(Cidr, i64)> = blocks.into_iter().map(|(first, prefix, value)| {
                // Near the address, so that blocks hold it often.
                let first = std::net::Ipv4Addr::from_bits(address ^ (first & 0xff));
                (format!("{first}/{prefix}").parse().unwrap(), value)
            }).collect();
            let mut table = Blocks::default();
            blocks.iter().for_each(|&(block, value)| { table.insert(block, value); });
            let address = IpAddr::from(std::net::Ipv4Addr::from_bits(address));
            let longest = blocks.iter().filter(|(block, _)| block.contains(address)).max_by_key(|(block, _)| block.prefix());
            let last = longest.and_then(|(block, _)| blocks.iter().rfind(|(other, _)| other == block));
            prop_assert_eq!(table.of(address).next(), last.map(|(_, value)| value));
        }
    }
}
