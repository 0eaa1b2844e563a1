//! Chooses how packets of clients reach the network, and what clients have for addresses without sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ldplayer_net::packets::SenderKind;
use ldplayer_net::veth;
use ldplayer_replay::{Packets, Path, PathChoice, Sources};

use crate::error::RunError;
use crate::spec::RunSpec;

/// Maximum number of open connections per worker where they need no descriptors: what a process of some gigabytes holds.
pub const MAX_CONNECTIONS: u32 = 32_000_000;
/// The addresses of clients that have none of their own: of the blocks for benchmarks (RFC 2544, RFC 5180).
const NOBODY: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1))];

impl RunSpec {
    /// Whether its server is to be started in a namespace with a link for frames ([`veth`]).
    pub fn needs_link(&self) -> bool {
        self.path.is_packets()
    }
}

/// The path of a run in the namespace of this process.
///
/// # Errors
/// Frames are asked for, and there is nothing to send them on.
pub fn of(spec: &RunSpec) -> Result<Path, RunError> {
    match spec.path {
        PathChoice::Sockets => Ok(Path::Sockets),
        _ if veth::is_here() => on_link(spec),
        PathChoice::Auto => Ok(Path::Sockets),
        PathChoice::Packets | PathChoice::PacketsXdp => Err(RunError::environment(
            "--path packets: this namespace has no link for frames; add --start-server COMMAND, or run the command in a \
            namespace made for it: ldplayer testbed run --packets -- COMMAND",
        )),
    }
}

/// Frames on the link of a namespace.
fn on_link(spec: &RunSpec) -> Result<Path, RunError> {
    if spec.count_segments {
        return Err(RunError::Spec(
            "--count-segments: the counters are the kernel's, which has no part in --path packets; use --path sockets"
                .to_owned(),
        ));
    }
    let is_xdp = spec.path == PathChoice::PacketsXdp;
    if is_xdp && spec.stamp_sends {
        return Err(RunError::Spec(
            "--stamp-sends: frames sent by AF_XDP have no stamps; use --path packets".to_owned(),
        ));
    }
    let sender = if is_xdp { SenderKind::Xdp } else { SenderKind::Packet };
    Ok(Path::Packets(Packets {
        interface: veth::CLIENTS.to_owned(),
        mac: veth::CLIENT_MAC,
        next_hop: veth::HOST_MAC,
        nobody: NOBODY,
        sender,
    }))
}

/// The addresses of clients without sockets: their own, or those of a pool.
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
