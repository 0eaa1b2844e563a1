//! Datagrams of a server: read and answered in batches, each from the address queried.

use std::io;
use std::net::{IpAddr, SocketAddr};

use ldplayer_core::transport::Transport;
use ldplayer_link::Schedule;
use ldplayer_net::udp::{BATCH, Datagram, ReceiveBatch, SendBatch, UdpSocket};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::tcp::{Answer, Deed, Ends, LATE};

/// Maximum number of batches per socket and turn.
const ROUNDS: usize = 8;
/// How long to wait for a full send buffer, in nanoseconds; answers that then find no room are dropped and counted.
const PATIENCE: i64 = 20_000_000;
/// Initial buffer size of an answer in octets.
const ANSWER: usize = 4_096;

/// Buffers of one worker, allocated once.
pub struct Datagrams {
    receive: ReceiveBatch,
    send: SendBatch,
    answers: Vec<Outgoing>,
    late: Schedule<Waiting>,
    /// Answers refused by the kernel.
    unsent: u64,
}

/// The addresses of an answer that is sent later, and its socket.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    socket: usize,
    local: IpAddr,
    peer: SocketAddr,
}

/// An answer and its addresses.
struct Outgoing {
    octets: Vec<u8>,
    local: IpAddr,
    peer: SocketAddr,
}

impl Default for Datagrams {
    fn default() -> Self {
        Self::new()
    }
}

impl Datagrams {
    /// Empty buffers.
    pub fn new() -> Self {
        let nobody = SocketAddr::new([0; 4].into(), 0);
        let answer = || Outgoing { octets: Vec::with_capacity(ANSWER), local: nobody.ip(), peer: nobody };
        let answers = std::iter::repeat_with(answer).take(BATCH).collect();
        let late = Schedule::new(usize::from(u16::MAX), LATE);
        Self { receive: ReceiveBatch::new(), send: SendBatch::new(), answers, late, unsent: 0 }
    }

    /// Answers the waiting queries of the socket with this number.
    ///
    /// # Errors
    /// The kernel's error on receiving.
    pub fn handle_ready(
        &mut self,
        now: i64,
        sockets: &[UdpSocket],
        number: usize,
        answer: &mut impl Answer,
    ) -> io::Result<()> {
        for _ in 0..ROUNDS {
            let received = self.receive.receive(&sockets[number], BATCH)?;
            let count = self.answer(now, number, answer);
            self.send(&sockets[number], count);
            if received < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Sends answers that are late enough.
    pub fn handle_timeout(&mut self, now: i64, sockets: &[UdpSocket]) {
        while let Some(due) = self.late.pop(now) {
            let Waiting { socket, local, peer } = due.tag;
            let out = &mut self.answers[0];
            out.octets.clear();
            out.octets.extend_from_slice(due.packet);
            (out.local, out.peer) = (local, peer);
            self.send(&sockets[socket], 1);
        }
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<i64> {
        self.late.next_due()
    }

    /// Answers refused by the kernel since the last call.
    pub const fn take_unsent(&mut self) -> u64 {
        std::mem::replace(&mut self.unsent, 0)
    }

    fn answer(&mut self, now: i64, socket: usize, answer: &mut impl Answer) -> usize {
        let received = self.receive.iter();
        answer.look_ahead(received.filter_map(|received| Some((received.local?, received.octets))));
        let mut count = 0;
        for received in self.receive.iter() {
            let (Some(local), Some(peer)) = (received.local, received.peer) else { continue };
            let out = &mut self.answers[count];
            out.octets.clear();
            if peer.port() == 0 {
                continue;
            }
            match answer.answer(
                &Ends { local, peer: peer.ip(), now, transport: Transport::Udp },
                received.octets,
                &mut out.octets,
            ) {
                Deed::Send if out.octets.len() > 2 => {
                    (out.local, out.peer) = (local, peer);
                    count += 1;
                }
                Deed::SendLater(by) => {
                    let waiting = Waiting { socket, local, peer };
                    self.unsent += u64::from(!self.late.push(now.saturating_add(by), waiting, &out.octets));
                }
                Deed::SendElsewhere => self.unsent += u64::from(send_elsewhere(local, peer, &out.octets).is_err()),
                _ => {}
            }
        }
        count
    }

    fn send(&mut self, socket: &UdpSocket, count: usize) {
        let mut at = 0;
        let mut has_waited = false;
        while at < count {
            let datagrams = self.answers[at..count].iter().map(|out| Datagram {
                head: [out.octets[0], out.octets[1]],
                tail: &out.octets[2..],
                source: Some(out.local),
                peer: Some(out.peer),
            });
            match self.send.send(socket, datagrams) {
                Ok(sent) => at += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !has_waited => {
                    has_waited = true;
                    wait_for_room(socket);
                }
                // This one cannot be sent, for example because its client is unreachable; the next one may be.
                Err(_) => {
                    self.unsent += 1;
                    at += 1;
                }
            }
        }
    }
}

/// Sends an answer from another port of the address that was asked.
fn send_elsewhere(local: IpAddr, peer: SocketAddr, octets: &[u8]) -> io::Result<()> {
    std::net::UdpSocket::bind((local, 0))?.send_to(octets, peer).map(drop)
}

fn wait_for_room(socket: &UdpSocket) {
    let mut waited = [PollFd::new(socket, PollFlags::OUT)];
    // Sending is retried in any case.
    let _ = poll(&mut waited, Some(&Timespec { tv_sec: 0, tv_nsec: PATIENCE }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket as Plain;

    /// Sends queries back, but for those that begin with a zero.
    struct Echo;

    impl Answer for Echo {
        fn answer(&mut self, _ends: &Ends, query: &[u8], out: &mut Vec<u8>) -> Deed {
            out.extend_from_slice(query);
            match query {
                [0, ..] => Deed::Ignore,
                b"late" => Deed::SendLater(5),
                b"lost" => Deed::Drop,
                _ => Deed::Send,
            }
        }
    }

    #[test]
    fn each_query_is_answered_from_the_address_it_was_sent_to() {
        let socket = UdpSocket::serve("0.0.0.0:0".parse().unwrap(), 1 << 20).unwrap();
        let clients = [Plain::bind("127.0.0.1:0").unwrap(), Plain::bind("127.0.0.7:0").unwrap()];
        let asked = ["127.1.1.1", "127.2.2.2"].map(|ip| SocketAddr::new(ip.parse().unwrap(), socket.local().port()));
        for query in [&b"\0no answer"[..], b"first", b"x", b"", b"second"] {
            for (client, asked) in clients.iter().zip(asked) {
                client.send_to(query, asked).unwrap();
            }
        }
        let mut datagrams = Datagrams::new();
        datagrams.handle_ready(0, &[socket], 0, &mut Echo).unwrap();
        for (client, asked) in clients.iter().zip(asked) {
            client.set_nonblocking(true).unwrap();
            let mut buffer = [0; 100];
            for expected in [&b"first"[..], b"second"] {
                let (length, from) = client.recv_from(&mut buffer).unwrap();
                assert_eq!((&buffer[..length], from), (expected, asked));
            }
            assert!(client.recv_from(&mut buffer).is_err());
        }
        assert_eq!(datagrams.take_unsent(), 0);
    }

    /// Notes what it is told of, and what it is asked for.
    #[derive(Default)]
    struct Notes(Vec<(&'static str, Vec<u8>)>);

    impl Answer for Notes {
        fn look_ahead<'q>(&mut self, queries: impl Iterator<Item = (IpAddr, &'q [u8])>) {
            self.0.extend(queries.map(|(_, query)| ("ahead", query.to_vec())));
        }

        fn answer(&mut self, _ends: &Ends, query: &[u8], _out: &mut Vec<u8>) -> Deed {
            self.0.push(("answer", query.to_vec()));
            Deed::Ignore
        }
    }

    #[test]
    fn a_whole_batch_is_told_of_before_its_first_query_is_answered() {
        let socket = UdpSocket::serve("127.0.0.1:0".parse().unwrap(), 1 << 20).unwrap();
        let client = Plain::bind("127.0.0.1:0").unwrap();
        let queries = [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()];
        for query in &queries {
            client.send_to(query, socket.local()).unwrap();
        }
        let mut notes = Notes::default();
        Datagrams::new().handle_ready(0, &[socket], 0, &mut notes).unwrap();
        let all = |what| queries.iter().map(move |query| (what, query.clone()));
        assert_eq!(notes.0, all("ahead").chain(all("answer")).collect::<Vec<_>>());
    }

    #[test]
    fn a_late_answer_leaves_when_it_is_due_and_others_before_it() {
        let sockets = [UdpSocket::serve("127.0.0.1:0".parse().unwrap(), 1 << 20).unwrap()];
        let client = Plain::bind("127.0.0.1:0").unwrap();
        client.set_nonblocking(true).unwrap();
        for query in [&b"late"[..], b"lost", b"plain"] {
            client.send_to(query, sockets[0].local()).unwrap();
        }
        let mut datagrams = Datagrams::new();
        datagrams.handle_ready(10, &sockets, 0, &mut Echo).unwrap();
        let read = || client.recv(&mut [0; 9]).ok();
        assert_eq!((read(), read()), (Some(5), None));
        assert_eq!(datagrams.poll_timeout(), Some(15));
        datagrams.handle_timeout(14, &sockets);
        assert_eq!(read(), None);
        datagrams.handle_timeout(15, &sockets);
        assert_eq!((read(), datagrams.poll_timeout()), (Some(4), None));
    }

    #[test]
    fn a_client_that_goes_without_reading_costs_no_turns() {
        let socket = UdpSocket::serve("127.0.0.1:0".parse().unwrap(), 1 << 20).unwrap();
        let mut poll = ldplayer_net::poll::Poll::new().unwrap();
        poll.add(&socket, 0).unwrap();
        let client = Plain::bind("127.0.0.1:0").unwrap();
        for _ in 0..300 {
            client.send_to(b"query", socket.local()).unwrap();
        }
        drop(client);
        let (mut datagrams, sockets) = (Datagrams::new(), [socket]);
        let mut turns = 0;
        while poll.wait(0).unwrap().count() > 0 {
            datagrams.handle_ready(0, &sockets, 0, &mut Echo).unwrap();
            turns += 1;
            assert!(turns < 100, "the socket is ready for ever");
        }
        // No refusal has cost another answer.
        assert!(turns > 0 && datagrams.take_unsent() == 0, "{turns}");
    }

    #[test]
    fn an_answer_that_cannot_be_sent_is_counted_and_the_next_one_leaves() {
        let socket = UdpSocket::serve("127.0.0.1:0".parse().unwrap(), 1 << 20).unwrap();
        let client = Plain::bind("127.0.0.1:0").unwrap();
        let mut datagrams = Datagrams::new();
        let to = client.local_addr().unwrap();
        // Longer than UDP can carry.
        datagrams.answers[0] = Outgoing { octets: vec![1; 70_000], local: to.ip(), peer: to };
        datagrams.answers[1] = Outgoing { octets: b"good".to_vec(), local: to.ip(), peer: to };
        datagrams.send(&socket, 2);
        assert_eq!((datagrams.take_unsent(), client.recv(&mut [0; 9]).unwrap()), (1, 4));
    }
}
