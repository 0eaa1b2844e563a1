//! Kernel settings of namespaces whose clients send from any address.

use std::fs;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};

use crate::limits;

/// Kernel settings of the new namespace that sending much from any address needs, each with its value and with what happens without it.
/// None of them decides whether addresses are local, which is tested afterwards.
const SETTINGS: [(&str, &str, &str); 8] = [
    ("net.ipv6.conf.all.disable_ipv6", "0", "IPv6 may be off"),
    ("net.ipv4.conf.all.rp_filter", "0", "answers may be dropped because of their source address"),
    ("net.ipv4.conf.lo.rp_filter", "0", "answers may be dropped because of their source address"),
    ("net.ipv6.ip_nonlocal_bind", "1", "servers cannot listen on arbitrary IPv6 addresses"),
    ("net.ipv4.ip_local_port_range", "1024 65535", "fewer ports are available to clients"),
    ("net.ipv4.icmp_ratelimit", "0", "ICMP errors for refused queries may be late or missing"),
    ("net.ipv6.icmp.ratelimit", "0", "ICMP errors for refused queries may be late or missing"),
    ("net.ipv4.icmp_msgs_per_sec", "1000000", "ICMP errors for refused queries may be late or missing"),
];

/// A kernel setting that could not be made in a testbed, and its effect. Reported as a warning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot set {name} to {value} in the namespace ({why}): {effect}")]
pub struct Shortfall {
    /// Its dotted name.
    pub name: &'static str,
    /// What it should be.
    pub value: &'static str,
    /// What the system said.
    pub why: String,
    /// What it is like without.
    pub effect: &'static str,
}

/// Makes the settings of the current namespace; returns those that could not be made.
pub(crate) fn apply_settings() -> Vec<Shortfall> {
    let with_v6 = has_ipv6();
    let names = SETTINGS.into_iter().filter(|(name, ..)| with_v6 || !name.starts_with("net.ipv6"));
    names.filter_map(|(name, value, effect)| set(name, value, effect)).collect()
}

/// Makes a setting of the namespace. A setting that already has the value, or is unknown to the kernel, is no shortfall.
fn set(name: &'static str, value: &'static str, effect: &'static str) -> Option<Shortfall> {
    let found = limits::sysctl(name)?;
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let why = fs::write(path, value).err().filter(|_| found != value)?.to_string();
    Some(Shortfall { name, value, why, effect })
}

/// Whether this kernel has IPv6 (it has not with `ipv6.disable=1`).
pub fn has_ipv6() -> bool {
    !matches!(socket(AddressFamily::INET6, SocketType::DGRAM, None), Err(Errno::AFNOSUPPORT))
}
