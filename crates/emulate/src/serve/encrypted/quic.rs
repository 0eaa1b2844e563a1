//! Connections of QUIC, for HTTP/3 and for DNS itself.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ldplayer_core::transport::Transport;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Connection, Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::guests::State;
use super::{Desk, Path, SHORT, STREAMS, doq, http3};
use crate::serve::tcp::End;

/// A socket that takes connections; idle ones end after this time.
///
/// # Errors
/// The certificate is of no use, or the system refuses the socket.
pub fn endpoint(socket: UdpSocket, tls: &Arc<rustls::ServerConfig>, idle: Duration) -> io::Result<Endpoint> {
    let crypto = QuicServerConfig::try_from(Arc::clone(tls)).map_err(io::Error::other)?;
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(STREAMS.into());
    // Longer ones than the protocol has room for do not end.
    transport.max_idle_timeout(idle.try_into().ok());
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Endpoint::new(EndpointConfig::default(), Some(config), socket, Arc::new(TokioRuntime))
}

/// Accepts connections for ever.
pub async fn accept(endpoint: Endpoint, transport: Transport, desk: Rc<Desk>) {
    let Ok(bound) = endpoint.local_addr() else { return };
    while let Some(incoming) = endpoint.accept().await {
        spawn_local(converse(incoming, bound.ip(), transport, Rc::clone(&desk)));
    }
}

/// One connection, from the handshake to its end.
async fn converse(incoming: Incoming, bound: IpAddr, transport: Transport, desk: Rc<Desk>) {
    let guest = desk.quic.enter();
    let (local, peer) = (incoming.local_ip().unwrap_or(bound), incoming.remote_address().ip());
    let path = Path { local: local.to_canonical(), peer: peer.to_canonical(), transport };
    let shaken = tokio::select! {
        shaken = incoming.into_future() => shaken,
        _ = guest.ended(desk.idle) => return,
    };
    let Ok(connection) = shaken else { return guest.state.end(End::Failed) };
    let talk = async {
        match transport {
            Transport::Doh3 => http3::requests(&connection, path, &guest.state, &desk).await,
            _ => doq::queries(&connection, path, &guest.state, &desk).await,
        }
    };
    let end = tokio::select! {
        () = talk => return,
        end = guest.ended(desk.idle) => end,
    };
    let [fine, failed] = codes(transport);
    connection.close(if end == End::Failed { failed } else { fine }, b"");
}

/// Closes all connections, and gives their clients time to hear of it.
pub async fn close(endpoints: &[(Endpoint, Transport)]) {
    endpoints.iter().for_each(|(endpoint, transport)| endpoint.close(codes(*transport)[0], b""));
    for (endpoint, _) in endpoints {
        let _ = timeout(SHORT, endpoint.wait_idle()).await;
    }
}

/// The codes with which a connection is closed: without an error, and with one of the server (RFC 9114 §8.1, RFC 9250 §4.3).
fn codes(transport: Transport) -> [VarInt; 2] {
    match transport {
        Transport::Doh3 => [0x100, 0x102],
        _ => [0, 1],
    }
    .map(VarInt::from_u32)
}

/// How a connection that the client ends has ended.
pub fn closed(connection: &Connection, state: &State) {
    use quinn::ConnectionError::{ApplicationClosed, ConnectionClosed, LocallyClosed, TimedOut};
    match connection.close_reason() {
        Some(TimedOut) => state.end(End::Idle),
        None | Some(ApplicationClosed(_) | ConnectionClosed(_) | LocallyClosed) => {}
        Some(_) => state.end(End::Failed),
    }
}
