//! Fingerprints of the files that cells name, so that a changed file is noticed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

/// The digest of a missing or unreadable file; its user reports the error.
const NOTHING: &str = "-";
/// Hexadecimal digits kept of a digest.
const DIGITS: usize = 16;
/// Octets read at a time.
const PIECE: usize = 1 << 18;

/// Digests of contents, each computed once.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    known: HashMap<PathBuf, String>,
}

impl Contents {
    /// A digest of the octets of a file, or of the names and octets of all files below a directory.
    pub fn of(&mut self, path: &Path) -> String {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let mut hash = Sha256::new();
        let digest = add(path, &mut hash).map_or_else(|_| NOTHING.to_owned(), |()| digits(&hash.finalize()));
        self.known.insert(path.to_owned(), digest.clone());
        digest
    }
}

/// A digest of a text.
pub(crate) fn digest(text: &[u8]) -> String {
    digits(&Sha256::digest(text))
}

fn digits(hash: &[u8]) -> String {
    hash.iter().map(|octet| format!("{octet:02x}")).collect::<String>()[..DIGITS].to_owned()
}

/// Identifies the build of a program without reading it: by length and modification time.
pub(crate) fn build(program: &Path) -> String {
    let Ok(file) = fs::metadata(program) else { return NOTHING.to_owned() };
    let written = file.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("{} {}", file.len(), written.map_or(0, |since| since.as_nanos()))
}

fn add(path: &Path, hash: &mut Sha256) -> io::Result<()> {
    let kind = fs::metadata(path)?;
    if kind.is_file() {
        return read(File::open(path)?, hash);
    }
    if !kind.is_dir() {
        // A pipe can be read only once, by its user.
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut names =
        fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    names.into_iter().try_for_each(|name| {
        hash.update(name.as_encoded_bytes());
        hash.update([0]);
        add(&path.join(&name), hash)
    })
}

fn read(mut file: File, hash: &mut Sha256) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            octets => hash.update(&piece[..octets]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_the_same_length_and_name_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("zone");
        let digests = |text: &str| {
            fs::write(&file, text).unwrap();
            let mut contents = Contents::default();
            (contents.of(&file), contents.of(folder.path()))
        };
        let (one, same, other) = (digests("a 1"), digests("a 1"), digests("a 2"));
        assert_eq!(one, same);
        assert!(one.0 != other.0 && one.1 != other.1 && one.0 != one.1);
        let gone = folder.path().join("gone");
        assert_eq!((Contents::default().of(&gone), build(&gone)), (NOTHING.to_owned(), NOTHING.to_owned()));
        assert_ne!(build(&file), NOTHING);
    }
}
