//! Combines the telemetry of several hosts into one: the sum of their samples at each moment.
//!
//! What two of them have in common, as agents on one machine do, counts once ([`Scope`]). A figure that one of them does not have is
//! not known of all, and left out.

use std::collections::BTreeMap;
use std::path::Path;

use ldplayer_core::RunTime;

use super::{Part, Place};
use crate::error::ResultsError;
use crate::store::RunDir;
use crate::telemetry::{Figure, Kind, Scope, Side, TelemetrySample, read};

/// Moments at most; a longer run has them farther apart.
const MOST_MOMENTS: i64 = 7_200;

/// Adds up what the parts of a run sampled on the run's clock every `interval` nanoseconds or so. Nothing where a part is lost: what it
/// used is not known, and less would be a wrong number.
///
/// A total stays as it was before and after its host sampled it, and is taken to grow evenly between two samples; a level is of the hosts
/// that sampled at the moment. Times are rounded to whole intervals.
///
/// # Errors
/// A file cannot be read.
pub fn sum(parts: &[Part], interval: i64) -> Result<Vec<TelemetrySample>, ResultsError> {
    let found: Vec<(usize, &Place, &Path)> =
        (0..).zip(parts).filter_map(|(number, part)| Some((number, &part.place, part.directory.as_deref()?))).collect();
    if found.len() < parts.len() {
        return Ok(Vec::new());
    }
    let Some(axis) = Axis::over(found.iter().map(|(.., directory)| *directory), interval)? else {
        return Ok(Vec::new());
    };
    let mut samples = Vec::new();
    for scope in [Scope::Replay, Scope::Program, Scope::Network, Scope::Machine] {
        let mut groups: BTreeMap<(&str, u64), Vec<&Path>> = BTreeMap::new();
        for &(number, place, directory) in &found {
            groups.entry(place.key(scope, number)).or_default().push(directory);
        }
        samples.extend(sum_of(scope, &groups, &axis)?);
    }
    samples.sort_by_key(|sample| sample.at);
    Ok(samples)
}

/// The sums of the figures of one scope.
fn sum_of(
    scope: Scope,
    groups: &BTreeMap<(&str, u64), Vec<&Path>>,
    axis: &Axis,
) -> Result<Vec<TelemetrySample>, ResultsError> {
    let mut sums: BTreeMap<Figure, Sum> = BTreeMap::new();
    for directories in groups.values() {
        for (figure, values) in axis.values(directories, scope)? {
            sums.entry(figure).or_insert_with(|| Sum::nothing(axis.moments)).add(figure.kind(), &values);
        }
    }
    // Who never had a connection has no figures of connections: that is known of it.
    let is_known = |sum: &Sum| scope == Scope::Replay || sum.hosts == groups.len();
    let known = sums.into_iter().filter(|(_, sum)| is_known(sum));
    Ok(known.flat_map(|(figure, sum)| sum.samples(figure, axis)).collect())
}

/// The moments of a run: whole intervals of its clock.
struct Axis {
    interval: i64,
    /// The first moment, in intervals.
    first: i64,
    moments: usize,
}

impl Axis {
    /// From the first sample to the last; `None` if there are no samples.
    fn over<'a>(directories: impl Iterator<Item = &'a Path>, interval: i64) -> Result<Option<Self>, ResultsError> {
        let mut span: Option<(i64, i64)> = None;
        for directory in directories {
            read(&RunDir::new(directory).telemetry(), |TelemetrySample { at: RunTime(at), .. }| {
                let (first, last) = span.unwrap_or((at, at));
                span = Some((first.min(at), last.max(at)));
            })?;
        }
        let Some((first, last)) = span else { return Ok(None) };
        let interval = interval.max(1).max((last - first) / MOST_MOMENTS);
        let nearest = |at: i64| nearest(at, interval);
        Ok(Some(Self { interval, first: nearest(first), moments: (nearest(last) - nearest(first) + 1) as usize }))
    }

    fn moment(&self, at: RunTime) -> usize {
        (nearest(at.0, self.interval) - self.first) as usize
    }

    fn time(&self, moment: usize) -> RunTime {
        RunTime((self.first + moment as i64) * self.interval)
    }

    /// What was sampled of one thing, be it by several agents: the highest value of each moment, which of a total is the latest.
    fn values(&self, directories: &[&Path], scope: Scope) -> Result<BTreeMap<Figure, Vec<Option<f64>>>, ResultsError> {
        let mut values: BTreeMap<Figure, Vec<Option<f64>>> = BTreeMap::new();
        for directory in directories {
            read(&RunDir::new(directory).telemetry(), |sample| {
                if sample.side != Side::Client || sample.figure.scope() != scope {
                    return;
                }
                let values = values.entry(sample.figure).or_insert_with(|| vec![None; self.moments]);
                let value = &mut values[self.moment(sample.at)];
                *value = sample.value.map(|new| value.map_or(new, |before| before.max(new)));
            })?;
        }
        Ok(values)
    }
}

/// A time in intervals, rounded: a sample is taken a moment behind the whole interval.
const fn nearest(at: i64, interval: i64) -> i64 {
    (at + interval / 2).div_euclid(interval)
}

/// One figure of all hosts.
struct Sum {
    values: Vec<f64>,
    /// Whether anybody sampled at the moment.
    is_sampled: Vec<bool>,
    /// How many had it.
    hosts: usize,
}

impl Sum {
    fn nothing(moments: usize) -> Self {
        Self { values: vec![0.0; moments], is_sampled: vec![false; moments], hosts: 0 }
    }

    fn add(&mut self, kind: Kind, values: &[Option<f64>]) {
        self.hosts += 1;
        for (sum, value) in self.values.iter_mut().zip(filled(kind, values)) {
            *sum = if kind == Kind::Duration { sum.max(value) } else { *sum + value };
        }
        self.is_sampled.iter_mut().zip(values).for_each(|(sampled, value)| *sampled |= value.is_some());
    }

    fn samples(self, figure: Figure, axis: &Axis) -> impl Iterator<Item = TelemetrySample> {
        let at = |moment| axis.time(moment);
        let sampled = self.values.into_iter().zip(self.is_sampled).enumerate().filter(|(_, (_, sampled))| *sampled);
        sampled.map(move |(moment, (value, _))| TelemetrySample {
            at: at(moment),
            side: Side::Client,
            figure,
            value: Some(value),
        })
    }
}

/// A value for each moment.
fn filled(kind: Kind, values: &[Option<f64>]) -> Vec<f64> {
    let known: Vec<(usize, f64)> =
        values.iter().enumerate().filter_map(|(moment, value)| Some((moment, (*value)?))).collect();
    let (Some(&(first, lowest)), Some(&(_, highest))) = (known.first(), known.last()) else {
        return vec![0.0; values.len()];
    };
    let (before, after) = match kind {
        Kind::Total => (lowest, highest),
        Kind::Level | Kind::Duration => (0.0, 0.0),
    };
    let mut filled = vec![before; first];
    for pair in known.windows(2) {
        let [(from, value), (to, next)] = [pair[0], pair[1]];
        let growth = if kind == Kind::Total { (next - value) / (to - from) as f64 } else { 0.0 };
        filled.extend((0..to - from).map(|step| growth.mul_add(step as f64, value)));
    }
    filled.push(highest);
    filled.resize(values.len(), after);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::write;

    const SECOND: i64 = 1_000_000_000;

    /// A part in a folder of its own, with these samples: time in seconds, figure, value.
    fn part(folder: &Path, place: (&str, u64, &str), samples: &[(f64, Figure, f64)]) -> Part {
        let directory = folder.join(place.0);
        std::fs::create_dir_all(&directory).unwrap();
        let samples: Vec<TelemetrySample> = samples
            .iter()
            .map(|&(at, figure, value)| TelemetrySample {
                at: RunTime((at * 1e9) as i64),
                side: Side::Client,
                figure,
                value: Some(value),
            })
            .collect();
        write(&directory.join("telemetry.parquet"), &samples).unwrap();
        let place = Place { program: place.0.to_owned(), network: place.1, machine: place.2.to_owned() };
        Part { directory: Some(directory), place, ..Part::default() }
    }

    fn of(samples: &[TelemetrySample], figure: Figure) -> Vec<(f64, f64)> {
        let its = samples.iter().filter(|sample| sample.figure == figure);
        its.map(|sample| (sample.at.0 as f64 / 1e9, sample.value.unwrap())).collect()
    }

    #[test]
    fn of_durations_of_agents_the_longest_counts() {
        let folder = tempfile::tempdir().unwrap();
        let sample = |value| [(1.0, Figure::CpuWakeSeconds, value)];
        let parts =
            [("a", 20e-6), ("b", 5e-6)].map(|(name, value)| part(folder.path(), (name, 1, name), &sample(value)));
        assert_eq!(of(&sum(&parts, SECOND).unwrap(), Figure::CpuWakeSeconds), [(1.0, 20e-6)]);
    }

    #[test]
    fn totals_and_levels_of_agents_are_added_up_moment_by_moment() {
        use Figure::{CpuSeconds, RssBytes};
        let folder = tempfile::tempdir().unwrap();
        // The first misses the sample at 1 s; the second ends a second earlier, and came later.
        let a = [(0.001, 10.0), (2.001, 14.0), (3.001, 15.0)];
        let b = [(1.002, 100.0), (2.002, 101.0)];
        let samples = |of: &[(f64, f64)]| {
            of.iter().flat_map(|&(at, value)| [(at, CpuSeconds, value), (at, RssBytes, value)]).collect::<Vec<_>>()
        };
        let parts =
            [part(folder.path(), ("a", 1, "x"), &samples(&a)), part(folder.path(), ("b", 1, "y"), &samples(&b))];
        let sums = sum(&parts, SECOND).unwrap();
        assert_eq!(of(&sums, CpuSeconds), [(0.0, 110.0), (1.0, 112.0), (2.0, 115.0), (3.0, 116.0)]);
        assert_eq!(of(&sums, RssBytes), [(0.0, 10.0), (1.0, 110.0), (2.0, 115.0), (3.0, 15.0)]);
    }

    #[test]
    fn what_agents_have_in_common_counts_once() {
        use Figure::{ConnectionsOpened, CpuSeconds, InBytes, SlabBytes};
        let folder = tempfile::tempdir().unwrap();
        let all = [(0.0, CpuSeconds, 1.0), (0.0, InBytes, 10.0), (0.0, SlabBytes, 100.0)];
        let with = [&all[..], &[(0.0, ConnectionsOpened, 7.0)]].concat();
        let parts = [
            part(folder.path(), ("a", 1, "x"), &with),
            part(folder.path(), ("b", 1, "x"), &all),
            part(folder.path(), ("c", 2, "x"), &all),
            part(folder.path(), ("d", 1, "y"), &all),
        ];
        let sums = sum(&parts, SECOND).unwrap();
        let first = |figure| of(&sums, figure)[0].1;
        assert_eq!([CpuSeconds, InBytes, SlabBytes, ConnectionsOpened].map(first), [4.0, 30.0, 200.0, 7.0]);
        // An agent that took over from another has two parts, and is one program.
        let twice = [parts[0].clone(), Part { place: parts[0].place.clone(), ..parts[1].clone() }];
        assert_eq!(of(&sum(&twice, SECOND).unwrap(), CpuSeconds), [(0.0, 1.0)]);
    }

    #[test]
    fn what_is_not_known_of_all_is_not_claimed() {
        use Figure::{CpuSeconds, PssBytes};
        let folder = tempfile::tempdir().unwrap();
        let a = part(folder.path(), ("a", 1, "x"), &[(0.0, CpuSeconds, 1.0), (0.0, PssBytes, 5.0)]);
        let b = part(folder.path(), ("b", 1, "y"), &[(0.0, CpuSeconds, 1.0)]);
        let sums = sum(&[a.clone(), b], SECOND).unwrap();
        assert_eq!((of(&sums, CpuSeconds).len(), of(&sums, PssBytes).len()), (1, 0));
        let lost = Part { directory: None, ..a.clone() };
        assert_eq!(sum(&[a.clone(), lost], SECOND).unwrap(), []);
        let silent = part(folder.path(), ("c", 1, "z"), &[]);
        assert_eq!(sum(&[a, silent.clone()], SECOND).unwrap(), []);
        assert_eq!(sum(&[silent], SECOND).unwrap(), []);
    }

    #[test]
    fn a_long_run_has_so_many_moments_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let rows: Vec<(f64, Figure, f64)> =
            (0..20_000).map(|at| (f64::from(at), Figure::Threads, f64::from(at))).collect();
        let sums = sum(&[part(folder.path(), ("a", 1, "x"), &rows)], SECOND / 10).unwrap();
        assert!((7_000..7_300).contains(&sums.len()), "{}", sums.len());
        assert_eq!(sums.last().unwrap().value, Some(19_999.0), "peaks are kept");
    }
}
