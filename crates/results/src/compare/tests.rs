//! What comparisons claim, held against simulated repeats of which the truth is known.

use std::cell::Cell;

use ldplayer_core::random::{draw, normal};
use serde_json::Value;

use super::contrast::{By, Contrast};
use super::*;
use crate::model::{Fidelity, Good, SideUsage, Tail};
use crate::{Expectation, RunConfig, Summary};

/// Numbers of repeats that are tried.
const REPEATS: [usize; 3] = [3, 5, 10];

/// Numbers of the standard normal distribution, each call another one.
struct Noise {
    key: u64,
    drawn: Cell<u64>,
}

impl Noise {
    fn new(key: u64) -> Self {
        Self { key, drawn: Cell::new(0) }
    }

    fn next(&self) -> f64 {
        let at = self.drawn.replace(self.drawn.get() + 2);
        normal(draw(self.key, at), draw(self.key, at + 1))
    }

    /// The logarithm of a figure that differs from run to run by some percent, and in one run of ten by three times as much.
    fn heavy(&self, spread: f64) -> f64 {
        let is_odd = draw(self.key ^ 1, self.drawn.get()).is_multiple_of(10);
        self.next() * spread * if is_odd { 3.0 } else { 1.0 }
    }

    fn many(&self, count: usize, spread: f64) -> Vec<f64> {
        (0..count).map(|_| self.heavy(spread)).collect()
    }
}

/// A run whose figures are `by` times the usual ones, each with a noise of its own; percentiles of one run go together.
fn run(noise: &Noise, spread: f64, by: f64) -> RunReport {
    let common = noise.heavy(spread);
    let figure = |usual: f64| Some(usual * by * (common + noise.heavy(spread / 2.0)).exp());
    let tail = |usual: f64| Tail {
        queries: 10_000,
        p50: figure(usual),
        p90: figure(usual * 2.0),
        p99: figure(usual * 5.0),
        p999: figure(usual * 9.0),
        ..Tail::default()
    };
    let mut summary = Summary::default();
    (summary.latency_ms.from_sent, summary.latency_ms.from_intended) = (tail(0.1), tail(0.12));
    summary.latency_ms.drift_percent = Some(noise.next() * 3.0);
    (summary.queries.sent, summary.queries.trace) = (10_000, Some(10_000));
    summary.queries.answered = 10_000 - (noise.next().abs() * 3.0) as u64;
    summary.rcodes = [("NOERROR".to_owned(), summary.queries.answered - 3_000), ("NXDOMAIN".to_owned(), 3_000)].into();
    summary.telemetry.server = Some(SideUsage {
        cpu_us_per_query: figure(20.0),
        cores_mean: figure(0.2),
        rss_peak_bytes: figure(5e7).map(|octets| octets as u64),
        ..SideUsage::default()
    });
    let config = RunConfig::default().with("query_timeout", "5s");
    RunReport { summary, config, ..RunReport::default() }
}

fn side(name: &str, runs: impl IntoIterator<Item = RunReport>) -> Side {
    Side { name: name.to_owned(), runs: (1..).zip(runs).collect(), ..Side::default() }
}

/// So many repeats of A, and of what differs from it by a factor, made in turns.
fn pair(noise: &Noise, repeats: usize, spread: f64, by: f64) -> Pair {
    let runs = |by: f64| (0..repeats).map(|_| run(noise, spread, by)).collect::<Vec<_>>();
    Pair { a: side("old", runs(1.0)), b: side("new", runs(by)), interleaved: true, chosen: Vec::new() }
}

fn row(comparison: &Comparison, quantity: &str) -> Row {
    comparison.rows.iter().find(|row| row.quantity.to_string() == quantity).unwrap().clone()
}

fn expected(texts: &[&str]) -> Vec<Expectation> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Of how many of a thousand tries something holds.
fn per_mille(tries: usize, holds: impl Fn(usize) -> bool) -> usize {
    (0..tries).filter(|&at| holds(at)).count() * 1_000 / tries
}

#[test]
fn intervals_of_95_percent_hold_the_truth_in_about_95_of_100_tries() {
    const TRUTH: f64 = 0.2;
    for repeats in REPEATS {
        let tries = if repeats < contrast::MANY { 1_000 } else { 200 };
        let noise = Noise::new(repeats as u64);
        let covered = |contrast: fn(&[f64], &[f64]) -> Contrast| {
            per_mille(tries, |_| {
                let b: Vec<f64> = noise.many(repeats, 0.1).iter().map(|value| value + TRUTH).collect();
                let (low, high) = contrast(&noise.many(repeats, 0.1), &b).interval(0.05);
                low <= TRUTH && TRUTH <= high
            })
        };
        let apart = covered(|a, b| Contrast::of_two(a, b, 1.0, 1e-3, By::Means).unwrap());
        assert!((925..=990).contains(&apart), "{repeats} repeats, apart: {apart} of 1000");
        let in_pairs = covered(|a, b| {
            let pairs: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
            Contrast::of_one(&pairs, 1e-3, By::Means).unwrap()
        });
        assert!((925..=990).contains(&in_pairs), "{repeats} repeats, in pairs: {in_pairs} of 1000");
        // Three and five are too few for ranks.
        let by_ranks = covered(|a, b| Contrast::of_two(a, b, 1.0, 1e-3, By::Ranks).unwrap());
        assert!((925..=990).contains(&by_ranks), "{repeats} repeats, by ranks: {by_ranks} of 1000");
        let median = per_mille(tries, |_| {
            let (low, high) = contrast::of_median(&noise.many(repeats, 0.1), 1e-3).unwrap();
            low <= 0.0 && 0.0 <= high
        });
        assert!((920..=990).contains(&median), "{repeats} repeats, median: {median} of 1000");
    }
}

/// What resampling alone would say of three repeats.
#[test]
fn a_plain_bootstrap_of_few_repeats_would_be_far_too_narrow() {
    let noise = Noise::new(7);
    let covered = per_mille(300, |try_at| {
        let values = noise.many(3, 0.1);
        let mean =
            |number: u64| (0..3).map(|at| values[(draw(number, at ^ try_at as u64) % 3) as usize]).sum::<f64>() / 3.0;
        let mut means: Vec<f64> = (0..400).map(mean).collect();
        means.sort_unstable_by(f64::total_cmp);
        means[10] <= 0.0 && 0.0 <= means[389]
    });
    assert!(covered < 850, "{covered} of 1000");
}

#[test]
fn a_table_of_a_against_a_claims_a_difference_in_no_more_than_5_of_100_tries() {
    for repeats in REPEATS {
        let noise = Noise::new(100 + repeats as u64);
        let tries = if repeats < contrast::MANY { 200 } else { 25 };
        let claimed = per_mille(tries, |_| {
            let found = compare(&pair(&noise, repeats, 0.15, 1.0));
            assert!(found.rows.len() >= 14, "{:?}", found.unknown);
            found.rows.iter().any(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse))
        });
        assert!(claimed <= 60, "{repeats} repeats: {claimed} of 1000 tables");
    }
}

#[test]
fn gates_of_a_against_a_are_not_broken_in_twenty_of_twenty_tries_many_times_over() {
    let gates = expected(&["p99 <= 1.10 x", "p999 <= 1.10 x", "cpu <= 1.05 x", "nxdomain = 1.00 x +- 0.1 %"]);
    for repeats in REPEATS {
        let noise = Noise::new(200 + repeats as u64);
        let tries = if repeats < contrast::MANY { 500 } else { 50 };
        let broken = per_mille(tries, |_| {
            let kept = keep(&[pair(&noise, repeats, 0.15, 1.0)], &gates);
            kept.iter().any(|kept| kept.outcome == Outcome::Broken)
        });
        assert!(broken <= 10, "{repeats} repeats: {broken} of 1000 tries");
    }
}

#[test]
fn a_tail_that_is_four_times_as_long_breaks_the_gate_with_five_repeats() {
    let noise = Noise::new(300);
    let slower = |run: RunReport| {
        let mut slower = run;
        let tail = &mut slower.summary.latency_ms.from_sent;
        tail.p999 = tail.p999.map(|ms| ms * 4.0);
        slower
    };
    let found = per_mille(100, |_| {
        let mut pair = pair(&noise, 5, 0.15, 1.0);
        pair.b.runs.iter_mut().for_each(|(_, run)| *run = slower(run.clone()));
        let kept = &keep(&[pair], &expected(&["p999 <= 1.10 x", "p50 <= 1.10 x", "cpu <= 1.10 x"]))[0];
        assert!(kept.outcome != Outcome::Broken || kept.words.starts_with("p999 <= 1.1 x is broken: p999 rose to "));
        kept.outcome == Outcome::Broken
    });
    assert!(found >= 950, "{found} of 1000");
}

#[test]
fn a_difference_is_told_in_words_with_what_it_is_worth() {
    let noise = Noise::new(1);
    let worse = compare(&pair(&noise, 8, 0.01, 1.12));
    let p99 = row(&worse, "p99");
    assert_eq!(p99.verdict, Verdict::Worse, "{p99:?}");
    assert!(
        p99.words.starts_with("p99 rose by 1") && p99.words.contains(" % ± ") && p99.words.ends_with(": worse"),
        "{}",
        p99.words
    );
    let better = row(&compare(&pair(&noise, 8, 0.01, 0.8)), "cpu");
    assert!(better.words.starts_with("cpu fell by ") && better.verdict == Verdict::Better, "{}", better.words);
    let same = row(&compare(&pair(&noise, 8, 0.002, 1.0)), "p50");
    assert_eq!(same.verdict, Verdict::Same, "{}", same.words);
    let times = row(&compare(&pair(&noise, 8, 0.01, 3.2)), "p999(intended)");
    assert!(
        times.words.starts_with("p999(intended) rose to 3.") && times.words.contains(" times ("),
        "{}",
        times.words
    );
}

/// The number that is told is one with which it is decided, by and large.
#[test]
fn undecided_says_how_many_more_repeats_and_they_do() {
    let noise = Noise::new(5);
    let p99: Expectation = "p99 <= 1s".parse().unwrap();
    let judged = |repeats| {
        let pair = pair(&noise, repeats, 0.05, 1.12);
        let (a, b) = (Sample::of(p99.quantity, &pair.a), Sample::of(p99.quantity, &pair.b));
        row::row(Family::Latency, p99.quantity, &a, &b, true, OUTSIDE / 14.0)
    };
    let few = judged(4);
    assert_eq!(few.verdict, Verdict::Undecided, "{few:?}");
    let more = few.more_repeats.unwrap();
    assert!(more > 1 && few.words.ends_with(&format!("undecided: {more} more repeats")), "{}", few.words);
    let decided = per_mille(20, |_| judged(4 + 2 * more as usize).verdict == Verdict::Worse);
    assert!(decided >= 700, "{decided} of 1000 with twice as many as were told ({more})");
}

/// By Student's distribution a tail that is 20 % longer was undecided, since one repeat of A was twice as long as the others.
#[test]
fn ranks_decide_on_tails_that_one_odd_repeat_hides_from_means() {
    let p99: Expectation = "p99 <= 1s".parse().unwrap();
    let noise = Noise::new(31);
    let mut pair = pair(&noise, 8, 0.003, 1.2);
    let tail = &mut pair.a.runs[3].1.summary.latency_ms.from_sent;
    tail.p99 = tail.p99.map(|ms| ms * 2.0);
    let judged = |by: By| {
        let (mut a, mut b) = (Sample::of(p99.quantity, &pair.a), Sample::of(p99.quantity, &pair.b));
        (a.by, b.by) = (by, by);
        row::row(Family::Latency, p99.quantity, &a, &b, true, OUTSIDE)
    };
    let (by_ranks, by_means) = (judged(By::Ranks), judged(By::Means));
    assert_eq!((by_means.verdict, by_ranks.verdict), (Verdict::Undecided, Verdict::Worse), "{}", by_means.words);
    let Change { estimate, low, high, .. } = by_ranks.change.unwrap();
    assert!(low > 1.18 && (1.19..1.21).contains(&estimate) && high < 1.22, "{low} to {high}");
}

#[test]
fn single_runs_claim_nothing_however_far_they_are_apart() {
    let noise = Noise::new(9);
    for repeats in [1, 2] {
        let pair = pair(&noise, repeats, 0.001, 50.0);
        let found = compare(&pair);
        assert!(found.rows.iter().all(|row| row.verdict == Verdict::Undecided));
        let missing = (FEWEST - repeats) as u32;
        assert!(found.rows.iter().all(|row| row.more_repeats == Some(missing)), "{:?}", found.rows[0]);
        let kept = &keep(&[pair], &expected(&["p99 <= 1.1 x"]))[0];
        assert_eq!((kept.outcome, kept.more_repeats), (Outcome::Undecided, Some(missing)), "{}", kept.words);
    }
    let words = row(&compare(&pair(&noise, 1, 0.001, 50.0)), "p50").words;
    assert!(words.contains("a single run says nothing of the noise: undecided: 2 more repeats"), "{words}");
}

#[test]
fn a_percentile_among_unanswered_queries_is_as_long_as_they_were_waited_for() {
    let noise = Noise::new(11);
    let mut pair = pair(&noise, 5, 0.01, 1.0);
    pair.b.runs.iter_mut().for_each(|(_, run)| run.summary.latency_ms.from_sent.p999 = None);
    let lost = row(&compare(&pair), "p999");
    assert_eq!((lost.verdict, lost.b.unanswered, lost.b.median), (Verdict::Worse, 5, 5_000.0), "{lost:?}");
    assert!(lost.words.contains("in 0 of 5 runs of A and 5 of 5 of B"), "{}", lost.words);
    assert_eq!(keep(&[pair.clone()], &expected(&["p999 <= 1.1 x"]))[0].outcome, Outcome::Broken);
    pair.a.runs.iter_mut().for_each(|(_, run)| run.summary.latency_ms.from_sent.p999 = None);
    let both = row(&compare(&pair), "p999");
    assert_eq!((both.verdict, both.more_repeats), (Verdict::Undecided, None));
}

/// Both were known only to be above what was waited for, and that one is 1.00 times the other was told, and kept a gate.
#[test]
fn two_lower_bounds_have_no_ratio() {
    let noise = Noise::new(11);
    let mut pair = pair(&noise, 5, 0.02, 1.0);
    let runs = pair.a.runs.iter_mut().chain(&mut pair.b.runs);
    runs.for_each(|(_, run)| run.summary.latency_ms.from_sent.p99 = None);
    let row = row(&compare(&pair), "p99");
    assert_eq!((row.change, row.verdict, row.more_repeats), (None, Verdict::Undecided, None), "{}", row.words);
    let kept = keep(std::slice::from_ref(&pair), &expected(&["p99 <= 1.10 x"]));
    assert_eq!((kept[0].outcome, kept[0].change), (Outcome::Undecided, None), "{}", kept[0].words);
    assert!(kept[0].words.contains("falls among unanswered queries in all runs of both"), "{}", kept[0].words);
}

/// Of nine repeats of which four are alike and far from the others, the interval of the mean does not hold the median.
#[test]
fn the_interval_of_a_median_holds_it() {
    let noise = Noise::new(12);
    let runs = (0..9).map(|at| {
        let mut run = run(&noise, 0.0, 1.0);
        run.summary.latency_ms.from_sent.p50 = Some(if at < 5 { 1.0 } else { 2.0 });
        run
    });
    let (estimate, _) = estimate_of("p50 <= 1ms".parse::<Expectation>().unwrap().quantity, &side("a", runs)).unwrap();
    let (low, high) = estimate.interval.unwrap();
    assert!(low <= estimate.median && estimate.median <= high, "{estimate:?}");
}

#[test]
fn what_is_not_known_is_told_and_no_gate_on_it_holds() {
    let noise = Noise::new(12);
    let mut pair = pair(&noise, 5, 0.01, 1.0);
    pair.a.runs.iter_mut().for_each(|(_, run)| run.summary.telemetry.server = None);
    let found = compare(&pair);
    let cpu = found.unknown.iter().find(|line| line.starts_with("cpu ")).unwrap();
    assert!(cpu.contains("not known of A: no process of the server was watched"), "{cpu}");
    let kept = &keep(&[pair.clone()], &expected(&["cpu <= 1.1 x"]))[0];
    assert!(
        kept.outcome == Outcome::Undecided && kept.words.starts_with("cpu <= 1.1 x cannot be judged"),
        "{}",
        kept.words
    );
    // Of some runs only: they are counted.
    pair.b.runs[0].1.summary.latency_ms.drift_percent = None;
    assert_eq!(row(&compare(&pair), "drift").b.missing, 1);
}

#[test]
fn shares_are_compared_in_points_and_equal_ones_hold_exactly() {
    let noise = Noise::new(13);
    let mut pair = pair(&noise, 5, 0.01, 1.0);
    let exact = expected(&["nxdomain = 1.00 x +- 0.1 %", "servfail <= 1 x", "servfail = 0", "nxdomain >= 29 %"]);
    pair.a.runs.iter_mut().chain(&mut pair.b.runs).for_each(|(_, run)| run.summary.queries.answered = 10_000);
    let outcomes =
        |pair: &Pair| keep(std::slice::from_ref(pair), &exact).iter().map(|kept| kept.outcome).collect::<Vec<_>>();
    assert_eq!(outcomes(&pair), [Outcome::Held; 4]);
    pair.b.runs.iter_mut().for_each(|(_, run)| {
        run.summary.rcodes = [("NOERROR".to_owned(), 8_000), ("SERVFAIL".to_owned(), 2_000)].into();
    });
    assert_eq!(outcomes(&pair), [Outcome::Broken; 4]);
    let servfail = row(&compare(&pair), "servfail");
    assert_eq!(
        (servfail.verdict, servfail.words.as_str()),
        (Verdict::Worse, "servfail rose by 20.0 ± 0.026 points, from 0.000 % to 20.0 %: worse")
    );
    assert_eq!(row(&compare(&pair), "nxdomain").verdict, Verdict::Worse, "answers that are others are no better");
}

#[test]
fn a_machine_that_slows_down_between_halves_of_a_makes_no_difference_out_of_noise() {
    let noise = Noise::new(14);
    let mut pair = pair(&noise, 8, 0.001, 1.0);
    pair.interleaved = false;
    let shift = |side: &mut Side, by: fn(u32) -> f64| {
        side.runs.iter_mut().for_each(|(at, run)| {
            let tail = &mut run.summary.latency_ms.from_sent;
            tail.p50 = tail.p50.map(|ms| ms * by(*at));
        });
    };
    shift(&mut pair.a, |at| if at > 4 { 1.3 } else { 1.0 });
    shift(&mut pair.b, |_| 1.28);
    let p50 = row(&compare(&pair), "p50");
    assert!(p50.noise_floor.unwrap() > 1.25 && p50.verdict == Verdict::Undecided, "{p50:?}");
}

#[test]
fn runs_that_are_not_alike_are_told_with_the_key() {
    let noise = Noise::new(15);
    let mut pair = pair(&noise, 3, 0.01, 1.0);
    assert_eq!(compare(&pair).warnings, Vec::<String>::new());
    configure(&mut pair.a, &[("transport", "udp".into()), ("for", Value::Null), ("resumption", Value::Null)]);
    configure(&mut pair.b, &[("transport", "tcp".into()), ("for", "5s".into()), ("resumption", true.into())]);
    // Of the timing of A nothing is known.
    configure(&mut pair.b, &[("timing", "rate:5".into())]);
    let told = ["for: A has none, B has 5s", "transport: A has udp, B has tcp"]
        .map(|key| format!("not like with like: {key}"));
    assert_eq!(compare(&pair).warnings, told);
    configure(&mut pair.a, &[("timing", "rate:4".into())]);
    pair.chosen = ["transport", "for", "rate"].map(str::to_owned).to_vec();
    assert_eq!(compare(&pair).warnings, Vec::<String>::new());
}

fn configure(side: &mut Side, keys: &[(&str, Value)]) {
    let with = |config: RunConfig| keys.iter().fold(config, |config, (key, value)| config.with(key, value.clone()));
    side.runs.iter_mut().for_each(|(_, run)| run.config = with(run.config.clone()));
}

/// Runs with a late 99th percentile were left out whole, and nothing was known of their medians.
#[test]
fn of_disturbed_runs_those_figures_count_that_their_hosts_cannot_have_changed() {
    let mut pair = pair(&Noise::new(23), 5, 0.01, 1.0);
    let judge = |side: &mut Side, replay: Fidelity, p99: bool| {
        side.is_strict = true;
        for (_, run) in &mut side.runs {
            run.verdict.replay = Some(replay);
            let good = Good { p50: Some(true), p90: Some(true), p99: Some(p99), ..Good::default() };
            run.summary.latency_ms.from_sent.good = Some(good);
        }
    };
    judge(&mut pair.a, Fidelity::Faithful, true);
    judge(&mut pair.b, Fidelity::Harmless, true);
    let all = compare(&pair);
    let names = |of: &Comparison| of.rows.iter().map(|row| row.quantity.to_string()).collect::<Vec<_>>();
    assert!(names(&all).contains(&"p99".to_owned()), "{:?}", names(&all));
    judge(&mut pair.b, Fidelity::Disturbed, false);
    let some = compare(&pair);
    assert_eq!(names(&some), ["p50", "p90"]);
    let told = "p99 is not known of B: the hosts of its runs may have changed it";
    assert!(some.unknown.iter().any(|line| line == told), "{:?}", some.unknown);
    pair.b.is_strict = false;
    assert_eq!(compare(&pair).rows.len(), all.rows.len(), "--with-unfaithful");
}

#[test]
fn the_same_runs_give_the_same_words() {
    let pair = pair(&Noise::new(16), 12, 0.1, 1.1);
    assert_eq!(compare(&pair), compare(&pair));
}

/// It was undecided for ever, since what is like A is not further from A than A is from itself.
#[test]
fn a_bound_that_a_does_not_keep_is_broken_by_what_is_like_a() {
    let noise = Noise::new(77);
    let broken = (0..50).filter(|_| {
        let kept = &keep(&[pair(&noise, 5, 0.1, 1.0)], &expected(&["p50 <= 0.1 x"]))[0];
        kept.outcome == Outcome::Broken
    });
    assert_eq!(broken.count(), 50);
}
