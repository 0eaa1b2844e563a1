//! Tries the packet path: a query in a frame of a client's leaves for a socket, and what that answers comes back in a frame.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ldplayer_net::netns::Testbed;
use ldplayer_net::packets::{Filter, FrameRings, FrameSender, Interface, SenderKind};
use ldplayer_net::tun::Tun;
use ldplayer_net::veth;
use ldplayer_stack::frame::{Ethernet, Link, udp};

use crate::failure::Failure;

/// An address that a server may have, and one of a client's.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 53));
const CLIENT: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 16_384);
const QUERY: &[u8] = b"query";
const ANSWER: &[u8] = b"answer";
/// Octets of the ring.
const RING: usize = 1 << 16;
/// How long a frame may take, either way.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes a namespace with a link, and says how a frame and its answer passed it. This process must have one thread.
pub fn try_here(kind: SenderKind) -> Result<String, Failure> {
    let testbed = Testbed::enter_with_link(veth::MTU).map_err(Failure::environment)?;
    let rings = || FrameRings::open(&Interface::find(veth::CLIENTS)?, veth::answers(), &Filter::all(), RING);
    let (sender, by) = open_sender(kind).map_err(Failure::environment)?;
    exchange(sender, rings().map_err(Failure::environment)?).map_err(Failure::environment)?;
    let place = if testbed.is_rootless() { "in a user namespace" } else { "as root" };
    Ok(format!("a frame was sent by {by} and one received, {place}"))
}

/// Opens the sender that a replay has, and says what it sends by.
fn open_sender(kind: SenderKind) -> anyhow::Result<(FrameSender, &'static str)> {
    if let Some(name) = veth::queries().filter(|_| kind == SenderKind::Packet) {
        let sender = FrameSender::open_tap(&Interface::find(name)?, Arc::new(Tun::open_tap(name)?))?;
        return Ok((sender, "a TAP device"));
    }
    let by = if kind == SenderKind::Packet { "AF_PACKET" } else { "AF_XDP" };
    Ok((FrameSender::open(&Interface::find(veth::CLIENTS)?, kind)?, by))
}

fn exchange(mut sender: FrameSender, mut rings: FrameRings) -> anyhow::Result<()> {
    let server = UdpSocket::bind((SERVER, 0)).context("no socket at a server's address")?;
    server.set_read_timeout(Some(PATIENCE))?;
    send(&mut sender, server.local_addr()?)?;
    let mut query = [0; 64];
    let (length, from) = server.recv_from(&mut query).context("the frame that was sent did not arrive")?;
    if (&query[..length], from) != (QUERY, SocketAddr::from(CLIENT)) {
        return Err(anyhow!("the frame that was sent arrived as another"));
    }
    server.send_to(ANSWER, from).context("no answer could be sent")?;
    if has_come(&mut rings)? { Ok(()) } else { Err(anyhow!("no frame was received")) }
}

fn send(sender: &mut FrameSender, server: SocketAddr) -> anyhow::Result<()> {
    let link = Link::new(veth::CLIENT_MAC, veth::HOST_MAC, None);
    let room = sender.room().context("no room for a frame")?;
    let length = udp::write(room, &link, CLIENT, (server.ip(), server.port()), QUERY).context("no room for a query")?;
    sender.commit(length);
    sender.flush().context("the frame was refused")?;
    Ok(())
}

/// Whether the answer comes to the clients' hardware address.
fn has_come(rings: &mut FrameRings) -> io::Result<bool> {
    let (begun, mut has_come) = (Instant::now(), false);
    while !has_come && begun.elapsed() < PATIENCE {
        rings.wait(PATIENCE.saturating_sub(begun.elapsed()).as_nanos() as i64)?;
        rings.read(1, |frame| has_come |= is_answer(frame.octets));
    }
    Ok(has_come)
}

fn is_answer(frame: &[u8]) -> bool {
    Ethernet::read(frame).is_ok_and(|it| it.destination == veth::CLIENT_MAC && it.payload.ends_with(ANSWER))
}
