//! Sends the questions of a harvest to a resolver at a rate, and records the results.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ldplayer_core::Message;
use ldplayer_zone::harvest::{Asker, Journal, JournalError, Outcome, Question, Settings};

/// How long to wait for answers at a time, so that due questions are sent.
const WAIT: Duration = Duration::from_millis(2);

/// Why a resolver cannot be queried.
#[derive(Debug, thiserror::Error)]
pub enum HarvestError {
    /// It cannot be reached. Exit status 3.
    #[error("cannot query {resolver}: {source}")]
    Socket {
        /// Its address.
        resolver: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The journal cannot be written. Exit status 2.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// The result of a round.
#[derive(Debug, Default)]
pub struct Asked {
    /// Questions answered in an earlier run.
    pub before: usize,
    /// Questions sent now.
    pub sent: usize,
    /// Answers by code.
    pub codes: BTreeMap<u8, usize>,
    /// Questions without answer.
    pub silent: usize,
}

/// Sends the open questions until all are settled or `stop` is set; calls `progress` with the number settled.
///
/// # Errors
/// The resolver cannot be reached, or the journal cannot be written.
pub fn ask(
    resolver: SocketAddr,
    questions: &[Question],
    settings: Settings,
    journal: &mut Journal,
    stop: &AtomicBool,
    mut progress: impl FnMut(usize),
) -> Result<Asked, HarvestError> {
    let mut asked = Asked::default();
    ask_each(resolver, questions, settings, stop, |question, octets| {
        let outcome =
            octets.and_then(Message::new).map_or(Outcome::Silent, |message| Outcome::Answered(message.header_rcode()));
        journal.write(&questions[question], outcome)?;
        asked.count(outcome);
        progress(asked.sent);
        Ok(())
    })?;
    Ok(asked)
}

/// Sends the questions until all are settled or `stop` is set; calls `settle` with the number of each and the response, where one came.
///
/// # Errors
/// The resolver cannot be reached, or `settle` fails.
pub fn ask_each(
    resolver: SocketAddr,
    questions: &[Question],
    settings: Settings,
    stop: &AtomicBool,
    mut settle: impl FnMut(usize, Option<&[u8]>) -> Result<(), HarvestError>,
) -> Result<(), HarvestError> {
    let socket = connect(resolver).map_err(|source| HarvestError::Socket { resolver, source })?;
    let (mut asker, mut wire, mut buffer) = (Asker::new(questions, settings), Vec::new(), [0; 65_535]);
    let begun = Instant::now();
    while !asker.is_done() && !stop.load(Ordering::Relaxed) {
        let now = i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX);
        while asker.poll_query(now, &mut wire) {
            // A question that cannot be sent is retried as if it had been lost.
            let _ = socket.send(&wire);
        }
        match socket.recv(&mut buffer) {
            Ok(length) => {
                let octets = &buffer[..length];
                asker.handle_response(octets).map_or(Ok(()), |(question, _)| settle(question, Some(octets)))?;
            }
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::thread::sleep(WAIT),
            Err(_) => {}
        }
        if let Some((question, _)) = asker.poll_timeout(now) {
            settle(question, None)?;
        }
    }
    Ok(())
}

fn connect(resolver: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(if resolver.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
    socket.connect(resolver)?;
    socket.set_read_timeout(Some(WAIT))?;
    Ok(socket)
}

impl Asked {
    fn count(&mut self, outcome: Outcome) {
        self.sent += 1;
        match outcome {
            Outcome::Answered(code) => *self.codes.entry(code).or_default() += 1,
            Outcome::Silent => self.silent += 1,
        }
    }
}
