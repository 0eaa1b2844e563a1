//! Published but unacknowledged batches: which to send next and which to resend, in order and exactly once.
//!
//! The stream refuses a message that does not follow the last one (`Nats-Expected-Last-Sequence`), so that after a batch that was
//! refused or lost all that were sent behind it are sent again (go-back-N). What the stream says of its last message settles what a lost
//! acknowledgement leaves open.

use std::collections::VecDeque;

use bytes::Bytes;

/// A batch with its number in its stream, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// How many messages the stream has before it.
    pub number: u64,
    /// The batch.
    pub octets: Bytes,
}

/// The batches of one stream on their way.
#[derive(Debug)]
pub struct Window {
    /// Not known to be stored, oldest first.
    kept: VecDeque<Bytes>,
    /// Number of the first of them: how many are stored.
    stored: u64,
    /// How many of them are sent.
    sent: usize,
    most: usize,
}

impl Window {
    /// Of a stream that is empty; so many batches may be on their way at a time.
    pub const fn new(most: usize) -> Self {
        Self::behind(0, most)
    }

    /// Of a stream that has so many.
    pub const fn behind(stored: u64, most: usize) -> Self {
        Self { kept: VecDeque::new(), stored, sent: 0, most }
    }

    /// Whether another batch may be put in.
    pub fn has_room(&self) -> bool {
        self.kept.len() < self.most
    }

    /// Puts the next batch in.
    pub fn push(&mut self, octets: Bytes) {
        self.kept.push_back(octets);
    }

    /// The next batch to send, which counts as sent.
    pub fn next_to_send(&mut self) -> Option<Numbered> {
        let octets = self.kept.get(self.sent)?.clone();
        let number = self.stored + self.sent as u64;
        self.sent += 1;
        Some(Numbered { number, octets })
    }

    /// The stream has so many messages: those batches are done. It never has fewer than before; one that says so is behind.
    pub fn is_stored(&mut self, messages: u64) {
        while self.stored < messages && self.kept.pop_front().is_some() {
            self.stored += 1;
            self.sent = self.sent.saturating_sub(1);
        }
    }

    /// All that are not stored are sent again.
    pub const fn go_back(&mut self) {
        self.sent = 0;
    }

    /// How many are stored.
    pub const fn stored(&self) -> u64 {
        self.stored
    }

    /// Whether all that were put in are stored.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(number: u64) -> Bytes {
        number.to_le_bytes().to_vec().into()
    }

    #[test]
    fn what_was_refused_is_sent_again_with_all_behind_it() {
        let mut window = Window::new(4);
        (0..4).for_each(|number| window.push(batch(number)));
        assert!(!window.has_room());
        let sent: Vec<u64> = std::iter::from_fn(|| window.next_to_send()).map(|next| next.number).collect();
        assert_eq!(sent, [0, 1, 2, 3]);
        window.is_stored(1);
        window.go_back();
        let again: Vec<u64> = std::iter::from_fn(|| window.next_to_send()).map(|next| next.number).collect();
        assert_eq!(again, [1, 2, 3]);
    }

    #[test]
    fn a_stream_that_says_less_than_before_changes_nothing() {
        let mut window = Window::new(4);
        (0..3).for_each(|number| window.push(batch(number)));
        window.next_to_send();
        window.is_stored(2);
        window.is_stored(1);
        assert_eq!(window.stored(), 2);
        assert_eq!(window.next_to_send().map(|next| next.number), Some(2));
    }

    /// What happens to a message on its way to the stream.
    #[derive(Clone, Copy, Debug)]
    enum Fate {
        Stored,
        StoredWithoutWord,
        Lost,
        Refused,
    }

    fn fates() -> impl Strategy<Value = Vec<Fate>> {
        let fate =
            prop_oneof![Just(Fate::Stored), Just(Fate::StoredWithoutWord), Just(Fate::Lost), Just(Fate::Refused)];
        proptest::collection::vec(fate, 0..200)
    }

    proptest! {
        /// Against a stream that takes only the message after its last one, as JetStream does, and loses words and messages.
        #[test]
        fn a_stream_has_each_batch_once_and_in_order(batches in 0_u64..60, most in 1_usize..9, fates in fates()) {
            let (mut window, mut stream, mut fates) = (Window::new(most), Vec::new(), fates.into_iter());
            let mut next = 0;
            while next < batches || !window.is_empty() {
                while next < batches && window.has_room() {
                    window.push(batch(next));
                    next += 1;
                }
                while let Some(sent) = window.next_to_send() {
                    let fate = fates.next().unwrap_or(Fate::Stored);
                    let follows = stream.len() as u64 == sent.number;
                    if follows && matches!(fate, Fate::Stored | Fate::StoredWithoutWord) {
                        stream.push(sent.octets);
                        if matches!(fate, Fate::Stored) {
                            window.is_stored(stream.len() as u64);
                        }
                    }
                }
                // Without a word the sender asks the stream, and sends again what it does not have.
                window.is_stored(stream.len() as u64);
                window.go_back();
            }
            prop_assert_eq!(stream, (0..batches).map(batch).collect::<Vec<_>>());
        }
    }
}
