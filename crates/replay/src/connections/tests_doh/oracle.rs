//! A DNS-over-HTTPS server on the h2 crate, polled by hand over memory buffers.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::{Connection, Handshake, SendResponse};
use h2::{RecvStream, server};
use http::{Method, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::simulation::Reply;

/// What a server answers a query with: the status and the body; nothing leaves it unanswered.
pub type Behaviour = Box<dyn FnMut(u64, &[u8]) -> Option<(u16, Vec<u8>)>>;

/// What reached a server.
#[derive(Default)]
pub struct Seen {
    /// Each query with its connection.
    pub queries: Vec<(u64, Vec<u8>)>,
    /// Methods, authorities and paths.
    pub targets: Vec<(Method, String, String)>,
    /// Most requests at once on one connection.
    pub at_once: usize,
    /// Requests that the client gave up.
    pub cancelled: usize,
}

/// A server with its connections.
pub struct Oracle {
    builder: server::Builder,
    behaviour: Behaviour,
    connections: HashMap<u64, Served>,
    pub seen: Arc<Mutex<Seen>>,
}

struct Served {
    pipe: Pipe,
    state: State,
    requests: Vec<Asked>,
}

enum State {
    Rising(Pin<Box<Handshake<Pipe, Bytes>>>),
    Up(Box<Connection<Pipe, Bytes>>),
}

struct Asked {
    request: Request<()>,
    body: RecvStream,
    octets: Vec<u8>,
    respond: SendResponse<Bytes>,
    is_held: bool,
}

/// The two directions of a connection, in memory.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<(Vec<u8>, Vec<u8>)>>);

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let input = &mut self.0.lock().unwrap().0;
        if input.is_empty() {
            return Poll::Pending;
        }
        let count = input.len().min(buffer.remaining());
        buffer.put_slice(&input[..count]);
        input.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().1.extend_from_slice(octets);
        Poll::Ready(Ok(octets.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Oracle {
    pub fn new(
        builder: server::Builder,
        behaviour: impl FnMut(u64, &[u8]) -> Option<(u16, Vec<u8>)> + 'static,
    ) -> Self {
        let behaviour = Box::new(behaviour);
        Self { builder, behaviour, connections: HashMap::new(), seen: Arc::default() }
    }

    /// Takes octets of a connection and returns the octets to send.
    pub fn serve(&mut self, number: u64, octets: &[u8]) -> Vec<Reply> {
        if octets.is_empty() {
            return vec![];
        }
        let builder = &self.builder;
        let served = self.connections.entry(number).or_insert_with(|| {
            let pipe = Pipe::default();
            let state = State::Rising(Box::pin(builder.handshake(pipe.clone())));
            Served { pipe, state, requests: Vec::new() }
        });
        served.pipe.0.lock().unwrap().0.extend_from_slice(octets);
        let mut context = Context::from_waker(Waker::noop());
        // Each turn may let the next one go on, as an answer does that makes room in a window.
        for _ in 0..4 {
            served.accept(&mut context);
            self.seen.lock().unwrap().at_once.max_with(served.requests.len());
            served.answer(number, &mut context, &mut self.behaviour, &mut self.seen.lock().unwrap());
        }
        let out = std::mem::take(&mut served.pipe.0.lock().unwrap().1);
        if out.is_empty() { vec![] } else { vec![Reply::Segments(vec![out])] }
    }
}

trait MaxWith {
    fn max_with(&mut self, other: usize);
}

impl MaxWith for usize {
    fn max_with(&mut self, other: usize) {
        *self = (*self).max(other);
    }
}

impl Served {
    fn accept(&mut self, context: &mut Context<'_>) {
        if let State::Rising(handshake) = &mut self.state
            && let Poll::Ready(connection) = handshake.as_mut().poll(context)
        {
            self.state = State::Up(Box::new(connection.expect("the client's preface is in order")));
        }
        let State::Up(connection) = &mut self.state else { return };
        while let Poll::Ready(Some(accepted)) = connection.poll_accept(context) {
            let (request, respond) = accepted.expect("the client keeps to the protocol");
            let (parts, body) = request.into_parts();
            let request = Request::from_parts(parts, ());
            self.requests.push(Asked { request, body, octets: Vec::new(), respond, is_held: false });
        }
    }

    fn answer(&mut self, number: u64, context: &mut Context<'_>, behaviour: &mut Behaviour, seen: &mut Seen) {
        self.requests.retain_mut(|asked| {
            if asked.respond.poll_reset(context).is_ready() {
                seen.cancelled += 1;
                return false;
            }
            if asked.is_held || !asked.read(context) {
                return true;
            }
            let message = asked.message();
            seen.queries.push((number, message.clone()));
            let uri = asked.request.uri();
            let (authority, path) = (uri.authority().unwrap().to_string(), uri.path().to_owned());
            seen.targets.push((asked.request.method().clone(), authority, path));
            let Some((status, body)) = behaviour(number, &message) else {
                asked.is_held = true;
                return true;
            };
            let head = Response::builder().status(status).header("content-type", "application/dns-message");
            let head = head.header("content-length", body.len()).header("server", "oracle").body(()).unwrap();
            let mut stream = asked.respond.send_response(head, false).unwrap();
            stream.send_data(body.into(), true).unwrap();
            false
        });
    }
}

impl Asked {
    /// Whether the request has come whole.
    fn read(&mut self, context: &mut Context<'_>) -> bool {
        while let Poll::Ready(part) = self.body.poll_data(context) {
            let Some(part) = part else { return true };
            let part = part.expect("the client sends no more than it may");
            self.body.flow_control().release_capacity(part.len()).unwrap();
            self.octets.extend_from_slice(&part);
        }
        false
    }

    fn message(&self) -> Vec<u8> {
        assert_eq!(self.request.headers()["accept"], "application/dns-message");
        if *self.request.method() == Method::GET {
            return decode(self.request.uri().query().unwrap().strip_prefix("dns=").unwrap());
        }
        assert_eq!(self.request.headers()["content-type"], "application/dns-message");
        assert_eq!(self.request.headers()["content-length"], self.octets.len().to_string());
        self.octets.clone()
    }
}

/// Decodes base64url.
fn decode(text: &str) -> Vec<u8> {
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        other => panic!("`{other}` is no digit of base64url"),
    };
    let bits = text.bytes().flat_map(|digit| (0..6).rev().map(move |bit| value(digit) >> bit & 1));
    let bits: Vec<u8> = bits.collect();
    bits.chunks_exact(8).map(|bits| bits.iter().fold(0, |octet, bit| octet << 1 | bit)).collect()
}
