//! A zone set: all zone files of a directory, indexed by name server address.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;

use ldplayer_core::name::{self, Presentation};
use ldplayer_core::time::NS_PER_S;
use ldplayer_net::clock;
use ldplayer_zone::error::{LoadError, Problem};
use ldplayer_zone::finding::Finding;
use ldplayer_zone::load::{self, Reading};
use ldplayer_zone::{Records, Zone};

use super::history::History;
use super::index::{Index, Unreachable};
use super::lame::Lame;
use super::versions;

/// Suffixes of files in a zone set that are not zone files: keys, reports, configuration, notes.
const OTHERS: [&str; 14] =
    ["conf", "csv", "ds", "hints", "jnl", "json", "key", "md", "parquet", "pcap", "private", "state", "toml", "txt"];
/// Suffixes of zone files that are not part of the zone name.
const ENDINGS: [&str; 3] = [".signed", ".zone", ".db"];

/// Why a zone set cannot be served. One line; exit status 2.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// The directory cannot be read.
    #[error("{}: {source}; give the directory of a zone set", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The directory has no zone files.
    #[error("{}: the directory has no zone files", .0.display())]
    Empty(PathBuf),
    /// A zone file has an error.
    #[error(transparent)]
    Zone(#[from] LoadError),
    /// Two files hold the same zone.
    #[error("{} and {} both hold the zone {apex}; a set must hold each zone once: remove one of the files", first.display(), second.display())]
    Twice {
        /// The apex, in presentation form.
        apex: String,
        /// The file read first.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// The zone's class is not IN.
    #[error("{}: the zone has class {class}: only class IN is served", file.display())]
    Class {
        /// The zone's file.
        file: PathBuf,
        /// The class.
        class: u16,
    },
    /// The list of lame delegations is invalid.
    #[error("{}: {problem}; expected a list of zones and addresses: [{{\"zone\": \"example.\", \"addresses\": [\"192.0.2.1\"]}}]", file.display())]
    Lame {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The list of versions is invalid.
    #[error("{}: {problem}; see docs/living.md for its form", file.display())]
    Versions {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// The zones of a set. Their numbers ([`Zone::number`]) are their indices.
#[derive(Debug)]
pub struct ZoneSet {
    zones: Vec<Zone>,
    index: Index,
    unreachable: Unreachable,
    findings: Vec<Finding>,
    recorded_ns: Option<i64>,
    history: History,
}

impl ZoneSet {
    /// Reads all zone files of a directory, on all cores: every regular file except hidden ones, backups (`~`) and those with
    /// other suffixes (`.json`, `.key`, `.md` and the like).
    ///
    /// # Errors
    /// The first file (by name) has an error, or two files hold the same zone.
    pub fn load(directory: &Path) -> Result<Self, SetError> {
        Self::load_with(directory, Reading::default())
    }

    /// Like [`Self::load`], with the files that zone files may include.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with(directory: &Path, reading: Reading) -> Result<Self, SetError> {
        let files = files(directory)?;
        let workers = thread::available_parallelism().map_or(1, usize::from).min(files.len());
        let now = clock::realtime_ns() / NS_PER_S;
        let versions = versions::File::read(directory)?;
        let versions = versions.entries()?;
        let read = |file: &PathBuf| {
            let (mut zone, findings) = read(file, reading, now)?;
            versions.give(&mut zone)?;
            Ok((zone, findings))
        };
        let each = files.len().div_ceil(workers.max(1)).max(1);
        let loaded: Vec<Result<(Zone, Vec<Finding>), SetError>> = thread::scope(|scope| {
            let parts: Vec<_> =
                files.chunks(each).map(|part| scope.spawn(|| part.iter().map(read).collect())).collect();
            let joined = parts.into_iter().map(|part: thread::ScopedJoinHandle<'_, Vec<_>>| part.join());
            joined.flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        let (mut zones, mut findings) = (Vec::with_capacity(loaded.len()), Vec::new());
        for result in loaded {
            let (zone, found) = result?;
            zones.push(zone);
            findings.extend(found);
        }
        let recorded_ns = versions.finish(&zones)?;
        let set = Self::with_lame(zones, findings, &Lame::read(directory)?)?;
        Ok(Self { recorded_ns, ..set })
    }

    /// Makes a set of these zones.
    ///
    /// # Errors
    /// Two zones have the same apex.
    pub fn new(zones: Vec<Zone>, findings: Vec<Finding>) -> Result<Self, SetError> {
        Self::with_lame(zones, findings, &Lame::default())
    }

    /// Makes a set of these zones, with lame delegations.
    ///
    /// # Errors
    /// Two zones have the same apex.
    pub fn with_lame(mut zones: Vec<Zone>, findings: Vec<Finding>, lame: &Lame) -> Result<Self, SetError> {
        ensure_distinct(&zones)?;
        zones.sort_by_key(|zone| canonical(zone.apex()));
        zones.iter_mut().zip(0..).for_each(|(zone, number)| zone.set_number(number));
        let (index, unreachable) = Index::new(&zones, lame);
        Ok(Self { zones, index, unreachable, findings, recorded_ns: None, history: History::default() })
    }

    /// The zones, parents before children.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// The apexes of the zones, in wire format.
    pub fn apexes(&self) -> impl Iterator<Item = &[u8]> {
        self.zones.iter().map(Zone::apex)
    }

    /// How many record sets have several versions.
    pub fn varying(&self) -> usize {
        self.zones.iter().map(Zone::varying).sum()
    }

    /// When the recording of the versions began, in nanoseconds since 1970, if they say so.
    pub const fn recorded_ns(&self) -> Option<i64> {
        self.recorded_ns
    }

    /// Keeps what changed since the set before, for incremental transfers.
    pub fn remember(&mut self, before: &Self) {
        self.history = History::new(before, &self.zones);
    }

    /// What changed since the sets before, as far as it was kept.
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// The index of zones by address.
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// The zone of this apex (wire format, lower case), by index.
    pub fn zone(&self, apex: &[u8]) -> Option<u32> {
        self.index.all().zone(&self.zones, apex)
    }

    /// Unreachable zones and delegations.
    pub const fn unreachable(&self) -> &Unreachable {
        &self.unreachable
    }

    /// The addresses of all name servers.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.index.addresses()
    }

    /// Warnings, one line each: oddities of zone files, and unreachable zones and delegations.
    pub fn warnings(&self) -> Vec<String> {
        let lost_zones = self.unreachable.zones.iter().map(|&zone| {
            let apex = Presentation(self.zones[zone as usize].apex());
            format!("zone {apex} is unreachable: none of its name servers has an address in the set (see --all-zones-everywhere)")
        });
        let lost_delegations = self.unreachable.delegations.iter().map(|delegation| {
            let (zone, owner) = (self.zones[delegation.zone as usize].apex(), Presentation(&delegation.owner));
            let zone = Presentation(zone);
            format!("zone {zone}: the delegation of {owner} is unreachable: none of its name servers has an address in the set")
        });
        self.findings.iter().map(ToString::to_string).chain(lost_zones).chain(lost_delegations).collect()
    }
}

/// The zone files of a directory by name: see [`ZoneSet::load`].
///
/// # Errors
/// It cannot be read, or has none.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>, SetError> {
    let failed = |source| SetError::Directory { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (kind, path) = (entry.file_type().map_err(failed)?, entry.path());
        if (kind.is_file() || kind.is_symlink() && path.is_file()) && is_zone_file(&path) {
            files.push(path);
        }
    }
    files.sort_unstable();
    if files.is_empty() { Err(SetError::Empty(directory.to_owned())) } else { Ok(files) }
}

fn is_zone_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    !name.starts_with('.') && !name.ends_with('~') && !OTHERS.contains(&ending.as_str())
}

/// Reads the records of a zone. Without an origin in the file, relative names are completed by the file name.
///
/// # Errors
/// The first error in the file, or a class other than IN.
pub fn records(file: &Path, reading: Reading) -> Result<Records, SetError> {
    let records = match load::file_with(file, None, reading) {
        Err(LoadError::Entry { problem: Problem::NoOrigin(_) | Problem::NoOwner, .. }) => {
            load::file_with(file, origin_of(file).as_deref(), reading)?
        }
        other => other?,
    };
    if records.class() != 1 {
        return Err(SetError::Class { file: file.to_owned(), class: records.class() });
    }
    Ok(records)
}

/// Reads a zone, and checks whether its signatures are valid now.
fn read(file: &Path, reading: Reading, now: i64) -> Result<(Zone, Vec<Finding>), SetError> {
    let records = records(file, reading)?;
    let (zone, mut findings) = Zone::from_records(&records)?;
    findings.extend(ldplayer_zone::signatures(&records, now));
    Ok((zone, findings))
}

/// The origin given by a file name: `example.com.zone`, `example.com`; `root.zone` and `root` are the root's.
fn origin_of(file: &Path) -> Option<Vec<u8>> {
    let mut text = file.file_name()?.to_str()?;
    while let Some(shorter) = ENDINGS.iter().find_map(|ending| text.strip_suffix(ending)) {
        text = shorter;
    }
    let mut wire = Vec::new();
    name::parse(if matches!(text, "root" | "") { "." } else { text }, &mut wire).ok()?;
    Some(wire)
}

fn ensure_distinct(zones: &[Zone]) -> Result<(), SetError> {
    let mut files: BTreeMap<&[u8], &Path> = BTreeMap::new();
    for zone in zones {
        if let Some(first) = files.insert(zone.apex(), zone.file()) {
            let (first, second) = (first.to_owned(), zone.file().to_owned());
            return Err(SetError::Twice { apex: Presentation(zone.apex()).to_string(), first, second });
        }
    }
    Ok(())
}

/// The labels of a name, last one first, so that parents sort before children.
fn canonical(name: &[u8]) -> Vec<Vec<u8>> {
    let mut labels: Vec<Vec<u8>> = name::labels(name).map(<[u8]>::to_vec).collect();
    labels.reverse();
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(files: &[(&str, &str)]) -> Result<ZoneSet, SetError> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        ZoneSet::load(directory.path())
    }

    fn apexes(set: &ZoneSet) -> Vec<String> {
        set.apexes().map(|apex| Presentation(apex).to_string()).collect()
    }

    const ROOT: &str = ". 60 SOA a b 1 2 3 4 5\n. 60 NS a.\na. 60 A 192.0.2.1\n";
    const RELATIVE: &str = "$TTL 60\n@ SOA ns x 1 2 3 4 5\n@ NS ns\nns A 192.0.2.2\n";

    #[test]
    fn zone_files_are_all_but_those_that_say_what_else_they_are() {
        let set = set(&[
            ("root.zone", ROOT),
            ("example.com.zone.signed", RELATIVE),
            ("example.net", RELATIVE),
            ("net.db", RELATIVE),
            (".hidden", "x"),
            ("old.zone~", "x"),
            ("README.md", "x"),
            ("coverage.json", "x"),
            ("Kexample.+013+1.key", "x"),
        ])
        .unwrap();
        assert_eq!(apexes(&set), [".", "example.com.", "net.", "example.net."]);
        assert_eq!(set.zones().iter().map(Zone::number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(set.addresses().len(), 2 + 26);
        assert_eq!(set.warnings(), [""; 0]);
    }

    #[test]
    fn a_lame_server_has_its_address_and_not_the_zone() {
        let com = ". 60 SOA a b 1 2 3 4 5\n. 60 NS a.\na. 60 A 192.0.2.1\nnet. 60 NS ns.net.\nnet. 60 NS a.\n";
        let net = "$TTL 60\n@ SOA ns x 1 2 3 4 5\n@ NS ns\n@ NS a.\nns A 192.0.2.2\n";
        let [first, second]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let served = |lame: &str| {
            let set = set(&[("root.zone", com), ("net.zone", net), ("lame.json", lame)]).unwrap();
            let of = |address| set.index().group(address).unwrap().find(set.zones(), b"\x03net\0", 1);
            (of(first), of(second))
        };
        assert_eq!(served("[]"), (Some(1), Some(1)));
        let lame = |zone: &str, address| format!(r#"[{{"zone": "{zone}", "addresses": ["{address}"]}}]"#);
        assert_eq!(served(&lame("NET.", second)), (Some(1), None));
        // The root's server is left with the root.
        assert_eq!(served(&lame("net", first)), (Some(0), Some(1)));
        assert_eq!(served(&lame("org", first)), (Some(1), Some(1)));
    }

    #[test]
    fn a_list_of_lame_servers_that_is_none_is_an_error() {
        for text in ["{", "[{\"zone\": \"net.\"}]", r#"[{"zone": "a..b", "addresses": []}]"#] {
            let error = set(&[("root.zone", ROOT), ("lame.json", text)]).unwrap_err().to_string();
            assert!(
                error.contains("lame.json: ") && error.contains("expected a list of zones and addresses"),
                "{error}"
            );
        }
    }

    #[test]
    fn two_zones_with_one_apex_are_told_with_their_files() {
        let error = set(&[("a.zone", ROOT), ("b.zone", ROOT)]).unwrap_err().to_string();
        assert!(error.contains("a.zone and ") && error.contains("b.zone both hold the zone .;"), "{error}");
    }

    #[test]
    fn an_error_names_file_and_line() {
        let error = set(&[("a.zone", ROOT), ("example.zone", "\n\nwww A nonsense\n")]).unwrap_err().to_string();
        assert!(error.ends_with("example.zone:3: expected an IPv4 address, found `nonsense`"), "{error}");
        let error = set(&[("x.zone", "@ CH SOA a. b. 1 2 3 4 5\n")]).unwrap_err().to_string();
        assert!(error.contains("x.zone: the zone has class 3"), "{error}");
        assert!(matches!(set(&[("README.md", "")]), Err(SetError::Empty(_))));
        assert!(matches!(ZoneSet::load(Path::new("no/such")), Err(SetError::Directory { .. })));
    }

    #[test]
    fn what_cannot_be_reached_is_listed() {
        let root = format!("{ROOT}lost. 60 NS ns.lost.\n");
        let set =
            set(&[("root.zone", &root), ("example.zone", "$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS ns.elsewhere.test.\n")]);
        let warnings = set.unwrap().warnings().join("\n");
        assert!(warnings.contains("zone example. is unreachable: none of its name servers"), "{warnings}");
        assert!(warnings.contains("zone .: the delegation of lost. is unreachable"), "{warnings}");
    }
}
