//! A responder that echoes every query over TCP, on as many connections as descriptors allow.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ldplayer_core::time::Span;
use ldplayer_net::poll::{Poll, Ready};
use ldplayer_net::{limits, tcp};
use rustls::{ServerConfig, ServerConnection};

use crate::responder::{LOOK, Responder};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 65_535;
/// The listener's number in the poll.
const LISTENER: u64 = u64::MAX;
/// Octets read at once.
const INPUT: usize = 64 << 10;
/// Connections accepted at once, so that those which are open are not kept waiting.
const ACCEPTED: usize = 64;
/// Octets of answers after which a TLS session writes before it reads on: less than rustls keeps at most.
const UNSENT: usize = 16 << 10;

/// Options of `echo-tcp`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    responder: Responder,
    /// Speak TLS, with the certificate in this PEM file …
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// … and its key in this one
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
    /// Sleep this long between looks for queries, and be woken by none: hundreds of responders on a core then handle several at a time
    #[arg(long)]
    nap: Option<Span>,
}

/// One connection.
struct Link {
    stream: TcpStream,
    tls: Option<Box<ServerConnection>>,
    /// The beginning of a query; empty as a rule, and then without memory.
    input: Vec<u8>,
    /// What the kernel had no room for.
    output: Vec<u8>,
    /// The client has ended its side.
    hung_up: bool,
}

/// Answers until `end` is set.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.responder.pin()?;
    let _ = limits::raise_nofile()?;
    let mut echo = Echo::open(args)?;
    println!("listening on {}", echo.listener.local_addr()?);
    let term = args.responder.begin()?;
    while !term.is_over() {
        match &args.nap {
            None => drop(echo.turn(LOOK)?),
            Some(nap) => {
                while echo.turn(0)? {}
                std::thread::sleep(Duration::from_nanos(nap.ns().unsigned_abs()));
            }
        }
    }
    Ok(())
}

/// The responder and its connections.
struct Echo {
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    poll: Poll,
    links: Vec<Option<Link>>,
    free: Vec<usize>,
    ready: Vec<Ready>,
    buffer: Vec<u8>,
}

impl Echo {
    fn open(args: &Args) -> anyhow::Result<Self> {
        let tls = match (&args.certificate, &args.key) {
            (Some(certificate), Some(key)) => Some(Arc::new(server_config(certificate, key, b"dot")?)),
            _ => None,
        };
        let listener = tcp::listen(args.responder.listen, BACKLOG)?;
        let poll = Poll::new()?;
        poll.add(&listener, LISTENER)?;
        let (links, free, ready, buffer) = (Vec::new(), Vec::new(), Vec::new(), vec![0; INPUT]);
        Ok(Self { listener, tls, poll, links, free, ready, buffer })
    }

    /// Waits for what happens, no longer than `longest`, and sees to it; whether anything did.
    fn turn(&mut self, longest: i64) -> anyhow::Result<bool> {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        ready.extend(self.poll.wait(longest)?);
        ready.iter().for_each(|ready| self.handle_ready(*ready));
        self.ready = ready;
        Ok(!self.ready.is_empty())
    }

    fn handle_ready(&mut self, ready: Ready) {
        if ready.token == LISTENER {
            return self.accept();
        }
        let place = ready.token as usize;
        let Some(link) = &mut self.links[place] else { return };
        link.hung_up |= ready.hung_up;
        if !link.is_served(&mut self.buffer) {
            self.links[place] = None;
            self.free.push(place);
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED {
            // Nothing more waits, or there is no descriptor: the client sees its connection wait.
            let Ok((stream, _)) = self.listener.accept() else { return };
            let place = self.free.pop().unwrap_or_else(|| {
                self.links.push(None);
                self.links.len() - 1
            });
            let tls = self.tls.as_ref().and_then(|config| ServerConnection::new(Arc::clone(config)).ok()).map(Box::new);
            if stream.set_nonblocking(true).is_ok() && self.poll.add_edge(&stream, place as u64).is_ok() {
                self.links[place] = Some(Link { stream, tls, input: Vec::new(), output: Vec::new(), hung_up: false });
            } else {
                self.free.push(place);
            }
        }
    }
}

/// How a server speaks TLS that has this certificate and chooses this protocol.
pub fn server_config(certificate: &Path, key: &Path, protocol: &[u8]) -> anyhow::Result<ServerConfig> {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.ticketer = rustls::crypto::ring::Ticketer::new()?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

impl Link {
    /// Answers all that has come, as far as the client takes answers; whether the connection goes on.
    fn is_served(&mut self, buffer: &mut [u8]) -> bool {
        match self.tls.is_some() {
            true => self.serve_tls(buffer).unwrap_or(false),
            false => self.serve_plain(buffer).unwrap_or(false),
        }
    }

    fn serve_plain(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        loop {
            // Until it has room, nothing more is read, and the kernel tells when it has.
            if !self.flush()? {
                return Ok(true);
            }
            match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    self.answer(&mut buffer[..count])?;
                    if count < buffer.len() && !self.hung_up {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the whole queries among `octets` back, and keeps the rest.
    fn answer(&mut self, octets: &mut [u8]) -> io::Result<()> {
        if !self.input.is_empty() {
            let mut all = std::mem::take(&mut self.input);
            all.extend_from_slice(octets);
            let whole = mark(&mut all);
            self.input = all.split_off(whole);
            return self.send(&all);
        }
        let whole = mark(octets);
        self.input.extend_from_slice(&octets[whole..]);
        self.send(&octets[..whole])
    }

    /// Sends what the kernel takes and keeps the rest, which is no more than was read at once.
    fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        let sent = match self.stream.write(octets) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.output.extend_from_slice(&octets[sent..]);
        Ok(())
    }

    /// Sends the octets kept. Returns whether all were sent.
    fn flush(&mut self) -> io::Result<bool> {
        if !self.output.is_empty() {
            let octets = std::mem::take(&mut self.output);
            self.send(&octets)?;
        }
        Ok(self.output.is_empty())
    }

    fn serve_tls(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        // What an earlier turn left is written first.
        let mut unsent = UNSENT;
        while let Some(tls) = &mut self.tls {
            if unsent >= UNSENT {
                if !is_written(tls, &mut self.stream)? {
                    return Ok(true);
                }
                unsent = 0;
            }
            match tls.read_tls(&mut self.stream) {
                Ok(0) => return Ok(!is_written(tls, &mut self.stream)?),
                Ok(_) => tls.process_new_packets().map_err(io::Error::other)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return is_written(tls, &mut self.stream).map(|_| true);
                }
                Err(error) => return Err(error),
            };
            while let Ok(count @ 1..) = tls.reader().read(buffer) {
                self.input.extend_from_slice(&buffer[..count]);
            }
            let mut all = std::mem::take(&mut self.input);
            let whole = mark(&mut all);
            self.input.extend_from_slice(&all[whole..]);
            tls.writer().write_all(&all[..whole])?;
            unsent += whole;
        }
        Ok(false)
    }
}

/// Writes what the session has to write; whether all of it is gone.
fn is_written(tls: &mut ServerConnection, stream: &mut TcpStream) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(stream) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Makes responses of the whole queries in `octets`, each behind its length, and returns how many octets those are.
pub fn mark(octets: &mut [u8]) -> usize {
    const LENGTH: usize = 2;
    /// Where the flag QR is, counted from the length.
    const QR: usize = 4;
    let mut done = 0;
    while let Some(length) = octets.get(done..done + LENGTH) {
        let end = done + LENGTH + usize::from(u16::from_be_bytes([length[0], length[1]]));
        if end > octets.len() {
            break;
        }
        if end > done + QR {
            octets[done + QR] |= 0x80;
        }
        done = end;
    }
    done
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use clap::Parser;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn open(with_tls: bool) -> Echo {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/data");
        let (certificate, key) = (data.join("server.pem"), data.join("server.key"));
        let mut line = vec!["echo-tcp", "--listen", "127.0.0.1:0"];
        if with_tls {
            line.extend(["--certificate", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()]);
        }
        Echo::open(&Line::parse_from(line).args).unwrap()
    }

    /// A client in the same thread.
    struct Client {
        stream: TcpStream,
        tls: Option<ClientConnection>,
    }

    impl Client {
        fn connect(echo: &mut Echo, with_tls: bool) -> Self {
            let stream = TcpStream::connect(echo.listener.local_addr().unwrap()).unwrap();
            stream.set_nonblocking(true).unwrap();
            let mut client = Self { stream, tls: with_tls.then(session) };
            while client.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
                echo.turn(0).unwrap();
                client.push(&[]);
                if let Some(tls) = &mut client.tls {
                    let _ = tls.read_tls(&mut client.stream);
                    tls.process_new_packets().unwrap();
                }
            }
            client
        }

        /// Sends as much as there is room for; how much.
        fn push(&mut self, octets: &[u8]) -> usize {
            let Some(tls) = &mut self.tls else { return self.stream.write(octets).unwrap_or(0) };
            let taken = tls.writer().write(octets).unwrap();
            while tls.wants_write() && tls.write_tls(&mut self.stream).is_ok() {}
            taken
        }

        /// Sends queries until nobody takes any more.
        fn flood(&mut self, echo: &mut Echo) {
            let queries = [&[0, 14][..], &[0; 14]].concat().repeat(4_096);
            // What was sent of the last query is followed by the rest of it.
            let mut sent = 0;
            loop {
                let taken = self.push(&queries[sent % queries.len()..]);
                sent += taken;
                if !echo.turn(0).unwrap() && taken == 0 {
                    return;
                }
            }
        }
    }

    fn session() -> ClientConnection {
        let mut roots = RootCertStore::empty();
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests/data");
        roots.add(CertificateDer::from_pem_file(data.join("ca.pem")).unwrap()).unwrap();
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"dot".to_vec()];
        ClientConnection::new(Arc::new(config), ServerName::try_from("198.51.100.1").unwrap()).unwrap()
    }

    #[test]
    fn a_client_that_goes_without_reading_costs_no_turns_and_little_memory() {
        for with_tls in [false, true] {
            let reset = |client: Client| {
                // What came and was not read makes a reset of the end.
                drop(client);
                None
            };
            let half_close = |client: Client| {
                client.stream.shutdown(Shutdown::Write).unwrap();
                Some(client)
            };
            for (way, stays) in [(&reset as &dyn Fn(Client) -> Option<Client>, 0), (&half_close, 1), (&Some, 1)] {
                let mut echo = open(with_tls);
                let mut client = Client::connect(&mut echo, with_tls);
                client.flood(&mut echo);
                let link = echo.links[0].as_ref().unwrap();
                assert!(link.input.len() + link.output.len() <= 2 * INPUT, "{}", link.output.len());
                let _client = way(client);
                let turns = (0..1_000).take_while(|_| echo.turn(if stays == 0 { LOOK } else { 0 }).unwrap()).count();
                assert!(turns < 100, "{turns} turns");
                assert_eq!(echo.links.iter().flatten().count(), stays, "over TLS: {with_tls}");
            }
        }
    }

    #[test]
    fn who_ends_its_side_and_reads_late_has_all_answers() {
        let mut echo = open(false);
        let mut client = Client::connect(&mut echo, false);
        client.flood(&mut echo);
        client.stream.shutdown(Shutdown::Write).unwrap();
        let (mut got, mut buffer) = (0, vec![0; INPUT]);
        loop {
            match client.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => got += count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            echo.turn(0).unwrap();
        }
        assert!(got > 2 * INPUT && got % 16 == 0, "{got}");
        assert_eq!(echo.links.iter().flatten().count(), 0);
    }
}
