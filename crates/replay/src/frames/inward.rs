//! What is in frames that arrived, for the clients of one worker.

use std::net::{IpAddr, SocketAddr};

use hashbrown::HashSet;
use ldplayer_core::{Cidr, RunTime};
use ldplayer_link::Ends;
use ldplayer_net::packets::{Checksum, Frame};
use ldplayer_stack::fragments::{Limits, Reassembler};
use ldplayer_stack::frame::{
    BadFrame, Check, Content, Datagram, Ethernet, IcmpError, IcmpKind, Mac, Packet, Segment, Transport, ip,
};

use super::ports::Ports;
use crate::path::OnLink;
use crate::route::SocketKey;

/// What arrived in a frame.
#[derive(Clone, Copy, Debug)]
pub enum Received<'a> {
    /// A datagram for one of this worker's ports.
    Datagram(ReceivedDatagram<'a>),
    /// A segment from a server to a client.
    Segment(SocketAddr, SocketAddr, Segment<'a>),
    /// Nothing listens at a server's port, to which a client sent this datagram.
    Refused(ReceivedDatagram<'a>),
    /// An error about a segment of a client.
    Icmp(IcmpError<'a>),
}

/// A datagram.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedDatagram<'a> {
    /// The socket that the client's port stands for.
    pub socket: SocketKey,
    /// Whether it is of QUIC.
    pub is_quic: bool,
    /// The server.
    pub peer: SocketAddr,
    /// The client.
    pub local: IpAddr,
    /// The payload.
    pub octets: &'a [u8],
}

/// Frames that were of no use, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames and datagrams that could not be read, in the order of [`BadFrame::ALL`].
    pub bad: [u64; BadFrame::ALL.len()],
    /// Frames longer than the kernel had room for.
    pub cut: u64,
    /// Datagrams to ports of no client of this worker.
    pub other_ports: u64,
}

/// Why a frame is of no use.
pub(super) enum Useless {
    Bad(BadFrame),
    Cut,
    OtherPort,
}

/// Between whom packets are those of clients, on a link with other hosts: a segment of somebody else's connection must not be reset.
#[derive(Clone, Debug)]
pub struct Scope {
    servers: HashSet<IpAddr, foldhash::fast::FixedState>,
    /// The clients; empty for all that are not of this host.
    clients: Vec<Cidr>,
    own: Vec<IpAddr>,
}

impl Scope {
    /// The servers and clients of a link.
    pub fn new(on_link: &OnLink) -> Self {
        let servers = on_link.hops.iter().map(|&(server, _)| server).collect();
        Self { servers, clients: on_link.claims.clone(), own: on_link.own.clone() }
    }

    /// Whether a packet from one to the other is from a server to a client.
    fn has(&self, from: IpAddr, local: IpAddr) -> bool {
        let is_client = self.clients.is_empty() || self.clients.iter().any(|block| block.contains(local));
        is_client && !self.own.contains(&local) && self.servers.contains(&from)
    }
}

/// Reads frames.
pub struct Inward {
    ports: Ports,
    /// `None` where nobody is on the link but clients and servers.
    scope: Option<Scope>,
    fragments: Reassembler,
    counts: FrameCounts,
}

impl Inward {
    /// Frames for clients with these ports, on a link with others than clients and servers if there is a scope.
    pub fn new(ports: Ports, scope: Option<Scope>) -> Self {
        Self { ports, scope, fragments: Reassembler::new(Limits::default()), counts: FrameCounts::default() }
    }

    /// Frames that were of no use.
    pub const fn counts(&self) -> &FrameCounts {
        &self.counts
    }

    /// Between whom a frame is, if it can be read and is from a server to a client. That of a fragment or of an ICMP error has no ports.
    pub fn ends(&self, frame: &Frame<'_>) -> Option<Ends> {
        let (from, local, ports, protocol) = match contents(frame).ok()?.1 {
            Content::Transport(from, local, Transport::Udp(it)) => {
                (from, local, (it.source_port, it.destination_port), ip::UDP)
            }
            Content::Transport(from, local, Transport::Tcp(it)) => {
                (from, local, (it.source_port, it.destination_port), ip::TCP)
            }
            Content::Transport(from, local, Transport::Icmp(_)) => (from, local, (0, 0), ip::ICMP),
            Content::Fragment(packet) => (packet.source, packet.destination, (0, 0), packet.protocol),
            Content::Transport(_, _, Transport::Discovery(_)) | Content::Arp(_) => return None,
        };
        let is_of_others = self.scope.as_ref().is_some_and(|scope| !scope.has(from, local));
        (!is_of_others).then_some(Ends { from: (from, ports.0), to: (local, ports.1), protocol })
    }

    /// Hands over the content of a frame that arrived at `at`, if it is for a client of this worker.
    pub fn read(&mut self, frame: &Frame<'_>, at: RunTime, take: impl FnOnce(Received<'_>)) {
        let Self { ports, scope, fragments, counts } = self;
        let is_of_others = |from, local| scope.as_ref().is_some_and(|scope| !scope.has(from, local));
        let received = match contents(frame).map(|(_, content)| content) {
            Ok(Content::Transport(from, local, Transport::Tcp(_) | Transport::Udp(_))) if is_of_others(from, local) => {
                Ok(None)
            }
            Ok(Content::Transport(from, local, transport)) => ports.received(from, local, transport),
            Ok(Content::Fragment(packet)) if is_of_others(packet.source, packet.destination) => Ok(None),
            Ok(Content::Fragment(packet)) => whole(fragments, at, &packet, *ports),
            Ok(Content::Arp(_)) => Ok(None),
            Err(useless) => Err(useless),
        };
        match received {
            Ok(Some(received)) => take(received),
            Ok(None) => {}
            Err(Useless::Bad(bad)) => counts.bad[bad.index()] += 1,
            Err(Useless::Cut) => counts.cut += 1,
            Err(Useless::OtherPort) => counts.other_ports += 1,
        }
    }
}

/// What is in a frame, and the MAC address that it came from.
pub(super) fn contents<'a>(frame: &Frame<'a>) -> Result<(Mac, Content<'a>), Useless> {
    if frame.length > frame.octets.len() {
        return Err(Useless::Cut);
    }
    let check = if frame.checksum == Checksum::Unknown { Check::Verify } else { Check::Trust };
    let ethernet = Ethernet::read(frame.octets).map_err(Useless::Bad)?;
    let content = Content::read(ethernet.ethertype, ethernet.payload, check).map_err(Useless::Bad)?;
    Ok((ethernet.source, content))
}

/// The content of a datagram whose last missing fragment has arrived.
fn whole<'a>(
    fragments: &'a mut Reassembler,
    at: RunTime,
    packet: &Packet<'_>,
    ports: Ports,
) -> Result<Option<Received<'a>>, Useless> {
    let Some(whole) = fragments.handle_fragment(at, packet) else { return Ok(None) };
    let transport = Transport::read(&whole, Check::Verify).map_err(Useless::Bad)?;
    ports.received(whole.source, whole.destination, transport)
}

impl Ports {
    /// What arrived from a server for a client; `None` for what nobody waits for.
    fn received<'a>(
        self,
        from: IpAddr,
        local: IpAddr,
        transport: Transport<'a>,
    ) -> Result<Option<Received<'a>>, Useless> {
        match transport {
            Transport::Udp(datagram) => self.datagram(from, local, datagram).map(Some),
            Transport::Tcp(segment) => {
                let from = SocketAddr::new(from, segment.source_port);
                Ok(Some(Received::Segment(from, SocketAddr::new(local, segment.destination_port), segment)))
            }
            Transport::Icmp(error) if error.quoted.protocol == ip::UDP => Ok(self.refused(&error)),
            Transport::Icmp(error) => Ok(Some(Received::Icmp(error))),
            Transport::Discovery(_) => Ok(None),
        }
    }

    fn datagram<'a>(self, from: IpAddr, local: IpAddr, it: Datagram<'a>) -> Result<Received<'a>, Useless> {
        let (socket, is_quic) = self.socket(it.destination_port).ok_or(Useless::OtherPort)?;
        let peer = SocketAddr::new(from, it.source_port);
        Ok(Received::Datagram(ReceivedDatagram { socket, is_quic, peer, local, octets: it.payload }))
    }

    /// A datagram that a server's host has refused. Other errors about datagrams may pass, and are left to the timeout, as by the
    /// kernel.
    fn refused<'a>(self, error: &IcmpError<'a>) -> Option<Received<'a>> {
        let quoted = &error.quoted;
        let (socket, is_quic) = self.socket(quoted.source.port())?;
        let (peer, local, octets) = (quoted.destination, quoted.source.ip(), quoted.rest);
        let datagram = ReceivedDatagram { socket, is_quic, peer, local, octets };
        (error.kind == IcmpKind::PortUnreachable).then_some(Received::Refused(datagram))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::Carries;
    use ldplayer_stack::fragments::Fragmenter;
    use ldplayer_stack::frame::{Link, udp};

    const SOCKET: SocketKey = SocketKey::Shared { v6: false, number: 0 };

    fn ports() -> Ports {
        Ports::of_worker(0, 1)
    }

    fn frame(octets: &[u8]) -> Frame<'_> {
        let (length, stamp_ns) = (octets.len(), 0);
        Frame { octets, length, stamp_ns, vlan: None, checksum: Checksum::Unknown, is_outgoing: false }
    }

    /// The payloads that are handed over.
    fn payloads(inward: &mut Inward, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut payloads = Vec::new();
        for octets in frames {
            inward.read(&frame(octets), RunTime(0), |received| match received {
                Received::Datagram(datagram) => payloads.push(datagram.octets.to_vec()),
                other => panic!("{other:?}"),
            });
        }
        payloads
    }

    fn addresses(to: u16) -> [(IpAddr, u16); 2] {
        [("192.0.2.53".parse().unwrap(), 53), ("10.0.0.1".parse().unwrap(), to)]
    }

    fn datagram(to: u16, payload: &[u8]) -> Vec<u8> {
        let [server, client] = addresses(to);
        let mut octets = vec![0; 2_000];
        let length = udp::write(&mut octets, &Link::new([2; 6], [3; 6], None), server, client, payload).unwrap();
        octets.truncate(length);
        octets
    }

    #[test]
    fn a_datagram_is_for_the_socket_that_its_port_stands_for_or_counted() {
        let mut inward = Inward::new(ports(), None);
        let port = ports().of(SOCKET, Carries::Dns).unwrap();
        assert_eq!(payloads(&mut inward, &[datagram(port, b"answer"), datagram(9, b"other")]), [b"answer"]);
        assert_eq!(inward.counts().other_ports, 1);
    }

    #[test]
    fn on_a_link_with_others_only_packets_from_servers_to_clients_are_read() {
        let [(server, _), (client, _)] = addresses(0);
        let port = ports().of(SOCKET, Carries::Dns).unwrap();
        let read = |servers: &str, clients: &[&str], own: &str| {
            let server = servers.parse().unwrap();
            let on_link = OnLink {
                hops: vec![(server, server)],
                askers: [client; 2],
                claims: clients.iter().map(|block| block.parse().unwrap()).collect(),
                own: vec![own.parse().unwrap()],
            };
            payloads(&mut Inward::new(ports(), Some(Scope::new(&on_link))), &[datagram(port, b"answer")]).len()
        };
        assert_eq!(server.to_string(), "192.0.2.53");
        assert_eq!(read("192.0.2.53", &["10.0.0.0/24"], "10.9.0.1"), 1);
        assert_eq!(read("192.0.2.53", &[], "10.9.0.1"), 1, "clients have addresses of their own");
        assert_eq!(read("192.0.2.54", &["10.0.0.0/24"], "10.9.0.1"), 0, "of another host");
        assert_eq!(read("192.0.2.53", &["10.0.1.0/24"], "10.9.0.1"), 0, "to another host");
        assert_eq!(read("192.0.2.53", &[], "10.0.0.1"), 0, "to this host");
    }

    #[test]
    fn damaged_and_cut_frames_are_counted_and_no_answers() {
        let mut inward = Inward::new(ports(), None);
        let mut damaged = datagram(ports().of(SOCKET, Carries::Dns).unwrap(), b"answer");
        *damaged.last_mut().unwrap() ^= 1;
        assert!(payloads(&mut inward, std::slice::from_ref(&damaged)).is_empty());
        inward.read(&Frame { length: 9_000, ..frame(&damaged) }, RunTime(0), |_| panic!("it is cut"));
        assert_eq!((inward.counts().bad[BadFrame::UdpChecksum.index()], inward.counts().cut), (1, 1));
    }

    #[test]
    fn an_answer_in_fragments_is_one_answer() {
        let port = ports().of(SOCKET, Carries::Dns).unwrap();
        let [server, client] = addresses(port);
        let payload: Vec<u8> = (0..4_000_u16).map(|number| number as u8).collect();
        let link = Link::new([2; 6], [3; 6], None);
        let mut fragmenter = Fragmenter::new(server, client, &payload, 1_500, 7).unwrap();
        let mut frames = Vec::new();
        let mut octets = [0; 2_000];
        while let Some(length) = fragmenter.write_next(&mut octets, &link) {
            frames.push(octets[..length].to_vec());
        }
        assert!(frames.len() > 2);
        assert_eq!(payloads(&mut Inward::new(ports(), None), &frames), [payload]);
    }
}
