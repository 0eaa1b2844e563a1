//! Quantiles of nanoseconds as JSON in microseconds.

use serde_json::{Value, json};

/// The quantiles that the tables of the documentation have; sorts `values`.
pub fn of(values: &mut [i64]) -> Value {
    values.sort_unstable();
    let at = |quantile| us(at(values, quantile));
    json!({
        "n": values.len(),
        "min": at(0.0), "p1": at(0.01), "p25": at(0.25), "p50": at(0.5), "p75": at(0.75),
        "p99": at(0.99), "p999": at(0.999), "max": at(1.0),
    })
}

/// The value at a quantile of sorted values; 0 when there is none.
pub fn at(sorted: &[i64], quantile: f64) -> i64 {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((last * quantile).round() as usize).copied().unwrap_or(0)
}

/// Nanoseconds in microseconds, with one decimal.
fn us(ns: i64) -> f64 {
    (ns as f64 / 100.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut values: Vec<i64> = (0..=1_000).rev().map(|us| us * 1_000).collect();
        let quantiles = of(&mut values);
        assert_eq!((quantiles["p25"].as_f64(), quantiles["p99"].as_f64()), (Some(250.0), Some(990.0)));
        assert_eq!(of(&mut [])["max"].as_f64(), Some(0.0));
    }
}
