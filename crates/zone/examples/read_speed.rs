//! How fast zone files are read, ours and those of `domain` in turn: `read_speed FILE`, a zone file with absolute names.
//!
//! Prints what the other takes in multiples of our time, which a busy machine disturbs less than the times themselves.

use std::path::Path;
use std::time::{Duration, Instant};

use domain::zonefile::inplace::{Entry, Zonefile};
use ldplayer_zone::load;

/// Rounds of both, in turn.
const ROUNDS: usize = 21;

fn ours(text: &[u8]) -> usize {
    load::text_of(text, Path::new("zone"), Some(b"\0"), &mut |_| unreachable!()).expect("a zone file").len()
}

fn theirs(text: &[u8]) -> usize {
    let mut file = Zonefile::from(text);
    file.set_origin(domain::base::Name::root_bytes());
    let mut records = 0;
    while let Some(entry) = file.next_entry().expect("a zone file") {
        records += usize::from(matches!(entry, Entry::Record(_)));
    }
    records
}

fn timed(work: impl Fn(&[u8]) -> usize, text: &[u8]) -> (usize, Duration) {
    let begun = Instant::now();
    (work(text), begun.elapsed())
}

fn main() {
    let path = std::env::args().nth(1).expect("the path of a zone file");
    let text = std::fs::read(path).expect("a file that can be read");
    let mut ratios = Vec::new();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let ((records, own), (others, other)) = (timed(ours, &text), timed(theirs, &text));
        assert_eq!(records, others);
        best = best.min(own);
        ratios.push(other.as_secs_f64() / own.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    let at = |quarter: usize| ratios[(ratios.len() - 1) * quarter / 4];
    println!("{} records, {} octets; ours at best {best:?}", ours(&text), text.len());
    println!("domain takes {:.2} [{:.2}–{:.2}] times as long", at(2), at(1), at(3));
}
