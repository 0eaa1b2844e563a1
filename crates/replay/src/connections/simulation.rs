//! A simulated network and server for tests of the machine, with a simulated clock and delayed segments.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::sync::Arc;

use ldplayer_core::{Outcome, Query, Reason, RunTime, Transport};

use rustls::{ServerConfig, ServerConnection};

use super::{ALPN_DOT, Action, Connections, Doh, TlsClient, TlsSettings, framing};
use crate::doh::DohSettings;
use crate::route::{Route, SocketKey};
use crate::slab::Slot;
use crate::table::{Config, End, Machine, Policy};
use crate::test::query;

/// One way through the network, in nanoseconds.
pub const DELAY: i64 = 10;
/// Query timeout, and linger time, of the tests.
pub const TIMEOUT: i64 = 1_000;

/// What the server does when it is asked for a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    Yes,
    Never,
    Refuse,
}

/// What the server does upon a message.
pub enum Reply {
    /// These octets, a segment each.
    Segments(Vec<Vec<u8>>),
    Close,
    Reset,
}

enum Event {
    Query(Query),
    Up(Slot, u64),
    Refused(Slot, u64),
    Arrives(u64, Vec<u8>),
    Input(Slot, u64, Vec<u8>),
    Ends(Slot, u64, End),
    Writable(Slot, u64),
}

type Behaviour = Box<dyn FnMut(u64, &[u8]) -> Vec<Reply>>;

/// How the network of a test over HTTPS is set up.
pub struct Https<'a> {
    pub config: Config,
    pub settings: &'a TlsSettings,
    pub doh: DohSettings,
    pub tls: Arc<ServerConfig>,
}

/// The machine, a server, and the octets in flight between them.
pub struct Network {
    pub machine: Connections,
    pub now: i64,
    pub accept: Accept,
    /// Where the queries go that come next.
    pub route: Route,
    /// Octets that the kernel takes at once.
    pub room: usize,
    /// How long it takes to have room again.
    pub pause: i64,
    /// Every message that reached the server, with its connection.
    pub seen: Vec<(u64, Vec<u8>)>,
    server: Behaviour,
    /// What the server does with octets of a stream, where it does not read messages behind their length.
    raw: Option<Behaviour>,
    /// How the server speaks TLS, and its sessions.
    pub tls: Option<Arc<ServerConfig>>,
    /// What clients over TLS wrote, write by write.
    pub written: Vec<Vec<u8>>,
    sessions: HashMap<u64, ServerConnection>,
    slots: HashMap<u64, Slot>,
    streams: HashMap<u64, Vec<u8>>,
    events: BTreeMap<(i64, u64), Event>,
    scheduled: u64,
}

/// A policy with round times for the tests.
pub fn policy() -> Policy {
    Policy { idle_timeout: 5_000, connect_timeout: 400, handshake_timeout: 400, ..Policy::default() }
}

pub fn config(policy: Policy) -> Config {
    Config { policy, query_timeout: TIMEOUT, linger: TIMEOUT, most: 100, seed: 1, first: 0, step: 1 }
}

/// A query of a client of a class.
pub fn of_class(class: u8, query: Query) -> Query {
    Query { class: Some(class), ..query }
}

/// A query of a client over TCP; its name tells its number.
pub fn tcp_query(number: u64, client: u8, due: i64) -> Query {
    let mut query = query(number, due);
    let mut wire = query.wire.to_vec();
    wire[13..20].copy_from_slice(format!("q{number:06}").as_bytes());
    query.wire = wire.into();
    query.transport = Transport::Tcp;
    query.client = [192, 0, 2, client].into();
    query
}

/// The number in the name of a query or response.
pub fn number(message: &[u8]) -> u64 {
    std::str::from_utf8(&message[14..20]).unwrap().parse().unwrap()
}

/// A response behind its length.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut response = crate::test::response(message, 0);
    let id = u16::from_be_bytes([response[0], response[1]]);
    framing::append(&mut out, &response, id, 0);
    response.clear();
    out
}

/// Where all queries go.
pub fn route() -> Route {
    Route { socket: SocketKey::Own(0), source: None, server: "198.51.100.1:53".parse().unwrap() }
}

/// The reply of an honest server.
pub fn answer(message: &[u8]) -> Reply {
    Reply::Segments(vec![framed(message)])
}

/// What holds at the end of any run, with the rows of all its queries.
pub fn accounts_hold(network: &Network, rows: &[Outcome], queries: u64) {
    let mut own: Vec<u64> = rows.iter().filter(|row| row.status.is_query()).map(|row| row.index).collect();
    own.sort_unstable();
    assert_eq!(own, (0..queries).collect::<Vec<u64>>(), "each query has one row");
    let counts = network.machine.counts();
    assert_eq!((counts.taken, counts.sent + counts.not_sent), (queries, queries));
    assert_eq!(counts.sent, counts.answered + counts.timed_out + counts.failed);
    let of = network.machine.connection_counts();
    let closed = of.closed_by_client() + of.closed_by_server + of.reset;
    assert_eq!(of.opened, of.open + closed);
}

impl Network {
    pub fn new(config: Config, server: impl FnMut(u64, &[u8]) -> Vec<Reply> + 'static) -> Self {
        Self {
            machine: Connections::new(config, None),
            now: 0,
            accept: Accept::Yes,
            route: route(),
            room: usize::MAX,
            pause: 1,
            seen: Vec::new(),
            server: Box::new(server),
            raw: None,
            tls: None,
            sessions: HashMap::new(),
            written: Vec::new(),
            slots: HashMap::new(),
            streams: HashMap::new(),
            events: BTreeMap::new(),
            scheduled: 0,
        }
    }

    /// A network whose clients and server speak TLS.
    pub fn encrypted(
        policy: Policy,
        settings: &TlsSettings,
        tls: Arc<ServerConfig>,
        server: impl FnMut(u64, &[u8]) -> Vec<Reply> + 'static,
    ) -> Self {
        let machine = Connections::new(config(policy), Some(TlsClient::new(settings, ALPN_DOT).unwrap()));
        Self { machine, tls: Some(tls), ..Self::new(config(policy), server) }
    }

    /// A network whose clients speak TLS and HTTPS, and whose server takes the octets inside as they come.
    pub fn https(of: Https<'_>, raw: impl FnMut(u64, &[u8]) -> Vec<Reply> + 'static) -> Self {
        let dot = TlsClient::new(of.settings, ALPN_DOT).unwrap();
        let machine = Connections::new(of.config, Some(dot)).with_doh(Some(Doh::new(of.settings, &of.doh).unwrap()));
        Self { machine, tls: Some(of.tls), raw: Some(Box::new(raw)), ..Self::new(of.config, |_, _| vec![]) }
    }

    pub fn honest(policy: Policy) -> Self {
        Self::new(config(policy), |_, message| vec![answer(message)])
    }

    /// Sends queries when they are due and runs until nothing is left to happen but the ends of idle connections.
    pub fn replay(&mut self, queries: impl IntoIterator<Item = Query>) -> Vec<Outcome> {
        self.schedule_all(queries);
        while !self.events.is_empty() || self.machine.outstanding() > 0 {
            self.step();
        }
        let mut rows = std::mem::take(self.machine.outcomes());
        rows.sort_by_key(|row| row.index);
        rows
    }

    /// Lets queries come when they are due.
    pub fn schedule_all(&mut self, queries: impl IntoIterator<Item = Query>) {
        for query in queries {
            self.schedule(query.due.0 - self.now, Event::Query(query));
        }
    }

    /// Lets time pass, with all that happens in it.
    pub fn pass(&mut self, until: i64) {
        while self.next().is_some_and(|next| next <= until) {
            self.step();
        }
        self.now = until;
    }

    fn next(&self) -> Option<i64> {
        let event = self.events.keys().next().map(|&(at, _)| at);
        [event, self.machine.poll_timeout().map(|at| at.0)].into_iter().flatten().min()
    }

    fn step(&mut self) {
        self.now = self.next().expect("something must happen").max(self.now);
        match self.events.first_entry().filter(|entry| entry.key().0 <= self.now) {
            Some(entry) => {
                let event = entry.remove();
                self.happen(event);
            }
            None => self.machine.handle_timeout(RunTime(self.now)),
        }
        self.act();
    }

    fn schedule(&mut self, after: i64, event: Event) {
        self.scheduled += 1;
        self.events.insert((self.now + after, self.scheduled), event);
    }

    fn is_up(&self, at: Slot, number: u64) -> bool {
        self.machine.number(at) == Some(number)
    }

    fn happen(&mut self, event: Event) {
        let now = RunTime(self.now);
        match event {
            Event::Query(query) => self.machine.handle_query(now, query, self.route),
            Event::Up(at, number) if self.is_up(at, number) => self.machine.handle_opened(at, now, 4_000),
            Event::Refused(at, number) if self.is_up(at, number) => {
                self.machine.handle_failed(at, Reason::ConnectionRefused);
            }
            Event::Input(at, number, octets) if self.is_up(at, number) => self.machine.handle_input(at, now, &octets),
            Event::Ends(at, number, end) if self.is_up(at, number) => self.machine.handle_closed(at, now, end),
            Event::Writable(at, number) if self.is_up(at, number) => self.machine.handle_writable(at),
            Event::Arrives(number, octets) if self.tls.is_some() => {
                self.serve_tls(number, &octets);
                self.written.push(octets);
            }
            Event::Arrives(number, octets) => self.serve(number, &octets),
            _ => {}
        }
    }

    /// Handles records: serves their content, and sends what the session has pending.
    fn serve_tls(&mut self, number: u64, mut octets: &[u8]) {
        let config = Arc::clone(self.tls.as_ref().unwrap());
        let mut session = self.sessions.remove(&number).unwrap_or_else(|| ServerConnection::new(config).unwrap());
        session.set_buffer_limit(None);
        let mut failed = false;
        let mut content = Vec::new();
        while !octets.is_empty() && !failed {
            failed = session.read_tls(&mut octets).is_err() || session.process_new_packets().is_err();
            if let Some(mut early) = session.early_data() {
                let _ = early.read_to_end(&mut content);
            }
            // The end of what there is comes as an error.
            let _ = session.reader().read_to_end(&mut content);
        }
        self.flush(number, &mut session);
        self.sessions.insert(number, session);
        if failed {
            self.schedule(DELAY, Event::Ends(self.slots[&number], number, End::Closed));
        }
        self.serve(number, &content);
    }

    /// The server's side of a session, which it ends.
    pub fn take_session(&mut self, number: u64) -> ServerConnection {
        self.sessions.remove(&number).unwrap()
    }

    fn flush(&mut self, number: u64, session: &mut ServerConnection) {
        let mut out = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut out).unwrap();
        }
        if !out.is_empty() {
            self.schedule(DELAY, Event::Input(self.slots[&number], number, out));
        }
    }

    /// Sends octets to the client, in a record of their own where there are records.
    fn send(&mut self, number: u64, octets: Vec<u8>) {
        match self.sessions.remove(&number) {
            None => self.schedule(DELAY, Event::Input(self.slots[&number], number, octets)),
            Some(mut session) => {
                session.writer().write_all(&octets).unwrap();
                self.flush(number, &mut session);
                self.sessions.insert(number, session);
            }
        }
    }

    fn serve(&mut self, number: u64, octets: &[u8]) {
        if let Some(raw) = &mut self.raw {
            let replies = raw(number, octets);
            return self.reply(number, replies);
        }
        let mut stream = self.streams.remove(&number).unwrap_or_default();
        stream.extend_from_slice(octets);
        let mut rest = stream.as_slice();
        while let Some(message) = framing::split(&mut rest) {
            self.seen.push((number, message.to_vec()));
            let replies = (self.server)(number, message);
            self.reply(number, replies);
        }
        let rest = rest.to_vec();
        self.streams.insert(number, rest);
    }

    fn reply(&mut self, number: u64, replies: Vec<Reply>) {
        let at = self.slots[&number];
        for reply in replies {
            match reply {
                Reply::Segments(segments) => segments.into_iter().for_each(|octets| self.send(number, octets)),
                Reply::Close => self.schedule(DELAY, Event::Ends(at, number, End::Closed)),
                Reply::Reset => self.schedule(DELAY, Event::Ends(at, number, End::Reset)),
            }
        }
    }

    /// Carries out what the machine wants, as the worker does.
    fn act(&mut self) {
        let now = RunTime(self.now);
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Open(at) => {
                    let Some(number) = self.machine.number(at) else { continue };
                    assert!(self.machine.opening(at).is_some());
                    self.slots.insert(number, at);
                    self.machine.handle_opening(at, now);
                    match self.accept {
                        Accept::Yes => self.schedule(2 * DELAY, Event::Up(at, number)),
                        Accept::Refuse => self.schedule(2 * DELAY, Event::Refused(at, number)),
                        Accept::Never => {}
                    }
                }
                Action::Write(at) => self.write(at),
                Action::Close(_) | Action::Resume(_) => {}
            }
        }
    }

    fn write(&mut self, at: Slot) {
        let Some(number) = self.machine.number(at) else { return };
        let mut out = Vec::new();
        self.machine.compose(at, RunTime(self.now), &mut out);
        let taken = out.len().min(self.room);
        if taken > 0 {
            self.schedule(DELAY, Event::Arrives(number, out[..taken].to_vec()));
        }
        if taken < out.len() {
            self.machine.handle_blocked(at, RunTime(self.now), &out[taken..]);
            self.schedule(self.pause, Event::Writable(at, number));
        }
    }
}
