//! Checks that load may be sent to the targets: this host and own namespaces are always allowed, all else must be.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ldplayer_core::Cidr;
use ldplayer_net::netns;
use ldplayer_replay::Targets;

use crate::error::RunError;
use crate::keys::RunSpec;
use crate::resolve::Plan;

/// Refuses servers that the user has not allowed, including a reference server. Returns the public ones.
pub fn of_all(spec: &RunSpec, plan: &Plan) -> Result<Vec<SocketAddr>, RunError> {
    let mut public = check("--server", &plan.settings.targets, &spec.allow_target)?;
    if let Some(other) = &plan.reference {
        public.extend(check("--compare-answers", &other.targets, &spec.allow_target)?);
    }
    Ok(public)
}

/// Refuses targets of an option that are outside this host and not allowed. Returns the public ones.
fn check(option: &str, targets: &Targets, allowed: &[Cidr]) -> Result<Vec<SocketAddr>, RunError> {
    if netns::is_emulated() {
        return Ok(Vec::new());
    }
    let Targets::Fixed(servers) = targets else {
        return Err(RunError::environment(
            "--server recorded: the recorded servers are not on this host, and must not be sent load; add --start-server \
            COMMAND, or run the command in a namespace: ldplayer testbed run -- COMMAND",
        ));
    };
    let mut public = Vec::new();
    for &server in servers.iter().filter(|server| !server.ip().is_loopback()) {
        if !allowed.iter().any(|block| is_allowed(block, server.ip())) {
            return Err(RunError::Spec(format!(
                "{option} {server}: not an address of this host; if you may send load to it, add --allow-target {}",
                server.ip()
            )));
        }
        if is_public(server.ip()) {
            public.push(server);
        }
    }
    Ok(public)
}

/// Whether a block allows load to an address. Many hosts receive packets to a multicast group: only a block of groups allows them.
fn is_allowed(block: &Cidr, address: IpAddr) -> bool {
    block.contains(address) && (!is_group(address) || is_group(block.first()))
}

fn is_group(address: IpAddr) -> bool {
    address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Not private, shared, link-local, loopback, documentation or another special-purpose address (RFC 6890).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            let shared = a == 100 && (64..128).contains(&b);
            let benchmark = a == 198 && (b == 18 || b == 19);
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_documentation()
                || v4.is_unspecified()
                || shared
                || benchmark)
        }
        IpAddr::V6(v6) => {
            let documentation = v6.segments()[..2] == [0x2001, 0xdb8];
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || documentation)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_does_not_mean_groups() {
        let is = |block: &str, address: &str| is_allowed(&block.parse().unwrap(), address.parse().unwrap());
        assert!(is("0.0.0.0/0", "192.0.2.1") && is("::/0", "2001:db8::1"));
        assert!(!is("0.0.0.0/0", "255.255.255.255") && !is("0.0.0.0/0", "224.0.0.251") && !is("::/0", "ff02::1"));
        assert!(
            is("224.0.0.251", "224.0.0.251") && is("255.255.255.255", "255.255.255.255") && is("ff00::/8", "ff02::1")
        );
    }

    #[test]
    fn special_addresses_are_not_public() {
        for special in
            ["127.0.0.1", "10.1.2.3", "100.64.0.1", "198.18.0.1", "192.0.2.1", "::1", "fd00::1", "2001:db8::1"]
        {
            assert!(!is_public(special.parse().unwrap()), "{special}");
        }
        for public in ["198.41.0.4", "100.128.0.1", "2001:503:ba3e::2:30"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }
}
