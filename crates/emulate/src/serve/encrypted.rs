//! DNS over HTTPS and over QUIC (RFC 8484, RFC 9250): one thread for all connections, on libraries that others keep.

mod doq;
mod guests;
mod http2;
mod http3;
mod https;
mod quic;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use ldplayer_core::transport::Transport;
use ldplayer_net::clock::monotonic_ns;
use rustls::ServerConfig;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};

use super::options;
use super::responder::Responder;
use super::room::Room;
use super::shared::Shared;
use super::tcp::{Deed, Ends};
use super::transfer::Transfer;
use guests::Guests;

/// Queries of a connection that may be under way at once.
const STREAMS: u32 = 100;
/// How long a connection may take to say goodbye, and to accept one when there is no descriptor.
const SHORT: Duration = Duration::from_millis(500);

/// The sockets of the thread.
#[derive(Debug, Default)]
pub struct Sockets {
    /// HTTP/2.
    pub http2: Vec<TcpListener>,
    /// HTTP/3.
    pub http3: Vec<UdpSocket>,
    /// DNS over QUIC.
    pub doq: Vec<UdpSocket>,
}

/// The addresses of a connection, and what is spoken over it.
#[derive(Clone, Copy)]
struct Path {
    local: IpAddr,
    peer: IpAddr,
    transport: Transport,
}

/// Wakes the thread.
#[derive(Debug, Default)]
pub struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// What is answered to a query.
enum Reply {
    Message(Vec<u8>),
    /// It is no query.
    Malformed,
    /// Nothing: a fault. So much time has gone by that the client has given up.
    Nothing,
    /// Nothing, and the connection is closed with an error: a fault.
    Reset,
}

/// What the tasks of the thread share.
struct Desk {
    responder: RefCell<Responder>,
    tcp: Rc<Guests>,
    quic: Rc<Guests>,
    idle: Duration,
    shared: Arc<Shared>,
    epoch: Cell<u64>,
}

/// What the thread has of its server.
pub struct Host {
    /// The bound of connections.
    pub room: Arc<Room>,
    /// Wakes it.
    pub bell: Arc<Bell>,
    /// Idle timeout of connections.
    pub idle: Duration,
    /// What answers.
    pub responder: Responder,
    /// Calls of the owner, and sums.
    pub shared: Arc<Shared>,
    /// The number of calls so far.
    pub epoch: u64,
}

/// Serves until told to stop.
///
/// # Errors
/// The system refuses a socket, or the certificate is of no use.
pub fn run(sockets: Sockets, config: &ServerConfig, host: Host) -> io::Result<()> {
    let Host { room, bell, idle, responder, shared, epoch } = host;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let waker = Arc::clone(&bell).into();
    let (tcp, quic) = (Guests::new(&room, &waker), Guests::new(&room, &waker));
    let (responder, epoch) = (RefCell::new(responder), Cell::new(epoch));
    let desk = Rc::new(Desk { responder, tcp, quic, idle, shared, epoch });
    let tasks = LocalSet::new();
    let ended = tasks.block_on(&runtime, serve(&desk, sockets, config, &bell));
    // The connections that end by this are counted.
    drop(tasks);
    desk.count();
    ended
}

async fn serve(desk: &Rc<Desk>, sockets: Sockets, config: &ServerConfig, bell: &Bell) -> io::Result<()> {
    for listener in sockets.http2 {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        spawn_local(http2::accept(listener, with_protocol(config, b"h2"), Rc::clone(desk)));
    }
    let (http3, doq) = (with_protocol(config, b"h3"), with_protocol(config, b"doq"));
    let mut endpoints = Vec::new();
    let over_http = sockets.http3.into_iter().map(|socket| (socket, &http3, Transport::Doh3));
    for (socket, tls, transport) in
        over_http.chain(sockets.doq.into_iter().map(|socket| (socket, &doq, Transport::Doq)))
    {
        let endpoint = quic::endpoint(socket, tls, desk.idle)?;
        spawn_local(quic::accept(endpoint.clone(), transport, Rc::clone(desk)));
        endpoints.push((endpoint, transport));
    }
    while !desk.shared.is_stopping() {
        bell.0.notified().await;
        desk.tcp.make_room();
        desk.quic.make_room();
        desk.hand_over();
    }
    quic::close(&endpoints).await;
    Ok(())
}

/// The settings of TLS for one protocol above it.
fn with_protocol(config: &ServerConfig, alpn: &[u8]) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.alpn_protocols = vec![alpn.to_vec()];
    Arc::new(config)
}

impl Desk {
    /// Handles a call of the owner.
    fn hand_over(&self) {
        let epoch = self.shared.epoch();
        if self.epoch.replace(epoch) != epoch {
            self.count();
            self.responder.borrow_mut().renew(self.shared.current());
            self.shared.done();
        }
    }

    /// Hands over the counters.
    fn count(&self) {
        let mut counted = self.responder.borrow_mut().take_counted();
        (counted.tcp, counted.quic) = (self.tcp.take_counts(), self.quic.take_counts());
        self.shared.add(counted);
    }

    /// The answer to a query, when it is time to send it.
    async fn reply(&self, path: Path, query: &[u8]) -> Reply {
        let mut out = Vec::new();
        let deed = self.responder.borrow_mut().answer(&path.ends(), query, &mut out);
        options::complete(query, None, &mut out);
        match deed {
            // Slow answers are of TCP and TLS, those from another port of UDP.
            Deed::Send | Deed::SendSlowly(_) | Deed::SendElsewhere => return Reply::Message(out),
            Deed::SendLater(by) => tokio::time::sleep(Duration::from_nanos(by.unsigned_abs())).await,
            Deed::Ignore => return Reply::Malformed,
            Deed::Reset => return Reply::Reset,
            Deed::Drop => {
                tokio::time::sleep(self.idle).await;
                return Reply::Nothing;
            }
        }
        Reply::Message(out)
    }

    /// The zone transfer that a query asks for.
    fn transfer(&self, path: Path, query: &[u8]) -> Option<Transfer> {
        self.responder.borrow_mut().transfer(&path.ends(), query)
    }
}

impl Path {
    /// The same for a query that has just come.
    fn ends(self) -> Ends {
        Ends { local: self.local, peer: self.peer, now: monotonic_ns(), transport: self.transport }
    }
}
