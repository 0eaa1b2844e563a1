//! What an unknown word was meant to be: a synonym out of a table, or a known word with one typing error; else nothing.

/// The letters of a word that may be one with a typing error, at least: `cps` is no `qps`.
const SHORTEST: usize = 4;

/// Words of other tools (dnsperf, kdig, k6, wrk, flamethrower, kxdpgun) and of users, each with ours. Without `--`, with `-` for `_`; a
/// word may have several meanings, of which the first counts that the command or file has.
const SYNONYMS: [(&str, &str); 59] = [
    ("-Q", "rate"),
    ("-T", "workers"),
    ("-c", "clients"),
    ("-d", "TRACE"),
    ("-l", "for"),
    ("-m", "transport"),
    ("-n", "loop"),
    ("-p", "server ADDR:PORT"),
    ("-s", "server"),
    ("-t", "query-timeout"),
    ("address", "server"),
    ("bandwidth", "rate"),
    ("ca", "tls-ca"),
    ("cacert", "tls-ca"),
    ("concurrency", "max-outstanding"),
    ("connections", "clients"),
    ("delay", "rtt"),
    ("doh", "transport doh2"),
    ("doq", "transport doq"),
    ("dot", "transport dot"),
    ("drop", "loss"),
    ("duration", "for"),
    ("errors", "failed"),
    ("host", "server"),
    ("https", "transport doh2"),
    ("in-flight", "max-outstanding"),
    ("insecure", "tls-insecure"),
    ("iterations", "loop"),
    ("latency", "rtt"),
    ("length", "for"),
    ("limit", "for"),
    ("lost", "timed-out"),
    ("max-qps", "rate"),
    ("median", "p50"),
    ("mem", "memory"),
    ("mode", "transport"),
    ("name", "qname"),
    ("nameserver", "server"),
    ("out", "output"),
    ("outstanding", "max-outstanding"),
    ("overwrite", "force"),
    ("packet-loss", "loss"),
    ("port", "server ADDR:PORT"),
    ("proto", "transport"),
    ("protocol", "transport"),
    ("qps", "rate"),
    ("quic", "transport doq"),
    ("repeat", "loop"),
    ("resolver", "server"),
    ("rps", "rate"),
    ("rtt", "latency"),
    ("runs", "loop"),
    ("success", "answered"),
    ("target", "server"),
    ("tcp", "transport tcp"),
    ("threads", "workers"),
    ("timeout", "query-timeout"),
    ("tls", "transport dot"),
    ("type", "qtype"),
];

/// What is said of a word that is not known: `: did you mean `share`?`, or the list of known words.
pub fn suggest(word: &str, known: &[&str]) -> String {
    match meant(word, known) {
        Some((known, _)) => format!(": did you mean `{known}`?"),
        None => format!("; expected one of {}", known.join(", ")),
    }
}

/// The known word that was meant, if that is certain enough to say, and the value that goes with it: `--tls` is `--transport` with `dot`.
/// It is a synonym's, or the only one that differs by a single typing error.
pub fn meant<'a>(word: &str, known: &[&'a str]) -> Option<(&'a str, Option<&'static str>)> {
    let own = plain(word);
    let said = SYNONYMS.iter().filter(|(synonym, _)| *synonym == own).map(|(_, meant)| *meant);
    let mut of_table = said.filter_map(|meant| {
        let (meant, value) = meant.split_once(' ').map_or((meant, None), |(meant, value)| (meant, Some(value)));
        Some((*known.iter().find(|known| plain(known) == meant)?, value))
    });
    of_table.next().or_else(|| Some((mistyped(word, known)?, None)))
}

/// The only known word that differs by one typing error.
fn mistyped<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let is_long = plain(word).chars().count() >= SHORTEST;
    let mut near = known.iter().filter(|known| is_long && distance(word, known) <= 1);
    near.next().filter(|_| near.next().is_none()).copied()
}

/// A word of the table.
fn plain(word: &str) -> String {
    let word = word.strip_prefix("--").unwrap_or(word);
    word.replace('_', "-")
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

    /// `--duration` was told to mean `--resumption`.
    #[test]
    fn only_synonyms_and_typing_errors_are_suggested() {
        let known = ["--for", "--rate", "--resumption", "--transport", "qps", "query_timeout"];
        for (word, said) in [
            ("--duration", Some(("--for", None))),
            ("--tls", Some(("--transport", Some("dot")))),
            ("-Q", Some(("--rate", None))),
            ("timeout", Some(("query_timeout", None))),
            ("--trasnport", Some(("--transport", None))),
            ("--rates", Some(("--rate", None))),
            ("--transportation", None),
            ("--threads", None),
            ("cps", None),
        ] {
            assert_eq!(meant(word, &known), said, "{word}");
        }
        assert!(SYNONYMS.is_sorted_by_key(|(word, _)| *word), "the table is in order");
    }

    #[test]
    fn the_nearest_is_named_or_all_are() {
        assert_eq!(suggest("transprot", &["share", "transport"]), ": did you mean `transport`?");
        assert_eq!(suggest("colour", &["share", "where"]), "; expected one of share, where");
    }
}
