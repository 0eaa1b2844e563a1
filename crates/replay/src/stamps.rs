//! Matches kernel send timestamps to queries by the kernel's numbering of datagrams per socket.

use std::collections::VecDeque;

use hashbrown::HashMap;
use ldplayer_core::RunTime;

use crate::slab::Slot;

/// Maximum number of datagrams per socket that wait for a timestamp; older ones are forgotten.
const WAITING: usize = 4_096;

/// Sent datagrams without a timestamp, by socket.
#[derive(Debug, Default)]
pub struct Stamps {
    sockets: HashMap<u32, Numbered, foldhash::fast::FixedState>,
}

/// The datagrams of a socket.
#[derive(Debug, Default)]
struct Numbered {
    /// The number of the next one.
    next: u32,
    /// A send failed, and the kernel may have counted it: numbers are no longer reliable.
    is_lost: bool,
    /// Numbers, slots and send times, in order of the numbers.
    waiting: VecDeque<(u32, Slot, RunTime)>,
}

impl Stamps {
    /// The kernel accepted the query in `slot` on a socket. The time distinguishes it from later queries in the slot.
    pub fn note(&mut self, socket: u32, slot: Slot, submitted: RunTime) {
        let numbered = self.sockets.entry(socket).or_default();
        if numbered.is_lost {
            return;
        }
        if numbered.waiting.len() == WAITING {
            numbered.waiting.pop_front();
        }
        numbered.waiting.push_back((numbered.next, slot, submitted));
        numbered.next = numbered.next.wrapping_add(1);
    }

    /// A send failed on a socket. Ambiguous timestamps are useless: none are taken from this socket any more.
    pub fn lose(&mut self, socket: u32) {
        let numbered = self.sockets.entry(socket).or_default();
        numbered.is_lost = true;
        numbered.waiting = VecDeque::new();
    }

    /// The slot and send time of a datagram by its number; removes it.
    pub fn take(&mut self, socket: u32, number: u32) -> Option<(Slot, RunTime)> {
        let waiting = &mut self.sockets.get_mut(&socket)?.waiting;
        let first = waiting.front()?.0;
        let (_, slot, submitted) = *waiting.get(number.wrapping_sub(first) as usize)?;
        // Timestamps arrive in order: earlier ones are lost.
        waiting.drain(..=number.wrapping_sub(first) as usize);
        Some((slot, submitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_find_their_datagrams_also_around_the_end() {
        let mut stamps = Stamps::default();
        stamps.sockets.entry(3).or_default().next = u32::MAX;
        (0..4).for_each(|at| stamps.note(3, at, RunTime(i64::from(at) + 10)));
        assert_eq!(stamps.take(3, u32::MAX), Some((0, RunTime(10))));
        assert_eq!(stamps.take(3, 1), Some((2, RunTime(12))), "the stamp of 0 was left out");
        assert_eq!((stamps.take(3, 0), stamps.take(3, 9), stamps.take(4, 0)), (None, None, None));
        assert_eq!(stamps.take(3, 2), Some((3, RunTime(13))));
    }

    #[test]
    fn what_waits_is_bounded_and_a_failed_send_ends_it() {
        let mut stamps = Stamps::default();
        (0..WAITING as u32 + 5).for_each(|at| stamps.note(0, at, RunTime(0)));
        assert_eq!((stamps.sockets[&0].waiting.len(), stamps.take(0, 4)), (WAITING, None));
        assert_eq!(stamps.take(0, 5), Some((5, RunTime(0))));
        stamps.lose(0);
        stamps.note(0, 1, RunTime(0));
        assert_eq!(stamps.take(0, WAITING as u32 + 5), None);
    }
}
