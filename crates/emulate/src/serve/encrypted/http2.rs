//! Connections of HTTP/2 over TLS.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use ldplayer_core::transport::Transport;
use ldplayer_net::limits;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::guests::{Guest, State};
use super::https::{self, Body, Said};
use super::{Desk, Path, SHORT, STREAMS};
use crate::serve::tcp::End;

/// Accepts connections for ever.
pub async fn accept(listener: TcpListener, config: Arc<ServerConfig>, desk: Rc<Desk>) {
    let acceptor = TlsAcceptor::from(config);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => drop(spawn_local(converse(stream, peer, acceptor.clone(), Rc::clone(&desk)))),
            Err(error) if limits::is_short(&error) => sleep(SHORT).await,
            // This client has already gone; the next one may be there.
            Err(_) => {}
        }
    }
}

/// One connection, from the handshake to its end.
async fn converse(stream: TcpStream, peer: SocketAddr, acceptor: TlsAcceptor, desk: Rc<Desk>) {
    let guest = desk.tcp.enter();
    let Ok(local) = stream.local_addr() else { return guest.state.end(End::Failed) };
    let path = Path { local: local.ip(), peer: peer.ip(), transport: Transport::Doh2 };
    let shaken = async {
        let stream = acceptor.accept(stream).await.ok()?;
        Builder::new().max_concurrent_streams(STREAMS).handshake::<_, Bytes>(stream).await.ok()
    };
    let connection = tokio::select! {
        connection = shaken => connection,
        _ = guest.ended(desk.idle) => return,
    };
    match connection {
        Some(connection) => requests(connection, path, &guest, &desk).await,
        None => guest.state.end(End::Failed),
    }
}

/// Answers requests until one side ends the connection.
async fn requests(mut connection: Connection<TlsStream<TcpStream>, Bytes>, path: Path, guest: &Guest, desk: &Rc<Desk>) {
    let end = loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    guest.state.touch();
                    spawn_local(answer(request, respond, path, Rc::clone(&guest.state), Rc::clone(desk)));
                }
                Some(Err(_)) => return guest.state.end(End::Failed),
                None => return,
            },
            end = guest.ended(desk.idle) => break end,
        }
    };
    match end {
        End::Failed => connection.abrupt_shutdown(Reason::INTERNAL_ERROR),
        _ => connection.graceful_shutdown(),
    }
    // What says so is still to be sent.
    let _ = timeout(SHORT, async { while connection.accept().await.is_some() {} }).await;
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    path: Path,
    state: Rc<State>,
    desk: Rc<Desk>,
) {
    let (head, mut body) = request.into_parts();
    match https::answer(&desk, path, &head, &mut body).await {
        // A client that has gone is seen by the connection.
        Said::Response(response, octets) => {
            let sending = respond.send_response(response, octets.is_empty());
            if let Some(mut sending) = sending.ok().filter(|_| !octets.is_empty()) {
                let _ = sending.send_data(octets, true);
            }
            // A refused request may still be on its way. Dropping its body would reset the stream, and the response would be lost.
            while body.part().await.is_some() {}
        }
        Said::Nothing => respond.send_reset(Reason::CANCEL),
        Said::Reset => state.end(End::Failed),
    }
    state.touch();
}

impl Body for RecvStream {
    async fn part(&mut self) -> Option<Bytes> {
        let part = self.data().await?.ok()?;
        let _ = self.flow_control().release_capacity(part.len());
        Some(part)
    }
}
