//! Sends questions at a rate, with retries. A state machine: time is an argument, in nanoseconds.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ldplayer_core::Message;
use ldplayer_core::message::{CLASS_IN, QueryParts, flag};

use super::questions::Question;

/// Questions on their way at most: what a resolver starts with works on about a thousand.
const MAX_OUTSTANDING: usize = 200;
/// Rcode SERVFAIL (RFC 1035, section 4.1.1): the resolver may find an answer yet.
const SERVFAIL: u8 = 2;
/// UDP payload size that is announced.
const UDP_SIZE: u16 = 1_232;

/// How it asks.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// From one query to the next, in nanoseconds.
    pub interval: i64,
    /// How long an answer is waited for, and a failure left alone, in nanoseconds.
    pub timeout: i64,
    /// How often a question is asked.
    pub tries: u32,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A response with this code.
    Answered(u8),
    /// Nothing came.
    Silent,
}

/// A question on its way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    question: usize,
    tries: u32,
    failed: bool,
}

/// The machine.
pub struct Asker<'q> {
    questions: &'q [Question],
    settings: Settings,
    /// The first question that was never asked.
    next: usize,
    next_id: u16,
    /// When the next query may be sent.
    due: i64,
    pending: HashMap<u16, Pending>,
    /// When those on their way are looked at again, in order of time: all wait for as long.
    deadlines: VecDeque<(i64, u16)>,
    /// Those to be asked again, by when.
    again: BTreeMap<(i64, usize), u32>,
}

impl<'q> Asker<'q> {
    /// Asks these questions, from time 0 on.
    pub fn new(questions: &'q [Question], settings: Settings) -> Self {
        Self {
            questions,
            settings,
            next: 0,
            next_id: 0,
            due: 0,
            pending: HashMap::new(),
            deadlines: VecDeque::new(),
            again: BTreeMap::new(),
        }
    }

    /// Whether nothing is left to ask or to wait for.
    pub fn is_done(&self) -> bool {
        self.next == self.questions.len() && self.pending.is_empty() && self.again.is_empty()
    }

    /// Writes the query that is due to `wire`; `false` where none is.
    pub fn poll_query(&mut self, now: i64, wire: &mut Vec<u8>) -> bool {
        if now < self.due || self.pending.len() >= MAX_OUTSTANDING {
            return false;
        }
        let Some((question, tries)) = self.take_next(now) else { return false };
        while self.pending.contains_key(&self.next_id) {
            self.next_id = self.next_id.wrapping_add(1);
        }
        let Question { name, qtype } = &self.questions[question];
        wire.clear();
        let edns = Some((UDP_SIZE, true));
        let id = self.next_id;
        QueryParts { id, flags: flag::RD, name, qtype: *qtype, qclass: CLASS_IN, edns }.compose(wire);
        self.pending.insert(id, Pending { question, tries: tries + 1, failed: false });
        self.deadlines.push_back((now + self.settings.timeout, id));
        self.next_id = id.wrapping_add(1);
        // After a pause of this process the rate is kept, and nothing is made up for.
        self.due = (self.due + self.settings.interval).max(now);
        true
    }

    /// The question to ask now, and how often it was asked.
    fn take_next(&mut self, now: i64) -> Option<(usize, u32)> {
        if let Some(entry) = self.again.first_entry()
            && entry.key().0 <= now
        {
            return Some((entry.key().1, entry.remove()));
        }
        let next = (self.next < self.questions.len()).then_some((self.next, 0));
        self.next += usize::from(next.is_some());
        next
    }

    /// Takes a response; the number of the question that it settles.
    pub fn handle_response(&mut self, octets: &[u8]) -> Option<(usize, Outcome)> {
        let message = Message::new(octets).filter(Message::is_response)?;
        let pending = self.pending.get_mut(&message.id())?;
        let asked = &self.questions[pending.question];
        let same = message
            .question()
            .is_none_or(|question| question.qtype == asked.qtype && question.name.eq_ignore_ascii_case(&asked.name));
        if !same || pending.failed {
            return None;
        }
        let rcode = message.header_rcode();
        if rcode == SERVFAIL && pending.tries < self.settings.tries {
            // Its deadline is when it is asked again.
            pending.failed = true;
            return None;
        }
        let question = pending.question;
        self.pending.remove(&message.id());
        Some((question, Outcome::Answered(rcode)))
    }

    /// Puts what waited for long enough back, or gives it up: the number of a question that is settled by that.
    pub fn poll_timeout(&mut self, now: i64) -> Option<(usize, Outcome)> {
        while let Some(&(deadline, id)) = self.deadlines.front()
            && deadline <= now
        {
            self.deadlines.pop_front();
            // An ID is reused only after its answer, and then has its own later deadline.
            if self.deadlines.iter().any(|&(_, other)| other == id) {
                continue;
            }
            let Some(pending) = self.pending.remove(&id) else { continue };
            if pending.tries >= self.settings.tries {
                return Some((pending.question, Outcome::Silent));
            }
            self.again.insert((now, pending.question), pending.tries);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings { interval: 10, timeout: 100, tries: 2 };

    fn questions(count: u8) -> Vec<Question> {
        (0..count).map(|number| Question { name: vec![1, b'a' + number, 0], qtype: 1 }).collect()
    }

    fn response(query: &[u8], rcode: u8) -> Vec<u8> {
        let mut response = query.to_vec();
        (response[2], response[3]) = (0x80, rcode);
        response
    }

    #[test]
    fn questions_are_asked_once_at_the_rate() {
        let all = questions(3);
        let (mut asker, mut wire, mut asked) = (Asker::new(&all, SETTINGS), Vec::new(), Vec::new());
        for now in 0..40 {
            while asker.poll_query(now, &mut wire) {
                asked.push((now, wire[13]));
                assert_eq!(asker.handle_response(&response(&wire, 3)), Some((asked.len() - 1, Outcome::Answered(3))));
            }
        }
        assert_eq!(asked, [(0, b'a'), (10, b'b'), (20, b'c')]);
        assert!(asker.is_done());
    }

    #[test]
    fn silence_and_failure_are_asked_again_and_then_given_up() {
        let all = questions(2);
        let (mut asker, mut wire, mut asked, mut settled) =
            (Asker::new(&all, SETTINGS), Vec::new(), Vec::new(), Vec::new());
        for now in 0..1_000 {
            settled.extend(asker.poll_timeout(now));
            while asker.poll_query(now, &mut wire) {
                asked.push((now, wire[13]));
                if wire[13] == b'b' {
                    settled.extend(asker.handle_response(&response(&wire, SERVFAIL)));
                }
            }
        }
        assert_eq!(asked, [(0, b'a'), (10, b'b'), (100, b'a'), (110, b'b')]);
        assert_eq!(settled, [(1, Outcome::Answered(SERVFAIL)), (0, Outcome::Silent)]);
        assert!(asker.is_done());
    }

    #[test]
    fn what_answers_nothing_that_was_asked_is_passed_over() {
        let all = questions(1);
        let (mut asker, mut wire) = (Asker::new(&all, SETTINGS), Vec::new());
        assert!(asker.poll_query(0, &mut wire));
        let mut other = response(&wire, 0);
        other[13] = b'z';
        assert_eq!(asker.handle_response(&other), None);
        assert_eq!(asker.handle_response(&wire), None);
        assert_eq!(asker.handle_response(&[1, 2, 3]), None);
        assert!(!asker.is_done());
        assert_eq!(asker.handle_response(&response(&wire, 0)), Some((0, Outcome::Answered(0))));
        assert_eq!(asker.handle_response(&response(&wire, 0)), None);
    }

    #[test]
    fn only_so_many_are_on_their_way() {
        let all: Vec<Question> = (0..300_u16).map(|qtype| Question { name: vec![0], qtype }).collect();
        let (mut asker, mut wire) = (Asker::new(&all, Settings { interval: 0, ..SETTINGS }), Vec::new());
        let sent = (0..300).filter(|_| asker.poll_query(0, &mut wire)).count();
        assert_eq!(sent, MAX_OUTSTANDING);
    }
}
