//! Sizes in octets, as people write them.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Units, the largest first. A size is shown in the largest unit of which it is a whole multiple.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// A size in octets, at least one: `500MB`, `1.5 GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(NonZeroU64);

impl Size {
    /// In octets.
    pub fn octets(self) -> u64 {
        self.0.get()
    }
}

/// A text that is no size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSize {
    /// No number, or none that counts octets.
    #[error("`{0}` is no size: give a number above 0 with a unit, such as 500MB or 2GiB")]
    Number(String),
    /// A number alone, or with an unknown unit.
    #[error("`{0}` needs a unit: B, kB, MB, GB, TB, KiB, MiB, GiB or TiB")]
    Unit(String),
}

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let digits = text.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..digits], text[digits..].trim_start());
        let number: f64 = number.parse().map_err(|_| BadSize::Number(text.into()))?;
        let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let &(_, octets) = known.ok_or_else(|| BadSize::Unit(text.into()))?;
        // Saturates: no input has 16 EiB.
        NonZeroU64::new((number * octets as f64) as u64).map(Self).ok_or_else(|| BadSize::Number(text.into()))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let octets = self.octets();
        let whole = UNITS.iter().find(|(_, unit)| octets.is_multiple_of(*unit)).unwrap_or(&UNITS[8]);
        write!(f, "{} {}", octets / whole.1, whole.0)
    }
}

crate::serde_as_text!(Size);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown_with_their_units() {
        for (text, octets, shown) in [
            ("500MB", 500_000_000, "500 MB"),
            ("1.5 GiB", 3 << 29, "1536 MiB"),
            ("2gb", 2_000_000_000, "2 GB"),
            ("1 B", 1, "1 B"),
            ("1000 kB", 1_000_000, "1 MB"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.octets(), size.to_string().as_str()), (octets, shown));
            assert_eq!(size.to_string().parse(), Ok(size));
        }
    }

    #[test]
    fn a_size_without_a_unit_or_of_nothing_is_refused() {
        for (text, why) in [
            ("500", "`500` needs a unit: B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"),
            ("5 GG", "`5 GG` needs a unit: B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"),
            ("0MB", "`0MB` is no size: give a number above 0 with a unit, such as 500MB or 2GiB"),
            ("-1MB", "`-1MB` is no size: give a number above 0 with a unit, such as 500MB or 2GiB"),
            ("much", "`much` is no size: give a number above 0 with a unit, such as 500MB or 2GiB"),
        ] {
            assert_eq!(text.parse::<Size>().unwrap_err().to_string(), why);
        }
    }
}
