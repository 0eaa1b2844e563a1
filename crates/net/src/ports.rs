//! The ephemeral ports of UDP that are free in the network namespace of the calling thread.

use std::fs;
use std::ops::RangeInclusive;

use crate::limits;

/// The range from which the kernel takes ports for sockets that ask for any, as `ip_local_port_range` has it.
pub fn ephemeral() -> Option<RangeInclusive<u16>> {
    let range = limits::sysctl("net.ipv4.ip_local_port_range")?;
    let mut bounds = range.split_whitespace().map(str::parse);
    Some(bounds.next()?.ok()?..=bounds.next()?.ok()?)
}

/// The number of ports in that range that no UDP socket has, whatever its address; `None` if the kernel does not say.
pub fn free_udp() -> Option<u32> {
    let range = ephemeral()?;
    let tables = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
    let texts = tables.map(|table| fs::read_to_string(table).unwrap_or_default());
    let mut taken: Vec<u16> =
        texts.iter().flat_map(|text| local_ports(text)).filter(|port| range.contains(port)).collect();
    taken.sort_unstable();
    taken.dedup();
    Some((range.count() - taken.len()) as u32)
}

/// The local ports in a table of sockets (proc_pid_net(5)): `12: 00000000:1F90 …`, in hexadecimal.
fn local_ports(text: &str) -> impl Iterator<Item = u16> {
    let local = |line: &str| {
        let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    text.lines().skip(1).filter_map(local)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Namespace;
    use std::net::UdpSocket;

    #[test]
    fn ports_are_the_second_column() {
        let text = "  sl  local_address rem_address\n  12: 0100007F:1F90 00000000:0000 07\n 13: 00000000000000000000000001000000:FFFF 0:0\nbad\n";
        assert_eq!(local_ports(text).collect::<Vec<_>>(), [8_080, 65_535]);
    }

    #[test]
    fn what_sockets_have_is_not_free() {
        let counted = Namespace::create().unwrap().run(|| {
            fs::write("/proc/sys/net/ipv4/ip_local_port_range", "40000 40099").unwrap();
            let before = free_udp();
            let _sockets =
                ["0.0.0.0:40007", "0.0.0.0:5300", "0.0.0.0:0"].map(|address| UdpSocket::bind(address).unwrap());
            (ephemeral(), before, free_udp())
        });
        assert_eq!(counted.unwrap(), (Some(40_000..=40_099), Some(100), Some(98)));
    }
}
