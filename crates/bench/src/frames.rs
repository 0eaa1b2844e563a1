//! The limit of sending by packet sockets: frames from many addresses, made beforehand.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use ldplayer_net::packets::{FrameSender, Interface, SenderKind};
use ldplayer_net::tun::Tun;
use ldplayer_net::{clock, pin, veth};
use ldplayer_stack::frame::{Link, Mac, QueryTemplate};
use serde_json::json;

use crate::make;

/// The port that all clients send from.
const PORT: u16 = 4_000;

/// Options of `bare-frames`.
#[derive(clap::Args)]
pub struct Args {
    /// Destination address and port
    #[arg(long)]
    to: SocketAddr,
    /// Interface to send on; its other end is that of `ldplayer testbed run --packets`
    #[arg(long, default_value = veth::CLIENTS)]
    interface: String,
    /// Destination MAC address, if it is another one than there
    #[arg(long, value_parser = parse_mac)]
    next_hop: Option<Mac>,
    /// Send by AF_XDP instead of AF_PACKET
    #[arg(long)]
    xdp: bool,
    /// Write into the TAP device of that namespace instead
    #[arg(long, conflicts_with_all = ["xdp", "interface"])]
    tap: bool,
    /// Number of source addresses, from 10.0.0.0
    #[arg(long, default_value = "65536", value_parser = clap::value_parser!(u32).range(1..))]
    sources: u32,
    /// Number of frames to send
    #[arg(long, default_value = "4000000")]
    count: u64,
    /// Core to run on
    #[arg(long)]
    core: Option<usize>,
}

/// Sends and prints the rate.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(core) = args.core {
        pin::pin_to(core)?;
    }
    let frames = make_frames(args)?;
    let mut next = frames.iter().cycle();
    let mut sender = open_sender(args)?;
    let (mut sent, begun) = (0, clock::monotonic_ns());
    while sent + sender.drops() < args.count {
        while let Some(room) = sender.room()
            && let Some(frame) = next.next()
        {
            room[..frame.len()].copy_from_slice(frame);
            sender.commit(frame.len());
        }
        sent += sender.flush().with_context(|| format!("bare-frames: {}", args.interface))? as u64;
    }
    let seconds = (clock::monotonic_ns() - begun) as f64 / 1e9;
    let (dropped, per_second) = (sender.drops(), sent as f64 / seconds);
    println!("{}", json!({ "part": "bare-frames", "sent": sent, "dropped": dropped, "per_second": per_second }));
    Ok(())
}

fn open_sender(args: &Args) -> anyhow::Result<FrameSender> {
    if args.tap {
        let tap = Arc::new(Tun::open_tap(veth::QUERIES)?);
        return Ok(FrameSender::open_tap(&Interface::find(veth::QUERIES)?, tap)?);
    }
    let kind = if args.xdp { SenderKind::Xdp } else { SenderKind::Packet };
    Ok(FrameSender::open(&Interface::find(&args.interface)?, kind)?)
}

/// One frame for each source.
fn make_frames(args: &Args) -> anyhow::Result<Vec<Box<[u8]>>> {
    let link = Link::new(veth::CLIENT_MAC, args.next_hop.unwrap_or(veth::HOST_MAC), None);
    let template = QueryTemplate::new(&link, args.to.ip(), args.to.port());
    let make = |number: u32| {
        let message = make::message(u64::from(number));
        let mut frame = vec![0; template.overhead() + message.len()];
        let source = make::client(u64::from(number)).into();
        let length = template.write(&mut frame, source, PORT, ([message[0], message[1]], &message[2..]));
        length.map(|_| frame.into_boxed_slice()).ok_or_else(|| anyhow!("bare-frames: {} is not of IPv4", args.to))
    };
    (0..args.sources).map(make).collect()
}

/// A MAC address as `ip link` writes it.
fn parse_mac(text: &str) -> Result<Mac, String> {
    let octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16)).collect::<Result<Vec<_>, _>>();
    let octets = octets.ok().and_then(|octets| octets.try_into().ok());
    octets.ok_or_else(|| "not a MAC address, such as 02:00:00:00:00:01".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_address_has_six_octets() {
        assert_eq!(parse_mac("02:6c:64:70:00:01"), Ok([0x02, b'l', b'd', b'p', 0, 1]));
        for text in ["", "02:6c:64:70:00", "02:6c:64:70:00:01:02", "02:6c:64:70:00:0g", "02:6c:64:70:00:100"] {
            assert!(parse_mac(text).is_err(), "{text}");
        }
    }
}
