//! A network namespace in which every address is local and out of which no packet finds a way.
//!
//! Emulated clients keep their recorded addresses in it without any interface configuration: the route
//! `local default dev lo` (AnyIP) makes each IPv4 and IPv6 address one of this host. There is no interface but loopback.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

use crate::netlink::Netlink;

/// Addresses that no host has (RFC 5737, RFC 3849): local here only by AnyIP.
const PROBES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// Kernel settings of the new namespace: what sending from any address, and much of it, needs.
pub(crate) const SETTINGS: [(&str, &str); 7] = [
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/lo/rp_filter", "0"),
    ("net/ipv6/ip_nonlocal_bind", "1"),
    ("net/ipv4/ip_local_port_range", "1024 65535"),
    ("net/ipv4/icmp_ratelimit", "0"),
    ("net/ipv6/icmp/ratelimit", "0"),
    ("net/ipv4/icmp_msgs_per_sec", "1000000"),
];

/// What keeps a testbed from being made. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// The kernel or a security policy refuses namespaces.
    #[error(
        "cannot make a network namespace: {0}; run as root, or allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0 user.max_user_namespaces=10000"
    )]
    Namespace(io::Error),
    /// The identity inside the user namespace cannot be set.
    #[error("cannot map this user into the new namespace ({file}): {source}; see user_namespaces(7)")]
    Mapping {
        /// The file of /proc/self that refused it.
        file: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Loopback or its routes cannot be set up.
    #[error("cannot set up {what} in the new namespace: {source}; it needs CAP_NET_ADMIN there")]
    Routing {
        /// What was to be set up.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// The namespace that the calling thread is in; threads and processes that it starts from now on are in it, too.
#[derive(Debug)]
pub struct Testbed {
    rootless: bool,
}

impl Testbed {
    /// Puts the caller into a new namespace. It must be the only thread of its process, as a new user namespace asks for.
    ///
    /// # Errors
    /// What the system refused, with the way to allow it.
    pub fn enter() -> Result<Self, NetError> {
        let rootless = separate()?;
        let netlink = Netlink::open().map_err(|source| NetError::Routing { what: "netlink", source })?;
        let routing = |what| move |source| NetError::Routing { what, source };
        netlink.loopback_up().map_err(routing("loopback"))?;
        netlink.any_ip(false).map_err(routing("local IPv4 routes"))?;
        netlink.any_ip(true).map_err(routing("local IPv6 routes"))?;
        apply(&SETTINGS);
        Ok(Self { rootless })
    }

    /// Whether it was made without privileges, in a user namespace.
    pub const fn is_rootless(&self) -> bool {
        self.rootless
    }
}

/// Writes kernel settings of the current network namespace.
pub(crate) fn apply(settings: &[(&str, &str)]) {
    for (name, value) in settings {
        // Not every kernel has each of them; where one lacks, the kernel's default is what the run has.
        let _ = fs::write(format!("/proc/sys/{name}"), value);
    }
}

/// Whether every address is local in the current namespace.
pub fn has_any_ip() -> bool {
    let Ok(netlink) = Netlink::open() else { return false };
    PROBES.into_iter().all(|probe| netlink.is_local(probe).unwrap_or(false))
}

/// Leaves the network namespace; with a new user namespace where the right to do so lacks. Returns whether it lacked.
fn separate() -> Result<bool, NetError> {
    if unshare(UnshareFlags::NEWNET).is_ok() {
        return Ok(false);
    }
    new_user(UnshareFlags::NEWNET)
}

/// A user namespace with `more` namespaces, in which this user is root. Returns true.
pub(crate) fn new_user(more: UnshareFlags) -> Result<bool, NetError> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    unshare(UnshareFlags::NEWUSER | more).map_err(NetError::Namespace)?;
    for (file, content) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("0 {uid} 1")), ("gid_map", format!("0 {gid} 1"))]
    {
        fs::write(format!("/proc/self/{file}"), content).map_err(|source| NetError::Mapping { file, source })?;
    }
    Ok(true)
}

pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: none of the flags used here unshares file descriptors or the file system, which other code relies on being shared.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}
