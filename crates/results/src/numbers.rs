//! How numbers are written for people: digits, thousands, units, plurals.

use std::collections::BTreeMap;

/// Bytes in a unit that leaves three digits or less before the point.
pub fn in_bytes(bytes: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|&(size, _)| bytes as f64 >= size);
    unit.map_or_else(|| format!("{bytes} B"), |(size, unit)| format!("{:.1} {unit}", bytes as f64 / size))
}

/// A time of so many microseconds, in the unit and with the digits that say something: `312 µs`, `40.7 ms`, `1.31 s`.
pub fn in_time(us: f64) -> String {
    // What is rounded up to the next unit is told in it.
    let of = |size: f64| us.abs() >= 0.9995 * size;
    let (size, unit) = [(1e6, "s"), (1e3, "ms")].into_iter().find(|(size, _)| of(*size)).unwrap_or((1.0, "µs"));
    let value = us / size;
    let digits = match value.abs() {
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    format!("{} {unit}", fixed(value, digits))
}

/// A limit of so many microseconds as somebody has set it: `50 µs`, `1 ms`.
pub fn in_whole_time(us: f64) -> String {
    let is_whole = |size: f64| us >= size && us % size == 0.0;
    let (size, unit) = [(1e6, "s"), (1e3, "ms")].into_iter().find(|(size, _)| is_whole(*size)).unwrap_or((1.0, "µs"));
    format!("{} {unit}", us / size)
}

/// A figure with so many digits after the point; never a zero with a sign.
pub fn fixed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

/// A count with its noun: `1 query`, `1,234 queries`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// So many queries.
pub fn queries(count: u64) -> String {
    counted(count, "query", "queries")
}

/// A count with its thousands apart, as `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let start = digits.len() % 3;
    let mut text = digits[..start].to_owned();
    for group in digits.as_bytes()[start..].chunks(3) {
        if !text.is_empty() {
            text.push(',');
        }
        text.extend(group.iter().map(|&digit| char::from(digit)));
    }
    text
}

/// Counts by name, the greatest first.
pub fn counts(counts: &BTreeMap<String, u64>) -> String {
    counts_in_words(counts, str::to_owned)
}

/// Counts by key, each with its words, the greatest first.
pub fn counts_in_words(counts: &BTreeMap<String, u64>, words: fn(&str) -> String) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let mut order: Vec<_> = counts.iter().collect();
    order.sort_by_key(|&(_, &count)| std::cmp::Reverse(count));
    order.iter().map(|&(name, &count)| format!("{} {}", words(name), grouped(count))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_no_sign_and_one_is_no_plural() {
        let shown = [-0.04, 0.04, -0.05, -0.0, -12.34, f64::NEG_INFINITY].map(|value| fixed(value, 1));
        assert_eq!(shown, ["0.0", "0.0", "-0.1", "0.0", "-12.3", "-inf"]);
        assert_eq!((fixed(-0.4, 0), fixed(0.0, 0)), ("0".to_owned(), "0".to_owned()));
        assert_eq!([0, 1, 1_000].map(queries), ["0 queries", "1 query", "1,000 queries"]);
    }

    #[test]
    fn times_have_three_digits_and_their_unit() {
        let shown = [0.0, 0.3, 312.4, 999.4, 999.6, 40_712.0, 99_440.2, 999_499.0, 999_600.0, 1_312_748.0, -2_500.0];
        let told = [
            "0.00 µs", "0.30 µs", "312 µs", "999 µs", "1.00 ms", "40.7 ms", "99.4 ms", "999 ms", "1.00 s", "1.31 s",
            "-2.50 ms",
        ];
        assert_eq!(shown.map(in_time), told);
    }

    #[test]
    fn limits_are_told_as_they_were_set() {
        let told = ["0 µs", "0.5 µs", "50 µs", "1 ms", "1500 µs", "5 ms", "2 s"];
        assert_eq!([0.0, 0.5, 50.0, 1e3, 1.5e3, 5e3, 2e6].map(in_whole_time), told);
    }

    #[test]
    fn thousands_are_kept_apart() {
        assert_eq!([0, 12, 999, 1_000, 1_234_567].map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
    }
}
