//! The single checks of `doctor`: found, needed, how to lift.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use ldplayer_net::netns::{Testbed, has_any_ip};
use ldplayer_net::{limits, machine};
use serde::Serialize;

use super::noise;
use crate::failure::Failure;

/// One line of the answer.
#[derive(Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// What it is.
    pub found: String,
    /// What it should be, and for what.
    pub needed: &'static str,
    /// Whether it is.
    pub ok: bool,
    /// Whether nothing runs without it.
    pub essential: bool,
    /// The command that lifts the limit.
    pub lift: String,
}

impl Finding {
    fn new(name: &'static str, found: impl Into<String>, needed: &'static str, ok: bool, lift: &str) -> Self {
        Self { name, found: found.into(), needed, ok, essential: false, lift: lift.to_owned() }
    }
}

/// All checks, in the order of the answer.
pub fn all() -> Vec<Finding> {
    let mut findings = vec![open_files(), ports(), testbed(), user_namespaces(), tun()];
    findings.extend(buffers());
    findings.extend([cores(), memory(), governor(), clock_source(), wake_up(), held_up(), conntrack()]);
    findings.extend(SERVERS.iter().map(server));
    findings
}

/// The child process of [`testbed`]: namespaces cannot be left again.
pub fn probe_testbed() -> Result<ExitCode, Failure> {
    let testbed = Testbed::enter().map_err(Failure::environment)?;
    if !has_any_ip() {
        return Err(Failure::environment(anyhow::anyhow!("addresses are not local in the namespace")));
    }
    println!("{}", if testbed.is_rootless() { "yes, in a user namespace" } else { "yes, as root" });
    Ok(ExitCode::SUCCESS)
}

fn open_files() -> Finding {
    let (current, most) = limits::nofile();
    let say = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    Finding::new(
        "open files",
        format!("{} (may raise to {})", say(current), say(most)),
        "65536 for many ports or connections",
        most.is_none_or(|most| most >= 65_536),
        "ulimit -Hn 1048576, or LimitNOFILE= in the service",
    )
}

fn ports() -> Finding {
    let range = limits::sysctl("net.ipv4.ip_local_port_range").unwrap_or_default();
    let bounds: Vec<u64> = range.split(' ').filter_map(|word| word.parse().ok()).collect();
    let count = if let [low, high] = bounds[..] { high.saturating_sub(low) + 1 } else { 0 };
    Finding::new(
        "local ports",
        format!("{range} ({count} ports)"),
        "60000 with --sources ports",
        count >= 60_000,
        "sysctl -w net.ipv4.ip_local_port_range='1024 65535'",
    )
}

fn testbed() -> Finding {
    let (found, ok) = match try_testbed() {
        Ok(found) => (found, true),
        Err(why) => (why, false),
    };
    let lift = "run as root, or: sysctl -w user.max_user_namespaces=10000 kernel.unprivileged_userns_clone=1";
    Finding { essential: true, ..Finding::new("testbed (AnyIP)", found, "for --sources original", ok, lift) }
}

/// Really makes one, in a child process.
fn try_testbed() -> Result<String, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(own);
    let output = child.args(["doctor", "--probe-testbed"]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn user_namespaces() -> Finding {
    let most = limits::sysctl_number("user.max_user_namespaces").unwrap_or(0);
    let forbidden = limits::sysctl_number("kernel.unprivileged_userns_clone") == Some(0)
        || limits::sysctl_number("kernel.apparmor_restrict_unprivileged_userns") == Some(1);
    Finding::new(
        "user namespaces",
        if forbidden { "forbidden to users".to_owned() } else { format!("at most {most}") },
        "for testbeds without root",
        most > 0 && !forbidden,
        "sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0",
    )
}

fn tun() -> Finding {
    let opened = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
    let found = match &opened {
        Ok(_) => "can be opened".to_owned(),
        Err(error) => error.to_string(),
    };
    Finding::new("TUN", found, "for emulated delay and loss", opened.is_ok(), "modprobe tun; chmod 666 /dev/net/tun")
}

fn buffers() -> [Finding; 2] {
    let buffer = |name, setting: &str, lift| {
        let octets = limits::sysctl_number(setting).unwrap_or(0);
        Finding::new(name, format!("{octets} octets"), "4 MiB at high rates without root", octets >= 4 << 20, lift)
    };
    [
        buffer("receive buffer", "net.core.rmem_max", "sysctl -w net.core.rmem_max=33554432"),
        buffer("send buffer", "net.core.wmem_max", "sysctl -w net.core.wmem_max=33554432"),
    ]
}

fn cores() -> Finding {
    let facts = machine::facts();
    let found = format!("{} ({}{})", facts.cores, facts.cpu, if facts.virtualised { ", virtual" } else { "" });
    Finding::new("cores", found, "2: one to replay, one to serve", facts.cores >= 2, "use a larger machine")
}

fn memory() -> Finding {
    let octets = machine::facts().memory_bytes;
    Finding::new("memory", format!("{} MiB", octets >> 20), "2048 MiB", octets >= 2 << 30, "use a larger machine")
}

fn governor() -> Finding {
    let governor = machine::facts().governor;
    let ok = governor.as_deref().is_none_or(|governor| governor == "performance");
    let found = governor.unwrap_or_else(|| "not told (usual in virtual machines)".to_owned());
    Finding::new(
        "frequency governor",
        found,
        "performance, for even timing",
        ok,
        "cpupower frequency-set -g performance",
    )
}

fn clock_source() -> Finding {
    let source = machine::facts().clock_source;
    let ok = matches!(source.as_str(), "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page");
    Finding::new("clock source", source, "one read without a system call", ok, "boot with clocksource=tsc")
}

fn wake_up() -> Finding {
    let noise = noise::measure();
    Finding::new(
        "wake-up lateness",
        format!("median {:.0} us, p99 {:.0} us", noise.wake_p50_us, noise.wake_p99_us),
        "median below 100 us",
        noise.wake_p50_us < 100.0,
        "use --precision high, or hold /dev/cpu_dma_latency at 0",
    )
}

fn held_up() -> Finding {
    let gap = noise::measure().longest_gap_us;
    Finding::new(
        "core taken away",
        format!("at most {gap:.0} us in 0.1 s"),
        "below 500 us",
        gap < 500.0,
        "stop other work; use a machine of your own",
    )
}

fn conntrack() -> Finding {
    let most = limits::sysctl_number("net.netfilter.nf_conntrack_max");
    let found = most.map_or("not loaded".to_owned(), |most| format!("at most {most} flows"));
    let lift = "sysctl -w net.netfilter.nf_conntrack_max=4194304";
    Finding::new("conntrack", found, "not loaded, or a million flows", most.is_none_or(|most| most >= 1 << 20), lift)
}

/// Programs that tests and examples use, with their Debian packages.
const SERVERS: [(&str, &str, &str); 5] = [
    ("nsd", "nsd", "for the demo"),
    ("knotd", "knot", "to compare with"),
    ("unbound", "unbound", "to resolve with"),
    ("dnsperf", "dnsperf", "for make bench"),
    ("chromium-headless-shell", "chromium-headless-shell", "for make test"),
];

fn server(&(program, package, needed): &(&'static str, &str, &'static str)) -> Finding {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/usr/local/sbin"]);
    let found = folders.map(|folder| Path::new(folder).join(program)).find(|file| file.is_file());
    let said = found.as_ref().map_or("not installed".to_owned(), |file| file.display().to_string());
    Finding::new(program, said, needed, found.is_some(), &format!("apt-get install {package}"))
}
