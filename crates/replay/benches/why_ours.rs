//! What TLS records of our own cost beside the library that could do the same: octets that an idle session holds, and processor
//! time of a query and its answer, measured in turn in one process. `docs/benchmarks/why-ours.md` has what came out.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use ldplayer_replay::internals::{TlsSession, TlsSessions};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

const CERTIFICATE: &[u8] = include_bytes!("../tests/data/server.pem");
const AUTHORITY: &[u8] = include_bytes!("../tests/data/ca.pem");
const KEY: &[u8] = include_bytes!("../tests/data/server.key");
/// Octets of a query and of its answer, behind their length.
const QUERY: [u8; 130] = [1; 130];
const ANSWER: [u8; 470] = [2; 470];
/// Queries of a round, and rounds.
const QUERIES: usize = 2_000;
const ROUNDS: usize = 31;

/// A client's side of a session.
trait Client {
    fn send(&mut self, content: &[u8], out: &mut Vec<u8>);
    fn receive(&mut self, octets: &[u8], content: &mut Vec<u8>);
    fn is_up(&self) -> bool;
}

impl Client for TlsSession {
    fn send(&mut self, content: &[u8], out: &mut Vec<u8>) {
        if !content.is_empty() {
            self.write(content).unwrap();
        }
        self.take_output(out);
    }

    fn receive(&mut self, octets: &[u8], content: &mut Vec<u8>) {
        self.read(octets, content).unwrap();
    }

    fn is_up(&self) -> bool {
        Self::is_up(self)
    }
}

impl Client for ClientConnection {
    fn send(&mut self, content: &[u8], out: &mut Vec<u8>) {
        self.writer().write_all(content).unwrap();
        while self.wants_write() {
            self.write_tls(out).unwrap();
        }
    }

    fn receive(&mut self, mut octets: &[u8], content: &mut Vec<u8>) {
        while !octets.is_empty() {
            self.read_tls(&mut octets).unwrap();
            self.process_new_packets().unwrap();
            // The end of what there is comes as an error.
            let _ = self.reader().read_to_end(content);
        }
    }

    fn is_up(&self) -> bool {
        !self.is_handshaking()
    }
}

/// A session with its server.
struct Pair<C> {
    client: C,
    server: ServerConnection,
    /// Octets that the client holds.
    held: i64,
}

fn server_config() -> Arc<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    Arc::new(builder.with_single_cert(vec![certificate], key).unwrap())
}

fn client_config() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let mut config = builder.with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    Arc::new(config)
}

impl<C: Client> Pair<C> {
    fn new(server: &Arc<ServerConfig>, start: impl FnOnce() -> C) -> Self {
        let mut started = None;
        let mut held = measure(|| started = Some(start())).bytes_current;
        let mut client = started.unwrap();
        let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
        let (mut there, mut back, mut content) = (Vec::with_capacity(1 << 16), Vec::new(), Vec::with_capacity(1 << 16));
        while !client.is_up() || server.is_handshaking() {
            there.clear();
            held += measure(|| client.send(&[], &mut there)).bytes_current;
            serve(&mut server, &there);
            back.clear();
            while server.wants_write() {
                server.write_tls(&mut back).unwrap();
            }
            held += measure(|| client.receive(&back, &mut content)).bytes_current;
        }
        there.clear();
        held += measure(|| client.send(&[], &mut there)).bytes_current;
        serve(&mut server, &there);
        let mut pair = Self { client, server, held };
        pair.ask(1);
        pair
    }

    /// The time that the client takes to ask so many queries and to read their answers.
    fn ask(&mut self, queries: usize) -> Duration {
        let (mut there, mut back, mut content) = (Vec::with_capacity(1 << 20), Vec::new(), Vec::with_capacity(1 << 16));
        let mut took = Duration::ZERO;
        for _ in 0..queries {
            there.clear();
            let begun = Instant::now();
            self.held += measure_if(queries == 1, || self.client.send(&QUERY, &mut there));
            took += begun.elapsed();
            serve(&mut self.server, &there);
            self.server.writer().write_all(&ANSWER).unwrap();
            back.clear();
            while self.server.wants_write() {
                self.server.write_tls(&mut back).unwrap();
            }
            content.clear();
            let begun = Instant::now();
            self.held += measure_if(queries == 1, || self.client.receive(&back, &mut content));
            took += begun.elapsed();
            assert_eq!(content.len(), ANSWER.len());
        }
        took
    }
}

fn measure_if(is_measured: bool, act: impl FnOnce()) -> i64 {
    if is_measured {
        return measure(act).bytes_current;
    }
    act();
    0
}

fn serve(server: &mut ServerConnection, mut octets: &[u8]) {
    while !octets.is_empty() {
        server.read_tls(&mut octets).unwrap();
        server.process_new_packets().unwrap();
        // The end of what there is comes as an error.
        let _ = server.reader().read_to_end(&mut Vec::new());
    }
}

fn main() {
    let (server, client, sessions) = (server_config(), client_config(), TlsSessions::new().unwrap());
    let with_ours = || Pair::new(&server, || sessions.start().unwrap());
    let name = || ServerName::try_from("dns.test").unwrap();
    let with_library = || Pair::new(&server, || ClientConnection::new(Arc::clone(&client), name()).unwrap());
    let (mut ours, mut library) = (with_ours(), with_library());
    // A second of each, so that what the first one makes for all is not in it.
    println!("TLS 1.3, octets held by an idle session: ours {}, rustls {}", with_ours().held, with_library().held);
    let mut ratios: Vec<f64> = Vec::new();
    let mut times = [Duration::ZERO; 2];
    for _ in 0..ROUNDS {
        let (own, other) = (ours.ask(QUERIES), library.ask(QUERIES));
        ratios.push(own.as_secs_f64() / other.as_secs_f64());
        times = [times[0] + own, times[1] + other];
    }
    ratios.sort_by(f64::total_cmp);
    let of = |time: Duration| time.as_nanos() as usize / ROUNDS / QUERIES;
    println!("TLS 1.3, a query and its answer: ours {} ns, rustls {} ns", of(times[0]), of(times[1]));
    let [low, middle, high] = [1, ROUNDS / 2, ROUNDS - 2].map(|place| ratios[place]);
    println!("  ours / rustls in {ROUNDS} rounds in turn: {middle:.3} [{low:.3}-{high:.3}]");
}
