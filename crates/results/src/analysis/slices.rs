//! Slices of a run that are wide enough for the percentile that is drawn of them.

use ldplayer_core::time::NS_PER_S;

use super::spread::{Censored, Spread};

/// Figures that must lie beyond a percentile on its shorter side; with fewer it says more of them than of the slice.
const BEYOND: f64 = 5.0;

/// Figures that a percentile needs: 10 for a median, 50 for a 90th percentile, 500 for a 99th.
pub fn needed(quantile: f64) -> u64 {
    (BEYOND / (1.0 - quantile).min(quantile)).round() as u64
}

/// What is gathered in a slice.
pub trait Distribution: Default {
    /// How many figures there are.
    fn len(&self) -> u64;
    /// Adds the figures of another.
    fn absorb(&mut self, other: Self);
}

impl Distribution for Spread {
    fn len(&self) -> u64 {
        Self::len(self)
    }

    fn absorb(&mut self, other: Self) {
        Self::absorb(self, other);
    }
}

impl Distribution for Censored {
    fn len(&self) -> u64 {
        Self::len(self)
    }

    fn absorb(&mut self, other: Self) {
        Self::absorb(self, other);
    }
}

/// A stretch of neighbouring slots of time and its content.
#[derive(Clone, Debug, Default)]
pub struct Slice<D> {
    /// Its first slot.
    pub first: i64,
    /// Its last one.
    pub last: i64,
    /// The figures.
    pub data: D,
}

/// Joins slots, which come in the order of time, to slices of at least so many figures. What is left at the end joins the last slice.
pub struct Slices<D> {
    least: u64,
    before: Option<Slice<D>>,
    current: Option<Slice<D>>,
}

impl<D: Distribution> Slices<D> {
    /// Slices of at least so many figures.
    pub const fn new(least: u64) -> Self {
        Self { least, before: None, current: None }
    }

    /// Adds a slot, or a slice of several; returns a slice that is complete.
    pub fn add(&mut self, slice: Slice<D>) -> Option<Slice<D>> {
        match &mut self.current {
            Some(current) if current.data.len() < self.least => {
                current.last = slice.last;
                current.data.absorb(slice.data);
                None
            }
            current => {
                let whole = current.replace(slice);
                std::mem::replace(&mut self.before, whole)
            }
        }
    }

    /// The slices that are left, all of them large enough unless the whole run is too small.
    pub fn end(&mut self) -> Vec<Slice<D>> {
        match (self.before.take(), self.current.take()) {
            (Some(mut whole), Some(rest)) if rest.data.len() < self.least => {
                whole.last = rest.last;
                whole.data.absorb(rest.data);
                vec![whole]
            }
            (before, current) => before.into_iter().chain(current).collect(),
        }
    }
}

/// A span of time that is divided into slots of equal length.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Its length in nanoseconds.
    pub span: i64,
    /// Slots in it.
    pub slots: i64,
}

impl Grid {
    /// The slot of a moment.
    pub fn slot(self, at: i64) -> i64 {
        (i128::from(at) * i128::from(self.slots) / (i128::from(self.span) + 1)) as i64
    }

    /// From when to when a slice reaches, in seconds.
    pub fn seconds<D>(self, slice: &Slice<D>) -> (f64, f64) {
        let border = |slot: i64| slot as f64 * self.span as f64 / self.slots as f64 / NS_PER_S as f64;
        (border(slice.first), border(slice.last + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(at: i64, figures: i64) -> Slice<Spread> {
        let mut data = Spread::default();
        (0..figures).for_each(|ns| data.push(ns));
        Slice { first: at, last: at, data }
    }

    fn slices(least: u64, slots: &[(i64, i64)]) -> Vec<(i64, i64, u64)> {
        let mut slices = Slices::new(least);
        let mut done: Vec<Slice<Spread>> = slots.iter().filter_map(|&(at, n)| slices.add(slot(at, n))).collect();
        done.extend(slices.end());
        done.iter().map(|slice| (slice.first, slice.last, slice.data.len())).collect()
    }

    #[test]
    fn slots_are_joined_until_there_are_enough_and_the_rest_joins_the_last_slice() {
        assert_eq!(slices(10, &[(0, 4), (1, 4), (2, 4), (7, 30), (8, 10)]), [(0, 2, 12), (7, 7, 30), (8, 8, 10)]);
        assert_eq!(slices(10, &[(0, 12), (1, 12), (2, 3)]), [(0, 0, 12), (1, 2, 15)]);
        assert_eq!(slices(10, &[(0, 12), (5, 3)]), [(0, 5, 12 + 3)]);
        assert_eq!(slices(10, &[(0, 3)]), [(0, 0, 3)], "the whole run is too small");
        assert_eq!(slices(10, &[]), []);
    }

    #[test]
    fn a_percentile_needs_five_figures_beyond_it() {
        assert_eq!([0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999].map(needed), [500, 20, 10, 20, 50, 500, 5_000]);
    }

    #[test]
    fn slots_divide_the_span_and_both_ends_are_in_it() {
        let grid = Grid { span: 10 * NS_PER_S, slots: 5 };
        assert_eq!([0, 2 * NS_PER_S + 1, 10 * NS_PER_S].map(|at| grid.slot(at)), [0, 1, 4]);
        assert_eq!(grid.seconds(&Slice { first: 1, last: 3, data: () }), (2.0, 8.0));
    }
}
