//! Prepares zones for servers: unpacked and signed as needed, once for all runs that share them.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ldplayer_core::name::Presentation;
use ldplayer_core::time::NS_PER_S;
use ldplayer_emulate::serve::lame::Lame;
use ldplayer_emulate::serve::set::{self, ZoneSet};
use ldplayer_emulate::serve::versions::{self, Content};
use ldplayer_emulate::sources::{self, Source, on_all_cores, threads};
use ldplayer_emulate::stock::Zone;
use ldplayer_net::clock;
use ldplayer_net::output::Pending;
use ldplayer_zone::load::Reading;
use ldplayer_zone::sign::{self, Denial, Key, KeySpec, Member, Policy, Seed, Validity};
use ldplayer_zone::write;

use crate::contents::{Contents, digest};
use crate::error::ExperimentError;
use crate::stage::Signing;

/// Signatures are valid from this many seconds ago …
const SINCE_S: i64 = 3_600;
/// … until this many seconds from now.
const FOR_S: i64 = 30 * 86_400;
/// The suffix of compressed zone files.
const PACKED: &str = "xz";
/// Octets that the packed files of a set have at most when they are unpacked: as much as a zone can hold.
const MOST_UNPACKED: u64 = 4 << 30;

/// Zones ready to be served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ready {
    /// A directory with only these zones.
    pub directory: PathBuf,
    /// The zones in it.
    pub zones: Vec<Zone>,
    /// The addresses of their name servers.
    pub addresses: Vec<IpAddr>,
}

/// What identifies prepared zones.
type Key_ = (PathBuf, String, Option<Signing>, u64);

/// All zones of an experiment.
pub(crate) struct Zones {
    /// The folder of prepared zones.
    root: PathBuf,
    ready: HashMap<String, Ready>,
    contents: Contents,
}

impl Zones {
    pub fn new(root: PathBuf) -> Self {
        Self { root, ready: HashMap::new(), contents: Contents::default() }
    }

    /// The zones of a directory or file, signed if required.
    pub fn get(&mut self, from: &Path, sign: Option<&Signing>, seed: u64) -> Result<Ready, ExperimentError> {
        let key = name_of(&(from.to_owned(), self.contents.of(from), sign.cloned(), seed));
        if let Some(ready) = self.ready.get(&key) {
            return Ok(ready.clone());
        }
        let is_plain = sign.is_none() && from.is_dir() && !set::files(from)?.iter().any(|file| is_packed(file));
        let directory = if is_plain { from.to_owned() } else { self.root.join(&key) };
        if !directory.exists() {
            self.prepare(from, sign, seed, &directory)?;
        }
        let ready = read(&directory)?;
        self.ready.insert(key, ready.clone());
        Ok(ready)
    }

    /// Makes the directory completely or not at all.
    fn prepare(&self, from: &Path, sign: Option<&Signing>, seed: u64, to: &Path) -> Result<(), ExperimentError> {
        let failed = |source| ExperimentError::Output { path: to.to_owned(), source };
        let (plain, signed) = (to.with_extension("plain"), to.with_extension("signed"));
        for folder in [&plain, &signed] {
            let _ = fs::remove_dir_all(folder);
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let files = if from.is_dir() { set::files(from)? } else { vec![from.to_owned()] };
        let mut room = MOST_UNPACKED;
        for file in files {
            unpack(&file, &plain, &mut room).map_err(|error| prepare_error(from, &error))?;
        }
        if from.is_dir() {
            Lame::copy(from, &plain).map_err(|error| prepare_error(from, &error))?;
            Content::save(Content::read(from)?, &plain).map_err(|error| prepare_error(from, &error))?;
        }
        let made = match sign {
            None => &plain,
            Some(sign) => {
                sign_set(&plain, sign, seed, &signed).map_err(|what| prepare_error(from, &what))?;
                &signed
            }
        };
        fs::rename(made, to).map_err(failed)?;
        [plain, signed].iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
        Ok(())
    }
}

fn prepare_error(zones: &Path, what: &dyn std::fmt::Display) -> ExperimentError {
    ExperimentError::Prepare { zones: zones.to_owned(), what: what.to_string() }
}

fn name_of((from, contents, sign, seed): &Key_) -> String {
    let seed = sign.as_ref().map(|_| seed);
    digest(format!("{from:?} {contents} {sign:?} {seed:?}").as_bytes())
}

fn is_packed(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == PACKED)
}

/// Copies a zone file, decompressed: packed ones as long as there is room for so many octets.
fn unpack(file: &Path, folder: &Path, room: &mut u64) -> io::Result<()> {
    let name = if is_packed(file) { file.file_stem() } else { file.file_name() };
    let to = folder.join(name.unwrap_or_default());
    if !is_packed(file) {
        return fs::copy(file, to).map(drop);
    }
    let mut out = BufWriter::new(Pending::new(&to)?);
    let mut unpacked = liblzma::read::XzDecoder::new(File::open(file)?).take(*room + 1);
    let octets = io::copy(&mut unpacked, &mut out)?;
    *room = room.checked_sub(octets).ok_or_else(|| too_large(file))?;
    out.into_inner()?.finish()
}

fn too_large(file: &Path) -> io::Error {
    let (file, gib) = (file.display(), MOST_UNPACKED >> 30);
    io::Error::other(format!("{file}: the packed zones have more than {gib} GiB unpacked; unpack large zones yourself"))
}

fn read(directory: &Path) -> Result<Ready, ExperimentError> {
    let sources = sources::read(directory, Reading::default())?;
    let zones = sources.iter().map(|source| Zone::new(Presentation(&source.apex).to_string(), &source.file)).collect();
    drop(sources);
    let addresses = ZoneSet::load(directory)?.addresses();
    Ok(Ready { directory: directory.to_owned(), zones, addresses })
}

/// Signs all zones of a set, with DS records for child zones within the set.
fn sign_set(from: &Path, signing: &Signing, seed: u64, to: &Path) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let sources = sources::read(from, Reading::default()).map_err(|error| told(&error))?;
    let algorithm = signing.algorithm.parse().map_err(|error| told(&error))?;
    let spec = KeySpec { algorithm, ksk_bits: signing.ksk_bits, zsk_bits: signing.zsk_bits, ksks: 1, zsks: 1 };
    let mut secret = Seed::default();
    secret[..8].copy_from_slice(&seed.to_be_bytes());
    let keys = on_all_cores(&sources, |source| spec.keys(&source.apex, &secret, Vec::new()));
    let keys: Vec<Vec<Key>> = keys.into_iter().collect::<Result<_, _>>().map_err(|error| told(&error))?;
    let members = sources.iter().zip(&keys);
    let members: Vec<Member<'_>> =
        members.map(|(zone, keys)| Member { apex: &zone.apex, records: &zone.records, keys }).collect();
    let links = sign::links(&members).map_err(|error| told(&error))?;
    let now = clock::realtime_ns() / NS_PER_S;
    let validity = Validity { inception: (now - SINCE_S) as u32, expiration: (now + FOR_S) as u32 };
    let content = Content::read(from).map_err(|error| told(&error))?;
    let by_zone = content.as_ref().map(Content::by_zone).transpose()?.unwrap_or_default();
    let mut sets = Vec::new();
    for ((source, keys), delegations) in sources.iter().zip(&keys).zip(&links.delegations) {
        let denial = match signing.nsec3 {
            true => Denial::Nsec3 { iterations: 0, salt: Vec::new(), opt_out: false },
            false => Denial::Nsec,
        };
        let policy = Policy { keys, active_zsks: 1, denial, collisions: 0, validity, delegations, threads: threads() };
        let signed =
            sign::zone(&source.records, &policy).map_err(|error| format!("{}: {error}", source.file.display()))?;
        save(source, &signed.records, to).map_err(|error| told(&error))?;
        let mut entries = by_zone.get(&source.apex).cloned().unwrap_or_default();
        versions::sign(&mut entries, &source.apex, &signed.records, &policy)?;
        sets.extend(entries);
    }
    Lame::copy(from, to).map_err(|error| told(&error))?;
    Content::save(content.map(|content| Content { sets, ..content }), to).map_err(|error| told(&error))
}

fn save(source: &Source, records: &ldplayer_zone::Records, folder: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(Pending::new(&folder.join(source.file.file_name().unwrap_or_default()))?);
    write::zone(&source.apex, records, &mut out)?;
    out.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &str =
        "example. 60 SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.1\n";

    #[test]
    fn packed_zones_are_unpacked_and_signed_ones_are_signed_once() {
        let folder = tempfile::tempdir().unwrap();
        let (from, root) = (folder.path().join("zones"), folder.path().join("prepared"));
        fs::create_dir(&from).unwrap();
        use std::io::Write;
        let mut packed = liblzma::write::XzEncoder::new(File::create(from.join("example.zone.xz")).unwrap(), 1);
        packed.write_all(ZONE.as_bytes()).unwrap();
        packed.finish().unwrap();
        let mut zones = Zones::new(root.clone());
        let plain = zones.get(&from, None, 1).unwrap();
        assert_eq!((plain.zones[0].apex.as_str(), plain.addresses.len()), ("example.", 1));
        assert_eq!(fs::read_to_string(&plain.zones[0].file).unwrap(), ZONE);
        let sign = Signing { algorithm: "ed25519".into(), ksk_bits: 0, zsk_bits: 0, nsec3: true };
        let signed = zones.get(&from, Some(&sign), 1).unwrap();
        let text = fs::read_to_string(&signed.zones[0].file).unwrap();
        assert!(text.contains("RRSIG") && text.contains("NSEC3PARAM"), "{text}");
        let before = fs::metadata(&signed.zones[0].file).unwrap().modified().unwrap();
        let again = Zones::new(root).get(&from, Some(&sign), 1).unwrap();
        assert_eq!(
            (again.directory, fs::metadata(&again.zones[0].file).unwrap().modified().unwrap()),
            (signed.directory, before)
        );
        let other = zones.get(&from, Some(&sign), 2).unwrap();
        assert_ne!(fs::read_to_string(&other.zones[0].file).unwrap(), text);
    }

    #[test]
    fn packed_zones_that_expand_beyond_a_bound_are_refused() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("example.zone.xz");
        let mut packed = liblzma::write::XzEncoder::new(File::create(&file).unwrap(), 1);
        packed.write_all(&[b'\n'; 10_000]).unwrap();
        packed.finish().unwrap();
        let (to, mut room) = (folder.path().join("to"), 25_000);
        fs::create_dir(&to).unwrap();
        // The bound is for all files of a set together.
        unpack(&file, &to, &mut room).unwrap();
        unpack(&file, &to, &mut room).unwrap();
        let error = unpack(&file, &to, &mut room).unwrap_err().to_string();
        let wanted = "example.zone.xz: the packed zones have more than 4 GiB unpacked; unpack large zones yourself";
        assert!(error.ends_with(wanted) && !error.contains('\n'), "{error}");
    }

    /// They were found by path alone, so that an edited zone was served as it had been.
    #[test]
    fn zones_that_were_edited_are_prepared_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (file, root) = (folder.path().join("example.zone"), folder.path().join("prepared"));
        let served = |text: &str| {
            fs::write(&file, text).unwrap();
            let ready = Zones::new(root.clone()).get(&file, None, 1).unwrap();
            fs::read_to_string(&ready.zones[0].file).unwrap()
        };
        assert_eq!(served(ZONE), ZONE);
        let edited = ZONE.replace("192.0.2.1", "192.0.2.2");
        assert_eq!(served(&edited), edited);
    }

    #[test]
    fn a_zone_that_is_none_is_told_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bad.zone");
        fs::write(&file, "no zone at all\n").unwrap();
        let error = Zones::new(folder.path().join("prepared")).get(&file, None, 1).unwrap_err().to_string();
        assert!(error.contains("bad.zone"), "{error}");
    }
}
