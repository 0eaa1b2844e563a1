//! The limit of an answered replay: one socket, a window, IDs matched, nothing recorded.

use std::net::{Ipv4Addr, SocketAddr};

use ldplayer_net::poll::Poll;
use ldplayer_net::udp::{BATCH, Datagram, ReceiveBatch, SendBatch, UdpOptions, UdpSocket};
use ldplayer_net::{clock, pin};
use serde_json::json;

use crate::make;

/// How long answers are waited for before the window counts as lost, in nanoseconds.
const PATIENCE: i64 = 200_000_000;

/// Options of `bare-ask`.
#[derive(clap::Args)]
pub struct Args {
    /// Whom to ask
    #[arg(long)]
    to: SocketAddr,
    /// Queries outstanding at once
    #[arg(long, default_value = "1000")]
    window: usize,
    /// Answers to wait for
    #[arg(long, default_value = "2000000")]
    count: u64,
    #[arg(long)]
    packet_info: bool,
    /// Core to run on
    #[arg(long)]
    core: Option<usize>,
}

/// Asks and prints the rate.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(core) = args.core {
        pin::pin_to(core)?;
    }
    let bind = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    let mut socket =
        UdpSocket::open(&UdpOptions { bind, buffer: 16 << 20, freebind: false, packet_info: args.packet_info })?;
    socket.connect(args.to)?;
    let mut poll = Poll::new()?;
    poll.add(&socket, 0)?;
    let queries: Vec<Vec<u8>> = (0..1_000).map(make::message).collect();
    let (mut send, mut receive) = (SendBatch::new(), ReceiveBatch::new());
    let mut outstanding = vec![false; 1 << 16];
    let (mut next, mut open, mut answered) = (0_u64, 0_usize, 0_u64);
    let begun = clock::monotonic_ns();
    while answered < args.count {
        if args.window - open >= BATCH {
            let datagrams = (0..BATCH).map(|at| {
                let number = next + at as u64;
                let tail = &queries[number as usize % queries.len()][2..];
                Datagram { head: (number as u16).to_be_bytes(), tail, source: None, peer: None }
            });
            let sent = send.send(&socket, datagrams)?;
            (next..next + sent as u64).for_each(|number| outstanding[usize::from(number as u16)] = true);
            next += sent as u64;
            open += sent;
        } else if poll.wait(PATIENCE)?.count() == 0 {
            open = 0;
        }
        receive.receive(&socket, BATCH)?;
        for answer in receive.iter().filter(|answer| answer.octets.len() >= 12) {
            let id = u16::from_be_bytes([answer.octets[0], answer.octets[1]]);
            if std::mem::take(&mut outstanding[usize::from(id)]) {
                answered += 1;
                open = open.saturating_sub(1);
            }
        }
    }
    let seconds = (clock::monotonic_ns() - begun) as f64 / 1e9;
    println!("{}", json!({ "part": "bare-ask", "answered": answered, "per_second": answered as f64 / seconds }));
    Ok(())
}
