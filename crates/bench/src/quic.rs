//! A responder that echoes every query over QUIC, on as many connections as memory allows.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use ldplayer_net::poll::Poll;
use ldplayer_net::udp::{BATCH, Datagram, ReceiveBatch, SendBatch, UdpOptions, UdpSocket};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, Incoming, ServerConfig,
    StreamEvent, StreamId, TransportConfig, VarInt,
};

use crate::responder::{BUFFER, LOOK, Responder};
use crate::stream::{mark, server_config};

/// Batches taken from the kernel before timers are looked at.
const BATCHES: usize = 4;

/// Options of `echo-quic`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    responder: Responder,
    /// The certificate, a PEM file …
    #[arg(long)]
    certificate: PathBuf,
    /// … and its key
    #[arg(long)]
    key: PathBuf,
}

/// Answers until `end` is set.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.responder.pin()?;
    let options = UdpOptions { bind: args.responder.listen, buffer: BUFFER, freebind: false, packet_info: false };
    let socket = UdpSocket::open(&options)?;
    // A client that is gone refuses its answers; what is kept of that would keep the socket ready for ever.
    socket.ignore_refusals()?;
    let mut poll = Poll::new()?;
    poll.add(&socket, 0)?;
    let mut server = Server::new(&args.certificate, &args.key)?;
    println!("listening on {}", socket.local());
    let term = args.responder.begin()?;
    let (mut receive, mut send) = (ReceiveBatch::new(), SendBatch::new());
    while !term.is_over() {
        let arrived = poll.wait(server.wait(Instant::now()))?.count() > 0;
        for _ in 0..if arrived { BATCHES } else { 0 } {
            let count = receive.receive(&socket, BATCH)?;
            let now = Instant::now();
            for datagram in receive.iter() {
                if let Some(peer) = datagram.peer {
                    server.take(now, peer, datagram.octets);
                }
            }
            server.attend(now);
            server.send(&socket, &mut send);
            if count < BATCH {
                break;
            }
        }
        server.handle_timeouts(Instant::now());
        server.send(&socket, &mut send);
    }
    Ok(())
}

/// One connection, and when it wants to be woken.
struct Session {
    connection: Connection,
    timer: Option<Instant>,
    /// Queries of which a part has come.
    streams: HashMap<StreamId, Vec<u8>>,
}

/// The connections of all clients.
struct Server {
    endpoint: Endpoint,
    sessions: HashMap<ConnectionHandle, Session>,
    timers: BTreeSet<(Instant, usize)>,
    /// Those that something has happened to.
    called: HashSet<ConnectionHandle>,
    out: Vec<(SocketAddr, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

impl Server {
    fn new(certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        let mut tls = server_config(certificate, key, b"doq")?;
        tls.max_early_data_size = u32::MAX;
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
        let mut transport = TransportConfig::default();
        transport.max_concurrent_bidi_streams(1_000_u32.into());
        transport.max_idle_timeout(Some(VarInt::from_u32(3_600_000).into()));
        config.transport_config(Arc::new(transport));
        Ok(Self {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(config)), false, None),
            sessions: HashMap::new(),
            timers: BTreeSet::new(),
            called: HashSet::new(),
            out: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// How long to wait for datagrams until a timer ends, in nanoseconds.
    fn wait(&self, now: Instant) -> i64 {
        let first = self.timers.first().map(|&(at, _)| at.saturating_duration_since(now));
        first.map_or(LOOK, |left| left.min(Duration::from_nanos(LOOK as u64)).as_nanos() as i64)
    }

    fn take(&mut self, now: Instant, peer: SocketAddr, octets: &[u8]) {
        let mut response = Vec::new();
        match self.endpoint.handle(now, peer, None, None, BytesMut::from(octets), &mut response) {
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(session) = self.sessions.get_mut(&handle) {
                    session.connection.handle_event(event);
                    self.called.insert(handle);
                }
            }
            Some(DatagramEvent::Response(_)) => self.out.push((peer, response)),
            None => {}
        }
    }

    fn accept(&mut self, now: Instant, incoming: Incoming) {
        let (peer, mut response) = (incoming.remote_address(), Vec::new());
        // One that comes to nothing is a failed handshake, of which the client is told.
        if let Ok((handle, connection)) = self.endpoint.accept(incoming, now, &mut response, None) {
            self.sessions.insert(handle, Session { connection, timer: None, streams: HashMap::new() });
            self.called.insert(handle);
        }
        if !response.is_empty() {
            self.out.push((peer, response));
        }
    }

    fn handle_timeouts(&mut self, now: Instant) {
        while let Some((_, number)) = self.timers.pop_first_if(now) {
            let handle = ConnectionHandle(number);
            if let Some(session) = self.sessions.get_mut(&handle) {
                session.timer = None;
                session.connection.handle_timeout(now);
                self.called.insert(handle);
            }
        }
        self.attend(now);
    }

    /// Handles the events of the sessions that were called.
    fn attend(&mut self, now: Instant) {
        for handle in std::mem::take(&mut self.called) {
            let Some(session) = self.sessions.get_mut(&handle) else { continue };
            session.serve(handle, &mut self.endpoint);
            let mut octets = self.spare.pop().unwrap_or_default();
            while let Some(transmit) = session.connection.poll_transmit(now, 1, &mut octets) {
                self.out.push((transmit.destination, octets));
                octets = self.spare.pop().unwrap_or_default();
            }
            self.spare.push(octets);
            let wanted = session.connection.poll_timeout();
            if wanted != session.timer {
                session.timer.take().map(|at| self.timers.remove(&(at, handle.0)));
                self.timers.extend(wanted.map(|at| (at, handle.0)));
                session.timer = wanted;
            }
            if session.connection.is_drained() {
                session.timer.map(|at| self.timers.remove(&(at, handle.0)));
                self.sessions.remove(&handle);
            }
        }
    }

    /// Sends all datagrams; those that the kernel refuses are lost, as on any network.
    fn send(&mut self, socket: &UdpSocket, batch: &mut SendBatch) {
        let mut done = 0;
        while done < self.out.len() {
            let datagrams = self.out[done..].iter().take(BATCH).map(|(peer, octets)| Datagram {
                head: [octets[0], octets[1]],
                tail: &octets[2..],
                source: None,
                peer: Some(*peer),
            });
            done += batch.send(socket, datagrams).unwrap_or(1).max(1);
        }
        self.spare.extend(self.out.drain(..).map(|(_, mut octets)| {
            octets.clear();
            octets
        }));
    }
}

/// Timers that have ended come off first.
trait Due {
    fn pop_first_if(&mut self, now: Instant) -> Option<(Instant, usize)>;
}

impl Due for BTreeSet<(Instant, usize)> {
    fn pop_first_if(&mut self, now: Instant) -> Option<(Instant, usize)> {
        self.first().is_some_and(|&(at, _)| at <= now).then(|| self.pop_first()).flatten()
    }
}

impl Session {
    fn serve(&mut self, handle: ConnectionHandle, endpoint: &mut Endpoint) {
        loop {
            while let Some(event) = self.connection.poll_endpoint_events() {
                if let Some(event) = endpoint.handle_event(handle, event) {
                    self.connection.handle_event(event);
                }
            }
            match self.connection.poll() {
                Some(Event::Stream(StreamEvent::Opened { dir: Dir::Bi })) => {
                    while let Some(id) = self.connection.streams().accept(Dir::Bi) {
                        self.answer(id);
                    }
                }
                Some(Event::Stream(StreamEvent::Readable { id })) => self.answer(id),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Answers the query on a stream once it is there as a whole.
    fn answer(&mut self, id: StreamId) {
        let mut content = self.streams.remove(&id).unwrap_or_default();
        let mut stream = self.connection.recv_stream(id);
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
            self.streams.insert(id, content);
            return;
        }
        let whole = mark(&mut content);
        let mut stream = self.connection.send_stream(id);
        // A client that has gone wants no answer; one query fits the window of a stream.
        if stream.write(&content[..whole]).is_ok() {
            let _ = stream.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use quinn_proto::crypto::rustls::QuicClientConfig;
    use quinn_proto::{ClientConfig, ReadError};
    use rustls::RootCertStore;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    fn data(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/data").join(name)
    }

    fn client_config() -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(data("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"doq".to_vec()];
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()))
    }

    /// A client, and the server beside it.
    struct Pair {
        endpoint: Endpoint,
        connection: Connection,
        server: Server,
    }

    impl Pair {
        fn new() -> Self {
            let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
            let to = ("198.51.100.1:853".parse().unwrap(), "198.51.100.1");
            let (_, connection) = endpoint.connect(Instant::now(), client_config(), to.0, to.1).unwrap();
            Self { endpoint, connection, server: Server::new(&data("server.pem"), &data("server.key")).unwrap() }
        }

        /// Carries datagrams both ways until neither side has one.
        fn settle(&mut self) {
            let (now, peer) = (Instant::now(), "192.0.2.1:4000".parse().unwrap());
            let from = "198.51.100.1:853".parse().unwrap();
            loop {
                let mut octets = Vec::new();
                while self.connection.poll_transmit(now, 1, &mut octets).is_some() {
                    self.server.take(now, peer, &std::mem::take(&mut octets));
                }
                self.server.attend(now);
                if self.server.out.is_empty() {
                    return;
                }
                for (_, octets) in self.server.out.drain(..) {
                    let octets = BytesMut::from(octets.as_slice());
                    if let Some(DatagramEvent::ConnectionEvent(_, event)) =
                        self.endpoint.handle(now, from, None, None, octets, &mut Vec::new())
                    {
                        self.connection.handle_event(event);
                    }
                }
                while self.connection.poll().is_some() {}
                while self.connection.poll_endpoint_events().is_some() {}
            }
        }

        /// What comes back on a stream, until it ends.
        fn read(&mut self, id: StreamId) -> Result<Vec<u8>, ReadError> {
            let mut content = Vec::new();
            let mut stream = self.connection.recv_stream(id);
            let mut chunks = stream.read(true).unwrap();
            while let Some(chunk) = chunks.next(usize::MAX)? {
                content.extend_from_slice(&chunk.bytes);
            }
            Ok(content)
        }
    }

    #[test]
    fn a_query_comes_back_as_its_answer_once_it_is_whole() {
        let mut pair = Pair::new();
        pair.settle();
        for _ in 0..3 {
            let id = pair.connection.streams().open(Dir::Bi).unwrap();
            let query = [&[0, 14][..], &[0; 14]].concat();
            pair.connection.send_stream(id).write(&query[..7]).unwrap();
            pair.settle();
            assert!(pair.read(id).is_err());
            pair.connection.send_stream(id).write(&query[7..]).unwrap();
            pair.connection.send_stream(id).finish().unwrap();
            pair.settle();
            let mut answer = query.clone();
            answer[4] |= 0x80;
            assert_eq!(pair.read(id).unwrap(), answer);
        }
        assert!(pair.server.sessions.values().all(|session| session.streams.is_empty()));
        assert_eq!((pair.server.sessions.len(), pair.server.timers.len()), (1, 1));
    }

    /// Its timers are all that is left of it, and quiet down until the connection is given up.
    #[test]
    fn a_client_that_goes_without_reading_costs_few_turns() {
        let mut pair = Pair::new();
        pair.settle();
        for _ in 0..20 {
            let id = pair.connection.streams().open(Dir::Bi).unwrap();
            pair.connection.send_stream(id).write(&[&[0, 14][..], &[0; 14]].concat()).unwrap();
            pair.connection.send_stream(id).finish().unwrap();
        }
        let (mut now, mut octets) = (Instant::now(), Vec::new());
        while pair.connection.poll_transmit(now, 1, &mut octets).is_some() {
            pair.server.take(now, "192.0.2.1:4000".parse().unwrap(), &std::mem::take(&mut octets));
        }
        pair.server.attend(now);
        let mut turns = 0;
        while let Some(&(at, _)) = pair.server.timers.first() {
            now = now.max(at);
            pair.server.handle_timeouts(now);
            pair.server.out.clear();
            turns += 1;
            assert!(turns < 200, "no end after {:?}", now.duration_since(at));
        }
        assert!(pair.server.sessions.is_empty());
    }
}
