//! What became of queries over time: answers by code, queries without one, octets; and how latency is spread.

use std::collections::BTreeMap;

use ldplayer_core::Status;
use ldplayer_core::time::NS_PER_S;

use super::Curve;
use super::figures::{Bucket, Point, TIME_POINTS};
use super::ordered::Row;
use super::timeline::{MAX_WINDOWS, add, partial};

/// Response codes that have a curve of their own; the others share one.
const CODES: usize = 7;
/// Fates of a query without an answer, in the order of the counts.
const FATES: [Curve; 3] = [Curve::TimedOut, Curve::Failed, Curve::NotSent];
/// Octets, in the order of the counts.
const DIRECTIONS: [Curve; 2] = [Curve::Queries, Curve::Responses];
/// Intervals that a run has at least, where it is long enough for them.
const FEWEST: i64 = 5;
/// The shortest interval of counts, in nanoseconds.
const SHORTEST: i64 = NS_PER_S / 1_000;
/// Bars of the histogram of latency in a decade.
const BARS: f64 = 20.0;
/// Where the histogram begins, as a power of ten of nanoseconds.
const LEAST: f64 = 2.0;
/// Bars at most: up to 1,000 s.
const MOST_BARS: usize = 200;

/// Counts by time. Their interval is a second, and less in runs of a few seconds.
pub struct Outcomes {
    first: i64,
    length: i64,
    codes: Vec<u16>,
    sent: Vec<u64>,
    answers: Vec<u64>,
    /// By the time of sending, for each of `codes` and for all others.
    by_code: Vec<Vec<u64>>,
    /// By the time of sending; queries that were not sent by when they were due.
    without: [Vec<u64>; FATES.len()],
    octets: [Vec<u64>; DIRECTIONS.len()],
    bars: Vec<u64>,
}

impl Outcomes {
    /// No rows yet, of a run that begins at `first` and lasts for `span` nanoseconds, whose answers have these codes.
    pub fn new(first: i64, span: i64, rcodes: &BTreeMap<u16, u64>) -> Self {
        let mut codes: Vec<(u16, u64)> = rcodes.iter().map(|(&code, &count)| (code, count)).collect();
        codes.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let codes: Vec<u16> = codes.into_iter().take(CODES).map(|(code, _)| code).collect();
        Self {
            first,
            length: interval(span),
            by_code: vec![Vec::new(); codes.len() + 1],
            codes,
            sent: Vec::new(),
            answers: Vec::new(),
            without: Default::default(),
            octets: Default::default(),
            bars: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn add(&mut self, row: &Row) {
        let at = |time: i64| (time - self.first).div_euclid(self.length);
        let Some(submitted) = row.submitted else { return add(&mut self.without[2], at(row.intended), 1) };
        let sent = at(submitted);
        add(&mut self.sent, sent, 1);
        add(&mut self.octets[0], sent, row.query_bytes.into());
        match row.answered {
            Some(answered) => {
                add(&mut self.answers, at(answered), 1);
                add(&mut self.octets[1], at(answered), row.response_bytes.into());
                let code = self.codes.iter().position(|&code| Some(code) == row.rcode).unwrap_or(self.codes.len());
                add(&mut self.by_code[code], sent, 1);
                self.add_latency(answered - row.sent.unwrap_or(submitted));
            }
            None => add(&mut self.without[usize::from(row.status != Status::Timeout)], sent, 1),
        }
    }

    fn add_latency(&mut self, ns: i64) {
        let bar = ((ns.max(1) as f64).log10() - LEAST) * BARS;
        add(&mut self.bars, (bar.max(0.0) as i64).min(MOST_BARS as i64 - 1), 1);
    }

    /// Queries and answers per second; `sending` and `answering` say how far both reach.
    pub fn throughput(&self, sending: i64, answering: i64) -> Vec<Point> {
        let mut points = self.per_second(&self.sent, sending, 1.0, Curve::Sent);
        // Of a server that is silent there are none, to the end.
        points.extend(self.per_second(&self.filled(&self.answers, answering), answering, 1.0, Curve::Answers));
        points
    }

    /// Answers per second by code. Each curve goes on as long as queries were sent, since one that ends has not gone to zero.
    pub fn by_code(&self, sending: i64) -> Vec<Point> {
        let names = self.codes.iter().copied().map(Curve::Rcode).chain([Curve::OtherRcodes]);
        self.all(self.by_code.iter().zip(names), sending)
    }

    /// Queries per second that have no answer.
    pub fn without(&self, scheduled: i64) -> Vec<Point> {
        self.all(self.without.iter().zip(FATES), scheduled)
    }

    /// Megabits per second of DNS messages.
    pub fn megabits(&self, answering: i64) -> Vec<Point> {
        let curves = self.octets.iter().zip(DIRECTIONS);
        let there = curves.filter(|(octets, _)| octets.iter().any(|&octets| octets > 0));
        there.flat_map(|(octets, of)| self.per_second(&self.filled(octets, answering), answering, 8e-6, of)).collect()
    }

    /// The latency of answered queries in bars of equal width on a logarithmic axis.
    pub fn histogram(&self) -> Vec<Bucket> {
        let border = |bar: usize| 10f64.powf(LEAST + bar as f64 / BARS - 6.0);
        let (Some(low), Some(high)) = (self.bars.iter().position(|&n| n > 0), self.bars.iter().rposition(|&n| n > 0))
        else {
            return Vec::new();
        };
        (low..=high).map(|bar| Bucket { from: border(bar), to: border(bar + 1), n: self.bars[bar] }).collect()
    }

    fn all<'a>(&self, curves: impl Iterator<Item = (&'a Vec<u64>, Curve)>, reach: i64) -> Vec<Point> {
        let there = curves.filter(|(counts, _)| !counts.is_empty());
        there.flat_map(|(counts, of)| self.per_second(&self.filled(counts, reach), reach, 1.0, of)).collect()
    }

    /// Counts up to where the run reaches.
    fn filled(&self, counts: &[u64], reach: i64) -> Vec<u64> {
        let mut filled = counts.to_vec();
        let intervals = (reach.max(0) as u64).div_ceil(self.length as u64) as usize;
        filled.resize(intervals.min(MAX_WINDOWS).max(counts.len()), 0);
        filled
    }

    /// Counts as a curve per second. A last interval that is not over is left out: it would be drawn as a fall.
    fn per_second(&self, counts: &[u64], reach: i64, scale: f64, of: Curve) -> Vec<Point> {
        let whole = partial(reach, self.length).unwrap_or(counts.len()).min(counts.len());
        let length_s = self.length as f64 / NS_PER_S as f64;
        let step = whole.div_ceil(TIME_POINTS).max(1);
        let mean = |chunk: &[u64]| chunk.iter().sum::<u64>() as f64 * scale / (chunk.len() as f64 * length_s);
        let point = |(at, chunk): (usize, &[u64])| Point { x: (at * step) as f64 * length_s, y: mean(chunk), of };
        counts[..whole].chunks(step).enumerate().map(point).collect()
    }
}

/// The interval of counts of a run of this length: a second, or the longest of 0.1 s, 10 ms and 1 ms that leaves enough of them. A run
/// that is too short for any has no figure over time: none of its seconds is over.
fn interval(span: i64) -> i64 {
    let lengths = std::iter::successors(Some(NS_PER_S), |length| Some(length / 10));
    let fits = |length: &i64| span / length >= FEWEST;
    lengths.take_while(|&length| length >= SHORTEST).find(fits).unwrap_or(NS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::super::accounts::ActivityClass;
    use super::*;

    fn row(at_ms: i64, rcode: Option<u16>) -> Row {
        let at = at_ms * 1_000_000;
        Row {
            intended: at,
            submitted: Some(at),
            sent: Some(at),
            answered: rcode.map(|_| at + 250_000),
            rcode,
            status: if rcode.is_some() { Status::Answered } else { Status::Timeout },
            query_bytes: 40,
            response_bytes: if rcode.is_some() { 100 } else { 0 },
            transport: 0,
            activity: ActivityClass::default(),
            connection: u8::MAX,
            class: None,
            answer: None,
        }
    }

    fn of(points: &[Point], curve: Curve) -> Vec<f64> {
        points.iter().filter(|point| point.of == curve).map(|point| point.y).collect()
    }

    #[test]
    fn what_became_of_queries_is_counted_when_they_were_sent_and_goes_on_to_the_end() {
        let mut outcomes = Outcomes::new(0, 10 * NS_PER_S, &[(0, 5), (3, 5)].into());
        for second in 0..10 {
            let code = if second < 4 { Some(0) } else { None };
            (0..10).for_each(|at| outcomes.add(&row(second * 1_000 + at, code)));
        }
        outcomes.add(&row(3_500, Some(9)));
        let reach = 10 * NS_PER_S;
        let codes = outcomes.by_code(reach);
        assert_eq!(of(&codes, Curve::Rcode(0)), [10., 10., 10., 10., 0., 0., 0., 0., 0., 0.]);
        assert_eq!(of(&codes, Curve::OtherRcodes).iter().sum::<f64>(), 1.0);
        assert!(of(&codes, Curve::Rcode(3)).is_empty(), "what there was not has no curve");
        let without = outcomes.without(reach);
        assert_eq!(of(&without, Curve::TimedOut), [0., 0., 0., 0., 10., 10., 10., 10., 10., 10.]);
        assert!(of(&without, Curve::Failed).is_empty());
        let megabits = outcomes.megabits(reach);
        assert!(
            (of(&megabits, Curve::Responses)[0] - 0.008).abs() < 1e-12 && of(&megabits, Curve::Responses)[9] == 0.0
        );
        assert!((of(&megabits, Curve::Queries)[9] - 0.0032).abs() < 1e-12);
        let bars = outcomes.histogram();
        assert_eq!((bars.len(), bars[0].n), (1, 41));
        assert!(bars[0].from <= 0.25 && 0.25 < bars[0].to && bars[0].to / bars[0].from < 1.13);
    }

    #[test]
    fn short_runs_are_counted_in_shorter_intervals() {
        assert_eq!([20, 5, 4].map(|s| interval(s * NS_PER_S)), [NS_PER_S, NS_PER_S, NS_PER_S / 10]);
        assert_eq!([100_000_000, 1].map(interval), [NS_PER_S / 100, NS_PER_S]);
    }

    #[test]
    fn nothing_has_no_curves_and_no_bars() {
        let none = Outcomes::new(0, 1, &BTreeMap::new());
        assert!(none.throughput(0, 0).is_empty() && none.by_code(0).is_empty() && none.megabits(0).is_empty());
        assert!(none.without(0).is_empty() && none.histogram().is_empty());
    }
}
