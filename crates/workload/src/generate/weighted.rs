//! Weighted random choice in constant time (Walker, "An efficient method for generating discrete random
//! variables with general distributions", 1977; built as Vose described, 1991).

/// Draws numbers from 0 in proportion to their weights, with a table of eight octets each.
#[derive(Clone, Debug)]
pub struct Weighted {
    /// For each number: its probability within its cell, in units of 2⁻³², and its alias.
    cells: Vec<(u32, u32)>,
}

impl Weighted {
    /// From fewer than 2³² weights, at least one of which is above 0 and none below.
    pub fn new(weights: &[f64]) -> Self {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut scaled: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|&number| scaled[number as usize] < 1.0);
        let mut cells: Vec<(u32, u32)> = (0..weights.len() as u32).map(|number| (u32::MAX, number)).collect();
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            cells[poor as usize] = ((scaled[poor as usize] * f64::from(u32::MAX)) as u32, rich);
            scaled[rich as usize] -= 1.0 - scaled[poor as usize];
            if scaled[rich as usize] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { cells }
    }

    /// Maps a random number to one of the numbers.
    pub fn pick(&self, random: u64) -> usize {
        let place = u128::from(random) * self.cells.len() as u128;
        let (cell, within) = ((place >> 64) as usize, (place as u64 >> 32) as u32);
        let (own, other) = self.cells[cell];
        std::hint::select_unpredictable(within <= own, cell, other as usize)
    }
}

/// Weights of ranks from 1 according to Zipf's law: rank^-exponent.
pub fn zipf(count: usize, exponent: f64) -> Vec<f64> {
    (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect()
}

/// Weights of `count` things whose quantiles are known: `points` are values at even steps of what `spread` counts from the
/// most to the least, interpolated by their logarithms.
pub fn of_quantiles(count: usize, points: &[(f64, f64)]) -> Vec<f64> {
    (0..count).map(|rank| quantile(points, (rank as f64 + 0.5) / count as f64)).collect()
}

/// The value at `at` (0 the largest, 1 the least) between points in ascending order.
fn quantile(points: &[(f64, f64)], at: f64) -> f64 {
    let above = points.partition_point(|(place, _)| *place < at).clamp(1, points.len().max(2) - 1);
    let (Some((x0, y0)), Some((x1, y1))) = (points.get(above - 1), points.get(above)) else {
        return points.first().map_or(1.0, |(_, value)| *value);
    };
    let part = if x1 > x0 { ((at - x0) / (x1 - x0)).clamp(0.0, 1.0) } else { 0.0 };
    (y0.ln() + (y1.ln() - y0.ln()) * part).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::random::draw;
    use proptest::prelude::*;

    #[test]
    fn each_is_drawn_by_its_weight() {
        let weights = [1.0, 0.0, 5.0, 2.0, 0.25, 1.75];
        let weighted = Weighted::new(&weights);
        let mut counts = [0; 6];
        (0..100_000).for_each(|count| counts[weighted.pick(draw(3, count))] += 1);
        for (count, weight) in counts.iter().zip(weights) {
            assert!((f64::from(*count) - weight * 10_000.0).abs() < 400.0, "{counts:?}");
        }
        assert_eq!(counts[1], 0);
    }

    #[test]
    fn quantiles_are_met_between_their_points() {
        let points = [(0.0, 1_000.0), (0.5, 10.0), (1.0, 10.0)];
        assert_eq!(quantile(&points, 0.0).round(), 1_000.0);
        assert_eq!(quantile(&points, 0.25).round(), 100.0);
        assert_eq!(quantile(&points, 0.75).round(), 10.0);
        assert_eq!(quantile(&[(0.0, 7.0)], 0.3), 7.0);
    }

    proptest! {
        #[test]
        fn any_weights_give_a_number_in_range(weights in prop::collection::vec(0.0..1e9_f64, 1..50), random: u64) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            prop_assert!(Weighted::new(&weights).pick(random) < weights.len());
        }
    }
}
