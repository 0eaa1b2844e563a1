//! The single checks of `doctor`: found, needed, how to lift.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use super::finding::Finding;
use super::noise::Noise;
use super::{noise, precision, probes};
use ldplayer_net::awake::Awake;
use ldplayer_net::cpu_quota::CpuQuota;
use ldplayer_net::machine::Facts;
use ldplayer_net::{limits, machine, programs};
use ldplayer_results::VerdictLimits;

/// All checks, in the order of the answer.
pub fn all() -> Vec<Finding> {
    let (noise, facts) = (noise::measure(), machine::facts());
    let mut findings = vec![probes::testbed(), probes::user_namespaces(), probes::tun()];
    findings.extend([probes::packets(), probes::xdp()]);
    findings.extend(open_files());
    findings.extend([ports(), port_53()]);
    findings.extend(buffers());
    findings.extend([conntrack(), tcp_table()]);
    findings.push(quota());
    findings.extend([cores(&facts), memory(&facts), governor(&facts), speed(&noise)]);
    findings.extend([clock(&noise), clock_source(&facts, &noise)]);
    findings.extend([wake_up(&noise), precision::finding(&noise), awake(), held_up(&noise), steal(&noise)]);
    findings.extend(PROGRAMS.iter().map(program));
    findings
}

/// Descriptors without which not even a small run has its files and sockets.
const FEWEST_FILES: u64 = 1_024;
/// Descriptors for a client each in a large run.
const MANY_FILES: u64 = 65_536;

/// What a run gets after raising its limit: root may pass the hard one.
fn open_files() -> [Finding; 2] {
    let (soft, hard) = limits::nofile();
    let reach = limits::raise_nofile().unwrap_or_else(|_| soft.unwrap_or(u64::MAX));
    let most = limits::sysctl("fs.nr_open").unwrap_or_default();
    let say = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    // No limit can be above this one.
    let first =
        if most.parse().is_ok_and(|most: u64| most < MANY_FILES) { "sysctl -w fs.nr_open=1048576; " } else { "" };
    let lift = format!("{first}ulimit -Hn 1048576, or LimitNOFILE=1048576 in the service");
    [
        Finding::new(
            "descriptors",
            format!("a run gets {reach}"),
            "1024 for any run",
            reach >= FEWEST_FILES,
            lift.clone(),
        )
        .essential(),
        Finding::new(
            "open files",
            format!("soft {}, hard {}, fs.nr_open {most}", say(soft), say(hard)),
            "65536 to a run, for many ports or connections",
            reach >= MANY_FILES,
            lift,
        ),
    ]
}

fn ports() -> Finding {
    let range = limits::sysctl("net.ipv4.ip_local_port_range").unwrap_or_default();
    let bounds: Vec<u64> = range.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let count = if let [low, high] = bounds[..] { high.saturating_sub(low) + 1 } else { 0 };
    Finding::new(
        "local ports",
        format!("{range} ({count} ports)"),
        "60000 with --sources ports",
        count >= 60_000,
        "sysctl -w net.ipv4.ip_local_port_range='1024 65535'",
    )
}

/// Tried on all addresses of this host, with both transports.
fn port_53() -> Finding {
    let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 53)).map(drop);
    let tried = udp.and_then(|()| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 53)).map(drop));
    let (found, lift) = match &tried {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            ("in use".to_owned(), "ss -lnptu 'sport = :53'; stop what it names")
        }
        Err(error) => (error.to_string(), "sysctl -w net.ipv4.ip_unprivileged_port_start=53, or use a testbed"),
        Ok(()) => ("free".to_owned(), "ss -lnptu 'sport = :53'"),
    };
    Finding::new("port 53", found, "free, to serve outside of a testbed", tried.is_ok(), lift)
}

fn buffers() -> [Finding; 2] {
    let buffer = |name, setting: &str, lift| {
        let octets = limits::sysctl_number(setting).unwrap_or(0);
        Finding::new(name, format!("{octets} bytes"), "4 MiB at high rates without root", octets >= 4 << 20, lift)
    };
    [
        buffer("receive buffer", "net.core.rmem_max", "sysctl -w net.core.rmem_max=33554432"),
        buffer("send buffer", "net.core.wmem_max", "sysctl -w net.core.wmem_max=33554432"),
    ]
}

fn conntrack() -> Finding {
    let most = limits::sysctl_number("net.netfilter.nf_conntrack_max");
    let found = most.map_or("not loaded".to_owned(), |most| format!("at most {most} flows"));
    let lift = "sysctl -w net.netfilter.nf_conntrack_max=4194304";
    Finding::new("conntrack", found, "not loaded, or a million flows", most.is_none_or(|most| most >= 1 << 20), lift)
}

/// The kernel looks each TCP segment up in a table of lists, which are long where it is small.
fn tcp_table() -> Finding {
    const LISTS: i64 = 1 << 20;
    let number = |name| limits::sysctl(name).and_then(|text| text.parse::<i64>().ok()).unwrap_or_default();
    // Below zero if it is the whole machine's; a new namespace shares it unless it was given a table of its own.
    let (here, new) = (number("net.ipv4.tcp_ehash_entries").abs(), number("net.ipv4.tcp_child_ehash_entries"));
    let found = format!("{here} lists, {new} of its own in a new namespace");
    let lift = "sysctl -w net.ipv4.tcp_child_ehash_entries=4194304, for testbeds made afterwards";
    Finding::new("TCP table", found, "1048576 for a million connections", here.max(new) >= LISTS, lift)
}

fn cores(facts: &Facts) -> Finding {
    let found = format!("{} ({}{})", facts.cores, facts.cpu, if facts.virtualised { ", virtual" } else { "" });
    let lift = "use a larger machine, or taskset -c 0,1 if fewer are allowed than there are";
    Finding::new("cores", found, "2: one to replay, one to serve", facts.cores >= 2, lift)
}

fn memory(facts: &Facts) -> Finding {
    let octets = facts.memory_bytes;
    Finding::new("memory", format!("{} MiB", octets >> 20), "2048 MiB", octets >= 2 << 30, "use a larger machine")
}

/// Tried: a group is made and removed.
fn quota() -> Finding {
    let tried = CpuQuota::new(0.5).map(|_| "can be made".to_owned()).map_err(|error| error.to_string());
    Finding::of("server's quota", tried, "for --server-cpu", "run as root where control groups are mounted")
}

fn governor(facts: &Facts) -> Finding {
    let ok = facts.governor.as_deref().is_none_or(|governor| governor == "performance");
    let found = facts.governor.clone().unwrap_or_else(|| "not told (usual in virtual machines)".to_owned());
    let lift = "cpupower frequency-set -g performance";
    Finding::new("frequency governor", found, "performance, for even timing", ok, lift)
}

fn speed(noise: &Noise) -> Finding {
    let found = format!("the same work takes up to {:.0} % longer", noise.unevenness * 100.0);
    let lift = "cpupower frequency-set -g performance; stop other work";
    Finding::new("frequency noise", found, "below 25 % (p90 to p10)", noise.unevenness < 0.25, lift)
}

/// Finer than the error that the best precision is judged by.
const CLOCK_STEP: i64 = 1_000;
/// Coarser than any timing could be kept with.
const CLOCK_UNUSABLE: i64 = 1_000_000;

fn clock(noise: &Noise) -> Finding {
    let found = format!("steps of {} ns", noise.clock_step_ns);
    let (ok, lift) = (noise.clock_step_ns <= CLOCK_STEP, "boot with clocksource=tsc highres=on");
    let finding = Finding::new("clock", found, "steps of 1 ms or less for any run, 1 us to be precise", ok, lift);
    Finding { essential: noise.clock_step_ns > CLOCK_UNUSABLE, ..finding }
}

fn clock_source(facts: &Facts, noise: &Noise) -> Finding {
    let known = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
    let found = format!("{}, {:.0} ns a read", facts.clock_source, noise.clock_read_ns);
    let lift =
        "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, or boot with clocksource=tsc";
    let ok = known.contains(&facts.clock_source.as_str());
    Finding::new("clock source", found, "one read without a system call", ok, lift)
}

/// The p99 that the verdict of `--precision normal` allows, in microseconds.
const LATE_US: f64 = match VerdictLimits::NORMAL.timing {
    Some(limits) => limits.p99_us,
    None => f64::INFINITY,
};

fn wake_up(noise: &Noise) -> Finding {
    let late = &noise.asleep;
    let found = format!("median {:.0} us, p75 {:.0} us, p99 {:.0} us", late.p50_us, late.p75_us, late.p99_us);
    let (needed, ok) = ("p99 below 1000 us, as --precision normal is judged", late.p99_us < LATE_US);
    Finding::new("wake-up lateness", found, needed, ok, "ldplayer replay --precision high")
}

/// As `--precision high` asks for it.
fn awake() -> Finding {
    let tried = Awake::ask()
        .map(|awake| if awake.is_some() { "may be asked for" } else { "not asked for in a virtual machine" });
    let tried = tried.map(str::to_owned).map_err(|error| error.to_string());
    Finding::of("no sleep states", tried, "with --precision high, to wake at once", "chmod 666 /dev/cpu_dma_latency")
}

fn held_up(noise: &Noise) -> Finding {
    let found = format!("at most {:.0} us in 0.25 s", noise.longest_gap_us);
    let lift = "stop other work (see top); use a machine of your own";
    Finding::new("core taken away", found, "below 500 us", noise.longest_gap_us < 500.0, lift)
}

fn steal(noise: &Noise) -> Finding {
    let found = format!("{:.1} % in 0.25 s", noise.steal * 100.0);
    let lift = "use a machine with cores of its own; vmstat 1 shows it as st";
    Finding::new("CPU steal", found, "below 2 %", noise.steal < 0.02, lift)
}

/// Programs that commands, tests and benches start, with their Debian packages. None is essential: only what names it needs it.
const PROGRAMS: [(&str, &str, &str); 8] = [
    ("nsd", "nsd", "for demo --server nsd, make test"),
    ("knotd", "knot", "to compare with, for make test"),
    ("named", "bind9", "to compare with, for make test"),
    ("unbound", "unbound", "to resolve with, for make test"),
    ("kresd", "knot-resolver", "to resolve with, for make test"),
    ("pdns_recursor", "pdns-recursor", "to resolve with, for make test"),
    ("dnsperf", "dnsperf", "for make bench"),
    ("chromium-headless-shell", "chromium-headless-shell", "for make test"),
];

fn program(&(program, package, needed): &(&'static str, &str, &'static str)) -> Finding {
    let found = programs::find(program);
    let said = found.as_ref().map_or("not installed".to_owned(), |file| file.display().to_string());
    Finding::new(program, said, needed, found.is_some(), format!("apt-get install {package}"))
}
