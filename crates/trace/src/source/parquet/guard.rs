//! Turns panics of the Parquet decoder on damaged data into errors.
//!
//! The decoder does not check everything: a changed octet in the middle of a file can make it panic. Such damage is counted
//! and skipped like any other.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `decode`; `None` if it panics, which is not reported. Values that it has modified must not be used after that.
pub(crate) fn guarded<T>(decode: impl FnOnce() -> T) -> Option<T> {
    silence();
    DECODING.set(true);
    let decoded = panic::catch_unwind(AssertUnwindSafe(decode));
    DECODING.set(false);
    decoded.ok()
}

/// Silences the panic hook for panics in a decoder, once per process; other panics are reported as before.
fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !DECODING.get() {
                report(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_nothing_and_the_next_call_is_fine() {
        assert_eq!(guarded(|| -> u8 { panic!("damage") }), None);
        assert_eq!(guarded(|| 5), Some(5));
        assert!(!DECODING.get());
    }
}
