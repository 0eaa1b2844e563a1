//! Whether the client was the bottleneck: only proven causes, each with its evidence and remedy.
//!
//! Processor time is no evidence: a worker of high precision spins. Evidence is that a worker had no rest while its queries became later
//! and later, that answers were dropped at this end, that there were no ports or identifiers left, or that what is behind or before the workers
//! held them up.

use super::{RECEIVE_DROPS_PERCENT, dropped_share};
use crate::model::{ReplayLoad, Summary};
use crate::numbers::{counted, grouped};
use crate::warning::{Warning, WarningCode};

/// A worker that could not keep up for so long, in seconds …
const SATURATED_S: f64 = 0.5;
/// … and for this share of the run, held the run up.
const SATURATED: f64 = 0.02;
/// Share of the queries that could not be sent for want of ports or identifiers.
const NOT_SENT: f64 = 0.001;
/// Share of the queries that were held up, by the kernel's buffer or by the reader.
const HELD_UP: f64 = 0.01;

/// Something that was seen, and what to do about it.
struct Evidence {
    seen: String,
    remedy: &'static str,
}

/// The warning, where there is evidence. `paced` says whether queries had times of their own.
pub fn warning(summary: &Summary, paced: bool) -> Option<Warning> {
    let load = summary.telemetry.replay.unwrap_or_default();
    let found: Vec<Evidence> = [
        saturated(summary, &load, paced),
        blocked(summary, &load),
        dropped(summary),
        out_of_addresses(summary),
        postponed(summary, &load),
        fed_late(summary, &load),
    ]
    .into_iter()
    .flatten()
    .collect();
    let join = |part: fn(&Evidence) -> &str| found.iter().map(part).collect::<Vec<_>>().join("; ");
    (!found.is_empty()).then(|| {
        Warning::with_remedy(
            WarningCode::ClientBottleneck,
            format!(
                "the client was the bottleneck, so that the figures are not the server's limit: {}",
                join(|found| &found.seen)
            ),
            join(|found| found.remedy),
        )
    })
}

/// Whether so many seconds held up a run.
fn held_up(seconds: f64, summary: &Summary) -> bool {
    seconds >= SATURATED_S && seconds >= summary.elapsed_s * SATURATED
}

fn saturated(summary: &Summary, load: &ReplayLoad, paced: bool) -> Option<Evidence> {
    let ReplayLoad { worker, saturated_s, starved_s, worst_lag_ms, .. } = *load;
    let is_starved = starved_s >= saturated_s / 2.0;
    let what = match paced {
        true => format!("while its queries became later, up to {worst_lag_ms:.0} ms"),
        false => "so that the rate is what it can send".to_owned(),
    };
    let whose =
        if is_starved { format!(", and others had its core for {starved_s:.1} s of these") } else { String::new() };
    held_up(saturated_s, summary).then(|| Evidence {
        seen: format!("worker {worker} had no rest for {saturated_s:.1} s of {:.1} s {what}{whose}", summary.elapsed_s),
        remedy: match is_starved {
            true => {
                "keep the server and other load off the workers' cores (--cores), or use a machine with more of them"
            }
            false => "use more --workers on cores of their own, or a second machine, or lower the rate",
        },
    })
}

fn blocked(summary: &Summary, load: &ReplayLoad) -> Option<Evidence> {
    held_up(load.blocked_s, summary).then(|| Evidence {
        seen: format!("a worker waited {:.1} s for results to be written", load.blocked_s),
        remedy: "write the run to a faster disk with -o, or leave a core free with --workers",
    })
}

fn dropped(summary: &Summary) -> Option<Evidence> {
    let drops = summary.responses.receive_drops?;
    let (percent, came) = dropped_share(summary, drops);
    (percent > RECEIVE_DROPS_PERCENT).then(|| Evidence {
        seen: format!("{} of {} responses were dropped at this end", grouped(drops), grouped(came)),
        remedy: WarningCode::KernelDrops.remedy(),
    })
}

fn out_of_addresses(summary: &Summary) -> Option<Evidence> {
    let queries = &summary.queries;
    let of = |reason: &str| queries.not_sent_by_reason.get(reason).copied().unwrap_or(0);
    let unsent = of("no_source_address") + of("out_of_ids");
    let all = queries.sent + queries.not_sent;
    (unsent > 0 && unsent as f64 >= all as f64 * NOT_SENT).then(|| Evidence {
        seen: format!(
            "{} not sent for want of ports, descriptors or query IDs",
            counted(unsent, "query was", "queries were")
        ),
        remedy: "raise the limit of open files (ulimit -n), widen net.ipv4.ip_local_port_range, or give more --sources",
    })
}

fn is_many(count: u64, summary: &Summary) -> bool {
    count > 0 && count as f64 >= summary.queries.sent as f64 * HELD_UP
}

fn postponed(summary: &Summary, load: &ReplayLoad) -> Option<Evidence> {
    is_many(load.postponed, summary).then(|| Evidence {
        seen: format!("the kernel's send buffer was full for {} sends", grouped(load.postponed)),
        remedy: "raise net.core.wmem_max: sysctl -w net.core.wmem_max=33554432, or lower the rate",
    })
}

fn fed_late(summary: &Summary, load: &ReplayLoad) -> Option<Evidence> {
    is_many(load.fed_late, summary).then(|| Evidence {
        seen: format!("{} read only after the due time", counted(load.fed_late, "query was", "queries were")),
        remedy: "convert the trace to Parquet, or put it on a faster disk",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Queries, Responses, SideUsage, Telemetry};

    fn summary(load: ReplayLoad) -> Summary {
        let queries = Queries { sent: 1_000_000, answered: 1_000_000, ..Queries::default() };
        let client = SideUsage { cores_mean: Some(1.0), cores_peak: Some(1.0), ..SideUsage::default() };
        let telemetry = Telemetry { client: Some(client), server: None, replay: Some(load) };
        Summary { elapsed_s: 60.0, queries, telemetry, ..Summary::default() }
    }

    fn seen(summary: &Summary) -> Option<String> {
        warning(summary, true).map(|warning| warning.text)
    }

    /// `--precision high` uses a core for each worker by design; so does anything else that is not late.
    #[test]
    fn a_core_that_is_busy_is_no_evidence() {
        assert_eq!(seen(&summary(ReplayLoad::default())), None);
        let stalls = ReplayLoad { saturated_s: 0.4, starved_s: 0.4, ..ReplayLoad::default() };
        assert_eq!(seen(&summary(stalls)), None, "a stall of the host is told as one");
        let little = ReplayLoad { postponed: 9_999, fed_late: 9_999, blocked_s: 1.0, ..ReplayLoad::default() };
        assert_eq!(seen(&summary(little)), None);
        assert!(warning(&Summary::default(), true).is_none());
    }

    #[test]
    fn a_worker_that_could_not_keep_up_is_told_with_who_had_its_core() {
        let load = ReplayLoad { worker: 1, saturated_s: 12.0, worst_lag_ms: 812.0, ..ReplayLoad::default() };
        let text = seen(&summary(load)).unwrap();
        assert!(
            text.ends_with("worker 1 had no rest for 12.0 s of 60.0 s while its queries became later, up to 812 ms"),
            "{text}"
        );
        let starved = warning(&summary(ReplayLoad { starved_s: 9.0, ..load }), true).unwrap();
        assert!(
            starved.text.contains("others had its core for 9.0 s") && starved.remedy.contains("--cores"),
            "{starved:?}"
        );
        let unpaced = warning(&summary(load), false).unwrap().text;
        assert!(unpaced.contains("the rate is what it can send") && !unpaced.contains("later"), "{unpaced}");
    }

    #[test]
    fn each_other_bottleneck_is_told_with_its_remedy() {
        let drops = Responses { receive_drops: Some(5_000), ..Responses::default() };
        let text = seen(&Summary { responses: drops, ..summary(ReplayLoad::default()) }).unwrap();
        assert!(text.contains("5,000 of 1,005,000 responses were dropped at this end"), "{text}");
        let few = Responses { receive_drops: Some(50), ..Responses::default() };
        assert_eq!(seen(&Summary { responses: few, ..summary(ReplayLoad::default()) }), None);

        let mut ports = summary(ReplayLoad::default());
        ports.queries.not_sent_by_reason = [("no_source_address".to_owned(), 1_500), ("lag".to_owned(), 9)].into();
        let found = warning(&ports, true).unwrap();
        assert!(found.text.contains("1,500 queries were not sent") && found.remedy.contains("ip_local_port_range"));
        ports.queries.not_sent_by_reason = [("no_source_address".to_owned(), 900), ("lag".to_owned(), 90_000)].into();
        assert_eq!(seen(&ports), None, "few of them, and lag has a cause of its own");

        let all = ReplayLoad { postponed: 20_000, fed_late: 30_000, blocked_s: 2.0, ..ReplayLoad::default() };
        let found = warning(&summary(all), true).unwrap();
        for part in ["2.0 s for results", "20,000 sends", "30,000 queries were read only after"] {
            assert!(found.text.contains(part), "{}", found.text);
        }
        assert_eq!(found.remedy.matches("; ").count(), 2);
    }
}
