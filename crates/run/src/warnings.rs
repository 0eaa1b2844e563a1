//! Warnings of the engine and the kernel, each with a remedy.

use std::collections::BTreeMap;

use ldplayer_core::Stalls;
use ldplayer_core::text::{counted, times};
use ldplayer_replay::{BadFrame, Ended, ReferenceCounts, Strays};
use ldplayer_results::{ReplayLoad, Warning, WarningCode};

use crate::link;
use crate::path::interface;
use crate::resolve::Plan;
use crate::server::Server;
use crate::watch::Telemetry;

/// Share of stolen CPU time that triggers a warning.
const STEAL: f64 = 0.01;
/// Length of a stall that triggers a warning, in nanoseconds.
const STALL: i64 = 2_000_000;

/// The warnings of a finished run.
pub fn of(ended: &Ended, plan: &Plan, telemetry: &Telemetry) -> Vec<Warning> {
    [
        fed_late(ended),
        recorder_full(ended),
        postponed(ended),
        refused(ended),
        reference_unanswered(ended),
        shared_ports(ended),
        dropped(telemetry.udp_drops.unwrap_or(0), own_socket_drops(ended, plan), telemetry.server_drops),
        link_losses(ended.link_losses),
        useless_frames(ended),
        stolen(ended, telemetry),
        feed_error(ended),
    ]
    .into_iter()
    .flatten()
    .chain(link::warnings(ended))
    .collect()
}

/// Warnings about the machine and the namespace, known before the run.
pub fn of_environment(plan: &Plan, server: Option<&Server>) -> Vec<Warning> {
    let shortfalls = server
        .map_or(&[][..], Server::shortfalls)
        .iter()
        .map(|shortfall| Warning::new(WarningCode::TestbedSetting, shortfall.to_string()));
    shortfalls.chain(no_ipv6(plan)).chain(forwards(plan)).collect()
}

/// The host's own stack may have a part in what arrives for clients.
fn forwards(plan: &Plan) -> Option<Warning> {
    let families = interface::forwarded(&plan.settings.path);
    let name = &plan.settings.path.packets()?.interface;
    let set: Vec<String> =
        families.iter().map(|family| format!("sysctl -w net/{family}/conf/{name}/forwarding=0")).collect();
    (!set.is_empty()).then(|| {
        Warning::with_remedy(
            WarningCode::Forwarding,
            format!("this host is a router on {name}: it may send on, or redirect, what servers send to clients"),
            set.join("; "),
        )
    })
}

fn no_ipv6(plan: &Plan) -> Option<Warning> {
    let server =
        plan.given.iter().find(|server| server.is_ipv6()).filter(|_| !plan.settings.targets.has_family(true))?;
    Some(Warning::new(
        WarningCode::NoIpv6,
        format!("IPv6 is disabled in this kernel: {server} was not queried, and IPv6 clients have no server"),
    ))
}

/// The stalls of all workers.
pub fn stalls(ended: &Ended) -> Stalls {
    let mut all = Stalls::default();
    ended.workers.iter().for_each(|worker| all.merge(&worker.stalls));
    all
}

/// How the workers kept up: the worst worker's saturation, and totals.
pub fn load(ended: &Ended) -> ReplayLoad {
    let seconds = |ns: i64| ns as f64 / 1e9;
    let workers = || ended.workers.iter().map(|worker| &worker.saturation).enumerate();
    let worst = workers().rev().max_by_key(|(_, saturation)| saturation.saturated_ns);
    let (worker, worst) = worst.map_or_else(Default::default, |(number, saturation)| (number, *saturation));
    ReplayLoad {
        worker,
        saturated_s: seconds(worst.saturated_ns),
        starved_s: seconds(worst.starved_ns),
        worst_lag_ms: worst.worst_lag_ns as f64 / 1e6,
        blocked_s: seconds(workers().map(|(_, saturation)| saturation.blocked_ns).max().unwrap_or(0)),
        postponed: ended.workers.iter().map(|worker| worker.postponed).sum(),
        fed_late: ended.workers.iter().map(|worker| worker.fed_late).sum(),
    }
}

fn fed_late(ended: &Ended) -> Option<Warning> {
    let late: u64 = ended.workers.iter().map(|worker| worker.fed_late).sum();
    (late > 0).then(|| {
        Warning::new(
            WarningCode::SlowTrace,
            format!("{} read from the trace after they were due", counted(late, "query", "queries")),
        )
    })
}

fn recorder_full(ended: &Ended) -> Option<Warning> {
    let count: u64 = ended.workers.iter().map(|worker| worker.recorder_full).sum();
    (count > 0).then(|| {
        Warning::new(WarningCode::SlowRecorder, format!("workers waited {} for results to be written", times(count)))
    })
}

/// The comparison with recorded answers had none to compare with.
pub fn nothing_compared(plan: &Plan, comparable: u64) -> Option<Warning> {
    (plan.feed.compare && comparable == 0).then(|| {
        Warning::new(
            WarningCode::NothingCompared,
            "no answers were compared: the trace has no responses to the queries of this run".to_owned(),
        )
    })
}

/// Queries that the reference server did not answer, so that there was nothing to compare with.
fn reference_unanswered(ended: &Ended) -> Option<Warning> {
    let sum = |of: fn(&ReferenceCounts) -> u64| ended.workers.iter().map(|worker| of(&worker.reference)).sum::<u64>();
    let (asked, unanswered) = (sum(|counts| counts.asked), sum(|counts| counts.unanswered));
    (unanswered > 0).then(|| {
        Warning::new(
            WarningCode::ReferenceUnanswered,
            format!("the reference server left {unanswered} of {asked} queries unanswered; these are not compared"),
        )
    })
}

fn postponed(ended: &Ended) -> Option<Warning> {
    let count: u64 = ended.workers.iter().map(|worker| worker.postponed).sum();
    (count > 0).then(|| {
        Warning::new(WarningCode::SendBufferFull, format!("the kernel's send buffer was full {}", times(count)))
    })
}

fn refused(ended: &Ended) -> Option<Warning> {
    let said = ended.workers.iter().find_map(|worker| worker.refused.as_deref())?;
    Some(Warning::new(WarningCode::SendRefused, format!("the kernel refused to send a query: {said}")))
}

fn shared_ports(ended: &Ended) -> Option<Warning> {
    let shared = ended.workers.iter().map(|worker| worker.shared).sum::<u64>();
    let ports = ended.workers.iter().map(|worker| worker.sockets).sum::<usize>();
    (shared > 0).then(|| {
        Warning::new(
            WarningCode::SharedPorts,
            format!(
                "{} shared the UDP ports of others: there were {ports} for all",
                counted(shared, "client", "clients")
            ),
        )
    })
}

/// Responses that belong to no query and have no row, by reason.
pub fn strays_unlisted(ended: &Ended) -> BTreeMap<String, u64> {
    let strays = ended.workers.iter().fold(Strays::default(), |sum, worker| sum.plus(&worker.strays));
    strays.unlisted().map(|(reason, count)| (reason.as_str().to_owned(), count)).collect()
}

/// Datagrams dropped by the kernel on sockets of this run because their receive buffers were full.
pub fn own_drops(ended: &Ended) -> u64 {
    ended.workers.iter().map(|worker| worker.receive_drops).sum()
}

/// The same, without frames that a full ring dropped: these are not datagrams of the kernel.
fn own_socket_drops(ended: &Ended, plan: &Plan) -> u64 {
    if plan.settings.path.packets().is_some() { 0 } else { own_drops(ended) }
}

/// Frames lost between clients and server, which look like a server that does not answer.
fn link_losses(count: u64) -> Option<Warning> {
    (count > 0).then(|| {
        Warning::new(
            WarningCode::LinkLosses,
            format!("the kernel lost {} between clients and server", counted(count, "frame", "frames")),
        )
    })
}

/// Frames from servers that were not understood: queries of theirs have timed out, though the server has answered.
fn useless_frames(ended: &Ended) -> Option<Warning> {
    let counts = ended.workers.iter().map(|worker| &worker.frames);
    let cut: u64 = counts.clone().map(|counts| counts.cut).sum();
    let of_reason = |reason: BadFrame| (reason, counts.clone().map(|counts| counts.bad[reason.index()]).sum::<u64>());
    let damaged = BadFrame::ALL.into_iter().filter(|reason| reason.is_damage()).map(of_reason);
    let mut told: Vec<String> =
        damaged.filter(|(_, count)| *count > 0).map(|(reason, count)| format!("{reason} {count}")).collect();
    told.extend((cut > 0).then(|| format!("cut short by the kernel {cut}")));
    (!told.is_empty()).then(|| {
        Warning::new(WarningCode::FramesDamaged, format!("frames that arrived could not be used: {}", told.join(", ")))
    })
}

/// Drops in the network namespace on other sockets than those of this run: the server's, as far as it is watched, and those of another process.
fn dropped(all: u64, own: u64, server: u64) -> Option<Warning> {
    let drops = all.saturating_sub(own);
    // The samples begin and end a little apart from the counters of the namespace.
    let of_server = server.min(drops);
    let told = |count: u64| counted(count, "UDP datagram", "UDP datagrams");
    let text = match (of_server, drops - of_server) {
        (0, 0) => return None,
        (server, 0) => format!("the server's sockets dropped {}, since their receive buffers were full", told(server)),
        (0, others) => {
            format!(
                "sockets of other processes on this host dropped {}, since their receive buffers were full",
                told(others)
            )
        }
        (server, others) => format!(
            "the server's sockets dropped {}, and those of other processes on this host {others}, since their receive buffers were full",
            told(server)
        ),
    };
    Some(Warning::new(WarningCode::HostDrops, text))
}

fn stolen(ended: &Ended, telemetry: &Telemetry) -> Option<Warning> {
    let stalls = stalls(ended);
    (telemetry.steal > STEAL || stalls.longest_ns > STALL).then(|| {
        Warning::new(
            WarningCode::CpuStolen,
            format!(
                "the host took CPU time away: {:.1} % stolen, spinning workers stalled {}, for up to {:.1} ms",
                telemetry.steal * 100.0,
                times(stalls.count),
                stalls.longest_ns as f64 / 1e6
            ),
        )
    })
}

/// The warning about a trace that is out of order.
pub fn out_of_order(count: u64) -> Option<Warning> {
    (count > 0).then(|| {
        Warning::new(
            WarningCode::TraceOutOfOrder,
            format!(
                "the trace is out of order: {} too early to be sorted in",
                counted(count, "transaction", "transactions")
            ),
        )
    })
}

fn feed_error(ended: &Ended) -> Option<Warning> {
    ended
        .feed_error
        .as_ref()
        .map(|error| Warning::new(WarningCode::TraceCutShort, format!("reading the trace ended early: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What others on this host dropped is not told as the run's, nor the other way round.
    #[test]
    fn drops_of_others_are_told_without_those_of_the_run() {
        assert!(dropped(0, 0, 0).is_none() && dropped(7, 7, 9).is_none() && dropped(6, 7, 0).is_none());
        let told = |all, own, server| dropped(all, own, server).unwrap().text;
        assert!(told(10, 7, 0).starts_with("sockets of other processes on this host dropped 3 UDP datagrams"));
        assert!(told(10, 7, 3).starts_with("the server's sockets dropped 3 UDP datagrams,"));
        assert!(told(10, 7, 9).starts_with("the server's sockets dropped 3 UDP datagrams,"));
        assert!(told(10, 7, 1).contains("dropped 1 UDP datagram, and those of other processes on this host 2,"));
    }

    #[test]
    fn only_a_trace_out_of_order_is_told_as_one() {
        assert!(out_of_order(0).is_none());
        let warning = serde_json::to_value(out_of_order(3)).unwrap();
        assert_eq!(warning["code"], "trace_out_of_order");
        assert!(warning["text"].as_str().unwrap().contains("3 transactions"));
    }
}
