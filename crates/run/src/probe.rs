//! Asks each server one question over each transport before a run, and reports a fault in one line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ldplayer_core::shard::Shards;
use ldplayer_core::{Outcome, Policy, Query, Reason, RunTime, Status, Transport};
use ldplayer_net::pace::Precision;
use ldplayer_replay::{Drain, Feed, LinkError, Monitor, RunStart, Settings, Targets};
use ldplayer_results::{remedy_of_failure, words};

use crate::resolve::Plan;
use crate::watch::{Observer, Progress, Wish};

/// How long an answer is waited for at most, in nanoseconds: a person waits, and round trips of half a second have to fit.
const PATIENCE: i64 = 2_000_000_000;
/// Of that, the percentage that a connection and its handshake may take each: less, so that it is said which was missing.
const SET_UP_PERCENT: i64 = 95;
/// Servers that are asked at most.
const MOST_SERVERS: usize = 16;
/// How often the observer is asked.
const LOOK: Duration = Duration::from_millis(5);
/// The response code of a server that does not want to answer (RFC 1035 §4.1.1).
const REFUSED: u16 = 5;

/// What is wrong with the servers of a plan, as far as the first query of the run shows: a line for each server and transport. Nothing is
/// said where the question cannot be sent as those of the run are, as with frames.
///
/// Ends early where the observer does not want to go on.
pub fn of(plan: &Plan, first: &Query, observer: &mut dyn Observer) -> Vec<String> {
    if plan.settings.path.packets().is_some() {
        return Vec::new();
    }
    let questions = questions(plan, first);
    let targets = match &plan.settings.targets {
        Targets::Fixed(servers) => {
            servers.iter().take(MOST_SERVERS).map(|&server| Targets::Fixed(vec![server])).collect()
        }
        recorded @ Targets::Recorded(_) => vec![recorded.clone()],
    };
    let asked: Vec<_> = targets.into_iter().map(|targets| (targets, Monitor::new(1))).collect();
    let rows: Vec<Outcome> = thread::scope(|scope| {
        let ask = |(targets, monitor): &(Targets, Arc<Monitor>)| {
            let (targets, monitor, questions) = (targets.clone(), Arc::clone(monitor), questions.clone());
            scope.spawn(move || ask(&plan.settings, targets, questions, &monitor))
        };
        let asking: Vec<_> = asked.iter().map(ask).collect();
        while asking.iter().any(|asking| !asking.is_finished()) {
            if !matches!(observer.look(&Progress::default()), Wish::GoOn) {
                asked.iter().for_each(|(_, monitor)| monitor.abort());
            }
            thread::sleep(LOOK);
        }
        // The run itself reports a server that cannot be asked.
        asking.into_iter().flat_map(|asking| asking.join().unwrap_or_default()).collect()
    });
    rows.iter().filter_map(wrong).collect()
}

/// The first query of the run over each of its transports, each with the class of clients that uses it.
fn questions(plan: &Plan, first: &Query) -> VecDeque<Query> {
    let of = |class: Option<u8>, transport| Query { class, transport, due: RunTime(0), ..first.clone() };
    let mut questions: VecDeque<Query> = VecDeque::new();
    for (number, class) in plan.classes().iter().enumerate() {
        let transport = class.transport.unwrap_or(first.transport);
        if questions.iter().all(|known| known.transport != transport) {
            questions.push_back(of(u8::try_from(number).ok(), transport));
        }
    }
    if questions.is_empty() {
        questions.push_back(of(first.class, first.transport));
    }
    // The number tells the rows apart.
    (0..).zip(questions).map(|(index, question)| Query { index, ..question }).collect()
}

/// Sends the questions to a server as the run will send its queries.
fn ask(settings: &Settings, targets: Targets, questions: VecDeque<Query>, monitor: &Arc<Monitor>) -> Vec<Outcome> {
    let query_timeout = settings.query_timeout.min(PATIENCE);
    let set_up = query_timeout / 100 * SET_UP_PERCENT;
    let patient = |policy: Policy| Policy {
        connect_timeout: policy.connect_timeout.min(set_up),
        handshake_timeout: policy.handshake_timeout.min(set_up),
        ..policy
    };
    let settings = Settings {
        targets,
        workers: 1,
        cores: Vec::new(),
        precision: Precision::Low,
        query_timeout,
        max_lag: None,
        fast: false,
        policy: patient(settings.policy),
        classes: settings.classes.iter().copied().map(patient).collect(),
        ..settings.clone()
    };
    let settings = settings.asking_once();
    let ready = ldplayer_replay::prepare(settings, Shards::all(1), Questions(questions), monitor);
    let mut rows = Rows::default();
    let ended = ready.run(RunStart::soon(), &mut rows);
    // Who is interrupted learns nothing of the server.
    if ended.is_ok() && !monitor.is_aborted() { rows.0 } else { Vec::new() }
}

struct Questions(VecDeque<Query>);

impl Feed for Questions {
    fn next(&mut self, batch: &mut Vec<Query>) -> Result<bool, LinkError> {
        batch.extend(self.0.drain(..));
        Ok(false)
    }
}

#[derive(Default)]
struct Rows(Vec<Outcome>);

impl Drain for Rows {
    fn outcomes(&mut self, _: usize, rows: &[Outcome]) -> Result<(), LinkError> {
        self.0.extend(rows.iter().filter(|row| row.status.is_query()).cloned());
        Ok(())
    }
}

/// What is wrong with an answer, in one line; `None` where nothing is, or nothing was asked.
fn wrong(row: &Outcome) -> Option<String> {
    let said = match row.status {
        Status::NotSent | Status::Stray | Status::Late => return None,
        Status::Answered if row.rcode != Some(REFUSED) => return None,
        Status::Answered => {
            "it answers the first query with REFUSED: it does not serve this name, or not this client".to_owned()
        }
        Status::Timeout => "the first query got no answer: nothing listens there, or a filter drops packets".to_owned(),
        Status::Refused => "nothing listens there".to_owned(),
        Status::Reset | Status::ConnectFailed | Status::TlsFailed => failed(row),
    };
    let transport = words::transport(row.transport.as_str());
    Some(format!("{} over {transport}: {said}", row.server))
}

/// Why a connection did not carry the question.
fn failed(row: &Outcome) -> String {
    let Some(reason) = row.reason else { return row.status.to_string() };
    let never_up = row.transport.is_encrypted() && row.handshake_ns.is_none();
    let what = match reason {
        Reason::ConnectionRefused => return "nothing listens there".to_owned(),
        Reason::ConnectTimeout => return "no connection: nothing listens there, or a filter drops packets".to_owned(),
        Reason::HandshakeTimeout | Reason::Handshake => return no_handshake(row.transport),
        Reason::ResetByServer | Reason::ClosedByServer if never_up => return no_handshake(row.transport),
        Reason::CertificateTime => "its certificate is out of its time",
        Reason::CertificateName => "its certificate is for another name",
        Reason::CertificateUntrusted => "its certificate does not lead to a trusted one",
        Reason::Unreachable => "there is no way to it",
        _ => &words::reason(reason.as_str()),
    };
    format!("{what}: {}", remedy_of_failure(reason.as_str(), !never_up))
}

fn no_handshake(transport: Transport) -> String {
    let encryption = if matches!(transport, Transport::Doq | Transport::Doh3) { "QUIC" } else { "TLS" };
    format!("no handshake: nothing there speaks {encryption}, or not with this client")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(transport: Transport, status: Status, reason: Option<Reason>, rcode: Option<u16>) -> Option<String> {
        let server = "127.0.0.1:53".parse().unwrap();
        wrong(&Outcome { server, transport, status, reason, rcode, ..Outcome::EMPTY })
    }

    #[test]
    fn what_is_wrong_is_one_line_and_what_is_right_none() {
        assert_eq!(said(Transport::Udp, Status::Answered, None, Some(0)), None);
        assert_eq!(said(Transport::Udp, Status::NotSent, Some(Reason::NoSource), None), None);
        for (transport, status, reason, rcode, wanted) in [
            (
                Transport::Udp,
                Status::Answered,
                None,
                Some(5),
                "127.0.0.1:53 over UDP: it answers the first query with REFUSED",
            ),
            (Transport::Udp, Status::Refused, None, None, "127.0.0.1:53 over UDP: nothing listens there"),
            (
                Transport::Tcp,
                Status::ConnectFailed,
                Some(Reason::ConnectionRefused),
                None,
                "over TCP: nothing listens there",
            ),
            (
                Transport::Dot,
                Status::TlsFailed,
                Some(Reason::Handshake),
                None,
                "over DoT: no handshake: nothing there speaks TLS",
            ),
            (Transport::Doq, Status::TlsFailed, Some(Reason::HandshakeTimeout), None, "nothing there speaks QUIC"),
            (Transport::Dot, Status::TlsFailed, Some(Reason::CertificateUntrusted), None, "trusted one: give the CA"),
            (Transport::Dot, Status::TlsFailed, Some(Reason::CertificateName), None, "another name: give the name"),
            (Transport::Doh2, Status::Reset, Some(Reason::HttpStatus), None, "--doh-path"),
        ] {
            let line = said(transport, status, reason, rcode).unwrap();
            assert!(line.contains(wanted) && !line.contains('\n'), "{line}");
        }
        // Whether it is busy is not known before a handshake was ever completed.
        for reason in Reason::ALL {
            let line = said(Transport::Dot, Status::TlsFailed, Some(reason), None).unwrap();
            assert!(!line.contains("busy"), "{line}");
        }
    }
}
