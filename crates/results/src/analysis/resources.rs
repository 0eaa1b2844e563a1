//! Figures of what both ends used over time, from the samples.

use ldplayer_core::time::NS_PER_S;

use super::Curve;
use super::connections::level;
use super::figures::{Figures, Point, TIME_POINTS};
use super::sampled::{Sampled, Series, growth, rates};
use super::usage::states;
use crate::telemetry::{Figure, Side};

/// Totals are drawn as rates over at least this long, in nanoseconds: the kernel counts the time of ended children in ticks of 10 ms.
const APART: i64 = 500_000_000;

/// Whose, and what.
type Sample = (Side, Figure);

const PROCESSOR: [Sample; 2] = [(Side::Server, Figure::CpuSeconds), (Side::Client, Figure::CpuSeconds)];
const MEMORY: [Sample; 6] = [
    (Side::Server, Figure::RssBytes),
    (Side::Server, Figure::PssBytes),
    (Side::Client, Figure::RssBytes),
    (Side::Client, Figure::TcpMemoryBytes),
    (Side::Client, Figure::UdpMemoryBytes),
    (Side::Client, Figure::TcpSlabBytes),
];
const LOSSES: [Sample; 8] = [
    (Side::Server, Figure::UdpSocketDrops),
    (Side::Server, Figure::AcceptQueueOverflows),
    (Side::Server, Figure::ListenDrops),
    (Side::Server, Figure::UdpReceiveBufferErrors),
    (Side::Server, Figure::TcpRetransmitted),
    (Side::Client, Figure::UdpReceiveBufferErrors),
    (Side::Client, Figure::UdpSendBufferErrors),
    (Side::Client, Figure::TcpRetransmitted),
];
const TRAFFIC: [Sample; 4] = [
    (Side::Server, Figure::InBytes),
    (Side::Server, Figure::OutBytes),
    (Side::Client, Figure::InBytes),
    (Side::Client, Figure::OutBytes),
];
const SWITCHES: [Sample; 4] = [
    (Side::Server, Figure::VoluntarySwitches),
    (Side::Server, Figure::InvoluntarySwitches),
    (Side::Client, Figure::VoluntarySwitches),
    (Side::Client, Figure::InvoluntarySwitches),
];

/// Adds the figures.
pub fn draw(sampled: &Sampled, figures: &mut Figures) {
    figures.cpu_time = PROCESSOR.iter().flat_map(|&of| rate(sampled, of)).collect();
    figures.memory_time = MEMORY.iter().flat_map(|&of| level_of(sampled, of)).collect();
    figures.server_sockets = sockets(sampled, Side::Server);
    figures.client_sockets = sockets(sampled, Side::Client);
    let lost = LOSSES.iter().filter(|&&(side, figure)| growth(sampled.of(side, figure)).is_some_and(|lost| lost > 0.0));
    figures.losses_time = lost.flat_map(|&of| rate(sampled, of)).collect();
    figures.traffic_time = TRAFFIC.iter().flat_map(|&of| rate(sampled, of)).collect();
    figures.switches_time = SWITCHES.iter().flat_map(|&of| rate(sampled, of)).collect();
}

fn level_of(sampled: &Sampled, (side, figure): Sample) -> Vec<Point> {
    level(sampled.of(side, figure), Curve::Sampled(side, figure))
}

/// A total per second, in few enough points.
fn rate(sampled: &Sampled, (side, figure): Sample) -> Vec<Point> {
    let series = sampled.of(side, figure);
    let length = |series: &Series| Some(series.last()?.0 - series.first()?.0);
    let apart = APART.max(length(series).unwrap_or(0) / TIME_POINTS as i64);
    let apart = if length(series).is_some_and(|length| length < apart) { 1 } else { apart };
    let point = |(at, y)| Point { x: at as f64 / NS_PER_S as f64, y, of: Curve::Sampled(side, figure) };
    // A last piece that is shorter than the others, as after the last whole interval, is left out by `rates`.
    rates(series, apart).into_iter().map(point).collect()
}

/// Sockets by those states that there were.
fn sockets(sampled: &Sampled, side: Side) -> Vec<Point> {
    let used = states()
        .map(|(figure, _)| figure)
        .filter(|&figure| sampled.of(side, figure).iter().any(|&(_, count)| count > 0.0));
    used.flat_map(|figure| level_of(sampled, (side, figure))).collect()
}

#[cfg(test)]
mod tests {
    use ldplayer_core::RunTime;

    use super::*;
    use crate::telemetry::TelemetrySample;

    fn sampled(figure: Figure, values: impl Fn(i64) -> f64) -> Sampled {
        let mut sampled = Sampled::default();
        for at in 0..10_000 {
            let sample =
                TelemetrySample { at: RunTime(at * 100_000_000), side: Side::Server, figure, value: Some(values(at)) };
            sampled.add(&sample);
        }
        sampled
    }

    #[test]
    fn totals_become_rates_in_few_points() {
        let mut figures = Figures::default();
        draw(&sampled(Figure::CpuSeconds, |at| at as f64 * 0.15), &mut figures);
        assert!((500..=TIME_POINTS).contains(&figures.cpu_time.len()), "{}", figures.cpu_time.len());
        assert!(
            figures
                .cpu_time
                .iter()
                .all(|point| (point.y - 1.5).abs() < 1e-9
                    && point.of == Curve::Sampled(Side::Server, Figure::CpuSeconds))
        );
    }

    #[test]
    fn what_was_not_lost_and_states_that_were_not_are_not_drawn() {
        let mut figures = Figures::default();
        draw(&sampled(Figure::ListenDrops, |_| 77.0), &mut figures);
        assert!(figures.losses_time.is_empty());
        draw(&sampled(Figure::ListenDrops, |at| (at / 5_000) as f64), &mut figures);
        assert_eq!(figures.losses_time.iter().filter(|point| point.y > 0.0).count(), 1);
        draw(&sampled(Figure::SocketsTimeWait, |_| 0.0), &mut figures);
        assert!(figures.server_sockets.is_empty());
        draw(&sampled(Figure::SocketsTimeWait, |at| at as f64), &mut figures);
        assert!(
            figures
                .server_sockets
                .iter()
                .all(|point| point.of == Curve::Sampled(Side::Server, Figure::SocketsTimeWait))
                && figures.client_sockets.is_empty()
        );
        assert_eq!(figures.server_sockets.iter().map(|point| point.y).fold(0.0, f64::max), 9_999.0);
    }
}
