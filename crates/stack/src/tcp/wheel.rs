//! A hierarchical timer wheel: setting, cancelling and expiring a timer take constant time, whatever their number.
//!
//! Eight levels of 64 slots each, which span all times that there are; a slot of level n is as long as all of level n - 1. A
//! timer is put into the level of the highest digit in which its tick differs from the present one, and moves down as that
//! comes near.

use super::blocks::Blocks;
use super::index::NONE;

/// A tick has 2^20 ns, or 1.05 ms.
const TICK_BITS: u32 = 20;
const LEVELS: usize = 8;
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Ticks are counted from the earliest time, so that none is negative.
const BIAS: i64 = 1 << (63 - TICK_BITS);
/// The list of a timer that is not set.
const UNSET: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    deadline: i64,
    previous: u32,
    next: u32,
    /// In which list: level × 64 + slot.
    list: u16,
}

/// The timer wheel. Timers are identified by the number of their connection.
#[derive(Debug)]
pub struct Wheel {
    nodes: Blocks<Node>,
    heads: [u32; LEVELS * SLOTS],
    occupied: [u64; LEVELS],
    /// The present tick: all earlier ones have expired.
    tick: u64,
    is_started: bool,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            nodes: Blocks::default(),
            heads: [NONE; LEVELS * SLOTS],
            occupied: [0; LEVELS],
            tick: 0,
            is_started: false,
        }
    }
}

impl Wheel {
    /// When the timer is due; `None` if it is not set.
    pub fn deadline(&self, timer: u32) -> Option<i64> {
        self.nodes.get(timer).filter(|node| node.list != UNSET).map(|node| node.deadline)
    }

    /// Sets a timer to `deadline` in nanoseconds, at `now`. It expires no sooner, and up to two ticks later.
    pub fn set(&mut self, timer: u32, now: i64, deadline: i64) {
        self.cancel(timer);
        if !self.is_started {
            self.tick = present(now);
            self.is_started = true;
        }
        while self.nodes.len() <= timer {
            self.nodes.push(Node { deadline: 0, previous: NONE, next: NONE, list: UNSET });
        }
        self.nodes[timer].deadline = deadline;
        self.link(timer);
    }

    /// Cancels a timer, if it is set.
    pub fn cancel(&mut self, timer: u32) {
        let Some(&Node { previous, next, list, .. }) = self.nodes.get(timer).filter(|node| node.list != UNSET) else {
            return;
        };
        match previous {
            NONE => self.heads[usize::from(list)] = next,
            _ => self.nodes[previous].next = next,
        }
        if next != NONE {
            self.nodes[next].previous = previous;
        }
        if self.heads[usize::from(list)] == NONE {
            self.occupied[usize::from(list) / SLOTS] &= !(1 << (usize::from(list) % SLOTS));
        }
        self.nodes[timer].list = UNSET;
    }

    /// The earliest time at which [`Self::expire`] has something to do, which may turn out to be nothing but moving timers.
    pub fn next(&self) -> Option<i64> {
        self.first().map(|(_, start)| (start as i64 - BIAS) << TICK_BITS)
    }

    /// A timer that is due at `now`, which is unset.
    pub fn expire(&mut self, now: i64) -> Option<u32> {
        let present = present(now);
        while let Some((list, start)) = self.first() {
            if start > present {
                break;
            }
            self.tick = self.tick.max(start);
            if list < SLOTS {
                let timer = self.heads[list];
                self.cancel(timer);
                return Some(timer);
            }
            self.move_down(list);
        }
        self.tick = self.tick.max(present);
        None
    }

    /// Moves all timers of a list whose time has come to the levels below, all at once, or some would be late.
    fn move_down(&mut self, list: usize) {
        let mut timer = std::mem::replace(&mut self.heads[list], NONE);
        self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        while timer != NONE {
            let next = self.nodes[timer].next;
            self.link(timer);
            timer = next;
        }
    }

    /// The first list that is not empty, and the tick at which it begins.
    fn first(&self) -> Option<(usize, u64)> {
        (0..LEVELS).find_map(|level| {
            let shift = SLOT_BITS * level as u32;
            let digit = (self.tick >> shift) as u32 & (SLOTS as u32 - 1);
            let ahead = self.occupied[level] & (u64::MAX << digit);
            if ahead == 0 {
                return None;
            }
            let slot = ahead.trailing_zeros();
            let base = self.tick >> (shift + SLOT_BITS) << (shift + SLOT_BITS);
            Some((level * SLOTS + slot as usize, base + (u64::from(slot) << shift)))
        })
    }

    fn link(&mut self, timer: u32) {
        let tick = first_tick(self.nodes[timer].deadline).max(self.tick);
        let differing = tick ^ self.tick;
        let level = differing.checked_ilog2().map_or(0, |bit| bit / SLOT_BITS);
        let slot = (tick >> (SLOT_BITS * level)) as usize & (SLOTS - 1);
        let list = level as usize * SLOTS + slot;
        let next = self.heads[list];
        if next != NONE {
            self.nodes[next].previous = timer;
        }
        self.heads[list] = timer;
        self.occupied[level as usize] |= 1 << slot;
        let node = &mut self.nodes[timer];
        (node.previous, node.next, node.list) = (NONE, next, list as u16);
    }
}

/// The tick that a time lies in.
const fn present(now: i64) -> u64 {
    ((now >> TICK_BITS) + BIAS) as u64
}

/// The first tick that does not begin before `deadline`.
const fn first_tick(deadline: i64) -> u64 {
    present(deadline) + (deadline & ((1 << TICK_BITS) - 1) != 0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn timers_expire_when_they_are_due_and_are_never_forgotten(
            start in -1_i64 << 40..1 << 40,
            steps in prop::collection::vec((0_u32..20, prop::option::of(0_u32..46), 0_u32..40, any::<u16>()), 1..200),
        ) {
            let (mut wheel, mut expected, mut now) = (Wheel::default(), HashMap::new(), start);
            for (timer, delay, passes, odd) in steps {
                match delay {
                    Some(bits) => {
                        let deadline = now + (1 << bits) + i64::from(odd);
                        wheel.set(timer, now, deadline);
                        expected.insert(timer, deadline);
                    }
                    None => {
                        wheel.cancel(timer);
                        expected.remove(&timer);
                    }
                }
                now += (1_i64 << passes) + i64::from(odd);
                while let Some(timer) = wheel.expire(now) {
                    let deadline = expected.remove(&timer);
                    prop_assert!(deadline.is_some_and(|deadline| deadline <= now), "{:?} at {}", deadline, now);
                }
                for (&timer, &deadline) in &expected {
                    prop_assert!(deadline > now - (2 << TICK_BITS), "{} is late", timer);
                    prop_assert_eq!(wheel.deadline(timer), Some(deadline));
                }
                let first = expected.values().min();
                prop_assert_eq!(wheel.next().is_some(), first.is_some());
                if let (Some(next), Some(&first)) = (wheel.next(), first) {
                    prop_assert!(next > now && next <= first + (1 << TICK_BITS), "{} {} {}", now, next, first);
                }
            }
        }
    }
}
