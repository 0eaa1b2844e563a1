//! The load of a run and its duration, found by planning the trace once without sending.

use ldplayer_core::Query;
use ldplayer_trace::Input;
use ldplayer_workload::{FeedOptions, Passes, PlanFeed, Timing, WorkloadError};

use crate::embed::embed;
use crate::error::RunError;
use crate::keys::RunSpec;
use crate::resolve;

/// Octets of a trace that is read before the run only to say how long it will take.
const SMALL: u64 = 4 << 20;

/// What a run will send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Queries.
    pub queries: u64,
    /// Octets of their messages.
    pub octets: u64,
    /// Distinct client addresses.
    pub clients: u64,
    /// From the first query to the last, in nanoseconds; `None` if queries are unpaced.
    pub span_ns: Option<i64>,
}

/// Reads the trace as a run would; `None` if it can be read only once, or never ends.
///
/// # Errors
/// A file cannot be read, or no query is due before the end time.
pub fn load(spec: RunSpec) -> Result<Option<Load>, RunError> {
    let spec = embed(spec)?;
    let feed = resolve::feed_of(&spec);
    if !can_be_read_twice(&feed) || feed.is_endless() {
        return Ok(None);
    }
    let has_times = spec.timing() != Timing::Fast;
    let load = count(&feed)?;
    Ok(Some(Load { span_ns: load.span_ns.filter(|_| has_times), ..load }))
}

/// Whether the whole trace is in files, so that it can be read again.
pub fn is_repeatable(spec: &RunSpec) -> bool {
    can_be_read_twice(&resolve::feed_of(spec))
}

/// Whether the whole trace is in files.
pub fn can_be_read_twice(feed: &FeedOptions) -> bool {
    feed.inputs.iter().all(|input| matches!(input, Input::File(_)))
}

/// How long the queries of a plan will take, from the first to the last, in nanoseconds; `None` where that is not known without much
/// reading. It is for people who wait: a trace may end before the time that it is given.
pub fn expected_ns(options: &FeedOptions) -> Option<i64> {
    let plan = &options.plan;
    if plan.timing == Timing::Fast {
        return plan.until;
    }
    if is_small(options) && options.passes.is_none_or(|passes| passes == Passes::ONCE) && plan.until.is_none() {
        // The replay itself reports faults of the trace.
        return count(options).ok()?.span_ns;
    }
    let stopped = match plan.timing {
        Timing::Scaled(speed) => plan.stop.map(|stop| ((stop - plan.start) as f64 / speed) as i64),
        _ => None,
    };
    [plan.until, stopped].into_iter().flatten().min()
}

/// Whether the trace is read in a moment.
fn is_small(options: &FeedOptions) -> bool {
    let size = |input: &Input| match input {
        Input::File(path) => std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|file| file.len()),
        Input::Stdin | Input::Unix(_) => None,
    };
    options.inputs.iter().map(size).sum::<Option<u64>>().is_some_and(|octets| octets <= SMALL)
}

/// Reads the trace of a plan.
pub fn count(options: &FeedOptions) -> Result<Load, WorkloadError> {
    let mut feed = PlanFeed::open(options)?;
    let (mut batch, mut more, mut load): (Vec<Query>, _, _) = (Vec::new(), true, Load::default());
    let mut clients = std::collections::HashSet::new();
    let mut span = 0;
    while more {
        more = feed.next(&mut batch)?;
        load.queries += batch.len() as u64;
        for query in batch.drain(..) {
            load.octets += query.wire.len() as u64;
            span = span.max(query.due.0);
            clients.insert(query.client);
        }
    }
    Ok(Load { clients: clients.len() as u64, span_ns: Some(span), ..load })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_will_be_sent_is_told_without_sending_it() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.tsv");
        std::fs::write(
            &trace,
            "time\tsrc\tqname\tqtype\n1\t192.0.2.1\texample.\tNS\n3\t192.0.2.2\texample.\tA\n4\t192.0.2.1\texample.\tA\n",
        )
        .unwrap();
        let trace = trace.to_str().unwrap();
        let of = |more: &str| load(RunSpec::parse(&format!("trace = '{trace}'\n{more}")).unwrap()).unwrap().unwrap();
        let all = of("");
        assert_eq!((all.queries, all.clients, all.span_ns), (3, 2, Some(3_000_000_000)));
        assert_eq!(of("speed = 3").span_ns, Some(1_000_000_000));
        assert_eq!((of("stop = 1").queries, of("timing = 'fast'").span_ns), (1, None));
        let looped = of("loop = 'forever'\nfor = '10s'\ntiming = 'rate:5'\nclients = 1");
        assert_eq!((looped.queries, looped.clients, looped.span_ns), (50, 1, Some(9_800_000_000)));
        let endless = RunSpec::parse(&format!("trace = '{trace}'\nloop = 'forever'")).unwrap();
        assert_eq!(load(endless).unwrap(), None);
        assert_eq!(load(RunSpec::parse("trace = '-'").unwrap()).unwrap(), None);
        let is_repeatable = |trace: &str| is_repeatable(&RunSpec::parse(&format!("trace = {trace}")).unwrap());
        assert!(is_repeatable("'a.tsv'") && !is_repeatable("'-'") && !is_repeatable("['a.tsv', 'unix:/run/x']"));
    }

    #[test]
    fn how_long_a_run_will_take_is_said_where_it_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("a.tsv");
        std::fs::write(&trace, "time\tsrc\tqname\tqtype\n1\t192.0.2.1\texample.\tNS\n5\t192.0.2.1\texample.\tA\n")
            .unwrap();
        let of = |trace: &str, more: &str| {
            let spec = RunSpec::parse(&format!("trace = '{trace}'\n{more}")).unwrap();
            expected_ns(&resolve::feed_of(&spec)).map(|ns| ns as f64 / 1e9)
        };
        let file = trace.to_str().unwrap();
        assert_eq!((of(file, ""), of(file, "speed = 4")), (Some(4.0), Some(1.0)));
        assert_eq!((of(file, "for = '9s'\nloop = 'forever'"), of(file, "timing = 'fast'")), (Some(9.0), None));
        assert_eq!(of(file, "timing = 'fast'\nfor = '30s'"), Some(30.0), "by the clock");
        assert_eq!((of("-", ""), of("-", "stop = 6\nstart = 2\nspeed = 2")), (None, Some(2.0)));
        assert_eq!(of("no-such-file", ""), None);
    }

    #[test]
    fn queries_that_only_the_clock_ends_are_not_counted_for_ever() {
        let spec = RunSpec::parse("trace = 'no-such-file'\nloop = 'forever'\nfor = '5m'\ntiming = 'fast'").unwrap();
        assert_eq!(load(spec).unwrap(), None);
    }
}
