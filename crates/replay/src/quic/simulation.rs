//! A network and a QUIC server for the tests of the machine: a clock that only they move, datagrams that are delayed, lost
//! and reordered as told.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use ldplayer_core::{Outcome, Query, RunTime, Status, Transport};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, HashedConnectionIdGenerator,
    Incoming, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{ALPN_DOQ, Doh3, Quic, QuicTls, http3};
use crate::connections::{TlsSettings, TlsTrust};
use crate::doh::DohSettings;
use crate::route::{Route, SocketKey};
use crate::table::{Config, Machine, Policy};
use crate::test::query;
use crate::udp::Arrival;

/// A millisecond.
pub const MS: i64 = 1_000_000;
/// One way through the network.
pub const DELAY: i64 = 10 * MS;
/// Query timeout, and linger time, of the tests.
pub const TIMEOUT: i64 = 5_000 * MS;
/// Where the machine's time begins for the server.
const LEAD: i64 = 1_000 * MS;

/// What the server does when it is asked for a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    Yes,
    Retry,
    Never,
    Refuse,
    /// Nobody listens: the network sends the datagrams back.
    Closed,
}

/// What the server does upon a message.
#[derive(Clone)]
pub enum Reply {
    /// These octets, and the end of the stream.
    Whole(Vec<u8>),
    /// These octets, and nothing more for now.
    Part(Vec<u8>),
    /// As many of these octets as the client takes without reading.
    Flood(Vec<u8>),
    ResetStream(u32),
    /// These octets on a stream of the server's own.
    Control(Vec<u8>),
    /// The same, and the end of that stream.
    ControlEnds(Vec<u8>),
    /// The end of the connection, with this code.
    Close(u32),
}

enum Happening {
    Query(Query),
    ToServer(Vec<u8>),
    ToClient(Vec<u8>),
}

type Behaviour = Box<dyn FnMut(u64, &[u8]) -> Vec<Reply>>;

/// A server's side of a connection.
struct Session {
    number: u64,
    connection: Connection,
    streams: HashMap<StreamId, Vec<u8>>,
}

/// What the network does to datagrams.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// Of 100, so many are lost …
    pub lost: u64,
    /// … and each is delayed by up to so much more, so that they overtake each other.
    pub jitter: i64,
}

/// The machine, a server, and the datagrams in flight between them.
pub struct Network {
    pub machine: Quic,
    pub now: i64,
    pub accept: Accept,
    pub faults: Faults,
    /// The server that is there, and that the queries go to.
    pub address: SocketAddr,
    /// Every message that reached the server, with its connection.
    pub seen: Vec<(u64, Vec<u8>)>,
    /// Datagrams that reached the server.
    pub datagrams: u64,
    /// What came on the streams that clients opened for themselves.
    pub control: Vec<u8>,
    /// The codes with which clients said that they want no more of an answer.
    pub stopped: Vec<u64>,
    server: Behaviour,
    is_http3: bool,
    origin: Instant,
    endpoint: Endpoint,
    keys: Arc<EndpointConfig>,
    /// In the order of their handles, so that each run of a test draws the same numbers for the same datagrams.
    sessions: BTreeMap<ConnectionHandle, Session>,
    accepted: u64,
    random: u64,
    events: BTreeMap<(i64, u64), Happening>,
    scheduled: u64,
}

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A policy for the tests.
pub fn policy() -> Policy {
    Policy {
        idle_timeout: 20_000 * MS,
        connect_timeout: 4_000 * MS,
        handshake_timeout: 4_000 * MS,
        ..Policy::default()
    }
}

pub fn settings() -> TlsSettings {
    let trust = TlsTrust::from_file(&data("ca.pem")).unwrap();
    TlsSettings { trust, name: None, resumption: true }
}

/// The configuration of a server with a certificate: streams at once for each client, early data taken or not.
pub fn server(certificate: &str, alpn: &[u8], streams: u32, early_data: bool) -> ServerConfig {
    let certificate = CertificateDer::from_pem_file(data(certificate)).unwrap();
    let key = PrivateKeyDer::from_pem_file(data("server.key")).unwrap();
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    tls.alpn_protocols = vec![alpn.to_vec()];
    tls.max_early_data_size = if early_data { u32::MAX } else { 0 };
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(streams.into()).max_idle_timeout(Some(VarInt::from_u32(30_000).into()));
    config.transport_config(Arc::new(transport));
    config
}

/// The usual one.
pub fn usual() -> ServerConfig {
    server("server.pem", ALPN_DOQ, 100, false)
}

pub fn config(policy: Policy) -> Config {
    Config { policy, query_timeout: TIMEOUT, linger: TIMEOUT, most: 100, seed: 1, first: 0, step: 1 }
}

/// A query of a client over DNS over QUIC; its name tells its number.
pub fn doq_query(number: u64, client: u8, due: i64) -> Query {
    let mut query = query(number, due * MS);
    let mut wire = query.wire.to_vec();
    wire[13..20].copy_from_slice(format!("q{number:06}").as_bytes());
    query.wire = wire.into();
    query.transport = Transport::Doq;
    query.client = [192, 0, 2, client].into();
    query
}

/// A response behind its length.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let response = crate::test::response(message, 0);
    [&(response.len() as u16).to_be_bytes(), response.as_slice()].concat()
}

/// The reply of an honest server.
pub fn answer(message: &[u8]) -> Vec<Reply> {
    vec![Reply::Whole(framed(message))]
}

/// The body of a request.
fn body(mut octets: &[u8]) -> Vec<u8> {
    let frames = std::iter::from_fn(|| http3::take_frame(&mut octets));
    frames.filter(|(kind, _)| *kind == 0).flat_map(|(_, content)| content.to_vec()).collect()
}

pub const SERVER: &str = "198.51.100.1:853";

/// A machine that draws the same numbers in each run: which packet numbers it leaves out decides which datagrams are lost.
fn machine(policy: Policy, origin: Instant, doq: Option<QuicTls>, doh3: Option<Doh3>) -> Quic {
    let mut machine = Quic::new(config(policy), origin, doq, doh3);
    let mut seeded = EndpointConfig::default();
    seeded.rng_seed(Some([1; 32]));
    machine.endpoint = Endpoint::new(Arc::new(seeded), None, false, None);
    machine
}

fn client() -> SocketAddr {
    "192.0.2.1:4000".parse().unwrap()
}

impl Network {
    pub fn new(
        policy: Policy,
        settings: &TlsSettings,
        config: ServerConfig,
        server: impl FnMut(u64, &[u8]) -> Vec<Reply> + 'static,
    ) -> Self {
        let origin = Instant::now();
        let tls = QuicTls::new(settings, ALPN_DOQ, 0, policy.early_data).unwrap();
        let mut keys = EndpointConfig::default();
        keys.cid_generator(|| Box::new(HashedConnectionIdGenerator::from_key(7)));
        keys.rng_seed(Some([7; 32]));
        let keys = Arc::new(keys);
        Self {
            machine: machine(policy, origin, Some(tls), None),
            now: 0,
            accept: Accept::Yes,
            faults: Faults::default(),
            address: SERVER.parse().unwrap(),
            seen: Vec::new(),
            datagrams: 0,
            control: Vec::new(),
            stopped: Vec::new(),
            server: Box::new(server),
            is_http3: false,
            origin,
            endpoint: Endpoint::new(Arc::clone(&keys), Some(Arc::new(config)), false, None),
            keys,
            sessions: BTreeMap::new(),
            accepted: 0,
            random: 7,
            events: BTreeMap::new(),
            scheduled: 0,
        }
    }

    /// A network whose clients speak HTTP/3.
    pub fn http3(policy: Policy, config: ServerConfig, server: impl FnMut(u64, &[u8]) -> Vec<Reply> + 'static) -> Self {
        let network = Self::new(policy, &settings(), config, server);
        let doh3 = Doh3::new(&settings(), &DohSettings::default(), policy.early_data).unwrap();
        let machine = machine(policy, network.origin, None, Some(doh3));
        Self { machine, is_http3: true, ..network }
    }

    pub fn honest(policy: Policy) -> Self {
        Self::new(policy, &settings(), usual(), |_, message| answer(message))
    }

    /// The server restarts: it has forgotten its connections but still has the key for stateless resets.
    pub fn restart(&mut self, config: ServerConfig) {
        self.sessions.clear();
        self.endpoint = Endpoint::new(Arc::clone(&self.keys), Some(Arc::new(config)), false, None);
    }

    /// Another server configuration for connections to come.
    pub fn reconfigure(&mut self, config: ServerConfig) {
        self.endpoint.set_server_config(Some(Arc::new(config)));
    }

    /// Lets a query come now.
    pub fn ask(&mut self, query: Query) {
        self.schedule(0, Happening::Query(query));
    }

    /// Octets that come to the client from somewhere.
    pub fn inject(&mut self, octets: Vec<u8>) {
        self.schedule(0, Happening::ToClient(octets));
    }

    /// Sends queries when they are due and runs until each has its end. The accounts must add up.
    pub fn replay(&mut self, queries: impl IntoIterator<Item = Query>) -> Vec<Outcome> {
        for query in queries {
            self.schedule(query.due.0 - self.now, Happening::Query(query));
        }
        while self.machine.outstanding() > 0 || self.events.values().any(|event| matches!(event, Happening::Query(_))) {
            self.step();
        }
        self.check_accounts();
        let mut rows = std::mem::take(self.machine.outcomes());
        rows.sort_by_key(|row| row.index);
        rows
    }

    /// Lets time pass, with all that happens in it.
    pub fn pass(&mut self, time: i64) {
        let until = self.now + time;
        while self.next().is_some_and(|next| next <= until) {
            self.step();
        }
        self.now = until;
        self.check_accounts();
    }

    fn check_accounts(&mut self) {
        let (counts, outstanding) = (*self.machine.counts(), self.machine.outstanding() as u64);
        assert_eq!(counts.sent, counts.answered + counts.timed_out + counts.failed + outstanding, "{counts:?}");
        assert_eq!(counts.taken, counts.sent + counts.not_sent);
        let it = self.machine.connection_counts();
        let closed = it.closed_by_client() + it.closed_by_server + it.reset;
        assert_eq!(it.opened, it.open + closed, "{it:?}");
        assert!(self.machine.outcomes().iter().all(|row| row.status == Status::NotSent || row.submitted.is_some()));
    }

    fn next(&mut self) -> Option<i64> {
        let event = self.events.keys().next().map(|&(at, _)| at);
        let server = self.sessions.values_mut().filter_map(|session| session.connection.poll_timeout()).min();
        let server = server.map(|at| (at - self.origin).as_nanos() as i64 - LEAD);
        let machine = self.machine.poll_timeout().map(|at| at.0);
        [event, server, machine].into_iter().flatten().min()
    }

    fn step(&mut self) {
        self.now = self.next().expect("something must happen").max(self.now);
        match self.events.first_entry().filter(|entry| entry.key().0 <= self.now) {
            Some(entry) => match entry.remove() {
                Happening::Query(query) => {
                    let route = Route { socket: SocketKey::Own(0), source: None, server: self.address };
                    self.machine.handle_query(RunTime(self.now), query, route);
                }
                Happening::ToServer(octets) => self.serve(&octets),
                Happening::ToClient(octets) => {
                    let (peer, at) = (self.address, RunTime(self.now));
                    let arrival = Arrival { socket: SocketKey::Own(0), peer, local: None, at, octets: &octets };
                    self.machine.handle_datagram(&arrival);
                }
            },
            None => {
                self.machine.handle_timeout(RunTime(self.now));
                let now = self.instant();
                self.sessions.values_mut().for_each(|session| session.connection.handle_timeout(now));
                self.attend();
            }
        }
        self.transmit();
    }

    fn instant(&self) -> Instant {
        self.origin + Duration::from_nanos((self.now + LEAD) as u64)
    }

    fn schedule(&mut self, after: i64, event: Happening) {
        self.scheduled += 1;
        self.events.insert((self.now + after, self.scheduled), event);
    }

    /// A number below `below`.
    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// Sends a datagram through the network, with its faults.
    fn carry(&mut self, event: Happening) {
        if self.draw(100) >= self.faults.lost {
            let jitter = self.faults.jitter.max(1) as u64;
            let after = DELAY + self.draw(jitter) as i64;
            self.schedule(after, event);
        }
    }

    /// Sends what the machine wants to send, as the worker does.
    fn transmit(&mut self) {
        let now = RunTime(self.now);
        while let Some(outgoing) = self.machine.poll_transmit(now) {
            assert_eq!(outgoing.server, self.address);
            let octets = outgoing.octets.clone();
            self.machine.handle_sent(outgoing, now, 4_000);
            if self.accept == Accept::Closed {
                self.machine.handle_refused(&octets);
            } else {
                self.carry(Happening::ToServer(octets));
            }
        }
    }

    fn serve(&mut self, octets: &[u8]) {
        self.datagrams += 1;
        let mut response = Vec::new();
        let event = self.endpoint.handle(self.instant(), client(), None, None, BytesMut::from(octets), &mut response);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(session) = self.sessions.get_mut(&handle) {
                    session.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(_)) => self.carry(Happening::ToClient(response)),
            None => {}
        }
        self.attend();
    }

    fn accept(&mut self, incoming: Incoming) {
        let mut response = Vec::new();
        let now = self.instant();
        match self.accept {
            Accept::Retry if !incoming.remote_address_validated() => {
                drop(self.endpoint.retry(incoming, &mut response).unwrap());
            }
            Accept::Yes | Accept::Retry => {
                // A connection that is never established is a failed handshake, which the client reports.
                if let Ok((handle, connection)) = self.endpoint.accept(incoming, now, &mut response, None) {
                    let session = Session { number: self.accepted, connection, streams: HashMap::new() };
                    self.accepted += 1;
                    self.sessions.insert(handle, session);
                }
            }
            Accept::Refuse => drop(self.endpoint.refuse(incoming, &mut response)),
            Accept::Never | Accept::Closed => self.endpoint.ignore(incoming),
        }
        if !response.is_empty() {
            self.carry(Happening::ToClient(response));
        }
    }

    /// Handles the timers and events of all sessions.
    fn attend(&mut self) {
        let now = self.instant();
        let mut sessions = std::mem::take(&mut self.sessions);
        let mut out = Vec::new();
        for (&handle, session) in &mut sessions {
            loop {
                while let Some(event) = session.connection.poll_endpoint_events() {
                    if let Some(event) = self.endpoint.handle_event(handle, event) {
                        session.connection.handle_event(event);
                    }
                }
                let Some(event) = session.connection.poll() else { break };
                match event {
                    Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                        while let Some(id) = session.connection.streams().accept(Dir::Bi) {
                            self.read(session, id);
                        }
                    }
                    Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                        while let Some(id) = session.connection.streams().accept(Dir::Uni) {
                            self.read_control(session, id);
                        }
                    }
                    Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Uni => {
                        self.read_control(session, id);
                    }
                    Event::Stream(StreamEvent::Readable { id }) => self.read(session, id),
                    Event::Stream(StreamEvent::Stopped { error_code, .. }) => {
                        self.stopped.push(error_code.into_inner());
                    }
                    _ => {}
                }
            }
            let mut octets = Vec::new();
            while session.connection.poll_transmit(now, 1, &mut octets).is_some() {
                out.push(std::mem::take(&mut octets));
            }
        }
        sessions.retain(|_, session| !session.connection.is_drained());
        self.sessions = sessions;
        out.into_iter().for_each(|octets| self.carry(Happening::ToClient(octets)));
    }

    fn read_control(&mut self, session: &mut Session, id: StreamId) {
        let mut stream = session.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            self.control.extend_from_slice(&chunk.bytes);
        }
        let _ = chunks.finalize();
    }

    fn read(&mut self, session: &mut Session, id: StreamId) {
        let content = session.streams.entry(id).or_default();
        let mut stream = session.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let is_whole = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => content.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        let _ = chunks.finalize();
        if !is_whole {
            return;
        }
        let content = session.streams.remove(&id).unwrap();
        let message = if self.is_http3 { body(&content) } else { content[2..].to_vec() };
        if !self.is_http3 {
            assert_eq!(usize::from(u16::from_be_bytes([content[0], content[1]])), message.len());
        }
        self.seen.push((session.number, message.clone()));
        for reply in (self.server)(session.number, &message) {
            self.reply(session, id, reply);
        }
    }

    fn reply(&mut self, session: &mut Session, id: StreamId, reply: Reply) {
        let now = self.instant();
        let mut stream = session.connection.send_stream(id);
        match reply {
            Reply::Whole(octets) => {
                assert_eq!(stream.write(&octets).unwrap(), octets.len());
                stream.finish().unwrap();
            }
            Reply::Part(octets) => assert_eq!(stream.write(&octets).unwrap(), octets.len()),
            Reply::Flood(octets) => assert!(stream.write(&octets).unwrap() > 0),
            Reply::ResetStream(code) => stream.reset(VarInt::from_u32(code)).unwrap(),
            Reply::Control(octets) => {
                let id = session.connection.streams().open(Dir::Uni).unwrap();
                assert_eq!(session.connection.send_stream(id).write(&octets).unwrap(), octets.len());
            }
            Reply::ControlEnds(octets) => {
                let id = session.connection.streams().open(Dir::Uni).unwrap();
                let mut stream = session.connection.send_stream(id);
                assert!(octets.is_empty() || stream.write(&octets).unwrap() == octets.len());
                stream.finish().unwrap();
            }
            Reply::Close(code) => session.connection.close(now, VarInt::from_u32(code), Bytes::new()),
        }
    }
}
