//! The limit of the wire: packets per second of one thread, and the precision of its delays.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ldplayer_core::time::{NS_PER_S, Span};
use ldplayer_emulate::testbed::{CLIENTS, INTERNET, Plan, Report, Testbed};
use ldplayer_emulate::wire::{LinkSpec, Precision, WirePath};
use ldplayer_link::Rtt;
use ldplayer_net::udp::{BATCH, ReceiveBatch, UdpOptions};
use ldplayer_net::{clock, pin, udp};
use serde_json::json;

use crate::make::Gaps;
use crate::quantiles;

/// Where packets go.
const SERVER: &str = "198.51.100.1:53";
/// Where they come from.
const CLIENT: &str = "192.0.2.7:0";
/// Octets of a payload: an IP packet of 60 octets.
const PAYLOAD: usize = 32;
/// So long after the last packet is due, in nanoseconds, none is waited for.
const SILENCE: i64 = NS_PER_S / 5;

/// Options of `wire-rate`.
#[derive(clap::Args)]
pub struct RateArgs {
    /// Duration
    #[arg(long, default_value = "5s")]
    seconds: Span,
    /// Let a process read each packet at the far side
    #[arg(long)]
    read: bool,
    /// Round-trip time, to measure the cost of a delay
    #[arg(long, default_value = "0ms")]
    rtt: Rtt,
    /// Core of the wire; the sender and the reader run on others
    #[arg(long)]
    core: Option<usize>,
}

/// Options of `wire-delay`.
#[derive(clap::Args)]
pub struct DelayArgs {
    #[command(flatten)]
    gaps: Gaps,
    /// Duration
    #[arg(long, default_value = "5s")]
    seconds: Span,
    /// Round-trip time; the delay is half of it
    #[arg(long, default_value = "20ms")]
    rtt: Span,
    /// How much CPU time to spend on precision: low, normal or high
    #[arg(long, default_value = "normal")]
    precision: Precision,
    /// Core of the wire
    #[arg(long)]
    core: Option<usize>,
    /// Core of the sender
    #[arg(long)]
    sender_core: Option<usize>,
}

/// Sends as much as goes and counts what arrives.
pub fn rate(args: &RateArgs) -> anyhow::Result<()> {
    let testbed = testbed(args.rtt.clone(), Precision::High, args.core)?;
    let receiver = testbed.run("internet", || UdpSocket::bind(SERVER))??;
    receiver.set_read_timeout(Some(Duration::from_millis(100)))?;
    let sender = testbed
        .run("clients", || UdpSocket::bind(CLIENT).and_then(|socket| socket.connect(SERVER).map(|()| socket)))??;
    let stop = AtomicBool::new(false);
    let (before, after, elapsed) = thread::scope(|scope| -> anyhow::Result<(Report, Report, i64)> {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // Refused when the device's queue is full: then the wire is what limits.
                let _ = sender.send(&[0; PAYLOAD]);
            }
        });
        if args.read {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = receiver.recv(&mut [0; PAYLOAD]);
                }
            });
        }
        thread::sleep(Duration::from_millis(300));
        let (begun, before) = (clock::monotonic_ns(), testbed.report());
        thread::sleep(args.seconds.0);
        let (after, ended) = (testbed.report(), clock::monotonic_ns());
        stop.store(true, Ordering::Relaxed);
        Ok((before?, after?, ended - begun))
    })?;
    let delivered = after.wire.delivered() - before.wire.delivered();
    let per_s = delivered as f64 * NS_PER_S as f64 / elapsed as f64;
    println!(
        "{}",
        json!({ "part": "wire-rate", "read": args.read, "packets": delivered, "packets_per_s": per_s.round() })
    );
    Ok(())
}

/// Sends on a schedule and compares when packets arrive with when they were to.
pub fn delay(args: &DelayArgs) -> anyhow::Result<()> {
    let testbed = testbed(Rtt::Constant(args.rtt.ns()), args.precision, args.core)?;
    let times: Vec<i64> = args.gaps.times(args.seconds.ns()).collect();
    let (sent, arrived) = thread::scope(|scope| scope.spawn(|| exchange(args, &testbed, &times)).join())
        .map_err(|_| anyhow::anyhow!("the sender panicked"))??;
    let asked = args.rtt.ns() / 2;
    let delays = sent.iter().zip(&arrived).filter_map(|(sent, arrived)| Some((*arrived)? - sent - asked));
    let mut errors: Vec<i64> = delays.collect();
    let report = testbed.down()?;
    println!(
        "{}",
        json!({
            "part": "wire-delay",
            "sent": sent.len(),
            "arrived": errors.len(),
            "dropped": report.wire.dropped.total(),
            "unread": report.unread.iter().sum::<u64>(),
            "delay_error_us": quantiles::of(&mut errors),
        })
    );
    Ok(())
}

fn testbed(rtt: Rtt, precision: Precision, core: Option<usize>) -> anyhow::Result<Testbed> {
    let link = LinkSpec { rtt, ..LinkSpec::default() };
    let paths = vec![WirePath { far: CLIENTS, near: INTERNET, link }];
    Ok(Testbed::up(&Plan { paths, precision, core, ..Plan::default() })?)
}

/// Sends at these times; when each packet was sent, and when the kernel took it in on the other side.
fn exchange(args: &DelayArgs, testbed: &Testbed, times: &[i64]) -> anyhow::Result<(Vec<i64>, Vec<Option<i64>>)> {
    if let Some(core) = args.sender_core {
        pin::pin_to(core)?;
    }
    let server: SocketAddr = SERVER.parse()?;
    let options = UdpOptions { bind: server, buffer: 64 << 20, freebind: false, packet_info: true };
    let receiver = testbed.run("internet", || udp::UdpSocket::open(&options))??;
    let sender = testbed.run("clients", || UdpSocket::bind(CLIENT))??;
    sender.connect(server)?;
    let (mut sent, mut arrived) = (Vec::with_capacity(times.len()), vec![None; times.len()]);
    let mut receive = ReceiveBatch::new();
    let origin = clock::monotonic_ns() + NS_PER_S / 10;
    let end = origin + times.last().copied().unwrap_or(0) + args.rtt.ns() + SILENCE;
    while clock::monotonic_ns() < end {
        let now = clock::monotonic_ns();
        if times.get(sent.len()).is_some_and(|due| now >= origin + due) {
            let mut payload = [0; PAYLOAD];
            payload[..8].copy_from_slice(&(sent.len() as u64).to_be_bytes());
            sent.push(clock::monotonic_ns());
            sender.send(&payload)?;
        } else if receive.receive(&receiver, BATCH)? > 0 {
            let offset = clock::realtime_offset_ns();
            for packet in receive.iter() {
                let number = packet.octets.first_chunk().map_or(u64::MAX, |octets| u64::from_be_bytes(*octets));
                if let Some(slot) = arrived.get_mut(number as usize) {
                    *slot = packet.stamp_ns.map(|stamp| stamp - offset);
                }
            }
        }
    }
    Ok((sent, arrived))
}
