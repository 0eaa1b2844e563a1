//! A responder that answers every query over TCP with itself, on as many connections as there are descriptors for.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ldplayer_net::poll::Poll;
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
}

/// One connection.
struct Link {
    stream: TcpStream,
    tls: Option<Box<ServerConnection>>,
    /// The beginning of a query; empty as a rule, and then without memory.
    input: Vec<u8>,
    /// What the kernel had no room for.
    output: Vec<u8>,
}

/// Answers until it is told to end.
pub fn run(args: &Args) -> anyhow::Result<()> {
    args.responder.pin()?;
    let _ = limits::raise_nofile()?;
    let tls = match (&args.certificate, &args.key) {
        (Some(certificate), Some(key)) => Some(Arc::new(server_config(certificate, key, b"dot")?)),
        _ => None,
    };
    let listener = tcp::listen(args.responder.listen, BACKLOG)?;
    let mut poll = Poll::new()?;
    poll.add(&listener, LISTENER)?;
    println!("listening on {}", listener.local_addr()?);
    let term = args.responder.begin()?;
    let mut links: Vec<Option<Link>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let (mut ready, mut buffer) = (Vec::new(), vec![0; INPUT]);
    while !term.is_over() {
        ready.clear();
        ready.extend(poll.wait(LOOK)?.map(|ready| ready.token));
        for &token in &ready {
            if token == LISTENER {
                accept(&listener, &poll, &mut links, &mut free, tls.as_ref());
                continue;
            }
            let place = token as usize;
            if links[place].as_mut().is_some_and(|link| !link.is_served(&mut buffer)) {
                links[place] = None;
                free.push(place);
            }
        }
    }
    Ok(())
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

fn accept(
    listener: &TcpListener,
    poll: &Poll,
    links: &mut Vec<Option<Link>>,
    free: &mut Vec<usize>,
    tls: Option<&Arc<ServerConfig>>,
) {
    for _ in 0..ACCEPTED {
        // Nothing more waits, or there is no descriptor: the client sees its connection wait.
        let Ok((stream, _)) = listener.accept() else { return };
        let place = free.pop().unwrap_or_else(|| {
            links.push(None);
            links.len() - 1
        });
        let session = tls.and_then(|config| ServerConnection::new(Arc::clone(config)).ok()).map(Box::new);
        if stream.set_nonblocking(true).is_ok() && poll.add_edge(&stream, place as u64).is_ok() {
            links[place] = Some(Link { stream, tls: session, input: Vec::new(), output: Vec::new() });
        } else {
            free.push(place);
        }
    }
}

impl Link {
    /// Answers all that has come; whether the connection goes on.
    fn is_served(&mut self, buffer: &mut [u8]) -> bool {
        if self.tls.is_some() {
            return self.is_served_over_tls(buffer).unwrap_or(false);
        }
        self.flush() && self.answer_plain(buffer)
    }

    fn answer_plain(&mut self, buffer: &mut [u8]) -> bool {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return false,
                Ok(count) => {
                    let is_whole = self.answer(&mut buffer[..count]);
                    if !is_whole || count < buffer.len() {
                        return is_whole;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    /// Sends the whole queries among `octets` back, and keeps the rest.
    fn answer(&mut self, octets: &mut [u8]) -> bool {
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

    fn send(&mut self, octets: &[u8]) -> bool {
        if octets.is_empty() || !self.output.is_empty() {
            self.output.extend_from_slice(octets);
            return true;
        }
        match self.stream.write(octets) {
            Ok(count) => self.output.extend_from_slice(&octets[count..]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.output.extend_from_slice(octets),
            Err(_) => return false,
        }
        true
    }

    fn flush(&mut self) -> bool {
        if self.output.is_empty() {
            return true;
        }
        let octets = std::mem::take(&mut self.output);
        self.send(&octets)
    }

    fn is_served_over_tls(&mut self, buffer: &mut [u8]) -> std::io::Result<bool> {
        let mut is_open = true;
        while let Some(tls) = &mut self.tls {
            match tls.read_tls(&mut self.stream) {
                Ok(0) => {
                    is_open = false;
                    break;
                }
                Ok(_) => tls.process_new_packets().map_err(std::io::Error::other)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            while let Some(Ok(count @ 1..)) = self.tls.as_mut().map(|tls| tls.reader().read(buffer)) {
                self.input.extend_from_slice(&buffer[..count]);
            }
            let mut all = std::mem::take(&mut self.input);
            let whole = mark(&mut all);
            self.input.extend_from_slice(&all[whole..]);
            if let Some(tls) = &mut self.tls {
                tls.writer().write_all(&all[..whole])?;
            }
        }
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) {
            match tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(is_open)
    }
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
