//! Frames on an interface of this host: makes out what clients must know of the link, and refuses what cannot work there.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ldplayer_core::Cidr;
use ldplayer_net::addresses::{self, OwnAddress};
use ldplayer_net::netlink::Netlink;
use ldplayer_net::packets::Interface;
use ldplayer_replay::{NetworkPath, NextHop, OnLink, Packets, Reference, Sources, Targets};

use crate::error::RunError;
use crate::keys::RunSpec;
use crate::{link, path};

/// Octets of the longest packet that every link must carry: of IPv4, what every host must take (RFC 791 section 3.1) …
const LEAST_MTU_V4: u16 = 576;
/// … and of IPv6 (RFC 8200 section 5).
const LEAST_MTU_V6: u16 = 1_280;

/// Nobody: clients without an address of their own cannot be reached on a link with other hosts, so that none is given to them.
const NOBODY: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];

/// Refuses keys that exclude each other.
pub fn check(spec: &RunSpec) -> Result<(), RunError> {
    let refused = |text: &str| Err(RunError::Spec(text.to_owned()));
    let routers = |v4: bool| spec.next_hop.iter().filter(|address| address.is_ipv4() == v4).count();
    if !spec.path.is_packets() {
        return refused("--interface: needs --path packets");
    }
    if spec.start_server.is_some() {
        return refused(
            "--interface: a server of --start-server is in a namespace of its own, with a link made for it",
        );
    }
    if routers(true) > 1 || routers(false) > 1 {
        return refused("--next-hop: give one address of IPv4 and one of IPv6 at most");
    }
    Ok(())
}

/// Refuses an interface in a run on several hosts, which have the same clients.
pub fn refuse_on_several_hosts(spec: &RunSpec) -> Result<(), RunError> {
    match spec.interface {
        Some(_) => Err(RunError::Spec(
            "--interface: on several hosts, each would answer for the addresses of all clients; use --path sockets"
                .to_owned(),
        )),
        None => Ok(()),
    }
}

/// Frames on an interface to these servers.
///
/// # Errors
/// The interface cannot be used for this, or hosts have the addresses.
pub fn path(
    spec: &RunSpec,
    name: &str,
    targets: &Targets,
    reference: Option<&Reference>,
) -> Result<NetworkPath, RunError> {
    let servers = servers(targets, reference)?;
    let interface = usable(name, &servers)?;
    let own = addresses::own().map_err(RunError::environment)?;
    let claims = match path::sources(spec)? {
        Sources::Pool(blocks) => blocks,
        Sources::Original | Sources::Ports => Vec::new(),
    };
    let hops: Vec<(IpAddr, IpAddr)> = servers.iter().map(|&server| (server, hop(spec, server))).collect();
    refuse_local(name, &hops, &own)?;
    refuse_claims(&claims, &hops, &own)?;
    let askers = [false, true].map(|v6| asker(v6, name, &claims, &own));
    if servers.iter().any(IpAddr::is_ipv6) && askers[1].is_unspecified() {
        return Err(RunError::Environment(format!(
            "--interface {name}: it has no IPv6 address to ask neighbours from; enable IPv6 on it, or use --sources \
            pool:CIDR with a block of IPv6"
        )));
    }
    let own = own.into_iter().map(|own| own.address).collect();
    Ok(NetworkPath::Packets(Packets {
        interface: name.to_owned(),
        answers: None,
        queries: None,
        // A device with a wire lets in frames to its own MAC address, and a switch may let out no others.
        mac: interface.mac,
        next_hop: NextHop::Asked(Box::new(OnLink { hops, askers, claims, own })),
        nobody: NOBODY,
        sender: path::sender(spec)?,
        link: link::of(spec)?.map(Box::new),
    }))
}

/// The addresses of all servers, each once.
fn servers(targets: &Targets, reference: Option<&Reference>) -> Result<Vec<IpAddr>, RunError> {
    let Targets::Fixed(given) = targets else {
        return Err(RunError::Spec("--server recorded: with --interface, give the server: --server ADDR".to_owned()));
    };
    let other = reference.map_or(&[][..], |other| other.targets.named());
    let mut servers: Vec<IpAddr> = given.iter().chain(other).map(|server| server.ip()).collect();
    servers.sort_unstable();
    servers.dedup();
    Ok(servers)
}

/// The interface, if frames to these servers can be sent on it.
fn usable(name: &str, servers: &[IpAddr]) -> Result<Interface, RunError> {
    let failed = |what: &dyn std::fmt::Display| RunError::Environment(format!("--interface {name}: {what}"));
    let interface = Interface::find(name).map_err(|error| failed(&error))?;
    interface.check().map_err(|error| failed(&error))?;
    let (least, family) =
        if servers.iter().any(IpAddr::is_ipv6) { (LEAST_MTU_V6, "IPv6") } else { (LEAST_MTU_V4, "IPv4") };
    if interface.mtu < least {
        let mtu = interface.mtu;
        return Err(failed(&format!(
            "its MTU is {mtu}, and {family} needs {least} bytes: ip link set {name} mtu 1500"
        )));
    }
    Ok(interface)
}

/// The neighbour that frames to a server go to.
fn hop(spec: &RunSpec, server: IpAddr) -> IpAddr {
    let router = spec.next_hop.iter().find(|router| router.is_ipv4() == server.is_ipv4());
    router.copied().unwrap_or(server)
}

/// Refuses neighbours that are this host itself: frames leave it.
fn refuse_local(name: &str, hops: &[(IpAddr, IpAddr)], own: &[OwnAddress]) -> Result<(), RunError> {
    let is_here = |address: IpAddr| address.is_loopback() || own.iter().any(|own| own.address == address);
    match hops.iter().flat_map(|&(server, hop)| [server, hop]).find(|&address| is_here(address)) {
        Some(address) => Err(RunError::Environment(format!(
            "--interface {name}: {address} is an address of this host, which frames that leave it do not reach; use \
            --path sockets"
        ))),
        None => Ok(()),
    }
}

/// Refuses addresses of clients that a host has, as far as that can be known.
fn refuse_claims(claims: &[Cidr], hops: &[(IpAddr, IpAddr)], own: &[OwnAddress]) -> Result<(), RunError> {
    let refused = |address: IpAddr, whose: &str| {
        Err(RunError::Environment(format!(
            "--sources pool: {address} is {whose}; use a block of addresses that no host has"
        )))
    };
    let in_pool = |address: &IpAddr| claims.iter().any(|block| block.contains(*address));
    let ends = claims.iter().flat_map(|block| [block.nth(0), block.nth(block.size().saturating_sub(1))]);
    let netlink = Netlink::open().map_err(RunError::environment)?;
    // Addresses may be local by a route, too. Without any route the kernel answers with an error: not local either.
    let by_route = ends.into_iter().find(|&end| netlink.is_local(end).unwrap_or(false));
    if let Some(address) = own.iter().map(|own| own.address).find(in_pool).or(by_route) {
        return refused(address, "an address of this host, whose own network stack would answer for it");
    }
    match hops.iter().flat_map(|&(server, hop)| [server, hop]).find(in_pool) {
        Some(address) => refused(address, "the address of the server or the next hop, whose frames would come here"),
        None => Ok(()),
    }
}

/// From which address neighbours are asked for: a client's, or the interface's own; none in a probe of ARP (RFC 5227 section 1.1).
fn asker(v6: bool, name: &str, claims: &[Cidr], own: &[OwnAddress]) -> IpAddr {
    let client = claims.iter().find(|block| block.is_ipv4() != v6);
    // The first address of a block may be the network's, which no host answers.
    let client = client.map(|block| block.nth(u64::from(block.size() > 2)));
    let of_interface = || own.iter().find(|own| own.interface == name && own.address.is_ipv6() == v6);
    client.or_else(|| of_interface().map(|own| own.address)).unwrap_or(NOBODY[usize::from(v6)])
}

/// Families, as words, in which this host forwards packets that arrive at the interface of the path: answers to clients have its own MAC
/// address, and would be sent on or redirected.
pub fn forwarded(path: &NetworkPath) -> Vec<&'static str> {
    let Some((packets, on_link)) = path.packets().and_then(|packets| Some((packets, packets.on_link()?))) else {
        return Vec::new();
    };
    let is_on = |family: &&str| {
        let file = format!("/proc/sys/net/{family}/conf/{}/forwarding", packets.interface);
        fs::read_to_string(file).is_ok_and(|value| value.trim() != "0")
    };
    let is_used = |family: &&str| on_link.hops.iter().any(|(server, _)| server.is_ipv6() == (*family == "ipv6"));
    ["ipv4", "ipv6"].into_iter().filter(is_used).filter(is_on).collect()
}
