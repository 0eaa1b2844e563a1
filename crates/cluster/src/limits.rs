//! What an agent accepts of a controller: the targets and traces that its own user allows, and messages within bounds.
//!
//! Whoever has the password of the NATS server can ask an agent for anything that a message can say. What load goes where, and which
//! files are read, is for the user of the agent to say, and not for the message.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ldplayer_core::Cidr;
use ldplayer_run::RunSpec;
use ldplayer_trace::Input;

use crate::error::ClusterError;
use crate::message::{Ask, FeedPart, Part, Source};

/// The most agents or feeders of a run.
const MOST_HOSTS: u64 = 4_096;
/// The highest number of a part: those of agents and feeders that replace lost ones included.
const MOST_SEATS: u64 = 1 << 24;
/// The most files of a trace, servers, rules or classes.
const MOST_ENTRIES: usize = 1_024;
/// The longest name or path, in octets.
const LONGEST: usize = 4_096;
/// The most queries in flight of a worker.
const MOST_OUTSTANDING: usize = 10_000_000;
/// How far from now a start may be, and how far agents may read ahead.
const FARTHEST: Duration = Duration::from_secs(3_600);

/// Why an agent refuses a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A number is out of its range.
    #[error("{what}: {found} is not within {} to {}", range.start(), range.end())]
    Range {
        /// What the number is.
        what: &'static str,
        /// The number.
        found: i128,
        /// What it may be.
        range: RangeInclusive<i128>,
    },
    /// There are too many entries, or one is too long.
    #[error("{what}: more than {most} entries, or one of more than {LONGEST} bytes")]
    Entries {
        /// What the entries are.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// A key concerns the controller's host, or names a file that the message should have in itself.
    #[error("{0} is not for agents: the request does not come from a controller of this release")]
    Key(&'static str),
    /// The specification is not one of this release.
    #[error("run specification: {0}")]
    Spec(String),
    /// The agent may read no traces.
    #[error(
        "this agent reads no traces of its host: start it with --trace-dir DIR, or store the trace at the NATS server with --upload"
    )]
    NoTraces,
    /// The trace is not a file in the directory of traces.
    #[error("{name}: not a file below this agent's --trace-dir {}", directory.display())]
    Trace {
        /// The file as it was named.
        name: String,
        /// Where traces are.
        directory: PathBuf,
    },
}

/// What an agent's user allows.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Blocks outside of its host that it may send load to.
    pub targets: Vec<Cidr>,
    /// The directory of the traces that it may read; none without.
    traces: Option<PathBuf>,
}

impl Limits {
    /// Load to this host and to these blocks, and traces below a directory, if there is one.
    ///
    /// # Errors
    /// The directory does not exist.
    pub fn new(targets: Vec<Cidr>, traces: Option<&Path>) -> Result<Self, ClusterError> {
        let canonical = |directory: &Path| {
            let found = fs::canonicalize(directory);
            found.map_err(|error| ClusterError::File { file: directory.to_owned(), reason: error.to_string() })
        };
        Ok(Self { targets, traces: traces.map(canonical).transpose()? })
    }

    /// The specification of a part to play, with this agent's targets and traces in it.
    ///
    /// # Errors
    /// The part is out of bounds, or names what this agent may not use.
    pub fn of_part(&self, part: &Part) -> Result<RunSpec, Refused> {
        hosts("shards", part.shards, "shard", part.shard)?;
        ranged("part", part.seat.into(), 0..=i128::from(MOST_SEATS))?;
        ranged("read-ahead", part.ahead_ns.into(), 0..=nanoseconds(FARTHEST))?;
        ranged("takeover", part.from_ns.unwrap_or(0).into(), 0..=i128::from(i64::MAX / 4))?;
        ranged("first time", part.first_ns.into(), i128::from(i64::MIN / 4)..=i128::from(i64::MAX / 4))?;
        entries("trace", &part.trace, MOST_ENTRIES)?;
        entries("name", std::slice::from_ref(&part.name), 1)?;
        let spec = self.spec(&part.spec)?;
        let reads_here = part.source == Source::OwnTrace && part.trace.is_empty();
        if reads_here { self.reading(spec) } else { Ok(spec) }
    }

    /// The specification of a part to feed.
    ///
    /// # Errors
    /// As for [`Self::of_part`].
    pub fn of_feed(&self, part: &FeedPart) -> Result<RunSpec, Refused> {
        hosts("feeders", part.feeders, "feeder", part.feeder)?;
        ranged("part", part.seat.into(), 0..=i128::from(MOST_SEATS))?;
        ranged("agents", part.agents.len() as i128, 1..=i128::from(MOST_HOSTS))?;
        entries("agents", &part.agents, MOST_HOSTS as usize)?;
        entries("name", std::slice::from_ref(&part.name), 1)?;
        self.reading(self.spec(&part.spec)?)
    }

    /// A specification with the targets of this agent; it names no files, and nothing of the controller's host.
    fn spec(&self, value: &serde_json::Value) -> Result<RunSpec, Refused> {
        let spec: RunSpec = serde_json::from_value(value.clone()).map_err(|error| Refused::Spec(error.to_string()))?;
        entries("trace", &spec.trace, MOST_ENTRIES)?;
        let counts = [
            ("server", spec.server.len()),
            ("rules", spec.rules.len()),
            ("class", spec.class.len()),
            ("cores", spec.cores.len()),
        ];
        if let Some(&(what, _)) = counts.iter().find(|(_, count)| *count > MOST_ENTRIES) {
            return Err(Refused::Entries { what, most: MOST_ENTRIES });
        }
        ranged("max_outstanding", spec.max_outstanding as i128, 1..=MOST_OUTSTANDING as i128)?;
        let foreign = [
            ("start_server", spec.start_server.is_some()),
            ("metrics", spec.metrics.is_some()),
            ("watch_pid", spec.watch_pid.is_some()),
            ("watch_unit", spec.watch_unit.is_some()),
            ("rules", spec.rules.iter().any(|rules| rules.text.is_none())),
            ("transport_shares", spec.transport_shares.is_some() && spec.class.is_empty()),
            ("rtt", spec.rtt.as_ref().is_some_and(|rtt| rtt.file().is_some())),
        ];
        if let Some(&(key, _)) = foreign.iter().find(|(_, is_given)| *is_given) {
            return Err(Refused::Key(key));
        }
        // Its certificates come in the message, and are put into the agent's own directory.
        Ok(RunSpec { allow_target: self.targets.clone(), tls_ca: None, ..spec })
    }

    /// The specification with its trace below the directory of traces.
    fn reading(&self, spec: RunSpec) -> Result<RunSpec, Refused> {
        let directory = self.traces.as_deref().ok_or(Refused::NoTraces)?;
        let trace = spec.trace.iter().map(|name| inside(directory, name)).collect::<Result<_, _>>()?;
        Ok(RunSpec { trace, ..spec })
    }
}

/// A request about a run that is within bounds; those to prepare and to feed have more of them.
///
/// # Errors
/// A start that is too far away.
pub fn check(ask: &Ask, now_ns: i64) -> Result<(), Refused> {
    let Ask::Start { at_ns, wall_ns, .. } = ask else { return Ok(()) };
    let (now, farthest) = (i128::from(now_ns), nanoseconds(FARTHEST));
    ranged("start", i128::from(*at_ns), now - farthest..=now + farthest)?;
    ranged("start", i128::from(*wall_ns), 0..=i128::from(i64::MAX / 2))
}

/// The file of this name, relative to the directory or below it, without links that lead out.
fn inside(directory: &Path, name: &str) -> Result<String, Refused> {
    let outside = || Refused::Trace { name: name.to_owned(), directory: directory.to_owned() };
    let Input::File(path) = Input::from(name) else { return Err(outside()) };
    let found = fs::canonicalize(directory.join(path)).map_err(|_| outside())?;
    let is_one = found.starts_with(directory) && found.is_file();
    found.to_str().filter(|_| is_one).map(str::to_owned).ok_or_else(outside)
}

fn hosts(all: &'static str, count: u32, one: &'static str, number: u32) -> Result<(), Refused> {
    ranged(all, count.into(), 1..=i128::from(MOST_HOSTS))?;
    ranged(one, number.into(), 0..=i128::from(count) - 1)
}

fn ranged(what: &'static str, found: i128, range: RangeInclusive<i128>) -> Result<(), Refused> {
    if range.contains(&found) { Ok(()) } else { Err(Refused::Range { what, found, range }) }
}

fn entries(what: &'static str, entries: &[String], most: usize) -> Result<(), Refused> {
    let fits = entries.len() <= most && entries.iter().all(|entry| entry.len() <= LONGEST);
    if fits { Ok(()) } else { Err(Refused::Entries { what, most }) }
}

const fn nanoseconds(span: Duration) -> i128 {
    span.as_nanos() as i128
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn part(spec: serde_json::Value) -> Part {
        Part {
            run: 1,
            name: "a".into(),
            seat: 0,
            shard: 0,
            shards: 2,
            first_ns: 0,
            spec,
            source: Source::Stream,
            trace: Vec::new(),
            ahead_ns: 10,
            from_ns: None,
            tls_ca: None,
        }
    }

    fn feed(spec: serde_json::Value) -> FeedPart {
        let agents = vec!["a".to_owned()];
        FeedPart { run: 1, name: "a".into(), seat: 1, feeder: 1, feeders: 2, agents, spec, tls_ca: None }
    }

    fn spec() -> serde_json::Value {
        json!({"trace": ["a.pcap"], "server": ["127.0.0.1:53"]})
    }

    fn with(key: &str, value: serde_json::Value) -> serde_json::Value {
        let mut spec = spec();
        spec[key] = value;
        spec
    }

    fn refusal(part: &Part) -> String {
        Limits::default().of_part(part).unwrap_err().to_string()
    }

    /// A forged request brought its own `allow_target`, and the agent sent load to a third party.
    #[test]
    fn targets_are_those_that_the_agent_s_user_allows() {
        let own = vec!["192.0.2.0/24".parse().unwrap()];
        let limits = Limits::new(own.clone(), None).unwrap();
        let asked = part(with("allow_target", json!(["0.0.0.0/0"])));
        assert_eq!(limits.of_part(&asked).unwrap().allow_target, own);
        assert!(Limits::default().of_part(&asked).unwrap().allow_target.is_empty());
    }

    #[test]
    fn what_names_files_or_the_controller_s_host_is_refused() {
        for (key, value) in [
            ("start_server", json!("touch /x")),
            ("metrics", json!("127.0.0.1:1")),
            ("watch_pid", json!(1)),
            ("watch_unit", json!("a")),
            ("rules", json!(["/etc/passwd"])),
            ("transport_shares", json!("/etc/passwd")),
            ("rtt", json!("/etc/passwd.csv")),
            ("rtt", json!("csv:/etc/passwd")),
        ] {
            assert_eq!(Limits::default().of_part(&part(with(key, value))).unwrap_err(), Refused::Key(key));
        }
        let trusted = Limits::default().of_part(&part(with("tls_ca", json!("/etc/shadow")))).unwrap();
        assert_eq!(trusted.tls_ca, None);
        assert!(refusal(&part(json!({"traces": 1}))).starts_with("run specification: "));
    }

    #[test]
    fn numbers_out_of_their_bounds_are_refused() {
        let good = part(spec());
        assert!(Limits::default().of_part(&good).is_ok());
        for (bad, said) in [
            (Part { shards: 0, ..good.clone() }, "shards: 0 is not within 1 to 4096"),
            (Part { shard: 2, ..good.clone() }, "shard: 2 is not within 0 to 1"),
            (Part { ahead_ns: -1, ..good.clone() }, "read-ahead: -1"),
            (Part { from_ns: Some(i64::MAX), ..good.clone() }, "takeover: "),
            (Part { first_ns: i64::MIN, ..good.clone() }, "first time: "),
            (Part { seat: u32::MAX, ..good.clone() }, "part: "),
            (Part { name: "a".repeat(5_000), ..good.clone() }, "name: more than 1 entries"),
            (Part { trace: vec![String::new(); 2_000], ..good.clone() }, "trace: more than 1024 entries"),
            (part(with("max_outstanding", json!(99_000_000))), "max_outstanding: "),
        ] {
            assert!(refusal(&bad).starts_with(said), "{}", refusal(&bad));
        }
        let fed = |part| Limits::default().of_feed(&part).unwrap_err().to_string();
        assert!(fed(FeedPart { feeders: 0, ..feed(spec()) }).starts_with("feeders: 0"));
        assert!(fed(FeedPart { agents: Vec::new(), ..feed(spec()) }).starts_with("agents: 0"));
        let start = |at_ns| check(&Ask::Start { run: 1, seat: 0, at_ns, wall_ns: 1 }, 5);
        assert!(start(1_000_000_000).is_ok() && start(i64::MAX).is_err() && start(i64::MIN).is_err());
    }

    #[test]
    fn traces_are_files_below_the_directory_that_the_agent_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let (traces, secret) = (folder.path().join("traces"), folder.path().join("secret"));
        fs::create_dir(&traces).unwrap();
        fs::write(traces.join("a.pcap"), "").unwrap();
        fs::write(&secret, "").unwrap();
        std::os::unix::fs::symlink(&secret, traces.join("link.pcap")).unwrap();
        let limits = Limits::new(Vec::new(), Some(&traces)).unwrap();
        let read = |name: &str| limits.of_feed(&feed(with("trace", json!([name])))).map(|spec| spec.trace);
        let found = traces.canonicalize().unwrap().join("a.pcap").to_str().unwrap().to_owned();
        assert_eq!(read("a.pcap"), Ok(vec![found.clone()]));
        assert_eq!(read(&found), Ok(vec![found]));
        for name in ["../secret", secret.to_str().unwrap(), "link.pcap", "none.pcap", ".", "-", "unix:/x"] {
            assert!(matches!(read(name), Err(Refused::Trace { .. })), "{name}");
        }
        let own = Part { source: Source::OwnTrace, ..part(spec()) };
        assert_eq!(Limits::default().of_part(&own), Err(Refused::NoTraces));
        assert!(limits.of_part(&own).is_ok());
        assert!(Limits::new(Vec::new(), Some(&folder.path().join("none"))).is_err());
    }
}
