//! A directory of keys, in the files that BIND's tools use.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use ldplayer_core::name;
use ldplayer_net::output;
use ldplayer_zone::sign::{self, Key, KeyError, Role};
use ldplayer_zone::write::Line;
use ldplayer_zone::{Records, load, rtype};

/// TTL of the DNSKEY records in key files; signing does not go by it.
const TTL: u32 = 3600;
/// Private keys are for their owner only.
const PRIVATE_MODE: u32 = 0o600;

/// The keys of zones, by the name of the zone in wire format.
pub type Keys = BTreeMap<Vec<u8>, Vec<Key>>;

/// Reads all keys of a directory. No directory has no keys.
pub fn read(directory: &Path) -> anyhow::Result<Keys> {
    let mut keys = Keys::new();
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(keys),
        entries => entries.with_context(|| format!("--keys {}", directory.display()))?,
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort_unstable();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "private")) {
        let Some(zone) = zone_of(file) else { continue };
        keys.entry(zone).or_default().extend(read_key(file)?);
    }
    Ok(keys)
}

/// The zone that the name of a key file tells.
fn zone_of(file: &Path) -> Option<Vec<u8>> {
    let mut parts = file.file_stem()?.to_str()?.strip_prefix('K')?.rsplitn(3, '+').skip(2);
    let mut wire = Vec::new();
    name::parse(&parts.next()?.replace("%2F", "/"), &mut wire).ok()?;
    Some(wire.to_ascii_lowercase())
}

/// Reads a private key and the public one beside it; nothing where signing does not know the algorithm.
fn read_key(file: &Path) -> anyhow::Result<Option<Key>> {
    let public = load::file(&file.with_extension("key"), None)?;
    let Some(record) = public.iter().find(|record| record.rtype == rtype::DNSKEY) else {
        bail!("{}: no DNSKEY record in it", file.with_extension("key").display());
    };
    let is_role = |role: &Role| record.data.starts_with(&role.flags().to_be_bytes());
    let Some(role) = [Role::Ksk, Role::Zsk].into_iter().find(is_role) else {
        bail!("{}: neither a KSK (257) nor a ZSK (256)", file.with_extension("key").display());
    };
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    match sign::read_private(&text, role) {
        Ok(key) if key.data() != record.data => Err(KeyError::Mismatch).with_context(|| file.display().to_string()),
        Err(KeyError::Algorithm(_)) => Ok(None),
        read => read.map(Some).with_context(|| file.display().to_string()),
    }
}

/// Writes the keys of a zone that the directory does not have.
pub fn write(directory: &Path, zone: &[u8], keys: &[Key]) -> anyhow::Result<()> {
    keys.iter()
        .try_for_each(|key| write_key(directory, zone, key))
        .with_context(|| format!("--keys {}", directory.display()))
}

fn write_key(directory: &Path, zone: &[u8], key: &Key) -> anyhow::Result<()> {
    fs::create_dir_all(directory)?;
    let stem = sign::file_stem(zone, key);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(PRIVATE_MODE);
    let mut private = match options.open(directory.join(format!("{stem}.private"))) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        private => private?,
    };
    private.write_all(sign::private_text(key).as_bytes())?;
    let mut records = Records::default();
    records.push(zone, rtype::DNSKEY, TTL, key.data())?;
    output::write(&directory.join(format!("{stem}.key")), Line::default().of(&records.get(0)))?;
    Ok(())
}
