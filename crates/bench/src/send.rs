//! The limit of sending: `sendmmsg` with packet info from many addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ldplayer_net::refusal::Refusal;
use ldplayer_net::udp::{BATCH, Datagram, SendBatch, UdpOptions, UdpSocket};
use ldplayer_net::{clock, pin};
use serde_json::json;

use crate::make;

/// Options of `bare-send`.
#[derive(clap::Args)]
pub struct Args {
    /// Destination address and port
    #[arg(long)]
    to: SocketAddr,
    /// Number of source addresses, from 10.0.0.0
    #[arg(long, default_value = "65536")]
    sources: u32,
    /// Number of datagrams to send
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
    let bind = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let socket = UdpSocket::open(&UdpOptions { bind, buffer: 16 << 20, freebind: true, packet_info: true })?;
    let queries: Vec<Vec<u8>> = (0..1_000).map(make::message).collect();
    let (mut batch, mut sent) = (SendBatch::new(), 0_u64);
    let begun = clock::monotonic_ns();
    while sent < args.count {
        let datagrams = (0..BATCH).map(|at| {
            let number = sent + at as u64;
            Datagram {
                head: (number as u16).to_be_bytes(),
                tail: &queries[number as usize % queries.len()][2..],
                source: Some(IpAddr::V4(make::client(number % u64::from(args.sources)))),
                peer: Some(args.to),
            }
        });
        match batch.send(&socket, datagrams) {
            Ok(count) => sent += count as u64,
            // The link is full, where another core takes what arrives at its end.
            Err(error) if Refusal::of(&error) == Refusal::NotNow => {}
            Err(error) => return Err(error.into()),
        }
    }
    let seconds = (clock::monotonic_ns() - begun) as f64 / 1e9;
    println!("{}", json!({ "part": "bare-send", "sent": sent, "per_second": sent as f64 / seconds }));
    Ok(())
}
