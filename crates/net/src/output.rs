//! Files that are written: made new under a name that nobody foresees, never through a link, and given their names when they are whole.
//!
//! A run directory, a zone set or an export may come from somebody else, with links in it that lead to files of the user.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// A file beside its final place, which [`Self::finish`] gives it; it is removed if it is dropped before.
#[derive(Debug)]
pub struct Pending {
    file: NamedTempFile,
    path: PathBuf,
}

impl Pending {
    /// Creates a temporary file in the directory of `path`.
    ///
    /// # Errors
    /// What stands at the path is a link, or the system refuses a file there.
    pub fn new(path: &Path) -> io::Result<Self> {
        refuse_link(path)?;
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As other programs make files: what the user's mask leaves.
        let file = Builder::new()
            .prefix(".")
            .suffix(".part")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Renames the file to its final name, and replaces a file of that name.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(self) -> io::Result<()> {
        refuse_link(&self.path)?;
        self.file.persist(&self.path).map(drop).map_err(|error| error.error)
    }

    /// The same once the disk has its content.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish_safely(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.finish()
    }
}

impl Write for Pending {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.file.as_file_mut().write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_file_mut().flush()
    }
}

/// Writes a file, in place of one that has its name.
///
/// # Errors
/// What stands at the path is a link, or what the system says.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = Pending::new(path)?;
    file.write_all(content.as_ref())?;
    file.finish()
}

/// The same so that at any moment, also after a loss of power, there is either the old file or the new one.
///
/// # Errors
/// What stands at the path is a link, or what the system says.
pub fn replace(path: &Path, content: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = Pending::new(path)?;
    file.write_all(content.as_ref())?;
    file.finish_safely()
}

/// Refuses a link, wherever it leads.
///
/// # Errors
/// It is one.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink());
    if !is_link {
        return Ok(());
    }
    let what = "is a link: nothing is written through it, nor in its place; remove it first";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
}

/// Makes a file that is not there yet, to be written and read.
///
/// # Errors
/// Something has the name, if only a link, or what the system says.
pub fn create(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).open(path)
}

/// Makes a file, or empties one that is there, for what is written as it comes, such as a log. A pipe is written to.
///
/// # Errors
/// It is a link, or what the system says.
pub fn truncate(path: &Path) -> io::Result<File> {
    refuse_link(path)?;
    File::options().write(true).create(true).truncate(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (users, link, plain) =
            (folder.path().join("users"), folder.path().join("link"), folder.path().join("plain"));
        fs::write(&users, "the user's").unwrap();
        symlink(&users, &link).unwrap();
        let refused = [write(&link, "x"), replace(&link, "x"), create(&link).map(drop), truncate(&link).map(drop)];
        for error in refused.map(Result::unwrap_err) {
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        }
        symlink(folder.path().join("nowhere"), &plain).unwrap();
        assert!(write(&plain, "x").is_err() && create(&plain).is_err() && !folder.path().join("nowhere").exists());
        assert_eq!(fs::read_to_string(&users).unwrap(), "the user's");
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        write(&path, "one").unwrap();
        let mut pending = Pending::new(&path).unwrap();
        pending.write_all(b"two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        drop(pending);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "what is dropped is gone");
        replace(&path, "three").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three");
        assert_eq!(create(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
