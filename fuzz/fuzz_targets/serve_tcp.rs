//! Queries over TCP as a server reads them: any octets in any segments end in answers or a closed connection.
#![no_main]

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use ldplayer_emulate::serve::room::Room;
use ldplayer_emulate::serve::tcp::{Answer, Connections, Deed, Ends};
use ldplayer_net::poll::{Poll, Wake};
use libfuzzer_sys::fuzz_target;

/// Answers each query with itself; an empty one not at all, and others later, not, or by a reset.
struct Repeat;

impl Answer for Repeat {
    fn answer(&mut self, _: &Ends, query: &[u8], out: &mut Vec<u8>) -> Deed {
        out.extend_from_slice(query);
        match query {
            [] => Deed::Ignore,
            [1, ..] => Deed::SendLater(1_500),
            [2, ..] => Deed::Drop,
            [3, ..] => Deed::Reset,
            [4, ..] => Deed::SendSlowly(300),
            _ => Deed::Send,
        }
    }
}

/// What a client sends, segment by segment. Errors are of the machine: it has no port or descriptor left.
fn serve(segments: &[&[u8]]) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut poll = Poll::new()?;
    let place = Room::join(&Arc::new(Room::new(2)), Arc::new(Wake::new()?).into());
    let mut connections = Connections::new(place, 1_000, 0);
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (stream, peer) = listener.accept()?;
    connections.handle_accepted(0, (stream, None), peer.ip(), &poll);
    for segment in segments {
        // The server may have closed the connection.
        if client.write_all(segment).is_err() {
            break;
        }
        let tokens: Vec<u64> = poll.wait(1_000_000)?.map(|ready| ready.token).collect();
        tokens.iter().for_each(|&token| connections.handle_ready(0, token, &poll, &mut Repeat));
    }
    for now in [300, 600, 900, 2_000, 3_000] {
        connections.handle_timeout(now, &poll, &mut Repeat);
    }
    Ok(())
}

fuzz_target!(|segments: Vec<&[u8]>| {
    // What fuzzing looks for are panics and hangs.
    let _ = serve(&segments);
});
