//! Distributes work over a few threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Items that a thread takes at once.
const TAKEN: usize = 16;

/// Does something with each item; gives the results in the order of the items.
pub(super) fn each<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let parts: Vec<&[T]> = items.chunks(TAKEN).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(at) else { return done };
            done.push((at, part.iter().map(&work).collect()));
        }
    };
    let mut done = Vec::with_capacity(parts.len());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.clamp(1, parts.len().max(1))).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            done.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().flat_map(|(_, results)| results).collect()
}
