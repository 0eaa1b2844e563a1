//! Suggestions for misspelt words in error messages.

/// A suggestion such as `: did you mean `share`?`, or the list of known words if none is close.
pub fn suggest(word: &str, known: &[&str]) -> String {
    let nearest = known.iter().map(|known| (distance(word, known), *known)).min();
    match nearest {
        Some((distance, known)) if distance <= 1 + word.chars().count() / 3 => format!(": did you mean `{known}`?"),
        _ => format!("; expected one of {}", known.join(", ")),
    }
}

/// Characters to insert, remove, replace or swap with their neighbour until `a` is `b` (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_of_typing_errors() {
        for (a, b, steps) in
            [("", "", 0), ("do", "d", 1), ("shrae", "share", 1), ("kitten", "sitting", 3), ("ä", "a", 1)]
        {
            assert_eq!(distance(a, b), steps, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_is_named_or_all_are() {
        assert_eq!(suggest("transprot", &["share", "transport"]), ": did you mean `transport`?");
        assert_eq!(suggest("colour", &["share", "where"]), "; expected one of share, where");
    }
}
