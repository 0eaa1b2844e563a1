//! Tests of the search against a simulated server of known capacity: accuracy, coverage of the interval, termination.

use ldplayer_core::random::{draw, subkey, unit};
use proptest::prelude::*;

use super::goal::Goal;
use super::outcome::{Ended, GoalResult};
use super::search::{Intended, MOST, Search, Settings, Took, Unfit};

/// A server that can do so much, and what spoils trials.
#[derive(Clone, Copy, Debug)]
struct Server {
    capacity: f64,
    /// Probability that a trial shows loss though the server could do it.
    spurious_loss: f64,
    /// Probability that a trial shows none though the server could not.
    lucky: f64,
    /// Share of the capacity that is lost from the first trial to each next one.
    drift: f64,
    /// Share of the capacity that is lost for the trial after one with loss.
    hysteresis: f64,
    /// Loads above the capacity at which it is fine again.
    island: Option<(u64, u64)>,
    /// The most that the client can make.
    client: u64,
    /// Probability that the host disturbs a trial.
    disturbed: f64,
    /// The first trial that a neighbour disturbs, and the first that it does not any more.
    neighbour: (u64, u64),
    seed: u64,
}

const QUIET: Server = Server {
    capacity: 42_000.0,
    spurious_loss: 0.0,
    lucky: 0.0,
    drift: 0.0,
    hysteresis: 0.0,
    island: None,
    client: MOST,
    disturbed: 0.0,
    neighbour: (0, 0),
    seed: 1,
};

impl Server {
    fn trial(&self, number: u64, load: u64, was_lossy: bool) -> Took {
        let chance = |key: u64| unit(draw(subkey(self.seed, key), number));
        if load > self.client {
            return Took::Unfit(Unfit::Client(format!("{} were sent", self.client)));
        }
        if chance(1) < self.disturbed || (self.neighbour.0..self.neighbour.1).contains(&number) {
            return Took::Unfit(Unfit::Disturbed("stalls".to_owned()));
        }
        let hysteresis = if was_lossy { self.hysteresis } else { 0.0 };
        let capacity = self.capacity * (1.0 - self.drift * number as f64) * (1.0 - hysteresis);
        let on_island = self.island.is_some_and(|(from, to)| (from..=to).contains(&load));
        let can = load as f64 <= capacity || on_island;
        let spoilt = chance(2) < if can { self.spurious_loss } else { self.lucky };
        let is_lossy = can == spoilt;
        let excess = if can { 0.01 } else { 1.0 - capacity / load as f64 };
        Took::Measured { loss_ratio: if is_lossy { excess } else { 0.0 }, is_high_loss: vec![is_lossy] }
    }
}

fn goal(exceed_ratio: f64, trials: f64) -> Goal {
    Goal {
        name: "1".to_owned(),
        hold: Vec::new(),
        loss_ratio: Some(0.0),
        exceed_ratio,
        initial_trial_duration_s: 1.0,
        final_trial_duration_s: 4.0,
        duration_sum_s: 4.0 * trials,
        width: 0.02,
    }
}

fn settings(goal: Goal) -> Settings {
    let goals = vec![goal];
    Settings { goals, start: 1_000, min: 1, max: MOST, max_trials: 1_000, max_time_s: 1e9, max_retries: 2 }
}

/// What a search finds, and how many trials it makes.
fn find(server: Server, settings: Settings) -> (GoalResult, u32) {
    let (mut search, mut number, mut was_lossy) = (Search::new(settings), 0, false);
    while let Some(intended) = search.next_trial() {
        let took = server.trial(number, intended.load, was_lossy);
        was_lossy = matches!(&took, Took::Measured { is_high_loss, .. } if is_high_loss[0]);
        search.took(intended, took, intended.duration_s + 1.0);
        number += 1;
    }
    (search.results().remove(0), search.made())
}

fn holds(result: &GoalResult, capacity: f64) -> bool {
    result.lower.is_some_and(|lower| lower as f64 <= capacity)
        && result.upper.is_some_and(|upper| upper as f64 > capacity)
}

/// Searches of servers with capacities all over the range, each with other noise.
fn many(server: Server, settings: &Settings, count: u64) -> Vec<(f64, GoalResult, u32)> {
    let one = |seed: u64| {
        let capacity = 10.0_f64.powf(1.5 + 4.5 * unit(draw(99, seed)));
        let (result, made) = find(Server { capacity, seed, ..server }, settings.clone());
        (capacity, result, made)
    };
    (1..=count).map(one).collect()
}

/// The share of searches whose interval holds the capacity, and the mean of what they promise.
fn kept_and_promised(searches: &[(f64, GoalResult, u32)]) -> (f64, f64) {
    let kept = searches.iter().filter(|(capacity, result, _)| holds(result, *capacity)).count();
    let promised: f64 = searches.iter().filter_map(|(_, result, _)| result.confidence_percent).sum();
    (kept as f64 / searches.len() as f64, promised / 100.0 / searches.len() as f64)
}

#[test]
fn a_server_without_noise_is_found_within_the_width() {
    for (capacity, result, made) in many(QUIET, &settings(goal(0.5, 3.0)), 200) {
        assert!(holds(&result, capacity), "{capacity}: {result:?}");
        let (lower, upper) = (result.lower.unwrap(), result.upper.unwrap());
        let is_narrow = (upper - lower) as f64 <= 0.02 * upper as f64 || upper == lower + 1;
        assert!(is_narrow && result.ended == Ended::Width && made < 45, "{capacity}: {made} {result:?}");
        assert_eq!(result.conditional_throughput, Some(lower as f64));
    }
}

#[test]
fn the_interval_holds_the_capacity_as_often_as_is_promised() {
    // The last one is noise beyond what so many trials bear, which the promise says.
    for (spurious_loss, lucky, trials, at_least) in
        [(0.05, 0.0, 3.0, 0.95), (0.1, 0.0, 5.0, 0.95), (0.1, 0.1, 7.0, 0.95), (0.2, 0.0, 5.0, 0.65)]
    {
        let searches = many(Server { spurious_loss, lucky, ..QUIET }, &settings(goal(0.5, trials)), 400);
        let (kept, promised) = kept_and_promised(&searches);
        assert!(kept >= promised && kept > at_least, "{spurious_loss}: {kept} of searches, {promised} promised");
        assert!(promised > at_least - 0.2, "a promise that says something: {promised}");
    }
}

/// The false case: what RFC 2544 does with a noisy server. It finds too little, and says how little it is to be trusted.
#[test]
fn without_an_exceed_ratio_a_noisy_server_gives_the_low_value() {
    let noisy = Server { spurious_loss: 0.1, ..QUIET };
    let (strict, tolerant) = (settings(goal(0.0, 5.0)), settings(goal(0.5, 5.0)));
    let share = |settings: &Settings| {
        let searches = many(noisy, settings, 200);
        let found = |(capacity, result, _): &(f64, GoalResult, u32)| result.lower.unwrap_or(0) as f64 / capacity;
        let mut shares: Vec<f64> = searches.iter().map(found).collect();
        shares.sort_by(f64::total_cmp);
        (shares[100], kept_and_promised(&searches))
    };
    let (low, (kept, promised)) = share(&strict);
    assert!(low < 0.9 && kept < 0.3 && promised < 0.4, "{low} {kept} {promised}");
    let (right, (kept, _)) = share(&tolerant);
    assert!(right > 0.975 && kept > 0.93, "{right} {kept}");
}

#[test]
fn a_server_that_can_do_nothing_is_told_as_that() {
    let (result, made) = find(Server { capacity: 0.0, ..QUIET }, settings(goal(0.5, 3.0)));
    assert_eq!((result.lower, result.upper, &result.ended), (None, Some(1), &Ended::MinLoad));
    assert_eq!(
        (result.capacity(), result.conditional_throughput, result.confidence_percent),
        ("less than 1".to_owned(), None, None)
    );
    assert!(made < 12, "{made}");
}

#[test]
fn a_server_that_can_do_more_than_is_tried_is_told_as_at_least_that() {
    let bounded = Settings { max: 30_000, ..settings(goal(0.5, 3.0)) };
    let (result, _) = find(QUIET, bounded);
    assert_eq!((result.lower, result.upper, &result.ended), (Some(30_000), None, &Ended::MaxLoad));
    assert_eq!(result.capacity(), "at least 30000");
}

#[test]
fn a_client_that_cannot_make_the_load_is_never_taken_for_the_server() {
    let (result, _) = find(Server { client: 20_000, ..QUIET }, settings(goal(0.5, 3.0)));
    let lower = result.lower.unwrap();
    assert!((19_600..=20_000).contains(&lower) && result.upper.is_none(), "{result:?}");
    assert!(matches!(&result.ended, Ended::ClientLimit(why) if why == "20000 were sent"), "{result:?}");
    // A server that is slower than the client is found as ever.
    let (result, _) = find(Server { client: 60_000, ..QUIET }, settings(goal(0.5, 3.0)));
    assert!(holds(&result, 42_000.0) && result.ended == Ended::Width, "{result:?}");
}

#[test]
fn nothing_is_claimed_when_nothing_was_measured() {
    let (result, made) = find(Server { disturbed: 1.0, ..QUIET }, settings(goal(0.5, 3.0)));
    assert_eq!((result.lower, result.upper, result.trials), (None, None, 0));
    assert!(matches!(result.ended, Ended::Disturbed(_)) && made < 60, "{made} {result:?}");
    assert_eq!((result.capacity(), result.confidence_percent), ("not measured".to_owned(), None));
    let (result, _) = find(Server { client: 0, ..QUIET }, settings(goal(0.5, 3.0)));
    assert_eq!((result.lower, result.upper), (None, None));
    let mut search = Search::new(settings(goal(0.5, 3.0)));
    assert!(search.next_trial().is_some());
    search.stop(Ended::Interrupted);
    assert_eq!((search.next_trial(), &search.results()[0].ended), (None, &Ended::Interrupted));
}

#[test]
fn disturbed_trials_are_made_again_and_cost_time_but_no_truth() {
    let searches =
        many(Server { disturbed: 0.2, ..QUIET }, &Settings { max_retries: 20, ..settings(goal(0.5, 3.0)) }, 100);
    assert!(searches.iter().all(|(capacity, result, _)| holds(result, *capacity) && result.ended == Ended::Width));
}

#[test]
fn a_load_that_a_neighbour_disturbed_is_tried_again_when_it_is_gone() {
    for begin in 0..20 {
        let busy = Server { neighbour: (begin, begin + 6), ..QUIET };
        for (capacity, result, _) in many(busy, &settings(goal(0.5, 3.0)), 20) {
            assert!(holds(&result, capacity) && result.ended == Ended::Width, "{begin}: {capacity}: {result:?}");
        }
    }
}

#[test]
fn bounds_that_are_not_sure_get_two_more_trials_each() {
    let noisy = Server { spurious_loss: 0.25, lucky: 0.25, ..QUIET };
    let trials_at_bounds = |seed: u64| {
        let (mut search, mut loads, server) =
            (Search::new(settings(goal(0.5, 3.0))), Vec::new(), Server { seed, ..noisy });
        while let Some(intended) = search.next_trial() {
            loads.extend((intended.duration_s >= 4.0).then_some(intended.load));
            search.took(intended, server.trial(loads.len() as u64, intended.load, false), 1.0);
        }
        let result = search.results().remove(0);
        let least = [result.lower, result.upper]
            .into_iter()
            .flatten()
            .map(|bound| loads.iter().filter(|load| **load == bound).count());
        (result.is_sure(), least.min().unwrap_or_default())
    };
    let all: Vec<(bool, usize)> = (1..200).map(trials_at_bounds).collect();
    assert!(all.iter().filter(|(is_sure, _)| !is_sure).count() > 20, "{all:?}");
    // Two of three trials that agree decide a load.
    assert!(all.iter().all(|(is_sure, least)| *is_sure || *least >= 4), "{all:?}");
}

#[test]
fn a_server_that_drifts_is_found_where_it_was_meanwhile() {
    let drifting = Server { drift: 0.002, ..QUIET };
    for (capacity, result, made) in many(drifting, &settings(goal(0.5, 3.0)), 200) {
        let last = capacity * (1.0 - 0.002 * f64::from(made));
        let (lower, upper) = (result.lower.unwrap() as f64, result.upper.unwrap() as f64);
        assert!(lower <= capacity && upper >= last - 1.0, "{capacity} to {last}: {result:?}");
    }
}

#[test]
fn a_server_that_needs_to_recover_is_not_found_better_than_it_is() {
    let tired = Server { hysteresis: 0.1, ..QUIET };
    for (capacity, result, _) in many(tired, &settings(goal(0.5, 3.0)), 200) {
        let (lower, upper) = (result.lower.unwrap() as f64, result.upper.unwrap() as f64);
        assert!(lower <= capacity && upper >= capacity * 0.9 - 1.0, "{capacity}: {result:?}");
    }
}

#[test]
fn of_a_server_that_is_fine_again_above_the_lower_capacity_is_told() {
    let odd = Server { island: Some((60_000, 70_000)), ..QUIET };
    let (result, _) = find(odd, Settings { start: 65_000, ..settings(goal(0.5, 3.0)) });
    // A search sees only what it tries; whatever it ends at is an edge of one of the two.
    let is_edge = holds(&result, 42_000.0) || holds(&result, 70_000.0);
    assert!(is_edge, "{result:?}");
    let (result, _) = find(odd, Settings { start: 8_000, ..settings(goal(0.5, 3.0)) });
    assert!(holds(&result, 42_000.0) || holds(&result, 70_000.0), "{result:?}");
}

#[test]
fn loads_that_hold_above_one_that_does_not_are_told_as_inversions() {
    let mut search = Search::new(settings(goal(0.5, 1.0)));
    for (load, is_lossy) in [(900, false), (1_000, true), (1_200, false)] {
        let took = Took::Measured { loss_ratio: 0.0, is_high_loss: vec![is_lossy] };
        search.took(Intended { load, duration_s: 4.0 }, took, 4.0);
    }
    let result = search.results().remove(0);
    assert_eq!((result.lower, result.upper, result.inversions), (Some(900), Some(1_000), vec![1_200]));
}

#[test]
fn what_is_known_so_far_is_told_from_the_first_trial_on() {
    let mut search = Search::new(settings(goal(0.5, 3.0)));
    assert_eq!(search.bounds(0), (None, None));
    while let Some(intended) = search.next_trial() {
        search.took(intended, QUIET.trial(0, intended.load, false), 1.0);
        let (lower, upper) = search.bounds(0);
        assert!(
            lower.is_some_and(|lower| lower <= 42_000) && upper.is_none_or(|upper| upper > 42_000),
            "{lower:?} {upper:?}"
        );
    }
}

#[test]
fn bounds_on_trials_and_time_end_a_search_with_what_is_known() {
    let (result, made) = find(QUIET, Settings { max_trials: 7, ..settings(goal(0.5, 3.0)) });
    assert_eq!((made, &result.ended, result.trials), (7, &Ended::Trials, 7));
    assert_eq!((result.lower, result.upper, result.capacity()), (None, None, "undecided".to_owned()));
    let (result, made) = find(QUIET, Settings { max_time_s: 20.0, ..settings(goal(0.5, 3.0)) });
    assert!(result.ended == Ended::Time && made == 10, "{made} {result:?}");
    let long = find(QUIET, settings(goal(0.5, 3.0)));
    let (enough, _) = find(QUIET, Settings { max_trials: long.1, ..settings(goal(0.5, 3.0)) });
    assert_eq!(enough, long.0, "a search that is through when the bound is reached has not hit it");
}

#[test]
fn two_goals_share_their_trials() {
    // The second goal allows a tenth to be lost, which is at 10/9 of the capacity.
    let trial = |load: u64| {
        let loss_ratio = (1.0 - 42_000.0 / load as f64).max(0.0);
        Took::Measured { loss_ratio, is_high_loss: vec![loss_ratio > 0.0, loss_ratio > 0.1] }
    };
    let lossy = Goal { name: "lossy".to_owned(), loss_ratio: Some(0.1), ..goal(0.5, 3.0) };
    let both = Settings { goals: vec![goal(0.5, 3.0), lossy], ..settings(goal(0.5, 3.0)) };
    let mut search = Search::new(both);
    while let Some(intended) = search.next_trial() {
        search.took(intended, trial(intended.load), 1.0);
    }
    let results = search.results();
    assert!(holds(&results[0], 42_000.0) && holds(&results[1], 42_000.0 / 0.9), "{results:?}");
    let lossy = &results[1];
    let (lower, throughput) = (lossy.lower.unwrap() as f64, lossy.conditional_throughput.unwrap());
    assert!(throughput < lower && throughput >= 0.9 * lower, "{lossy:?}");
    let alone = find(QUIET, settings(goal(0.5, 3.0))).1;
    assert!(search.made() < 2 * alone, "{} trials, and {alone} for one goal", search.made());
}

proptest! {
    #[test]
    fn any_search_ends_and_its_bounds_are_what_was_measured(
        capacity in 0.0..1e7_f64,
        (spurious_loss, lucky, disturbed) in (0.0..1.0_f64, 0.0..1.0_f64, 0.0..0.9_f64),
        (start, min, max) in (1_u64..1_000_000, 1_u64..1_000, 1_000_u64..2_000_000),
        (exceed_ratio, trials) in (0.0..0.95_f64, 1.0..6.0_f64),
        client in 1_u64..10_000_000,
        seed: u64,
    ) {
        let server = Server { capacity, spurious_loss, lucky, disturbed, client, seed, ..QUIET };
        let limits = Settings { start, min, max, max_trials: u32::MAX, ..settings(goal(exceed_ratio, trials)) };
        let (result, made) = find(server, limits);
        prop_assert!(made < 1_000, "{made} trials");
        prop_assert!(result.lower.is_none_or(|lower| (min..=max.min(client)).contains(&lower)), "{result:?}");
        prop_assert!(result.lower.zip(result.upper).is_none_or(|(lower, upper)| lower < upper), "{result:?}");
        prop_assert!(result.trials > 0 || result.capacity() == "not measured");
        if result.ended == Ended::Width {
            let (lower, upper) = (result.lower.unwrap(), result.upper.unwrap());
            prop_assert!((upper - lower) as f64 <= 0.02 * upper as f64 || upper == lower + 1, "{result:?}");
        }
    }
}
