//! The network interfaces of the calling thread's namespace, from `/proc`.

use std::fs;
use std::net::Ipv4Addr;

/// The name of the wire's device in each namespace.
pub const DEVICE: &str = "wire0";

/// Whether the network namespace of the calling thread has no other way out than the wire.
pub fn is_wired() -> bool {
    has_only(&[DEVICE], &[])
}

/// Interfaces that the kernel itself puts into every namespace once a module is there (`net.core.fb_tunnels_only_for_init_net`); they lead
/// nowhere.
const OF_MODULES: [&str; 10] =
    ["tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0", "teql0"];

/// Whether the network namespace of the calling thread has no way out: nothing but loopback.
pub fn is_alone() -> bool {
    has_only(&[], &OF_MODULES)
}

/// Whether the network namespace of the calling thread has the interfaces that are wanted, all of them, and none else but loopback and
/// those that are allowed.
pub(crate) fn has_only(wanted: &[&str], allowed: &[&str]) -> bool {
    are_only(&fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default(), wanted, allowed)
}

/// Whether the interfaces are loopback and those (proc_pid_net(5): a name and a colon begin each line).
fn are_only(text: &str, wanted: &[&str], allowed: &[&str]) -> bool {
    let names = || text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names().all(|name| name == "lo" || wanted.contains(&name) || allowed.contains(&name))
        && wanted.iter().all(|&name| names().any(|it| it == name))
}

/// Packets that the kernel dropped before the wire could read them, in the network namespace of the calling thread.
pub fn dropped_here() -> u64 {
    parse_dropped(&fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default())
}

/// Whether an address is loopback's, or any interface's, in the network namespace of a process.
pub fn has_loopback(pid: u32, address: Ipv4Addr) -> bool {
    let routes = fs::read_to_string(format!("/proc/{pid}/net/fib_trie")).unwrap_or_default();
    has_leaf(&routes, address)
}

/// Whether an address has a route of its own, a line with a leaf of the kernel's tree.
fn has_leaf(routes: &str, address: Ipv4Addr) -> bool {
    let leaf = format!("|-- {address}");
    routes.lines().any(|line| line.trim() == leaf)
}

/// Packets that the kernel dropped on their way out of an interface of the calling thread's namespace; 0 if there is no such interface.
pub fn dropped_at(name: &str) -> u64 {
    parse_dropped_at(&fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default(), name)
}

fn parse_dropped(text: &str) -> u64 {
    parse_dropped_at(text, DEVICE)
}

/// The column of packets dropped on sending (proc_pid_net(5)): eight columns of receiving, then octets, packets, errors, drops.
fn parse_dropped_at(text: &str, interface: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    let columns = lines.find(|(name, _)| *name == interface).map_or("", |(_, columns)| columns);
    columns.split_whitespace().nth(11).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_loopback_is_a_leaf() {
        let text =
            "Local:\n  +-- 127.0.0.0/8 2 0 2\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 127.200.3.41\n";
        assert!(has_leaf(text, Ipv4Addr::new(127, 200, 3, 41)) && !has_leaf(text, Ipv4Addr::new(127, 200, 3, 4)));
        assert!(!has_leaf(text, Ipv4Addr::new(127, 0, 0, 0)));
    }

    #[test]
    fn drops_are_read_from_their_column() {
        let text =
            "Inter-| Receive | Transmit\n lo: 1 2 3 4 5 6 7 8 9 10 11 12 13\n wire0: 1 2 3 4 5 6 7 8 9 10 11 77 13\n";
        assert_eq!(parse_dropped(text), 77);
        assert_eq!((parse_dropped("nonsense"), parse_dropped_at(text, "lo")), (0, 12));
        let only_wire = |text: &str| are_only(text, &[DEVICE], &[]);
        assert!(only_wire(text) && !only_wire("") && !only_wire(&format!("{text} eth0: 1 2 3\n")));
        assert!(!only_wire(&text.replace("wire0", "tun0")) && !are_only(text, &[DEVICE, "clients0"], &[]));
        assert!(are_only(text, &[], &[DEVICE, "clients0"]) && !are_only(text, &[], &["clients0"]));
    }
}
