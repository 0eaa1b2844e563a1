//! Expectations: written and read alike, judged where they can be, refused with their place.

use proptest::prelude::*;

use super::*;
use crate::model::{Queries, Rate, SideUsage, Summary, Tail};

fn read(text: &str) -> Expectation {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// 10,000 queries sent, 9,899 of them answered, 100 of these SERVFAIL.
fn summary() -> Summary {
    let mut summary = Summary {
        queries: Queries {
            trace: Some(10_010),
            sent: 10_000,
            answered: 9_899,
            timed_out: 101,
            not_sent: 10,
            ..Queries::default()
        },
        rate: Rate { qps_mean: Some(500.0), ..Rate::default() },
        rcodes: [("NOERROR".to_owned(), 9_799), ("SERVFAIL".to_owned(), 100)].into(),
        answers: [("match".to_owned(), 999), ("worse".to_owned(), 1)].into(),
        ..Summary::default()
    };
    summary.responses.truncated = 7;
    summary.latency_ms.from_sent =
        Tail { queries: 10_000, p50: Some(1.0), p90: Some(19.5), p95: Some(20.0), ..Tail::default() };
    summary.latency_ms.drift_percent = Some(4.0);
    summary.telemetry.server = Some(SideUsage {
        cpu_us_per_query: Some(30.0),
        cores_mean: Some(1.5),
        rss_peak_bytes: Some(64_000_000),
        pss_peak_bytes: Some(48_000_000),
        ..SideUsage::default()
    });
    summary.latency_ms.from_intended = Tail { p90: Some(20.5), ..summary.latency_ms.from_sent };
    summary
}

#[test]
fn what_a_run_has_is_held_against_the_bound() {
    let cases = [
        ("answered >= 98.99 %", true),
        ("answered >= 99 %", false),
        ("answered >= 9899 queries", true),
        ("timed_out < 101 queries", false),
        ("timed_out <= 1.01 %", true),
        ("failed = 0", true),
        ("not_sent <= 0 %", false),
        ("truncated <= 7 answers", true),
        ("servfail <= 1 %", false),
        ("servfail <= 1.02 %", true),
        ("NXDOMAIN = 0 %", true),
        ("rcode12 <= 0", true),
        ("match >= 99.9 %", true),
        ("worse = 0 %", false),
        ("p50 <= 1ms", true),
        ("p50 < 1 ms", false),
        ("p90 <= 20ms", true),
        ("p90(sent) <= 20ms", true),
        ("p90(intended) <= 20ms", false),
        ("qps >= 500", true),
        ("qps > 500", false),
        ("drift <= 5 %", true),
        ("drift < 4 %", false),
        ("cpu <= 30us", true),
        ("cpu < 0.03 ms", false),
        ("cores <= 1.5", true),
        ("cores < 1.5", false),
        ("memory <= 64 MB", true),
        ("memory <= 63999 kB", false),
        ("memory(rss) <= 62 MiB", true),
        ("memory(pss) <= 48MB", true),
        ("memory(pss) < 0.048 GB", false),
    ];
    for (text, ok) in cases {
        let check = read(text).judge(&summary());
        assert_eq!((check.ok, &check.note), (ok, &None), "{text}: {check:?}");
    }
}

/// A percentile among the unanswered is longer than any bound.
#[test]
fn an_unanswered_query_is_not_fast() {
    for text in ["p99 <= 100h", "max < 5s", "p99.9 = 1s"] {
        let check = read(text).judge(&summary());
        assert!(!check.ok && check.value == "unanswered", "{check:?}");
    }
    assert!(read("p99 > 1h").judge(&summary()).ok);
}

#[test]
fn what_cannot_be_judged_fails_with_its_reason() {
    for text in [
        "answered >= 0 %",
        "timed_out = 0",
        "failed <= 1 %",
        "not_sent = 0",
        "truncated = 0 %",
        "servfail = 0",
        "match >= 0 %",
        "p99 <= 1h",
        "p50(intended) <= 1h",
        "qps >= 0",
        "drift <= 100 %",
        "cpu <= 1s",
        "cores <= 100",
        "memory <= 100 GB",
        "memory(pss) <= 100 GB",
    ] {
        let check = read(text).judge(&Summary::default());
        assert!(!check.ok && check.value == "n/a" && check.note.is_some(), "{text}: {check:?}");
    }
    let relative = read("p99 <= 1.10 x");
    assert!(relative.is_relative() && !relative.judge(&summary()).ok);
}

#[test]
fn an_error_has_its_column_and_the_nearest_word() {
    let cases = [
        ("", 1, "expected a quantity"),
        ("anwsered >= 99 %", 1, "did you mean `answered`?"),
        ("  servfial <= 1 %", 3, "did you mean `servfail`?"),
        ("latency <= 1 %", 1, "there are answered"),
        ("answered 99 %", 10, "expected >="),
        ("answered >= many", 13, "expected a number"),
        ("answered >= 101 %", 13, "at most 100 %"),
        ("answered >= 20ms", 13, "a share"),
        ("answered > 99", 12, "write 99 % or 99 queries"),
        ("servfail <= 0.01", 13, "write 99 % or 99 queries"),
        ("answered >= 99 % of all", 18, "`of all` is too much"),
        ("p99 <= 20", 8, "such as 20ms"),
        ("p99 <= 20 parsec", 11, "no unit"),
        ("p99(due) <= 20ms", 5, "intended"),
        ("memory(vsz) <= 20 MB", 8, "pss"),
        ("memory <= 20", 11, "such as 100 MB"),
        ("memory <= 20ms", 11, "such as 100 MB"),
        ("memory <= 20 PB", 14, "no unit"),
        ("memory <= 99999999 GB", 11, "9 PB"),
        ("cpu <= 30", 8, "such as 30us"),
        ("p99 <= 20 MB", 8, "such as 20ms"),
        ("drift <= 1.1 x", 10, "such as 10 %"),
        ("p99 <= 9999999h", 8, "104 days"),
        ("µ >= 1.2.3", 1, "no quantity"),
        ("qps >= 1.2.3", 8, "expected a number"),
        ("nxdomain = 1.00 x +- 0.1", 25, "in %"),
    ];
    for (text, column, word) in cases {
        let error = text.parse::<Expectation>().unwrap_err();
        assert!(error.column == column && error.what.contains(word), "{text}: {error}");
    }
    assert!("a".repeat(1_000).parse::<Expectation>().is_err());
}

#[test]
fn an_expectation_is_a_string_in_json() {
    let read: Vec<Expectation> = serde_json::from_str(r#"["p999<=1500us","nxdomain = 1.00 x ± 0.1 %"]"#).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), r#"["p999 <= 1500us","nxdomain = 1 x +- 0.1 %"]"#);
    assert!(serde_json::from_str::<Expectation>(r#""p99""#).is_err());
}

fn expectations() -> impl Strategy<Value = Expectation> {
    let figure = || prop_oneof![(0u32..=100).prop_map(f64::from), 0.0..100.0f64];
    let times = (figure(), figure()).prop_map(|(factor, tolerance)| Bound::Times { factor, tolerance });
    let others = [Quantity::Drift, Quantity::Cpu, Quantity::Cores, Quantity::Qps, Quantity::Attempts];
    let named = Quantity::NAMED.iter().map(|&(_, quantity)| quantity);
    let named: Vec<Quantity> = named.filter(|quantity| !others.contains(quantity)).collect();
    let share = prop_oneof![prop::sample::select(named), any::<u16>().prop_map(Quantity::Rcode)];
    let share = (share, prop_oneof![figure().prop_map(Bound::Percent), figure().prop_map(Bound::Count), times.clone()]);
    let quantile = prop::sample::select(Quantile::NAMED.map(|(_, quantile)| quantile).to_vec());
    let from = prop::sample::select(vec![Origin::Sent, Origin::Intended]);
    let lookup = quantile.clone().prop_map(Quantity::Lookup);
    let latency = (quantile, from).prop_map(|(quantile, from)| Quantity::Latency { quantile, from });
    let time = (0..1u64 << 53).prop_map(Bound::Time);
    let latency = (prop_oneof![latency, lookup, Just(Quantity::Cpu)], prop_oneof![time, times.clone()]);
    let counted = prop::sample::select(Resident::NAMED.map(|(_, counted)| counted).to_vec());
    let octets = (0..1u64 << 53).prop_map(Bound::Octets);
    let memory = (counted.prop_map(Quantity::Memory), prop_oneof![octets, times]);
    let rate = prop::sample::select(vec![Quantity::Qps, Quantity::Cores, Quantity::Attempts]);
    let rate = (rate, (0.0..1e9f64).prop_map(Bound::Number));
    let drift = (Just(Quantity::Drift), figure().prop_map(Bound::Percent));
    let relation = prop::sample::select(Relation::NAMED.map(|(_, relation)| relation).to_vec());
    (prop_oneof![share, latency, memory, rate, drift], relation).prop_map(|((quantity, bound), relation)| Expectation {
        quantity,
        relation,
        bound,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_was(expectation in expectations()) {
        prop_assert_eq!(expectation.to_string().parse(), Ok(expectation));
    }

    #[test]
    fn any_text_ends_in_a_value_or_a_column_of_it(text in "\\PC{0,40}") {
        if let Err(error) = text.parse::<Expectation>() {
            prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1);
        }
    }

    #[test]
    fn any_text_of_the_grammar_ends_in_a_value_or_an_error(text in "(answered|p99|servfail|qps|cpu|memory|drift)[ (a-z)]{0,3}[<>=]{1,2} ?[0-9.]{0,6} ?(%|ms|kB|x|[+]- 1 %){0,2}") {
        if let Ok(expectation) = text.parse::<Expectation>() {
            prop_assert_eq!(expectation.to_string().parse(), Ok(expectation));
        }
    }
}

/// Found by fuzzing: what stood behind the bound was quoted with its line breaks.
#[test]
fn an_error_is_one_line_although_the_text_has_many() {
    let error = "qps = 1 k\nand\tmore".parse::<Expectation>().unwrap_err().to_string();
    assert!(!error.contains(char::is_control), "{error}");
    let error = "qps = .8 [\n \u{b0} \n".parse::<Expectation>().unwrap_err().to_string();
    assert!(error.contains("too much here") && !error.contains(char::is_control), "{error}");
}
