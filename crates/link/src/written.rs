//! Properties of a link as options and files have them: the text, and what it says, read once.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::line::LinkSpec;
use crate::spec::{Jitter, Loss, Rate, Rtt, SpecError, table_of};

/// A value with the text that it was read from.
#[derive(Clone, Debug)]
pub struct Written<T> {
    text: String,
    value: T,
}

/// A round-trip time, or the file that has it for each prefix. The file is read when the link is made.
#[derive(Clone, Debug, PartialEq)]
pub enum RttSource {
    /// Of a distribution.
    Drawn(Rtt),
    /// A file with lines `prefix,ms`.
    File(PathBuf),
}

impl<T> Written<T> {
    /// What the text says.
    pub const fn value(&self) -> &T {
        &self.value
    }
}

impl Written<RttSource> {
    /// The same with the path of its file changed by `place`.
    #[must_use]
    pub fn placed(self, place: impl FnOnce(&Path) -> PathBuf) -> Self {
        let RttSource::File(path) = &self.value else { return self };
        let path = place(path);
        let shown = path.display().to_string();
        let text = if table_of(&shown).is_some() { shown } else { format!("csv:{shown}") };
        Self { text, value: RttSource::File(path) }
    }

    /// The file, if it names one.
    pub fn file(&self) -> Option<&Path> {
        match &self.value {
            RttSource::File(path) => Some(path),
            RttSource::Drawn(_) => None,
        }
    }
}

impl RttSource {
    /// The round-trip times; a file is read.
    ///
    /// # Errors
    /// The file cannot be read, or has a line that is none.
    pub fn load(&self) -> Result<Rtt, SpecError> {
        match self {
            Self::Drawn(rtt) => Ok(rtt.clone()),
            Self::File(path) => Rtt::of_file(path, |path| fs::read_to_string(path)),
        }
    }
}

impl FromStr for RttSource {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match table_of(text) {
            Some(path) => Ok(Self::File(PathBuf::from(path))),
            None => text.parse().map(Self::Drawn),
        }
    }
}

impl LinkSpec {
    /// The link with these properties.
    ///
    /// # Errors
    /// Those of [`RttSource::load`].
    pub fn of(
        rtt: Option<&Written<RttSource>>,
        jitter: Option<&Written<Jitter>>,
        loss: Option<&Written<Loss>>,
        rate: Option<&Written<Rate>>,
    ) -> Result<Self, SpecError> {
        Ok(Self {
            rtt: rtt.map_or(Ok(Rtt::Constant(0)), |rtt| rtt.value.load())?,
            jitter: jitter.map(|jitter| jitter.value),
            loss: loss.map(|loss| loss.value),
            rate: rate.map(|rate| rate.value),
        })
    }
}

impl<T: FromStr> FromStr for Written<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        text.parse().map(|value| Self { text: text.to_owned(), value })
    }
}

impl<T> fmt::Display for Written<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T> PartialEq for Written<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T> Eq for Written<T> {}

impl<T> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ldplayer_core::text::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_when_the_link_is_made_and_not_before() {
        let rtt: Written<RttSource> = "none/rtt.csv".parse().unwrap();
        assert_eq!(rtt.file(), Some(Path::new("none/rtt.csv")));
        assert!(matches!(LinkSpec::of(Some(&rtt), None, None, None), Err(SpecError::File { .. })));
        assert!("none".parse::<Written<RttSource>>().is_err());
    }

    #[test]
    fn a_text_is_kept_as_written_and_a_file_is_placed() {
        let rtt = |text: &str| text.parse::<Written<RttSource>>().unwrap().placed(|path| Path::new("/data").join(path));
        for (text, placed) in [
            ("0.5 s", "0.5 s"),
            ("normal:20ms,5ms", "normal:20ms,5ms"),
            ("a.csv", "/data/a.csv"),
            ("csv:a", "csv:/data/a"),
        ] {
            assert_eq!(rtt(text).to_string(), placed);
            assert_eq!(placed.parse::<Written<RttSource>>().unwrap().value(), rtt(text).value());
        }
    }
}
