//! One file out of a folder, and back: tar, compressed by zstd.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ldplayer_net::output::{self, Pending};
use tar::{Archive, Builder, EntryType, HeaderMode};

use super::{ArchiveError, heed, part_beside};

/// Octets that are unpacked at once.
const BLOCK: usize = 1 << 18;

/// What was packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Files.
    pub files: u64,
    /// Their octets.
    pub octets: u64,
    /// Octets of the archive.
    pub packed: u64,
}

/// Packs the content of a folder as one of this name, unless `stop` is set meanwhile.
pub fn pack(folder: &Path, name: &str, to: &Path, stop: &AtomicBool) -> Result<Packed, ArchiveError> {
    let failed = ArchiveError::file;
    let out = Pending::new(to).map_err(failed(to))?;
    let mut encoder = zstd::Encoder::new(BufWriter::new(out), zstd::DEFAULT_COMPRESSION_LEVEL).map_err(failed(to))?;
    encoder.include_checksum(true).map_err(failed(to))?;
    let mut builder = Builder::new(encoder);
    builder.mode(HeaderMode::Deterministic);
    let mut packed = Packed::default();
    for path in files(folder).map_err(failed(folder))? {
        heed(stop)?;
        let inside = Path::new(name).join(path.strip_prefix(folder).unwrap_or(&path));
        packed.octets += path.metadata().map_err(failed(&path))?.len();
        packed.files += 1;
        builder.append_path_with_name(&path, inside).map_err(failed(&path))?;
    }
    let finished = builder.into_inner().and_then(zstd::Encoder::finish);
    let out = finished.and_then(|buffer| buffer.into_inner().map_err(io::IntoInnerError::into_error));
    out.and_then(Pending::finish).map_err(failed(to))?;
    packed.packed = to.metadata().map_err(failed(to))?.len();
    Ok(packed)
}

/// The files below a folder, by name: `run.json` and other files before those of folders.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let (folders, mut files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.is_dir());
    for folder in folders {
        files.extend(self::files(&folder)?);
    }
    Ok(files)
}

/// Unpacks an archive as the directory `to`, or under the name that the run had, beside no other. Gives the directory. Once `stop` is set, there is none.
///
/// # Errors
/// The file is no archive of a run, the directory exists, or the system refuses something.
pub fn unpack(file: &Path, to: Option<&Path>, stop: &AtomicBool) -> Result<PathBuf, ArchiveError> {
    let failed =
        |what: &dyn std::fmt::Display| ArchiveError::NotAnArchive { path: file.to_owned(), what: what.to_string() };
    let opened = File::open(file).map_err(ArchiveError::file(file))?;
    let decoder = zstd::Decoder::new(BufReader::new(opened)).map_err(|error| failed(&error))?;
    let part = part_beside(to.unwrap_or(Path::new("run")))?;
    let mut name: Option<PathBuf> = None;
    let mut archive = Archive::new(decoder);
    for entry in archive.entries().map_err(|error| failed(&error))? {
        heed(stop)?;
        let mut entry = entry.map_err(|error| failed(&error))?;
        let path = entry.path().map_err(|error| failed(&error))?.into_owned();
        let inside = inside(&path, name.get_or_insert_with(|| first(&path)))
            .filter(|_| matches!(entry.header().entry_type(), EntryType::Regular))
            .ok_or_else(|| failed(&format_args!("{} is not a file of the run", path.display())))?;
        let path = part.path().join(inside);
        let from = BufReader::with_capacity(BLOCK, &mut entry);
        write(&path, from, |error| failed(&error), ArchiveError::file(to.unwrap_or(&path)))?;
    }
    // The checksum stands at the end.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(|error| failed(&error))?;
    if !part.path().join("run.json").is_file() {
        return Err(failed(&"it holds no run.json"));
    }
    let to = to.map_or_else(|| name.unwrap_or_default(), Path::to_owned);
    if to.exists() {
        return Err(ArchiveError::Exists { path: to, is_file: false });
    }
    let part = part.keep();
    fs::rename(&part, &to).map_err(ArchiveError::file(&to))?;
    Ok(to)
}

/// The first part of a path.
fn first(path: &Path) -> PathBuf {
    path.components().take(1).collect()
}

/// The path inside the folder of this name, if it is one that leads nowhere else.
fn inside(path: &Path, name: &Path) -> Option<PathBuf> {
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let inside = path.strip_prefix(name).ok()?;
    (is_plain && inside.components().next().is_some()).then(|| inside.to_owned())
}

/// Writes a file. What the archive refuses is its damage, what the disk refuses is not.
fn write(
    path: &Path,
    mut content: impl BufRead,
    damaged: impl Fn(io::Error) -> ArchiveError,
    refused: impl FnOnce(io::Error) -> ArchiveError,
) -> Result<(), ArchiveError> {
    let created = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| output::create(path));
    let mut file = match created {
        Ok(file) => file,
        Err(error) => return Err(refused(error)),
    };
    loop {
        let octets = content.fill_buf().map_err(&damaged)?;
        if octets.is_empty() {
            return Ok(());
        }
        let length = octets.len();
        if let Err(error) = file.write_all(octets) {
            return Err(refused(error));
        }
        content.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static GO: AtomicBool = AtomicBool::new(false);

    /// An archive with a file of this name as this type.
    fn archive(folder: &Path, name: &str, kind: EntryType) -> PathBuf {
        let path = folder.join("a.tar.zst");
        let encoder = zstd::Encoder::new(File::create(&path).unwrap(), 1).unwrap();
        let mut builder = Builder::new(encoder);
        let mut header = tar::Header::new_old();
        header.set_entry_type(kind);
        header.set_size(2);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, &b"{}"[..]).unwrap();
        builder.into_inner().unwrap().finish().unwrap();
        path
    }

    #[test]
    fn what_an_archive_holds_stays_below_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("run");
        for (name, kind) in [
            ("../run.json", EntryType::Regular),
            ("run/../../run.json", EntryType::Regular),
            ("/run.json", EntryType::Regular),
            ("run.json", EntryType::Regular),
            ("run/run.json", EntryType::Symlink),
            ("run/run.json", EntryType::Link),
            ("run/run.json", EntryType::Fifo),
        ] {
            let file = archive(folder.path(), name, kind);
            let error = unpack(&file, Some(&target), &GO).unwrap_err().to_string();
            assert!(error.contains("is not a file of the run"), "{name} {kind:?}: {error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name} {kind:?}");
        }
        let file = archive(folder.path(), "run/run.json", EntryType::Regular);
        assert_eq!(unpack(&file, Some(&target), &GO).unwrap(), target);
        let error = unpack(&file, Some(&target), &GO).unwrap_err().to_string();
        assert!(error.ends_with("exists; choose another name with -o"), "{error}");
    }

    #[test]
    fn an_archive_is_whole_or_said_to_be_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        fs::create_dir(&run).unwrap();
        // What does not compress is kept as it is, so that only a checksum tells a bit of it from another one.
        let mut state = 1_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        let noise: Vec<u8> = (0..200_000).map(|_| next()).collect();
        fs::write(run.join("run.json"), &noise).unwrap();
        let file = folder.path().join("a.tar.zst");
        pack(&run, "run", &file, &GO).unwrap();
        let mut octets = fs::read(&file).unwrap();
        octets[150_000] ^= 1;
        fs::write(&file, octets).unwrap();
        let error = unpack(&file, Some(&folder.path().join("again")), &GO).unwrap_err().to_string();
        assert!(error.contains("no archive of a run"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_the_disk_refuses_is_no_fault_of_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |content: &[u8]| {
            let name = ArchiveError::file(Path::new("disk"));
            let damaged = |source| ArchiveError::NotAnArchive { path: "archive".into(), what: format!("{source}") };
            write(&folder.path().join("file/below"), content, damaged, name).unwrap_err().to_string()
        };
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(refused(b"octets").starts_with("disk: "));
    }

    #[test]
    fn an_interrupt_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = archive(folder.path(), "run/run.json", EntryType::Regular);
        let stopped = AtomicBool::new(true);
        let unpacked = unpack(&file, Some(&folder.path().join("run")), &stopped);
        let packed = pack(&folder.path().join("."), "run", &folder.path().join("b.tar.zst"), &stopped);
        assert!(matches!((unpacked, packed), (Err(ArchiveError::Interrupted), Err(ArchiveError::Interrupted))));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_archive_is_said_to_be_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tar.zst");
        let whole = fs::read(archive(folder.path(), "run/run.json", EntryType::Regular)).unwrap();
        for octets in [&b"text"[..], &[], &whole[..whole.len() - 9]] {
            fs::write(&file, octets).unwrap();
            let error = unpack(&file, Some(&folder.path().join("run")), &GO).unwrap_err().to_string();
            assert!(error.contains("no archive of a run"), "{error}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
