//! Facts of the machine and counters of the kernel, as `/proc` and `/sys` tell them.

use std::ffi::c_int;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;

use serde::{Deserialize, Serialize};

/// What a run should remember of the machine it was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Name of the host.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Model of the first core.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Whether this is a virtual machine that says so.
    pub virtualised: bool,
    /// Memory in octets.
    pub memory_bytes: u64,
    /// The kernel's clock source.
    pub clock_source: String,
    /// Frequency governor of the first core, if there is one.
    pub governor: Option<String>,
    /// Load average of the last minute when the facts were read.
    pub load_1m: f64,
}

/// Reads the facts; what cannot be read is empty.
pub fn facts() -> Facts {
    let cpuinfo = read("/proc/cpuinfo");
    Facts {
        host: read("/proc/sys/kernel/hostname"),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpu: field(&cpuinfo, "model name").to_owned(),
        cores: crate::pin::allowed_cores().map_or(0, |cores| cores.len()),
        virtualised: is_hypervised(&cpuinfo),
        memory_bytes: number(field(&read("/proc/meminfo"), "MemTotal")) * 1_024,
        clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor: fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .ok()
            .map(|text| text.trim().to_owned()),
        load_1m: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
    }
}

/// Whether this is a virtual machine that says so.
pub fn is_virtual() -> bool {
    is_hypervised(&read("/proc/cpuinfo"))
}

fn is_hypervised(cpuinfo: &str) -> bool {
    field(cpuinfo, "flags").split(' ').any(|flag| flag == "hypervisor")
}

/// The kernel's UDP counters of the current network namespace, IPv4 and IPv6 together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams dropped because a socket's receive buffer was full.
    pub receive_buffer_errors: u64,
    /// Datagrams not sent because a socket's send buffer was full.
    pub send_buffer_errors: u64,
    /// Datagrams to a port that nobody listened on.
    pub no_ports: u64,
    /// Datagrams with an error, drops included.
    pub in_errors: u64,
}

impl UdpCounters {
    /// What was counted since `earlier`.
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            receive_buffer_errors: self.receive_buffer_errors.saturating_sub(earlier.receive_buffer_errors),
            send_buffer_errors: self.send_buffer_errors.saturating_sub(earlier.send_buffer_errors),
            no_ports: self.no_ports.saturating_sub(earlier.no_ports),
            in_errors: self.in_errors.saturating_sub(earlier.in_errors),
        }
    }
}

/// Reads the UDP counters.
pub fn udp_counters() -> UdpCounters {
    parse_udp(&read("/proc/thread-self/net/snmp"), &read("/proc/thread-self/net/snmp6"))
}

fn parse_udp(snmp: &str, snmp6: &str) -> UdpCounters {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let v4 = |name| {
        names.split(' ').zip(values.split(' ')).find(|(found, _)| *found == name).map_or(0, |(_, value)| number(value))
    };
    let v6 = |name: &str| {
        let mut lines = snmp6.lines().filter_map(|line| line.split_once(char::is_whitespace));
        lines.find(|(found, _)| *found == name).map_or(0, |(_, value)| number(value))
    };
    UdpCounters {
        receive_buffer_errors: v4("RcvbufErrors") + v6("Udp6RcvbufErrors"),
        send_buffer_errors: v4("SndbufErrors") + v6("Udp6SndbufErrors"),
        no_ports: v4("NoPorts") + v6("Udp6NoPorts"),
        in_errors: v4("InErrors") + v6("Udp6InErrors"),
    }
}

/// The kernel's TCP sockets of the current network namespace, IPv4 and IPv6 together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSockets {
    /// Connections, and sockets that listen.
    pub in_use: u64,
    /// Ends of connections that only keep their ports from being used again (TIME_WAIT, RFC 9293 §3.6.1).
    pub time_wait: u64,
    /// Octets of the buffers of all TCP sockets of the machine, in whatever namespace.
    pub memory_bytes: u64,
}

/// Reads how many TCP sockets there are.
pub fn tcp_sockets() -> TcpSockets {
    parse_sockstat(&read("/proc/thread-self/net/sockstat"), &read("/proc/thread-self/net/sockstat6"))
}

/// Lines as `TCP: inuse 5 orphan 0 tw 2 alloc 7 mem 1`; the second file has `inuse` alone, the rest is of both families.
fn parse_sockstat(v4: &str, v6: &str) -> TcpSockets {
    let value = |text: &str, head: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(head)).unwrap_or("");
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).map_or(0, number)
    };
    TcpSockets {
        in_use: value(v4, "TCP:", "inuse") + value(v6, "TCP6:", "inuse"),
        time_wait: value(v4, "TCP:", "tw"),
        memory_bytes: value(v4, "TCP:", "mem") * rustix::param::page_size() as u64,
    }
}

/// CPU time of all cores since the start of the machine, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    all: u64,
    stolen: u64,
}

impl CpuTimes {
    /// Share of the time since `earlier` that the host gave to others, from 0 to 1.
    pub fn steal_share_since(&self, earlier: &Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        if all == 0 { 0.0 } else { stolen as f64 / all as f64 }
    }
}

/// Reads the CPU times (proc_stat(5): user nice system idle iowait irq softirq steal, guest time is part of user).
pub fn cpu_times() -> CpuTimes {
    let stat = read("/proc/stat");
    let line = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or("");
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(number).collect();
    CpuTimes { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0) }
}

/// The kernel's `struct ifreq`, as far as TUNSETIFF reads it: name and flags, in 40 octets.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: u16,
    rest: [u8; 22],
}

/// Creates a TUN device in the current network namespace, gives it up again, and returns the name that it had.
///
/// # Errors
/// Without `/dev/net/tun`, without the module, or without CAP_NET_ADMIN in the namespace.
pub fn tun_probe() -> io::Result<String> {
    let file = File::options().read(true).write(true).open("/dev/net/tun")?;
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as u16;
    let mut request = InterfaceRequest { name: [0; libc::IFNAMSIZ], flags, rest: [0; 22] };
    // SAFETY: the request has the size of `struct ifreq` and lives through the call, which reads and writes only it.
    let status: c_int = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    let name = request.name.iter().take_while(|&&octet| octet != 0).map(|&octet| char::from(octet));
    Ok(name.collect())
}

/// CPU time and memory of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessSample {
    /// User and system time since its start, in seconds.
    pub cpu_s: f64,
    /// The same of its children that ended and were waited for, in seconds.
    pub ended_children_cpu_s: f64,
    /// Resident memory in octets.
    pub rss_bytes: u64,
}

/// Reads a process; `None` when there is none (any more).
pub fn process_sample(pid: u32) -> Option<ProcessSample> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so count from behind it: state is field 3.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let at = |index: usize| fields.get(index).map(|field| number(field));
    let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    let pages = at(21)?;
    Some(ProcessSample {
        cpu_s: seconds(at(11)? + at(12)?),
        ended_children_cpu_s: seconds(at(13)? + at(14)?),
        rss_bytes: pages * rustix::param::page_size() as u64,
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| found.trim() == name).map_or("", |(_, value)| value.trim())
}

/// The number at the start of `text`, 0 when there is none.
fn number(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp_counters_are_found_by_name() {
        let snmp = "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 10 2 3 4 5 6\nUdpLite: x\nUdpLite: 9";
        let snmp6 = "Udp6InDatagrams    7\nUdp6NoPorts  \t1\nUdp6RcvbufErrors    10\n";
        let counters = parse_udp(snmp, snmp6);
        let expected = UdpCounters { receive_buffer_errors: 15, send_buffer_errors: 6, no_ports: 3, in_errors: 3 };
        assert_eq!(counters, expected);
        assert_eq!(counters.since(&counters), UdpCounters::default());
        assert_eq!(parse_udp("", "nonsense"), UdpCounters::default());
    }

    #[test]
    fn tcp_sockets_are_of_both_families() {
        let v4 = "sockets: used 12\nTCP: inuse 5 orphan 1 tw 7 alloc 9 mem 3\nUDP: inuse 8 mem 2";
        let sockets = parse_sockstat(v4, "TCP6: inuse 2\nUDP6: inuse 9");
        let memory_bytes = 3 * rustix::param::page_size() as u64;
        assert_eq!(sockets, TcpSockets { in_use: 7, time_wait: 7, memory_bytes });
        assert_eq!(parse_sockstat("", "TCP6: inuse"), TcpSockets::default());
    }

    #[test]
    fn this_process_has_memory_and_this_machine_a_kernel() {
        assert!(process_sample(std::process::id()).unwrap().rss_bytes > 100_000);
        assert_eq!(process_sample(u32::MAX), None);
        let facts = facts();
        assert!(!facts.kernel.is_empty() && facts.cores > 0 && facts.memory_bytes > 0, "{facts:?}");
    }

    #[test]
    fn a_tun_request_is_as_large_as_the_kernels() {
        assert_eq!(std::mem::size_of::<InterfaceRequest>(), std::mem::size_of::<libc::ifreq>());
    }

    #[test]
    fn a_hypervisor_is_a_flag_of_the_core() {
        let told = |flags: &str| is_hypervised(&format!("model name\t: x\nflags\t\t: {flags}\nbugs\t: none\n"));
        assert!(told("fpu hypervisor lahf_lm") && !told("fpu lahf_lm") && !is_hypervised(""));
    }

    #[test]
    fn steal_is_a_share_of_all_time() {
        let (before, after) = (CpuTimes { all: 100, stolen: 10 }, CpuTimes { all: 300, stolen: 60 });
        assert_eq!(after.steal_share_since(&before), 0.25);
        assert_eq!(after.steal_share_since(&after), 0.0);
    }
}
