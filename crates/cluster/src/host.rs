//! Facts about an agent's host.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use ldplayer_net::{clock, limits, pin, ports, programs};

use crate::message::{Hello, PROTOCOL, Wall};

/// Files that show that chrony or systemd-timesyncd keeps the clock.
const KEEPERS: [(&str, &str); 3] = [
    ("/run/chrony/chronyd.pid", "chrony"),
    ("/run/ntpd.pid", "ntpd"),
    ("/run/systemd/timesync/synchronized", "systemd-timesyncd"),
];

/// Describes this host, for an agent with this name and these source addresses.
pub fn hello(name: &str, id: &str, sources: &[IpAddr]) -> Hello {
    Hello {
        protocol: PROTOCOL,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        name: name.to_owned(),
        id: id.to_owned(),
        cores: pin::allowed_cores().map_or(1, |cores| cores.len()),
        files: limits::nofile().0.unwrap_or_default(),
        ports: ports().unwrap_or_default(),
        sources: sources.to_vec(),
        clock: clock_keeper(),
        boot: boot(),
        program: program(),
        network: network(),
        run: None,
    }
}

/// The boot id of the host.
pub fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// A word unique to this process across all hosts.
fn program() -> String {
    static WORD: LazyLock<String> = LazyLock::new(new_id);
    WORD.clone()
}

/// The inode number of this process' network namespace.
fn network() -> u64 {
    fs::metadata("/proc/self/ns/net").map_or(0, |namespace| namespace.ino())
}

/// The name of this host.
pub fn name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "agent".to_owned() } else { name.trim().to_owned() }
}

/// A unique id, from time and process id, which differ between agents of one host, and the boot id.
pub fn new_id() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let random: String = boot.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    format!("{random}{:x}{:x}", std::process::id(), clock::realtime_ns() as u64 & 0xff_ffff)
}

/// The size of the ephemeral port range.
fn ports() -> Option<u32> {
    Some(ports::ephemeral()?.count() as u32)
}

/// What synchronises the wall clock, if known.
fn clock_keeper() -> String {
    let known = KEEPERS.iter().find(|(file, _)| Path::new(file).exists());
    known.map_or_else(|| "none found".to_owned(), |(_, keeper)| (*keeper).to_owned())
}

/// Both clocks at one moment, with chrony's bound of the wall clock's error.
pub fn wall() -> Wall {
    let said = programs::find("chronyc")
        .and_then(|chronyc| Command::new(chronyc).args(["-n", "-c", "tracking"]).output().ok());
    let error_ns = said.and_then(|said| wall_error(&String::from_utf8_lossy(&said.stdout)));
    let (before, realtime_ns, after) = (clock::monotonic_ns(), clock::realtime_ns(), clock::monotonic_ns());
    let read_ns = after - before;
    Wall { monotonic_ns: before + read_ns / 2, realtime_ns, error_ns: error_ns.map(|error| error + read_ns) }
}

/// The bound given in chrony's documentation: the clock's offset, the root dispersion, and half of the root delay. `None` if not
/// synchronised.
fn wall_error(tracking: &str) -> Option<i64> {
    let fields: Vec<&str> = tracking.trim().split(',').collect();
    let seconds = |at: usize| fields.get(at)?.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    if fields.get(13).is_none_or(|leap| *leap == "Not synchronised") {
        return None;
    }
    let bound = seconds(4)?.abs() + seconds(11)? + seconds(10)? / 2.0;
    Some((bound * 1e9) as i64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_can_be_described() {
        let hello = hello("here", "x", &[]);
        assert!(hello.cores >= 1 && hello.files > 0 && hello.ports > 0, "{hello:?}");
        assert!(!name().is_empty());
    }

    #[test]
    fn chrony_says_how_wrong_the_clock_of_the_wall_may_be() {
        let said = |offset: &str, leap: &str| {
            format!(
                "A29FC87B,192.0.2.1,3,1700000000.5,{offset},0.000001,0.000020,-9.1,0.001,0.05,0.002000000,0.000300000,64.2,{leap}\n"
            )
        };
        assert_eq!(wall_error(&said("-0.000012000", "Normal")), Some(1_312_001));
        assert_eq!(wall_error(&said("0.1", "Not synchronised")), None);
        assert_eq!(
            [wall_error(""), wall_error("506 Cannot talk to daemon"), wall_error(&said("x", "Normal"))],
            [None; 3]
        );
        let wall = wall();
        assert!((wall.realtime_ns - wall.monotonic_ns - clock::realtime_offset_ns()).abs() < 1_000_000_000, "{wall:?}");
    }

    #[test]
    fn two_agents_of_one_process_have_its_figures_in_common() {
        let [one, other] = ["a", "b"].map(|name| hello(name, name, &[]));
        assert_eq!((&one.program, one.network, &one.boot), (&other.program, other.network, &other.boot));
        assert!(one.network > 0 && !one.program.is_empty());
    }

    #[test]
    fn two_agents_of_one_process_have_different_ids() {
        assert_ne!(new_id(), new_id());
    }
}
