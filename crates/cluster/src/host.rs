//! What an agent says of its host, as it is read off the machine.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use ldplayer_net::{clock, limits, pin};

use crate::message::{Hello, PROTOCOL};

/// Where chrony and systemd-timesyncd leave a trace of themselves while they keep the clock.
const KEEPERS: [(&str, &str); 3] = [
    ("/run/chrony/chronyd.pid", "chrony"),
    ("/run/ntpd.pid", "ntpd"),
    ("/run/systemd/timesync/synchronized", "systemd-timesyncd"),
];

/// What there is to say now, for an agent of this name that may use these addresses.
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
        run: None,
    }
}

/// The name of this host.
pub fn name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "agent".to_owned() } else { name.trim().to_owned() }
}

/// A word that no other agent has: of the time and the process, which are different for each on one host, and of the host's boot.
pub fn new_id() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let random: String = boot.chars().filter(char::is_ascii_hexdigit).take(12).collect();
    format!("{random}{:x}{:x}", std::process::id(), clock::realtime_ns() as u64 & 0xff_ffff)
}

/// Ports that the kernel gives to connections of one address.
fn ports() -> Option<u32> {
    let range = limits::sysctl("net.ipv4.ip_local_port_range")?;
    let mut bounds = range.split_whitespace().map(str::parse::<u32>);
    let (low, high) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    Some((high + 1).saturating_sub(low))
}

/// What keeps the wall clock right, as far as it can be seen.
fn clock_keeper() -> String {
    let known = KEEPERS.iter().find(|(file, _)| Path::new(file).exists());
    known.map_or_else(|| "nobody is seen to keep it".to_owned(), |(_, keeper)| (*keeper).to_owned())
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
    fn two_agents_of_one_process_have_different_ids() {
        assert_ne!(new_id(), new_id());
    }
}
