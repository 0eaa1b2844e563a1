//! Which files `$INCLUDE` may name, and how much of them is read. A zone set may come from somebody else: what it includes is not to be
//! whatever the reader of the set may read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use crate::error::Problem;

/// Which files a zone file may include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Includes {
    /// Regular files in the folder of the zone file and below it, links followed.
    #[default]
    Below,
    /// Regular files anywhere.
    Anywhere,
}

/// Most files that a zone includes, each counted as often as it is.
pub const MAX_INCLUDED_FILES: usize = 1_024;
/// Most octets of all files that a zone includes.
pub const MAX_INCLUDED_OCTETS: u64 = 1 << 30;

/// An included file.
pub(super) struct Included {
    pub text: Vec<u8>,
    /// Whether it is out of the folder: nothing of it is shown in errors.
    pub is_outside: bool,
}

/// Why a file is not included.
pub(super) enum Refusal {
    Read(io::Error),
    Problem(Problem),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

/// Reads a file that a zone file in `folder` includes, of `room` octets at most; `shown` names it in errors.
pub(super) fn open(
    folder: &Path,
    path: &Path,
    shown: &str,
    includes: Includes,
    room: u64,
) -> Result<Included, Refusal> {
    let outside = || Refusal::Problem(Problem::IncludeOutside(shown.to_owned()));
    // Before any file operation: the error must not reveal whether the file exists.
    if includes == Includes::Below && !straight(path)?.starts_with(straight(folder)?) {
        return Err(outside());
    }
    let found = fs::canonicalize(path)?;
    let is_outside = !found.starts_with(fs::canonicalize(folder)?);
    if is_outside && includes == Includes::Below {
        return Err(outside());
    }
    // Opening a pipe would wait for its writer.
    if !fs::metadata(&found)?.is_file() {
        return Err(Refusal::Problem(Problem::IncludeKind(shown.to_owned())));
    }
    let mut text = Vec::new();
    File::open(&found)?.take(room + 1).read_to_end(&mut text)?;
    if text.len() as u64 > room {
        return Err(Refusal::Problem(Problem::IncludeOctets(MAX_INCLUDED_OCTETS)));
    }
    Ok(Included { text, is_outside })
}

/// The absolute path without `.` and `..`, links not followed.
fn straight(path: &Path) -> io::Result<PathBuf> {
    let mut straight = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        match component {
            Component::ParentDir => drop(straight.pop()),
            other => straight.push(other),
        }
    }
    Ok(straight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_octets_are_read_than_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("inner");
        fs::write(&file, "four").unwrap();
        let open = |room| open(folder.path(), &file, "inner", Includes::Below, room);
        assert!(matches!(open(4), Ok(Included { text, is_outside: false }) if text == b"four"));
        assert!(matches!(open(3), Err(Refusal::Problem(Problem::IncludeOctets(MAX_INCLUDED_OCTETS)))));
    }
}
