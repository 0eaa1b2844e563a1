//! DNS over QUIC (RFC 9250): a query and its response, or a zone transfer, on each stream.

use std::rc::Rc;

use ldplayer_core::Message;
use quinn::{Connection, RecvStream, SendStream, VarInt};
use tokio::task::spawn_local;

use super::guests::State;
use super::{Desk, Path, Reply, quic};
use crate::serve::options::KEEPALIVE;
use crate::serve::tcp::{End, append, message};

/// What a client that breaks the rules is told (RFC 9250 §4.3).
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);
/// What is said of a query that stays without an answer.
const INTERNAL_ERROR: VarInt = VarInt::from_u32(1);
/// The longest message in octets, with its length.
const LONGEST: usize = 2 + 65_535;

/// Answers queries until the client ends the connection.
pub async fn queries(connection: &Connection, path: Path, state: &Rc<State>, desk: &Rc<Desk>) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        state.touch();
        let (connection, state, desk) = (connection.clone(), Rc::clone(state), Rc::clone(desk));
        spawn_local(async move {
            if answer(send, receive, path, &state, &desk).await == Some(Breach) {
                state.end(End::Failed);
                connection.close(PROTOCOL_ERROR, b"");
            }
            state.touch();
        });
    }
    quic::closed(connection, state);
}

/// A message as it is on a stream.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(2 + message.len());
    append(&mut framed, message);
    framed
}

/// A client breaks the rules.
#[derive(PartialEq, Eq)]
struct Breach;

/// Answers the query of a stream.
async fn answer(
    mut send: SendStream,
    mut receive: RecvStream,
    path: Path,
    state: &State,
    desk: &Desk,
) -> Option<Breach> {
    let octets = match receive.read_to_end(LONGEST).await {
        Ok(octets) => octets,
        Err(quinn::ReadToEndError::TooLong) => return Some(Breach),
        // The client has changed its mind, or the connection has ended.
        Err(quinn::ReadToEndError::Read(_)) => return None,
    };
    let Some(query) = query(&octets) else { return Some(Breach) };
    if let Some(mut transfer) = desk.transfer(path, query) {
        let mut part = Vec::new();
        while transfer.next(&mut part) {
            send.write_all(&framed(&part)).await.ok()?;
            state.touch();
        }
        let _ = send.finish();
        return None;
    }
    match desk.reply(path, query).await {
        Reply::Message(answer) => {
            send.write_all(&framed(&answer)).await.ok()?;
            let _ = send.finish();
        }
        Reply::Malformed => return Some(Breach),
        Reply::Nothing => drop(send.reset(INTERNAL_ERROR)),
        Reply::Reset => state.end(End::Failed),
    }
    None
}

/// The query of a stream: alone, with ID 0 and without the keepalive option (RFC 9250 §4.2, §4.2.1, §5.5.2).
fn query(octets: &[u8]) -> Option<&[u8]> {
    let query = message(octets).filter(|query| query.len() + 2 == octets.len())?;
    let parsed = Message::new(query)?;
    (parsed.id() == 0 && parsed.option(KEEPALIVE).is_none()).then_some(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_one_query_without_an_id() {
        let plain = [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(query(&framed(&plain)), Some(&plain[..]));
        assert_eq!(query(&[&framed(&plain)[..], &[0]].concat()), None, "something behind it");
        assert_eq!(query(&framed(&plain)[..13]), None, "cut");
        assert_eq!(query(b""), None);
        let mut other = plain;
        other[1] = 1;
        assert_eq!(query(&framed(&other)), None, "an ID");
        let mut keepalive = plain.to_vec();
        keepalive[11] = 1;
        keepalive.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4, 0, 11, 0, 0]);
        assert_eq!(query(&framed(&keepalive)), None, "keepalive");
    }
}
