//! HTTP/3 on a connection of QUIC.

use std::rc::Rc;

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::server::{RequestResolver, RequestStream};
use h3_quinn::BidiStream;
use quinn::Connection;
use tokio::task::spawn_local;

use super::guests::State;
use super::https::{self, Body, Said};
use super::{Desk, Path, quic};
use crate::serve::tcp::End;

type Stream = RequestStream<BidiStream<Bytes>, Bytes>;
type Request = RequestResolver<h3_quinn::Connection, Bytes>;

/// Answers requests until the client ends the connection.
pub async fn requests(connection: &Connection, path: Path, state: &Rc<State>, desk: &Rc<Desk>) {
    let opened = h3::server::Connection::new(h3_quinn::Connection::new(connection.clone())).await;
    let Ok(mut opened) = opened else { return state.end(End::Failed) };
    while let Ok(Some(request)) = opened.accept().await {
        state.touch();
        spawn_local(answer(request, path, Rc::clone(state), Rc::clone(desk)));
    }
    quic::closed(connection, state);
}

async fn answer(request: Request, path: Path, state: Rc<State>, desk: Rc<Desk>) {
    // What is wrong with its header is said by the library.
    let Ok((request, mut stream)) = request.resolve_request().await else { return };
    match https::answer(&desk, path, &request.into_parts().0, &mut stream).await {
        Said::Response(response, octets) => {
            // A client that has gone is seen by the connection.
            let _ = send(&mut stream, response, octets).await;
        }
        Said::Nothing => stream.stop_stream(Code::H3_REQUEST_CANCELLED),
        Said::Reset => state.end(End::Failed),
    }
    state.touch();
}

async fn send(stream: &mut Stream, response: http::Response<()>, octets: Bytes) -> Result<(), h3::error::StreamError> {
    stream.send_response(response).await?;
    if !octets.is_empty() {
        stream.send_data(octets).await?;
    }
    stream.finish().await
}

impl Body for Stream {
    async fn part(&mut self) -> Option<Bytes> {
        let mut part = self.recv_data().await.ok()??;
        Some(part.copy_to_bytes(part.remaining()))
    }
}
