//! Chooses how packets of clients reach the network, and what clients have for addresses without sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ldplayer_net::packets::SenderKind;
use ldplayer_net::veth;
use ldplayer_replay::{NetworkPath, NextHop, Packets, PathChoice, Reference, Sources, Targets};

pub(crate) mod interface;

use crate::error::RunError;
use crate::keys::RunSpec;
use crate::link;

/// Maximum number of open connections per worker where they need no descriptors: what a process of some gigabytes holds.
pub const MAX_CONNECTIONS: u32 = 32_000_000;
/// The addresses of clients that have none of their own: of the blocks for benchmarks (RFC 2544, RFC 5180).
const NOBODY: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1))];

impl RunSpec {
    /// Whether its server is to be started in a namespace with a link for frames ([`veth`]).
    pub fn needs_link(&self) -> bool {
        self.path.is_packets() && self.interface.is_none()
    }
}

/// The path of a run in the namespace of this process, to these servers.
///
/// # Errors
/// Frames are asked for, and there is nothing to send them on.
pub fn of(spec: &RunSpec, targets: &Targets, reference: Option<&Reference>) -> Result<NetworkPath, RunError> {
    if let Some(name) = &spec.interface {
        interface::check(spec)?;
        refuse_counts(spec)?;
        return interface::path(spec, name, targets, reference);
    }
    if !spec.next_hop.is_empty() {
        return Err(RunError::Spec("--next-hop: needs --interface NAME".to_owned()));
    }
    match spec.path {
        PathChoice::Auto | PathChoice::Packets | PathChoice::PacketsXdp if veth::is_here() => {
            refuse_loopback(targets, reference).and_then(|()| in_namespace(spec))
        }
        PathChoice::Auto | PathChoice::Sockets => link::refuse_without_frames(spec).map(|()| NetworkPath::Sockets),
        PathChoice::Packets | PathChoice::PacketsXdp => Err(RunError::environment(
            "--path packets: this namespace has no link for frames; add --start-server COMMAND, run the command in a \
            namespace made for it (ldplayer testbed run --packets -- COMMAND), or give an interface of this host: \
            --interface NAME",
        )),
    }
}

/// ::1 is refused: all queries to it would time out.
fn refuse_loopback(targets: &Targets, reference: Option<&Reference>) -> Result<(), RunError> {
    let mut all = std::iter::once(targets).chain(reference.map(|reference| &reference.targets));
    if all.any(|targets| targets.names(Ipv6Addr::LOCALHOST.into())) {
        return Err(RunError::Spec(
            "--path packets: the kernel drops packets to ::1 that arrive by a link; let the server have another address, \
             such as 127.0.0.1 or 2001:db8::53, or use --path sockets"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Counters of segments are refused.
fn refuse_counts(spec: &RunSpec) -> Result<(), RunError> {
    if spec.count_segments {
        return Err(RunError::Spec(
            "--count-segments: the counters are the kernel's, which has no part in --path packets; use --path sockets"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Socket type used to send frames.
///
/// # Errors
/// Stamps are asked for, and there are none.
pub fn sender(spec: &RunSpec) -> Result<SenderKind, RunError> {
    if spec.path != PathChoice::PacketsXdp {
        return Ok(SenderKind::Packet);
    }
    if spec.stamp_sends {
        let what = "--stamp-sends: frames sent by AF_XDP have no stamps; use --path packets";
        return Err(RunError::Spec(what.to_owned()));
    }
    Ok(SenderKind::Xdp)
}

/// Frames on the link of a namespace.
fn in_namespace(spec: &RunSpec) -> Result<NetworkPath, RunError> {
    refuse_counts(spec)?;
    let sender = sender(spec)?;
    Ok(NetworkPath::Packets(Packets {
        interface: veth::CLIENTS.to_owned(),
        answers: veth::answers().map(str::to_owned),
        queries: veth::queries().filter(|_| !spec.stamp_sends).map(str::to_owned),
        mac: veth::CLIENT_MAC,
        next_hop: NextHop::Mac(veth::HOST_MAC),
        nobody: NOBODY,
        sender,
        link: link::of(spec)?.map(Box::new),
    }))
}

/// The addresses of clients without sockets: their own, or a pool's.
///
/// # Errors
/// Each client should have a socket.
pub fn sources(spec: &RunSpec) -> Result<Sources, RunError> {
    match &spec.sources {
        None | Some(Sources::Original) => Ok(Sources::Original),
        Some(pool @ Sources::Pool(_)) => Ok(pool.clone()),
        Some(Sources::Ports) => Err(RunError::Spec(
            "--sources ports: there are no sockets with --path packets; use original or pool:CIDR,…".to_owned(),
        )),
    }
}
