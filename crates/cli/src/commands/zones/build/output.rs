//! What `zones build` writes: zone files, build.json, and a few lines about both.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use jiff::Timestamp;
use ldplayer_core::name::labels;
use ldplayer_core::text::counted;
use ldplayer_emulate::serve::{lame, versions as kept};
use ldplayer_net::output;
use ldplayer_zone::construct::{Built, BuiltZone, Conflict, InventionKind, Lame, LeftOut, Policy, Version};
use ldplayer_zone::write;
use serde::Serialize;

use super::{Args, versions};

/// The report's name in the output directory; its ending says that it is no zone file.
const REPORT: &str = "build.json";
/// The ending of zone files.
const ENDING: &str = ".zone";
/// What the file of the root zone is called, without the ending.
const ROOT: &str = "root";
/// Octets of a name that a file keeps: file systems have names of up to 255.
const MOST_OCTETS: usize = 200;

/// build.json, and what `--json` prints.
#[derive(Serialize)]
pub(super) struct Summary {
    responses: u64,
    servers: usize,
    resolver_side: bool,
    of_clients: bool,
    zones: Vec<ZoneFile>,
    records: usize,
    ignored: BTreeMap<&'static str, u64>,
    made: BTreeMap<&'static str, Vec<MadeEntry>>,
    conflicts: Vec<ConflictEntry>,
    left_out: Vec<LeftOutEntry>,
    left_out_unlisted: u64,
    unverified: Vec<String>,
    lame: Vec<lame::Entry>,
    versions: Option<Versions>,
}

/// What versions.json has.
#[derive(Serialize)]
struct Versions {
    sets: usize,
    versions: usize,
    /// Changes and askers that were too many.
    unkept: u64,
}

#[derive(Serialize)]
struct ZoneFile {
    zone: String,
    file: String,
    records: usize,
}

#[derive(Serialize)]
struct MadeEntry {
    zone: String,
    record: String,
}

#[derive(Serialize)]
struct LeftOutEntry {
    zone: String,
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    reason: String,
}

#[derive(Serialize)]
struct ConflictEntry {
    zone: String,
    name: String,
    what: String,
    versions: Vec<VersionEntry>,
}

#[derive(Serialize)]
struct VersionEntry {
    records: Vec<String>,
    first: String,
    last: String,
    count: u64,
    servers: Vec<String>,
    taken: bool,
}

/// The directory of zone files. Where nothing comes into one that was made for them, it goes again.
pub(in crate::commands::zones) struct Prepared<'a> {
    directory: &'a Path,
    is_new: bool,
}

impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        if self.is_new {
            // One with files in it is not removed.
            fs::remove_dir(self.directory).ok();
        }
    }
}

/// Makes the directory. One that has zone files keeps them from being mixed up with others.
pub(in crate::commands::zones) fn prepare(directory: &Path) -> anyhow::Result<Prepared<'_>> {
    let (shown, is_new) = (directory.display(), !directory.exists());
    fs::create_dir_all(directory)
        .with_context(|| format!("{shown}: cannot be made; choose another directory with -o"))?;
    let mut entries = fs::read_dir(directory).with_context(|| format!("{shown}: cannot be read"))?;
    if entries.next().is_some() && !directory.join(REPORT).exists() {
        bail!("{shown}: is not empty, and no earlier build is in it; choose another directory with -o");
    }
    Ok(Prepared { directory, is_new })
}

/// Writes all files. The report is the first: where writing ends early, the next build knows what this one wrote.
pub(super) fn write(directory: &Path, built: &Built) -> anyhow::Result<Summary> {
    let failed = |file: &Path| format!("{}: cannot be written; is there room?", file.display());
    remove_former(directory)?;
    let summary = summary(built);
    let file = directory.join(REPORT);
    let text = serde_json::to_vec_pretty(&summary)?;
    output::write(&file, text).with_context(|| failed(&file))?;
    if !summary.lame.is_empty() {
        let file = directory.join(lame::FILE);
        output::write(&file, serde_json::to_vec_pretty(&summary.lame)?).with_context(|| failed(&file))?;
    }
    versions::write(directory, &built.report)?;
    for (zone, entry) in built.zones.iter().zip(&summary.zones) {
        let file = directory.join(&entry.file);
        write_zone(&file, zone).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => anyhow!(
                "{}: exists, and no earlier build made it; move it away, or choose another directory with -o",
                file.display()
            ),
            _ => anyhow::Error::from(error).context(failed(&file)),
        })?;
    }
    Ok(summary)
}

/// Zone files of an earlier build, which its report names, are no part of this one.
fn remove_former(directory: &Path) -> anyhow::Result<()> {
    let report = directory.join(REPORT);
    let Ok(text) = fs::read(&report) else { return Ok(()) };
    let former: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let files = former["zones"].as_array().into_iter().flatten().filter_map(|zone| zone["file"].as_str());
    let is_ours = |file: &&str| file.ends_with(ENDING) && !file.contains('/');
    for file in files.filter(is_ours).chain([lame::FILE, kept::FILE]) {
        match fs::remove_file(directory.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("{}: cannot be replaced", directory.join(file).display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes a zone to a file that is not there yet.
fn write_zone(file: &Path, zone: &BuiltZone) -> io::Result<()> {
    let mut out = BufWriter::new(File::create_new(file)?);
    let made = zone.notes.iter().map(|note| format!("made: {note}"));
    let notes: Vec<String> = made.chain(zone.left_out.iter().map(|line| format!("left out: {line}"))).collect();
    write::zone_with_notes(&zone.apex, &notes, &zone.records, &mut out)?;
    out.flush()
}

/// Names of the files of zones, each once.
#[derive(Default)]
struct FileNames {
    taken: HashSet<String>,
}

impl FileNames {
    /// The name of a zone's file: letters, digits, `-` and `_` as they are, all else as `%` and two digits. Long names are cut, and numbered.
    fn of(&mut self, apex: &[u8]) -> String {
        let stem = stem(apex);
        let name = match stem.len() {
            0..=MOST_OCTETS => stem + ENDING,
            _ => {
                let numbered = |number: u32| format!("{}%{number}{ENDING}", &stem[..MOST_OCTETS]);
                // There are fewer zones than numbers.
                (1..).map(numbered).find(|name| !self.taken.contains(name)).unwrap_or_default()
            }
        };
        self.taken.insert(name.clone());
        name
    }
}

fn stem(apex: &[u8]) -> String {
    let octet = |octet: &u8| match octet {
        b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => char::from(*octet).to_string(),
        _ => format!("%{octet:02x}"),
    };
    let name: Vec<String> = labels(apex).map(|label| label.iter().map(octet).collect()).collect();
    match name.join(".") {
        root if root.is_empty() => ROOT.to_owned(),
        // The top-level domain of that name is not the root.
        top if top == ROOT => top.replacen('r', "%72", 1),
        other => other,
    }
}

fn summary(built: &Built) -> Summary {
    let (report, mut files) = (&built.report, FileNames::default());
    let zone = |zone: &BuiltZone| ZoneFile {
        zone: ldplayer_core::name::Presentation(&zone.apex).to_string(),
        file: files.of(&zone.apex),
        records: zone.records.len(),
    };
    let mut made: BTreeMap<&'static str, Vec<MadeEntry>> = BTreeMap::new();
    for one in &report.made {
        made.entry(one.kind.word()).or_default().push(MadeEntry { zone: one.zone.clone(), record: one.record.clone() });
    }
    Summary {
        responses: report.responses,
        servers: report.servers,
        resolver_side: report.resolver_side,
        of_clients: report.of_clients,
        zones: built.zones.iter().map(zone).collect(),
        records: built.zones.iter().map(|zone| zone.records.len()).sum(),
        ignored: report.ignored.iter().map(|(reason, &count)| (reason.word(), count)).collect(),
        made,
        conflicts: report.conflicts.iter().map(conflict).collect(),
        left_out: report.left_out.iter().map(left_out).collect(),
        left_out_unlisted: report.left_out_unlisted,
        unverified: report.unverified.clone(),
        lame: report.lame.iter().map(lame_entry).collect(),
        versions: report.kept_start_ns.map(|_| Versions {
            sets: report.kept.len(),
            versions: report.kept.iter().map(|set| set.versions.len()).sum(),
            unkept: report.unkept,
        }),
    }
}

fn left_out(one: &LeftOut) -> LeftOutEntry {
    let LeftOut { zone, name, rtype, reason, .. } = one.clone();
    LeftOutEntry { zone, name, rtype, reason }
}

fn lame_entry(lame: &Lame) -> lame::Entry {
    lame::Entry { zone: lame.zone.clone(), addresses: lame.servers.clone() }
}

fn conflict(conflict: &Conflict) -> ConflictEntry {
    ConflictEntry {
        zone: conflict.zone.clone(),
        name: conflict.name.clone(),
        what: conflict.what.clone(),
        versions: conflict.versions.iter().map(version).collect(),
    }
}

fn version(version: &Version) -> VersionEntry {
    let time = |ns: i64| Timestamp::from_nanosecond(ns.into()).map_or_else(|_| ns.to_string(), |time| time.to_string());
    VersionEntry {
        records: version.records.clone(),
        first: time(version.first_ns),
        last: time(version.last_ns),
        count: version.count,
        servers: version.servers.iter().map(ToString::to_string).collect(),
        taken: version.is_taken,
    }
}

/// Prints the summary.
pub(super) fn print(summary: &Summary, args: &Args) -> anyhow::Result<()> {
    let mut out = crate::printing::stdout();
    if args.json {
        crate::printing::json(summary)?;
        return Ok(out.flush()?);
    }
    let side = match (summary.of_clients, summary.resolver_side) {
        (true, _) => "between resolver and clients; servers and delegations are made up",
        (false, true) => "upstream of a resolver",
        (false, false) => "at an authoritative server",
    };
    let (zones, records) = (summary.zones.len(), summary.records);
    write_line!(
        out,
        "responses  {} of {}, captured {side}",
        summary.responses,
        counted(summary.servers as u64, "server", "servers")
    )?;
    write_line!(
        out,
        "zones      {zones} with {}, in {}",
        counted(records as u64, "record", "records"),
        args.output.display()
    )?;
    let ignored: Vec<String> = summary.ignored.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    write_line!(out, "ignored    {}", if ignored.is_empty() { "none".to_owned() } else { ignored.join(", ") })?;
    write_line!(out, "conflicts  {} (the {} taken)", summary.conflicts.len(), taken(args.conflict))?;
    if let Some(kept) = &summary.versions {
        print_versions(kept, &mut out)?;
    }
    let made =
        InventionKind::ALL.into_iter().filter_map(|kind| Some((kind.word(), summary.made.get(kind.word())?.len())));
    let made: Vec<String> = made.map(|(kind, count)| format!("{kind} {count}")).collect();
    write_line!(out, "made up    {}", if made.is_empty() { "nothing".to_owned() } else { made.join(", ") })?;
    let (listed, more) = (summary.left_out.len(), if summary.left_out_unlisted > 0 { " or more" } else { "" });
    if listed > 0 {
        write_line!(out, "left out   {}{more}, which servers refuse", counted(listed as u64, "record", "records"))?;
    }
    if !summary.unverified.is_empty() {
        write_line!(
            out,
            "unverified {}, known only from servers that no trusted delegation leads to",
            counted(summary.unverified.len() as u64, "zone", "zones")
        )?;
    }
    if !summary.lame.is_empty() {
        let servers: usize = summary.lame.iter().map(|entry| entry.addresses.len()).sum();
        let of = counted(summary.lame.len() as u64, "zone", "zones");
        write_line!(
            out,
            "lame       {} of {of} stay lame: see {}",
            counted(servers as u64, "server", "servers"),
            lame::FILE
        )?;
    }
    if args.verbose {
        print_all(summary, &mut out)?;
    }
    write_line!(out, "details    {}", args.output.join(REPORT).display())?;
    Ok(out.flush()?)
}

/// What a policy takes where responses disagree.
fn taken(policy: Policy) -> Policy {
    if policy == Policy::Keep { Policy::First } else { policy }
}

fn print_versions(kept: &Versions, out: &mut impl Write) -> io::Result<()> {
    let sets = counted(kept.sets as u64, "record set", "record sets");
    write_line!(out, "versions   {} of {sets}, in {}; serve them with --answers", kept.versions, kept::FILE)?;
    if kept.unkept > 0 {
        let unkept = counted(kept.unkept, "change or asker is", "changes and askers are");
        write_line!(out, "           {unkept} not in it: there are too many")?;
    }
    Ok(())
}

/// Lists what the lines above count.
fn print_all(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    for (kind, entry) in summary.made.iter().flat_map(|(kind, all)| all.iter().map(move |entry| (kind, entry))) {
        write_line!(out, "  made {kind} in {}: {}", entry.zone, entry.record)?;
    }
    for ConflictEntry { zone, name, what, versions } in &summary.conflicts {
        let taken = versions.iter().filter(|version| version.taken).flat_map(|version| &version.records);
        let taken: Vec<&str> = taken.map(String::as_str).collect();
        let (versions, taken) = (versions.len(), taken.join("; "));
        write_line!(out, "  conflict in {zone}: {what} at {name}, {versions} versions, taken: {taken}")?;
    }
    for lame::Entry { zone, addresses } in &summary.lame {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        write_line!(out, "  lame for {zone}: {}", addresses.join(", "))?;
    }
    summary.unverified.iter().try_for_each(|zone| write_line!(out, "  unverified {zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_zones() {
        let mut files = FileNames::default();
        assert_eq!(files.of(b"\0"), "root.zone");
        assert_eq!(files.of(b"\x07example\x03com\0"), "example.com.zone");
        assert_eq!(files.of(b"\x04a/.b\0"), "a%2f%2eb.zone");
    }

    #[test]
    fn the_file_of_one_zone_is_never_that_of_another() {
        let long = |last: u8| [&[63; 64][..], &[63; 64][..], &[63; 64][..], &[1, last, 0]].concat();
        let short: Vec<u8> = [&[60][..], &[b'%'; 60], &[0]].concat();
        let apexes =
            [b"\0".to_vec(), b"\x04root\0".to_vec(), b"\x01r\x03oot\0".to_vec(), long(b'a'), long(b'b'), short];
        let mut files = FileNames::default();
        let names: HashSet<String> = apexes.iter().map(|apex| files.of(apex)).collect();
        assert_eq!(names.len(), apexes.len(), "{names:?}");
        assert!(names.iter().all(|name| name.len() <= 255 && name.ends_with(ENDING)));
    }
}
