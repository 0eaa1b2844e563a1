//! The queries of a run out of a real capture: what they become does not depend on who sends them, and recorded answers are counted.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ldplayer_core::damage::Flaw;
use ldplayer_core::shard::shard;
use ldplayer_core::{Message, Query, Transport};
use ldplayer_trace::{Input, OpenOptions, open};
use ldplayer_workload::{ClassDraws, ClientClass, FeedOptions, PlanFeed, PlanOptions, Timing, read_classes};

const RULES: &str = "[[rule]]\nwhere = 'qtype == A'\nshare = '37 %'\ndo = true\n\n[[rule]]\nshare = '10 %'\nper = 'client'\nqname-prefix = 'u{n}'\n";
const CLASSES: &str =
    "[[class]]\nname = 'tcp'\nshare = '30 %'\ntransport = 'tcp'\n[[class]]\nname = 'rest'\nshare = '70 %'\n";

fn capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/l-root-20161006.pcap.xz")
}

fn classes() -> Vec<ClientClass> {
    read_classes(CLASSES).unwrap()
}

fn options(folder: &Path, timing: Timing) -> FeedOptions {
    let rules = folder.join("rules.toml");
    std::fs::write(&rules, RULES).unwrap();
    FeedOptions {
        rules: vec![rules.into()],
        plan: PlanOptions { timing, ..PlanOptions::default() },
        classes: classes(),
        seed: 7,
        ..FeedOptions::of(vec![Input::File(capture())])
    }
}

fn queries(options: &FeedOptions) -> (Vec<Query>, PlanFeed) {
    let (mut feed, mut queries) = (PlanFeed::open(options).unwrap(), Vec::new());
    while feed.next(&mut queries).unwrap() {}
    (queries, feed)
}

/// Each host reads the whole trace and keeps what is its own.
#[test]
fn what_a_query_becomes_does_not_depend_on_the_split_over_hosts() {
    let folder = tempfile::tempdir().unwrap();
    for timing in [Timing::ORIGINAL, Timing::Poisson(5_000.0)] {
        let options = options(folder.path(), timing);
        let alone = queries(&options).0;
        let tcp = alone.iter().filter(|query| query.class == Some(0)).count();
        assert!(tcp > 0 && tcp < alone.len(), "{tcp} of {}", alone.len());
        for hosts in [2, 5] {
            let of_host =
                |host: usize| queries(&options).0.into_iter().filter(move |query| shard(query.client, hosts) == host);
            let mut together: Vec<Query> = (0..hosts).flat_map(of_host).collect();
            together.sort_by_key(|query| query.index);
            assert!(together == alone, "{hosts} hosts");
        }
    }
}

/// Why draws come before the split: made behind it, they would be others.
#[test]
fn draws_behind_the_split_would_be_others() {
    let folder = tempfile::tempdir().unwrap();
    let alone = queries(&options(folder.path(), Timing::ORIGINAL)).0;
    let mut draws = [0, 1].map(|_| ClassDraws::new(&classes(), 7));
    let split = alone.iter().map(|query| {
        let mut query = query.clone();
        draws[shard(query.client, 2)].assign(&mut query);
        query.class
    });
    assert!(!split.eq(alone.iter().map(|query| query.class)));
}

#[test]
fn recorded_answers_are_counted_for_the_queries_that_are_planned() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), Timing::ORIGINAL);
    options.rules.clear();
    options.plan.stop = Some(20_000_000_000);
    let (planned, feed) = queries(&options);
    let recorded = feed.recorded().unwrap();
    let rcodes = recorded.rcodes();
    assert_eq!(rcodes.values().sum::<u64>() + recorded.unanswered(), planned.len() as u64);

    // The same, counted out of the trace.
    let (mut source, mut rows) = (open(&options.inputs, &options.open).unwrap(), Vec::new());
    while source.read(&mut rows).unwrap() {}
    let answers = planned.iter().filter_map(|query| rows[query.index as usize].response.as_deref());
    let nxdomain = answers.filter(|response| Message::new(response).unwrap().rcode() == 3).count() as u64;
    assert!(nxdomain > 0);
    assert_eq!(rcodes["NXDOMAIN"], nxdomain);
}

#[test]
fn a_trace_of_queries_alone_has_no_recorded_answers() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("queries.txt");
    std::fs::write(&list, "example. A\nexample. NS\n").unwrap();
    let plan = PlanOptions { timing: Timing::Fast, transport: Some(Transport::Udp), ..PlanOptions::default() };
    let (inputs, open) = (vec![Input::File(list)], OpenOptions::default());
    let options = FeedOptions { open, plan, ..FeedOptions::of(inputs) };
    let (planned, feed) = queries(&options);
    assert_eq!((planned.len(), feed.recorded()), (2, None));
}

/// What rules leave of a trace joins with the trace by `index`: the message is that of the row, once for each copy.
#[test]
fn the_index_of_a_query_is_its_row_in_the_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path(), Timing::ORIGINAL);
    let (mut source, mut rows) = (open(&options.inputs, &options.open).unwrap(), Vec::new());
    while source.read(&mut rows).unwrap() {}
    let dropped = "[[rule]]\nshare = '40 %'\ndrop = true\n";
    let copied = "[[rule]]\nshare = '10 %'\nduplicate = 1\ngap = '2s'\n";
    let moved = "[[rule]]\ntime-jitter = '1s'\n";
    let laid = "[population]\ntimes = 2\nslice = '10s'\n";
    for (text, gaps, copies, in_order) in [
        ("", false, false, true),
        (dropped, true, false, true),
        (copied, false, true, false),
        (moved, false, false, false),
        (laid, true, false, false),
        (&[laid, dropped, copied, moved].concat(), true, true, false),
    ] {
        std::fs::write(folder.path().join("rules.toml"), text).unwrap();
        options.rules = vec![folder.path().join("rules.toml").into()];
        let planned = queries(&options).0;
        assert!(planned.iter().all(|query| rows[query.index as usize].query.as_ref() == Some(&query.wire)), "{text}");
        let different: HashSet<u64> = planned.iter().map(|query| query.index).collect();
        let asked = rows.iter().filter(|row| row.query.is_some()).count();
        assert_eq!((different.len() < asked, different.len() < planned.len()), (gaps, copies), "{text}");
        assert_eq!(planned.is_sorted_by_key(|query| query.index), in_order, "{text}");
    }
}

/// A run that stops early has read the layers to different places, and what ends a trace is behind all of them.
#[test]
fn damage_of_a_trace_in_slices_is_in_the_accounts_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.tsv");
    for damaged in [None, Some(15), Some(39)] {
        let line = |second: u32| match damaged == Some(second) {
            true => format!("{second}\tnobody\texample.\tA\n"),
            false => format!("{second}\t192.0.2.1\texample.\tA\n"),
        };
        let lines: String = (0..42).map(line).collect();
        std::fs::write(&trace, format!("time\tsrc\tqname\tqtype\n{lines}")).unwrap();
        let mut options = options(folder.path(), Timing::ORIGINAL);
        std::fs::write(folder.path().join("rules.toml"), "[population]\ntimes = 2\nslice = '10s'\n").unwrap();
        options.inputs = vec![Input::File(trace.clone())];
        options.plan.stop = Some(7_000_000_000);
        let (planned, feed) = queries(&options);
        assert!(!planned.is_empty());
        assert_eq!(feed.tally().damage_count(Flaw::BadAddress), u64::from(damaged.is_some()), "{damaged:?}");
        assert_eq!((feed.tally().is_whole(), feed.tally().inputs.len()), (damaged.is_none(), 1));
    }
}
