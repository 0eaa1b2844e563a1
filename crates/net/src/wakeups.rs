//! How long threads wait for a core when they wake up, one time at a time: they are looked at so often that most looks see one or none.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use crate::usage::{self, CoreWait};

/// How often threads are looked at …
const LOOKS: usize = 10;
/// … and how long after one another.
const APART: Duration = Duration::from_millis(1);
/// So many threads are looked at: each takes some microseconds.
const MOST_THREADS: usize = 32;

/// A thread: the number of its process, and its own.
pub type Thread = (u32, u32);

/// The median of how long a thread of each group waited when it got a core, in nanoseconds, seen for 10 ms; `None` where none got one, or the
/// kernel does not count it.
pub fn median_ns<const N: usize>(groups: [Vec<Thread>; N]) -> [Option<u64>; N] {
    let mut waits: [Vec<u64>; N] = std::array::from_fn(|_| Vec::new());
    let mut before = groups.each_ref().map(|group| look(group));
    for _ in 0..LOOKS {
        thread::sleep(APART);
        let now = groups.each_ref().map(|group| look(group));
        for ((waits, before), now) in waits.iter_mut().zip(&before).zip(&now) {
            waits.extend(now.iter().filter_map(|(thread, now)| mean_ns(*before.get(thread)?, *now)));
        }
        before = now;
    }
    waits.map(median)
}

fn look(threads: &[Thread]) -> HashMap<Thread, CoreWait> {
    let read = |&(process, thread): &Thread| Some(((process, thread), usage::core_wait(process, thread)?));
    threads.iter().take(MOST_THREADS).filter_map(read).collect()
}

/// How long a thread waited each time between two looks; `None` if it got no core.
fn mean_ns(before: CoreWait, now: CoreWait) -> Option<u64> {
    now.waited_ns.saturating_sub(before.waited_ns).checked_div(now.runs.saturating_sub(before.runs))
}

fn median(mut waits: Vec<u64>) -> Option<u64> {
    waits.sort_unstable();
    waits.get(waits.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn what_a_thread_waited_between_two_looks_is_shared_by_the_times_it_ran() {
        let wait = |waited_ns, runs| CoreWait { waited_ns, runs };
        assert_eq!(mean_ns(wait(1_000, 5), wait(4_000, 7)), Some(1_500));
        assert_eq!((mean_ns(wait(1_000, 5), wait(4_000, 5)), mean_ns(wait(9, 9), wait(0, 1))), (None, None));
        assert_eq!((median(vec![30, 10, 20]), median(Vec::new())), (Some(20), None));
    }

    #[test]
    fn a_thread_that_sleeps_often_is_seen_and_one_that_never_wakes_is_not() {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (number, numbers) = std::sync::mpsc::channel();
            let stop = &stop;
            scope.spawn(move || {
                number.send(usage::own_thread()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_micros(200));
                }
            });
            let own = std::process::id();
            let found = median_ns([vec![(own, numbers.recv().unwrap())], vec![(own, 0)], Vec::new()]);
            stop.store(true, Ordering::Relaxed);
            assert!(found[0].is_some() && found[1..] == [None, None], "{found:?}");
        });
    }
}
