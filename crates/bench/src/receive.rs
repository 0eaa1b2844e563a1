//! The timing of a replay at its receiver: kernel receive timestamps against due times.

use std::net::SocketAddr;

use ldplayer_core::time::{NS_PER_S, Span};
use ldplayer_net::poll::Poll;
use ldplayer_net::udp::{BATCH, ReceiveBatch, UdpOptions, UdpSocket};
use ldplayer_net::{clock, pin};
use serde_json::json;

use crate::make::{self, Gaps};
use crate::quantiles;

/// The run counts as over when nothing came for so long, in nanoseconds.
const SILENCE: i64 = 2 * NS_PER_S;

/// Options of `receive`; the gaps and seconds are those of the trace.
#[derive(clap::Args)]
pub struct Args {
    /// Address and port to receive on
    #[arg(long)]
    listen: SocketAddr,
    #[command(flatten)]
    gaps: Gaps,
    /// Length of the trace
    #[arg(long, default_value = "10s")]
    seconds: Span,
    /// How long to wait for the first query
    #[arg(long, default_value = "60s")]
    patience: Span,
    /// Core to run on
    #[arg(long)]
    core: Option<usize>,
}

/// Receives, compares and prints.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(core) = args.core {
        pin::pin_to(core)?;
    }
    let due: Vec<i64> = args.gaps.times(args.seconds.ns()).collect();
    let stamps = collect(args, due.len())?;
    let mut errors: Vec<(i64, i64)> =
        due.iter().zip(&stamps).filter_map(|(&due, stamp)| Some((due, (*stamp)? - due))).collect();
    // The receiver does not know when the run began: the median error is taken for zero. Who knows it has the median from `began_ns`.
    let mut sorted: Vec<i64> = errors.iter().map(|&(_, error)| error).collect();
    sorted.sort_unstable();
    let offset = quantiles::at(&sorted, 0.5);
    errors.iter_mut().for_each(|(_, error)| *error -= offset);
    sorted.iter_mut().for_each(|error| *error -= offset);
    println!(
        "{}",
        json!({
            "part": "receive",
            "due": due.len(),
            "received": errors.len(),
            "began_ns": offset + due.first().copied().unwrap_or_default(),
            "error_us": quantiles::of(&mut sorted),
            "windows": windows(&due, &errors, args.gaps.equal().unwrap_or(0) / 2),
            "drift_us": drift(&errors),
        })
    );
    Ok(())
}

/// The stamp of each query, in nanoseconds of the real-time clock; `None` where it did not arrive.
fn collect(args: &Args, count: usize) -> anyhow::Result<Vec<Option<i64>>> {
    let socket =
        UdpSocket::open(&UdpOptions { bind: args.listen, buffer: 64 << 20, freebind: false, packet_info: false })?;
    let mut poll = Poll::new()?;
    poll.add(&socket, 0)?;
    println!("{}", json!({ "listening": socket.local().to_string() }));
    let (mut receive, mut stamps, mut open) = (ReceiveBatch::new(), vec![None; count], count);
    let mut deadline = clock::monotonic_ns() + args.patience.ns();
    while open > 0 && clock::monotonic_ns() < deadline {
        if poll.wait(NS_PER_S / 10)?.count() == 0 || receive.receive(&socket, BATCH)? == 0 {
            continue;
        }
        for query in receive.iter() {
            let slot = make::number(query.octets).and_then(|number| stamps.get_mut(number as usize));
            if let Some(slot @ None) = slot {
                *slot = query.stamp_ns;
                open -= 1;
            }
        }
        deadline = clock::monotonic_ns() + SILENCE + args.gaps_longest();
    }
    Ok(stamps)
}

impl Args {
    /// No trace made here has a longer gap than this.
    fn gaps_longest(&self) -> i64 {
        self.seconds.ns().min(10 * NS_PER_S)
    }
}

/// Queries received in each second against those due in it. The edges are `shift` before the full seconds, so that with
/// equal gaps no query is due just at an edge, where the least error would count it to another second.
fn windows(due: &[i64], errors: &[(i64, i64)], shift: i64) -> serde_json::Value {
    // The last window is complete if a query at its end would still have been due.
    let gap = due.windows(2).last().map_or(0, |pair| pair[1] - pair[0]);
    let seconds = due.last().map_or(0, |last| (last + gap + shift) / NS_PER_S) as usize;
    let count = |times: &mut dyn Iterator<Item = i64>| {
        let mut counts = vec![0_i64; seconds + 1];
        times.for_each(|time| counts[((time + shift) / NS_PER_S).clamp(0, seconds as i64) as usize] += 1);
        counts
    };
    let expected = count(&mut due.iter().copied());
    let received = count(&mut errors.iter().map(|(due, error)| due + error));
    let differences: Vec<f64> = expected[..seconds]
        .iter()
        .zip(&received)
        .filter(|(expected, _)| **expected > 0)
        .map(|(&expected, &received)| (received - expected) as f64 * 100.0 / expected as f64)
        .collect();
    let within = differences.iter().filter(|difference| difference.abs() <= 0.1).count();
    let worst = differences.iter().fold(0.0_f64, |worst, difference| worst.max(difference.abs()));
    json!({ "count": differences.len(), "within_0_1_percent": within, "worst_percent": worst })
}

/// Median error of the last tenth minus the first tenth's, in microseconds.
fn drift(errors: &[(i64, i64)]) -> f64 {
    let tenth = errors.len() / 10;
    let median = |part: &[(i64, i64)]| {
        let mut part: Vec<i64> = part.iter().map(|&(_, error)| error).collect();
        part.sort_unstable();
        quantiles::at(&part, 0.5)
    };
    (median(&errors[errors.len() - tenth..]) - median(&errors[..tenth])) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_that_slows_down_drifts() {
        let errors: Vec<(i64, i64)> = (0..1_000).map(|at| (at * 1_000_000, at * 1_000)).collect();
        assert!((899.0..=901.0).contains(&drift(&errors)));
    }

    #[test]
    fn equal_gaps_with_a_little_noise_are_within() {
        let due: Vec<i64> = (0..1_000).map(|at| at * 10_000_000).collect();
        let errors: Vec<(i64, i64)> = due.iter().map(|&due| (due, due / 10_000_000 % 3 * 1_000 - 1_000)).collect();
        let windows = windows(&due, &errors, 5_000_000);
        assert_eq!((windows["count"].as_u64(), windows["within_0_1_percent"].as_u64()), (Some(10), Some(10)));
    }

    #[test]
    fn a_second_without_one_query_in_a_hundred_is_one_percent_off() {
        let due: Vec<i64> = (0..201).map(|at| at * 10_000_000).collect();
        let errors: Vec<(i64, i64)> = due.iter().skip(1).map(|&due| (due, 0)).collect();
        let windows = windows(&due, &errors, 5_000_000);
        assert_eq!((windows["count"].as_u64(), windows["within_0_1_percent"].as_u64()), (Some(2), Some(1)));
        assert_eq!(windows["worst_percent"].as_f64(), Some(1.0));
    }
}
