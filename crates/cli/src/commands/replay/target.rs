//! Whether the user may have meant to send there: this host and own namespaces are free, anything else is asked for.

use std::net::{IpAddr, SocketAddr};

use ldplayer_net::{interfaces, netns};

use super::options::Plan;
use crate::failure::Failure;

/// Refuses targets outside of this host that the user has not allowed, and announces those that are public.
pub fn check(plan: &Plan) -> Result<(), Failure> {
    for &server in plan.settings.targets.named() {
        if server.ip().is_loopback() || netns::has_any_ip() || interfaces::is_wired() {
            continue;
        }
        if !plan.allowed.iter().any(|block| block.contains(server.ip())) {
            return Err(anyhow::anyhow!(
                "--server {server}: not an address of this host; if load may go there, add --allow-target {}",
                server.ip()
            )
            .into());
        }
        if is_public(server.ip()) {
            announce(plan, server)?;
        }
    }
    Ok(())
}

/// Says what is about to be sent to a public address, before the first packet.
fn announce(plan: &Plan, server: SocketAddr) -> Result<(), Failure> {
    let (mut queries, mut octets) = (0_u64, 0_u64);
    let can_be_read_twice = plan.inputs.iter().all(|input| matches!(input, ldplayer_trace::Input::File(_)));
    if can_be_read_twice {
        let mut feed = super::feed::open(plan)?;
        let mut batch = Vec::new();
        let mut more = true;
        while more {
            more = feed.next(&mut batch)?;
            queries += batch.len() as u64;
            octets += batch.drain(..).map(|query| query.wire.len() as u64).sum::<u64>();
        }
        eprintln!("ldplayer: about to send up to {queries} queries ({octets} octets) to the public address {server}");
    } else {
        eprintln!("ldplayer: about to send the queries of its input, as they come, to the public address {server}");
    }
    Ok(())
}

/// Not private, shared, link-local, loopback, documentation or otherwise special (RFC 6890).
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
