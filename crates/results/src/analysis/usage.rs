//! What both ends used during a run, from the samples.

use std::collections::BTreeMap;

use ldplayer_core::time::NS_PER_S;

use super::sampled::{Sampled, Series, between, growth, peak, rates};
use crate::model::{SideUsage, SocketsAtPeak, Telemetry};
use crate::telemetry::{Figure, Side};

/// How the names of counts of sockets by state begin.
const SOCKETS: &str = "sockets_";

/// How far the samples of one moment may be apart, in nanoseconds: some take long to read.
const APART: i64 = 1_000_000_000;

/// What the figures are of.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Run time at which the first query was due, in nanoseconds.
    pub from: i64,
    /// Run time of the last outcome, in nanoseconds.
    pub to: i64,
    /// Queries sent.
    pub queries: u64,
}

/// What both ends used while there was load.
pub fn of(sampled: &Sampled, load: Load) -> Telemetry {
    Telemetry { client: side(sampled, Side::Client, load), server: side(sampled, Side::Server, load), replay: None }
}

/// The counts of sockets that are drawn and summed: those that listen are no connections.
pub fn states() -> impl Iterator<Item = (Figure, &'static str)> {
    let states = Figure::ALL.iter().filter_map(|&figure| Some((figure, figure.as_str().strip_prefix(SOCKETS)?)));
    states.filter(|&(figure, _)| figure != Figure::SocketsListen)
}

fn side(sampled: &Sampled, side: Side, load: Load) -> Option<SideUsage> {
    let of = |figure| between(sampled.of(side, figure), load.from, load.to);
    let highest = |figure| peak(of(figure)).map(|peak| peak.round() as u64);
    let processor = of(Figure::CpuSeconds);
    let (first, last) = (processor.first()?.0, processor.last()?.0);
    // What was not known for a part of the time is not known of it: less would be a wrong number.
    let covers = |series: &&Series| series.first().is_some_and(|&(at, _)| at <= first.max(load.from) + APART);
    let reaches = |series: &&Series| series.last().is_some_and(|&(at, _)| at >= last - APART);
    let known = |figure| Some(of(figure)).filter(covers).filter(reaches);
    let seconds = |figure| growth(known(figure)?);
    let total = |figure| seconds(figure).map(|growth| growth.round() as u64);
    let length = (last - first) as f64 / NS_PER_S as f64;
    let cpu_s = seconds(Figure::CpuSeconds);
    Some(SideUsage {
        from_s: first as f64 / NS_PER_S as f64,
        to_s: last as f64 / NS_PER_S as f64,
        samples: processor.len() as u64,
        cpu_s,
        cpu_user_s: seconds(Figure::CpuUserSeconds),
        cpu_system_s: seconds(Figure::CpuSystemSeconds),
        cpu_us_per_query: cpu_s.filter(|_| load.queries > 0).map(|cpu_s| cpu_s * 1e6 / load.queries as f64),
        cores_mean: cpu_s.filter(|_| length > 0.0).map(|cpu_s| cpu_s / length),
        cores_peak: busiest(processor),
        machine_cores_mean: seconds(Figure::CpuBusySeconds).filter(|_| length > 0.0).map(|busy_s| busy_s / length),
        cpu_wait_s: seconds(Figure::CpuWaitSeconds),
        cpu_wait_most_s: known(Figure::CpuWaitSeconds).and_then(steepest),
        cpu_runs: total(Figure::CpuRuns),
        cpu_wake_us: median(of(Figure::CpuWakeSeconds)).map(|seconds| seconds * 1e6),
        rss_peak_bytes: highest(Figure::RssBytes),
        pss_peak_bytes: highest(Figure::PssBytes),
        processes_peak: highest(Figure::Processes),
        threads_peak: highest(Figure::Threads),
        context_switches_voluntary: total(Figure::VoluntarySwitches),
        context_switches_involuntary: total(Figure::InvoluntarySwitches),
        minor_faults: total(Figure::MinorFaults),
        major_faults: total(Figure::MajorFaults),
        storage_read_bytes: total(Figure::StorageReadBytes),
        storage_write_bytes: total(Figure::StorageWriteBytes),
        in_bytes: total(Figure::InBytes),
        out_bytes: total(Figure::OutBytes),
        udp_drops: total(Figure::UdpSocketDrops),
        udp_receive_buffer_errors: total(Figure::UdpReceiveBufferErrors),
        udp_send_buffer_errors: total(Figure::UdpSendBufferErrors),
        udp_no_ports: total(Figure::UdpNoPorts),
        accept_queue_overflows: total(Figure::AcceptQueueOverflows),
        listen_drops: total(Figure::ListenDrops),
        accept_queue_peak: highest(Figure::AcceptQueue),
        tcp_retransmitted: total(Figure::TcpRetransmitted),
        tcp_memory_peak_bytes: highest(Figure::TcpMemoryBytes),
        tcp_slab_peak_bytes: highest(Figure::TcpSlabBytes),
        udp_memory_peak_bytes: highest(Figure::UdpMemoryBytes),
        slab_growth_bytes: rise(of(Figure::SlabBytes)),
        sockets_at_peak: sockets_at_peak(of),
    })
}

/// Cores used in the busiest second; of a shorter time in all of it.
fn busiest(processor: &Series) -> Option<f64> {
    let length = processor.last()?.0 - processor.first()?.0;
    rates(processor, length.min(NS_PER_S)).into_iter().map(|(_, rate)| rate).max_by(f64::total_cmp)
}

/// The most that a total grew between two samples.
fn steepest(series: &Series) -> Option<f64> {
    series.windows(2).map(|pair| pair[1].1 - pair[0].1).max_by(f64::total_cmp)
}

/// The median of what samples saw; `None` where none did.
fn median(series: &Series) -> Option<f64> {
    let mut values: Vec<f64> = series.iter().map(|&(_, value)| value).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// How far a level rose above its first.
fn rise(series: &Series) -> Option<u64> {
    Some((peak(series)? - series.first()?.1).round() as u64)
}

fn sockets_at_peak<'a>(of: impl Fn(Figure) -> &'a Series) -> Option<SocketsAtPeak> {
    let mut moments: BTreeMap<i64, Vec<(&str, u64)>> = BTreeMap::new();
    for (figure, state) in states() {
        of(figure).iter().for_each(|&(at, count)| moments.entry(at).or_default().push((state, count as u64)));
    }
    let all = |states: &[(&str, u64)]| states.iter().map(|(_, count)| count).sum::<u64>();
    // Of several such moments the first.
    let (at, states) = moments.into_iter().rev().max_by_key(|(_, states)| all(states))?;
    let by_state = states.iter().filter(|(_, count)| *count > 0).map(|&(state, count)| (state.to_owned(), count));
    Some(SocketsAtPeak { at_s: at as f64 / NS_PER_S as f64, all: all(&states), by_state: by_state.collect() })
}

#[cfg(test)]
mod tests {
    use ldplayer_core::RunTime;

    use super::*;
    use crate::telemetry::TelemetrySample;

    fn sampled(samples: &[(i64, Figure, Option<f64>)]) -> Sampled {
        let mut sampled = Sampled::default();
        for &(at_ms, figure, value) in samples {
            sampled.add(&TelemetrySample { at: RunTime(at_ms * 1_000_000), side: Side::Server, figure, value });
        }
        sampled
    }

    const LOAD: Load = Load { from: 0, to: 2_900_000_000, queries: 1_000_000 };

    #[test]
    fn figures_are_of_the_time_with_load_and_say_which_that_is() {
        use Figure::{CpuSeconds, RssBytes, UdpSocketDrops};
        let found = of(
            &sampled(&[
                (-500, CpuSeconds, Some(9.0)),
                (-500, RssBytes, Some(9e9)),
                (0, CpuSeconds, Some(10.0)),
                (1_000, CpuSeconds, Some(11.5)),
                (2_000, CpuSeconds, Some(11.6)),
                (3_000, CpuSeconds, Some(12.0)),
                (4_000, CpuSeconds, Some(20.0)),
                (0, RssBytes, Some(1e6)),
                (1_000, RssBytes, Some(3e6)),
                (2_000, RssBytes, None),
                (1, UdpSocketDrops, Some(5.0)),
                (2_900, UdpSocketDrops, Some(12.0)),
                (1_500, Figure::InBytes, Some(5.0)),
                (3_000, Figure::InBytes, Some(12.0)),
                (0, Figure::OutBytes, Some(5.0)),
                (1_900, Figure::OutBytes, Some(12.0)),
            ]),
            LOAD,
        );
        let server = found.server.unwrap();
        assert_eq!((server.from_s, server.to_s, server.samples), (0.0, 3.0, 4));
        assert_eq!((server.cpu_s, server.cpu_us_per_query), (Some(2.0), Some(2.0)));
        assert!(
            (server.cores_mean.unwrap() - 2.0 / 3.0).abs() < 1e-9 && (server.cores_peak.unwrap() - 1.5).abs() < 1e-9
        );
        assert_eq!((server.rss_peak_bytes, server.udp_drops), (Some(3_000_000), Some(7)));
        assert_eq!((server.in_bytes, server.out_bytes), (None, None), "not known of all of it");
        assert_eq!((server.pss_peak_bytes, server.accept_queue_overflows, found.client), (None, None, None));
    }

    #[test]
    fn one_sample_is_no_time_and_none_is_no_side() {
        let server = of(&sampled(&[(5, Figure::CpuSeconds, Some(3.0))]), LOAD).server.unwrap();
        assert_eq!((server.cpu_s, server.cores_mean, server.cores_peak), (None, None, None));
        assert_eq!(of(&sampled(&[(5, Figure::CpuSeconds, None)]), LOAD), Telemetry::default());
        let nobody = Load { queries: 0, ..LOAD };
        let samples = sampled(&[(5, Figure::CpuSeconds, Some(3.0)), (50, Figure::CpuSeconds, Some(4.0))]);
        assert_eq!(of(&samples, nobody).server.unwrap().cpu_us_per_query, None);
    }

    #[test]
    fn sockets_are_told_as_of_when_there_were_most() {
        use Figure::{CpuSeconds, SocketsEstablished, SocketsListen, SocketsTimeWait};
        let server = of(
            &sampled(&[
                (0, CpuSeconds, Some(0.0)),
                (100, SocketsEstablished, Some(5.0)),
                (100, SocketsTimeWait, Some(0.0)),
                (100, SocketsListen, Some(99.0)),
                (200, SocketsEstablished, Some(2.0)),
                (200, SocketsTimeWait, Some(4.0)),
                (300, SocketsEstablished, Some(6.0)),
                (300, SocketsTimeWait, Some(0.0)),
            ]),
            LOAD,
        );
        let peak = server.server.unwrap().sockets_at_peak.unwrap();
        assert_eq!((peak.at_s, peak.all), (0.2, 6));
        assert_eq!(peak.by_state, [("established".to_owned(), 2), ("time_wait".to_owned(), 4)].into());
    }
}
