//! Kernel counters of a network namespace, and the kernel memory used by sockets.
//!
//! A figure that the kernel does not tell, or not to this user, is `None` and never 0.

use std::fs;
use std::path::Path;

use crate::usage::value;

/// Whose network namespace is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// That of the calling thread.
    Own,
    /// That of a process.
    Of(u32),
}

/// Counters of a network namespace since its creation, IPv4 and IPv6 together, and current gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetCounters {
    /// Bytes of IP packets that came in, loopback included.
    pub in_bytes: Option<u64>,
    /// Bytes of IP packets that went out, loopback included.
    pub out_bytes: Option<u64>,
    /// UDP datagrams delivered.
    pub udp_in: Option<u64>,
    /// UDP datagrams sent.
    pub udp_out: Option<u64>,
    /// UDP datagrams dropped because a socket's receive buffer was full.
    pub udp_receive_buffer_errors: Option<u64>,
    /// UDP datagrams not sent because a socket's send buffer was full.
    pub udp_send_buffer_errors: Option<u64>,
    /// UDP datagrams to a port without a socket.
    pub udp_no_ports: Option<u64>,
    /// UDP datagrams not delivered, including those dropped because buffers were full.
    pub udp_in_errors: Option<u64>,
    /// TCP connections opened to others.
    pub tcp_opened: Option<u64>,
    /// TCP connections accepted by the kernel.
    pub tcp_accepted: Option<u64>,
    /// TCP segments sent again.
    pub tcp_retransmitted: Option<u64>,
    /// TCP segments sent with RST.
    pub tcp_resets: Option<u64>,
    /// Connections lost because the accept queue of a listening socket was full (`ListenOverflows`).
    pub accept_queue_overflows: Option<u64>,
    /// Connections lost at a listening socket for any reason, that one included (`ListenDrops`).
    pub listen_drops: Option<u64>,
    /// TCP sockets in use, those that listen included.
    pub tcp_in_use: Option<u64>,
    /// TCP ends in TIME_WAIT.
    pub tcp_time_wait: Option<u64>,
    /// TCP sockets of the machine that no process holds any more.
    pub tcp_orphans: Option<u64>,
    /// Bytes of the buffers of all TCP sockets of the machine.
    pub tcp_memory_bytes: Option<u64>,
    /// UDP sockets in use.
    pub udp_in_use: Option<u64>,
    /// Bytes of the buffers of all UDP sockets of the machine.
    pub udp_memory_bytes: Option<u64>,
}

/// Kernel memory of the machine, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelMemory {
    /// All slabs.
    pub slab_bytes: Option<u64>,
    /// Slabs that cannot be given back under pressure; sockets are among them.
    pub slab_unreclaimable_bytes: Option<u64>,
}

/// The files of a namespace, each with what it says.
#[derive(Clone, Debug, Default)]
struct Files {
    snmp: String,
    snmp6: String,
    netstat: String,
    sockstat: String,
    sockstat6: String,
}

/// Reads the counters of a namespace.
pub fn read(place: Place) -> NetCounters {
    let folder = match place {
        Place::Own => "/proc/thread-self/net".to_owned(),
        Place::Of(pid) => format!("/proc/{pid}/net"),
    };
    let file = |name| fs::read_to_string(Path::new(&folder).join(name)).unwrap_or_default();
    Files {
        snmp: file("snmp"),
        snmp6: file("snmp6"),
        netstat: file("netstat"),
        sockstat: file("sockstat"),
        sockstat6: file("sockstat6"),
    }
    .parse()
}

/// Reads the kernel's memory.
pub fn kernel_memory() -> KernelMemory {
    parse_memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// Nanoseconds in which a thread of the machine waited for a core (pressure stall information); `None` if the kernel does not count them.
pub fn cpu_pressure_ns() -> Option<u64> {
    parse_pressure(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

/// Bytes of the slabs of TCP sockets of all states of the machine; only root may read them, and a kernel may keep some in slabs of
/// other names. The kernel goes through all slabs for that, for milliseconds in which it may let nothing else run on the core.
pub fn tcp_slab_bytes() -> Option<u64> {
    tcp_slabs(&fs::read_to_string("/proc/slabinfo").ok()?)
}

/// The total in the line of `some`, in microseconds, as nanoseconds.
fn parse_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1_000)
}

impl Files {
    fn parse(&self) -> NetCounters {
        let udp = |name: &str| sum(pair(&self.snmp, "Udp:", name), row(&self.snmp6, "Udp6", name));
        let tcp = |name| pair(&self.snmp, "Tcp:", name);
        let ip = |name: &str| sum(pair(&self.netstat, "IpExt:", name), row(&self.snmp6, "Ip6", name));
        let listen = |name| pair(&self.netstat, "TcpExt:", name);
        let sockets = |head, name| word(&self.sockstat, head, name);
        let pages = |pages: u64| pages.checked_mul(rustix::param::page_size() as u64);
        NetCounters {
            in_bytes: ip("InOctets"),
            out_bytes: ip("OutOctets"),
            udp_in: udp("InDatagrams"),
            udp_out: udp("OutDatagrams"),
            udp_receive_buffer_errors: udp("RcvbufErrors"),
            udp_send_buffer_errors: udp("SndbufErrors"),
            udp_no_ports: udp("NoPorts"),
            udp_in_errors: udp("InErrors"),
            tcp_opened: tcp("ActiveOpens"),
            tcp_accepted: tcp("PassiveOpens"),
            tcp_retransmitted: tcp("RetransSegs"),
            tcp_resets: tcp("OutRsts"),
            accept_queue_overflows: listen("ListenOverflows"),
            listen_drops: listen("ListenDrops"),
            tcp_in_use: sum(sockets("TCP:", "inuse"), word(&self.sockstat6, "TCP6:", "inuse")),
            tcp_time_wait: sockets("TCP:", "tw"),
            tcp_orphans: sockets("TCP:", "orphan"),
            tcp_memory_bytes: sockets("TCP:", "mem").and_then(pages),
            udp_in_use: sum(sockets("UDP:", "inuse"), word(&self.sockstat6, "UDP6:", "inuse")),
            udp_memory_bytes: sockets("UDP:", "mem").and_then(pages),
        }
    }
}

/// A figure of both families. Without IPv6, it is the IPv4 figure alone; without the IPv4 figure, it is `None`.
fn sum(v4: Option<u64>, v6: Option<u64>) -> Option<u64> {
    v4?.checked_add(v6.unwrap_or(0))
}

/// A figure of a pair of lines that begin with `head`, the first with names and the second with figures.
fn pair(text: &str, head: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.split_whitespace().next() == Some(head));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut both = names.split_whitespace().zip(values.split_whitespace());
    both.find(|(found, _)| *found == name)?.1.parse().ok()
}

/// A figure of a line `PREFIXname value`.
fn row(text: &str, prefix: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix)?.split_once(char::is_whitespace));
    lines.find(|(found, _)| *found == name)?.1.trim().parse().ok()
}

/// A figure of a line as `TCP: inuse 5 orphan 0 tw 2`.
fn word(text: &str, head: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(head))?;
    line.split_whitespace().skip_while(|word| *word != name).nth(1)?.parse().ok()
}

fn parse_memory(meminfo: &str) -> KernelMemory {
    let kilobytes = |name| value(meminfo, name)?.checked_mul(1_024);
    KernelMemory { slab_bytes: kilobytes("Slab:"), slab_unreclaimable_bytes: kilobytes("SUnreclaim:") }
}

/// The slabs whose names speak of TCP sockets: `TCP`, `TCPv6`, `tw_sock_TCP`, `request_sock_TCP` and their like (slabinfo(5)).
fn tcp_slabs(slabinfo: &str) -> Option<u64> {
    let slab = |line: &str| {
        let (fields, slabs) = line.split_once(": slabdata")?;
        let name = fields.split_whitespace().next()?;
        let pages_per_slab: u64 = fields.split(':').next()?.split_whitespace().nth(5)?.parse().ok()?;
        let slabs: u64 = slabs.split_whitespace().nth(1)?.parse().ok()?;
        let bytes = slabs.checked_mul(pages_per_slab)?.checked_mul(rustix::param::page_size() as u64);
        if name.contains("TCP") { bytes } else { None }
    };
    slabinfo
        .lines()
        .filter_map(slab)
        .try_fold(None, |sum: Option<u64>, bytes| Some(Some(sum.unwrap_or(0).checked_add(bytes)?)))?
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};

    use proptest::prelude::*;

    use super::*;
    use crate::settings::has_ipv6;

    fn files() -> Files {
        Files {
            snmp: "Tcp: ActiveOpens PassiveOpens RetransSegs OutRsts\nTcp: 3 4 5 6\nUdp: InDatagrams NoPorts InErrors OutDatagrams \
                   RcvbufErrors SndbufErrors\nUdp: 10 2 3 4 5 6\nUdpLite: InDatagrams\nUdpLite: 9\n"
                .to_owned(),
            snmp6: "Ip6InOctets  100\nUdp6InDatagrams    7\nUdp6NoPorts  \t1\nUdp6RcvbufErrors    10\nUdpLite6InDatagrams 55\n"
                .to_owned(),
            netstat: "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 8 9\nIpExt: InOctets OutOctets\nIpExt: 1000 2000\n"
                .to_owned(),
            sockstat: "sockets: used 12\nTCP: inuse 5 orphan 1 tw 7 alloc 9 mem 3\nUDP: inuse 8 mem 2\n".to_owned(),
            sockstat6: "TCP6: inuse 2\nUDP6: inuse 9\n".to_owned(),
        }
    }

    #[test]
    fn figures_are_found_by_name_and_are_of_both_families() {
        let page = rustix::param::page_size() as u64;
        let found = files().parse();
        assert_eq!((found.in_bytes, found.out_bytes), (Some(1_100), Some(2_000)));
        assert_eq!((found.udp_in, found.udp_receive_buffer_errors, found.udp_no_ports), (Some(17), Some(15), Some(3)));
        assert_eq!((found.udp_send_buffer_errors, found.udp_in_errors, found.udp_out), (Some(6), Some(3), Some(4)));
        assert_eq!((found.tcp_opened, found.tcp_accepted), (Some(3), Some(4)));
        assert_eq!((found.tcp_retransmitted, found.tcp_resets), (Some(5), Some(6)));
        assert_eq!((found.accept_queue_overflows, found.listen_drops), (Some(8), Some(9)));
        assert_eq!((found.tcp_in_use, found.tcp_time_wait, found.tcp_orphans), (Some(7), Some(7), Some(1)));
        assert_eq!((found.tcp_memory_bytes, found.udp_memory_bytes), (Some(3 * page), Some(2 * page)));
        assert_eq!(found.udp_in_use, Some(17));
    }

    #[test]
    fn without_a_file_its_figures_are_unknown_and_without_ipv6_they_are_ipv4s() {
        assert_eq!(Files::default().parse(), NetCounters::default());
        let without = Files { snmp6: String::new(), sockstat6: String::new(), ..files() }.parse();
        assert_eq!((without.udp_in, without.tcp_in_use), (Some(10), Some(5)));
        let broken = Files { snmp: "Udp: InDatagrams\n".to_owned(), ..files() }.parse();
        assert_eq!((broken.udp_in, broken.tcp_opened), (None, None));
    }

    #[test]
    fn slabs_of_tcp_are_summed_by_name() {
        let page = rustix::param::page_size() as u64;
        let slabinfo = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables \
                        <limit> : slabdata <active_slabs> <num_slabs> <sharedavail>\n\
                        tw_sock_TCP  10 16 256 16 1 : tunables 0 0 0 : slabdata 1 2 0\n\
                        TCPv6        1 13 2432 13 8 : tunables 0 0 0 : slabdata 3 4 0\n\
                        dentry       9 21 192 21 1 : tunables 0 0 0 : slabdata 100 100 0\n";
        let memory = parse_memory("Slab:   90 kB\nSUnreclaim:  40 kB\n");
        assert_eq!((memory.slab_bytes, memory.slab_unreclaimable_bytes), (Some(92_160), Some(40_960)));
        assert_eq!(tcp_slabs(slabinfo), Some((2 + 4 * 8) * page));
        assert_eq!(parse_memory(""), KernelMemory::default());
        assert_eq!(tcp_slabs(""), None);
    }

    /// Connections of an accept queue that is full, and datagrams that a full buffer has no room for, are counted where they happen.
    #[test]
    fn the_kernel_counts_what_a_server_loses() {
        let before = read(Place::Own);
        // Others on this machine may lose something, too, so only a lower bound is asked for.
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        // The third finds the queue of one full, and does not come up.
        let wait = std::time::Duration::from_millis(50);
        let clients: Vec<_> = (0..4).map(|_| TcpStream::connect_timeout(&address, wait)).collect();
        let slow = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&slow).set_recv_buffer_size(1).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..100).for_each(|_| assert_eq!(sender.send_to(&[0; 500], slow.local_addr().unwrap()).unwrap(), 500));
        let after = read(Place::Of(std::process::id()));
        assert!(after.accept_queue_overflows.unwrap() > before.accept_queue_overflows.unwrap(), "{clients:?}");
        assert!(after.udp_receive_buffer_errors.unwrap() >= before.udp_receive_buffer_errors.unwrap() + 50);
        assert!(after.in_bytes.unwrap() >= before.in_bytes.unwrap() + 50_000);
        assert!(after.udp_out.unwrap() >= before.udp_out.unwrap() + 100 && after.tcp_opened > before.tcp_opened);
        assert!(after.tcp_in_use.unwrap() >= 1 && after.udp_memory_bytes.is_some(), "{}", has_ipv6());
        assert!(kernel_memory().slab_bytes.unwrap() > 0);
    }

    #[test]
    fn a_process_that_is_gone_tells_nothing() {
        assert_eq!(read(Place::Of(u32::MAX)), NetCounters::default());
    }

    proptest! {
        #[test]
        fn any_text_ends_in_figures_or_none(text in "(Udp:|Tcp:|TcpExt:|IpExt:|TCP:|Udp6NoPorts| mem| inuse| [0-9]{0,22}|\n| : slabdata|TCP){0,40}") {
            let files = Files { snmp: text.clone(), snmp6: text.clone(), netstat: text.clone(), sockstat: text.clone(), sockstat6: text.clone() };
            files.parse();
            parse_memory(&text);
            tcp_slabs(&text);
        }
    }
}
