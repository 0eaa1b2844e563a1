//! Counts the sockets of a network namespace by state, over netlink (sock_diag(7)).
//!
//! The kernel walks its whole table of sockets for each answer: 17,600 sockets took 14 ms and a table without any 0.5 ms on a
//! virtual machine of two cores, so that a million take most of a second. Who asks often should measure that.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::namespace::Namespace;
use crate::system::{NetlinkOf, netlink_socket};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Request, root, match: the whole table.
const REQUEST_DUMP: u16 = 0x0001 | 0x0100 | 0x0200;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
/// Asks for the attribute with a socket's memory and drops …
const SHOW_MEMORY: u8 = 1 << (INET_DIAG_SKMEMINFO - 1);
/// … which has this number …
const INET_DIAG_SKMEMINFO: u16 = 7;
/// … and in which the drops are this word.
const DROPS: usize = 8;
/// The state LISTEN (10) among those that are asked for.
const LISTENING: u32 = 1 << 10;
/// Octets of `struct nlmsghdr`, of `struct inet_diag_msg` and of the head of an attribute.
const HEADER: usize = 16;
const MESSAGE: usize = 72;
const ATTRIBUTE: usize = 4;
/// Room for an answer: the kernel fills at most 32 kB at once.
const ROOM: usize = 1 << 16;

/// States of a TCP socket, as the kernel numbers them from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    missing_docs,
    reason = "the names are those of RFC 9293 §3.3.2; Close is a socket that is neither open nor listening"
)]
pub enum TcpState {
    Established,
    SynSent,
    SynReceived,
    FinWait1,
    FinWait2,
    TimeWait,
    Close,
    CloseWait,
    LastAck,
    Listen,
    Closing,
}

impl TcpState {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Established,
        Self::SynSent,
        Self::SynReceived,
        Self::FinWait1,
        Self::FinWait2,
        Self::TimeWait,
        Self::Close,
        Self::CloseWait,
        Self::LastAck,
        Self::Listen,
        Self::Closing,
    ];

    /// The state of a number; a half-open connection of a listening socket has one of its own (12).
    fn numbered(number: u8) -> Option<Self> {
        match number {
            12 => Some(Self::SynReceived),
            _ => Self::ALL.get(usize::from(number).checked_sub(1)?).copied(),
        }
    }
}

/// TCP sockets by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStates {
    counts: [u64; TcpState::ALL.len()],
}

impl TcpStates {
    /// How many are in a state.
    pub const fn of(&self, state: TcpState) -> u64 {
        self.counts[state as usize]
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The sockets of one side of the connections to some ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSide {
    /// By state.
    pub states: TcpStates,
    /// Connections in the longest accept queue of a listening socket.
    pub accept_queue: u64,
}

/// TCP sockets with one of some ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSockets {
    /// Those that have it as their own: the server's.
    pub local: TcpSide,
    /// Those that are connected to it: the clients'.
    pub remote: TcpSide,
}

/// UDP sockets that have one of some ports as their own: the server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpSockets {
    /// How many there are.
    pub sockets: u64,
    /// Bytes that wait to be received.
    pub waiting_bytes: u64,
    /// Datagrams dropped so far, because buffers were full or for other reasons.
    pub drops: u64,
}

/// A connection to the kernel's tables of sockets of one network namespace.
#[derive(Debug)]
pub struct SocketTables {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl SocketTables {
    /// The tables of the calling thread's namespace.
    ///
    /// # Errors
    /// When the kernel has no sock_diag or the process no descriptors.
    pub fn open() -> io::Result<Self> {
        Ok(Self { socket: netlink_socket(NetlinkOf::Sockets)?, buffer: vec![0; ROOM] })
    }

    /// The tables of another namespace, which are asked from the calling thread all the same.
    ///
    /// # Errors
    /// As [`Self::open`]; or without CAP_SYS_ADMIN in the user namespace that owns it.
    pub fn open_in(namespace: &Namespace) -> io::Result<Self> {
        namespace.run(Self::open)?
    }

    /// Counts TCP sockets whose own port, or the port that they are connected to, is one of these. `in_use` is how many the
    /// namespace has, where that is known: if all of them listen, the table of connections is left alone. To go through it takes
    /// the kernel milliseconds even when it is empty, in which many kernels let nothing else run on the core. Half-open
    /// connections are in that table and not in `in_use`, so they are seen only beside others.
    ///
    /// # Errors
    /// When the kernel refuses, such as for want of the module `tcp_diag`.
    pub fn tcp(&mut self, ports: &[u16], in_use: Option<u64>) -> io::Result<TcpSockets> {
        let (mut found, mut listening) = (TcpSockets::default(), 0);
        self.both_families(IPPROTO_TCP, 0, LISTENING, |socket| {
            listening += 1;
            found.add(socket, ports);
        })?;
        if in_use.is_none_or(|in_use| in_use > listening) {
            self.both_families(IPPROTO_TCP, 0, !LISTENING, |socket| found.add(socket, ports))?;
        }
        Ok(found)
    }

    /// Sums the UDP sockets whose own port is one of these.
    ///
    /// # Errors
    /// When the kernel refuses, such as for want of the module `udp_diag`.
    pub fn udp(&mut self, ports: &[u16]) -> io::Result<UdpSockets> {
        let mut found = UdpSockets::default();
        self.both_families(IPPROTO_UDP, SHOW_MEMORY, u32::MAX, |socket| found.add(socket, ports))?;
        Ok(found)
    }

    fn both_families(&mut self, protocol: u8, show: u8, states: u32, mut each: impl FnMut(&Socket)) -> io::Result<()> {
        for family in [AF_INET, AF_INET6] {
            self.dump(&request(family, protocol, show, states), &mut each)?;
        }
        Ok(())
    }

    fn dump(&mut self, request: &[u8], each: &mut impl FnMut(&Socket)) -> io::Result<()> {
        send(&self.socket, request, SendFlags::empty())?;
        loop {
            let (length, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            match parse(self.buffer.get(..length).unwrap_or_default(), each) {
                Step::More if length > 0 => {}
                Step::More | Step::Done => return Ok(()),
                Step::Refused(code) => return Err(io::Error::from_raw_os_error(code)),
            }
        }
    }
}

/// What is read of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Socket {
    state: u8,
    local: u16,
    remote: u16,
    receive_queue: u32,
    drops: u32,
}

/// What follows a datagram of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    More,
    Done,
    Refused(i32),
}

impl TcpSockets {
    fn add(&mut self, socket: &Socket, ports: &[u16]) {
        let Some(state) = TcpState::numbered(socket.state) else { return };
        for (side, port) in [(&mut self.local, socket.local), (&mut self.remote, socket.remote)] {
            if ports.contains(&port) {
                side.states.counts[state as usize] += 1;
                let waiting = if state == TcpState::Listen { socket.receive_queue } else { 0 };
                side.accept_queue = side.accept_queue.max(waiting.into());
            }
        }
    }
}

impl UdpSockets {
    fn add(&mut self, socket: &Socket, ports: &[u16]) {
        if ports.contains(&socket.local) {
            self.sockets += 1;
            self.waiting_bytes += u64::from(socket.receive_queue);
            self.drops += u64::from(socket.drops);
        }
    }
}

/// A request for all sockets of a family: `struct nlmsghdr`, then `struct inet_diag_req_v2` with these states, a bit for each number,
/// and no address.
fn request(family: u8, protocol: u8, show: u8, states: u32) -> Vec<u8> {
    const BODY: usize = 56;
    let mut request = Vec::with_capacity(HEADER + BODY);
    request.extend_from_slice(&((HEADER + BODY) as u32).to_ne_bytes());
    request.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend_from_slice(&REQUEST_DUMP.to_ne_bytes());
    request.extend_from_slice(&[0; 8]); // sequence number and port: one request at a time needs neither
    request.extend_from_slice(&[family, protocol, show, 0]);
    request.extend_from_slice(&states.to_ne_bytes());
    request.resize(HEADER + BODY, 0);
    request
}

/// Parses the messages of one datagram. A truncated message is skipped.
fn parse(mut datagram: &[u8], each: &mut impl FnMut(&Socket)) -> Step {
    while let Some((message, rest)) = message(datagram) {
        match u16_at(message, 4) {
            Some(NLMSG_DONE) => return Step::Done,
            Some(NLMSG_ERROR) => {
                let code = message.get(HEADER..HEADER + 4).and_then(|octets| octets.try_into().ok());
                return Step::Refused(code.map_or(0, i32::from_ne_bytes).saturating_neg());
            }
            Some(SOCK_DIAG_BY_FAMILY) => socket(&message[HEADER..]).iter().for_each(&mut *each),
            _ => {}
        }
        datagram = rest;
    }
    Step::More
}

/// The first message, its header included, and what follows it.
fn message(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32_at(datagram, 0)? as usize;
    let message = datagram.get(..length).filter(|message| message.len() >= HEADER)?;
    Some((message, datagram.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// `struct inet_diag_msg`: family, state, timer, retransmits; ports in network order, addresses, interface and cookie; expiry, receive
/// and send queue, user, inode. Then attributes.
fn socket(body: &[u8]) -> Option<Socket> {
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    Some(Socket {
        state: *body.get(1)?,
        local: port(4)?,
        remote: port(6)?,
        receive_queue: u32_at(body, 56)?,
        drops: drops(body.get(MESSAGE..)?).unwrap_or(0),
    })
}

fn drops(mut attributes: &[u8]) -> Option<u32> {
    loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE..length)?;
        if u16_at(attributes, 2)? == INET_DIAG_SKMEMINFO {
            return u32_at(value, DROPS * 4);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(octets.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(octets.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};

    use proptest::prelude::*;

    use super::*;

    /// A listener on a port that no other socket uses: an earlier server's port may have connections in TIME-WAIT.
    fn listen(backlog: i32) -> (TcpListener, u16) {
        let mut tables = SocketTables::open().unwrap();
        loop {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
            socket.listen(backlog).unwrap();
            let listener = TcpListener::from(socket);
            let port = listener.local_addr().unwrap().port();
            let found = tables.tcp(&[port], None).unwrap();
            if (found.local.states.all(), found.remote.states.all()) == (1, 0) {
                return (listener, port);
            }
        }
    }

    /// A look at it kept a core for milliseconds in runs over UDP, and a worker of the replay with it.
    #[test]
    fn a_table_without_connections_is_left_alone() {
        let (_listener, port) = listen(5);
        let mut tables = SocketTables::open().unwrap();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut found = |in_use| {
            let states = tables.tcp(&[port], in_use).unwrap().local.states;
            (states.of(TcpState::Listen), states.of(TcpState::Established))
        };
        assert_eq!([found(None), found(Some(u64::MAX)), found(Some(1))], [(1, 1), (1, 1), (1, 0)]);
    }

    #[test]
    fn connections_are_told_by_side_and_state() {
        let (listener, port) = listen(5);
        let mut tables = SocketTables::open().unwrap();
        let clients: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        let found = tables.tcp(&[port], None).unwrap();
        assert_eq!(
            (found.local.states.of(TcpState::Established), found.remote.states.of(TcpState::Established)),
            (3, 3)
        );
        assert_eq!((found.local.states.of(TcpState::Listen), found.local.accept_queue), (1, 3));
        let accepted: Vec<TcpStream> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        assert_eq!(tables.tcp(&[port], None).unwrap().local.accept_queue, 0);
        // The server closes first: its ends wait for the clients' to close, and maybe for a delayed acknowledgement.
        drop(accepted);
        let found = tables.tcp(&[port], None).unwrap();
        let closing = found.local.states.of(TcpState::FinWait1) + found.local.states.of(TcpState::FinWait2);
        assert_eq!((closing, found.remote.states.of(TcpState::CloseWait)), (3, 3), "{found:?}");
        drop(clients);
        let found = tables.tcp(&[port], None).unwrap();
        assert_eq!((found.local.states.of(TcpState::TimeWait), found.remote.states.all()), (3, 0));
        assert_eq!(tables.tcp(&[], None).unwrap(), TcpSockets::default());
    }

    #[test]
    fn datagrams_that_a_server_drops_are_its_own() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&server).set_recv_buffer_size(1).unwrap();
        let port = server.local_addr().unwrap().port();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..100).for_each(|_| assert_eq!(client.send_to(&[0; 500], ("127.0.0.1", port)).unwrap(), 500));
        let mut tables = SocketTables::open().unwrap();
        let found = tables.udp(&[port]).unwrap();
        let mut kept = 0;
        server.set_nonblocking(true).unwrap();
        while server.recv(&mut [0; 600]).is_ok() {
            kept += 1;
        }
        assert_eq!((found.sockets, found.drops), (1, 100 - kept));
        assert!(found.waiting_bytes > 0 && kept < 50);
        assert_eq!(tables.udp(&[client.local_addr().unwrap().port()]).unwrap().drops, 0);
    }

    #[test]
    fn the_tables_are_of_the_namespace_that_they_were_opened_in() {
        let (_listener, port) = listen(1);
        let namespace = Namespace::create().unwrap();
        assert_eq!(SocketTables::open_in(&namespace).unwrap().tcp(&[port], None).unwrap(), TcpSockets::default());
        assert_eq!(SocketTables::open().unwrap().tcp(&[port], None).unwrap().local.states.of(TcpState::Listen), 1);
    }

    #[test]
    fn a_half_open_connection_is_one_and_an_unknown_state_is_none() {
        let mut found = TcpSockets::default();
        [3, 12, 0, 13, 255]
            .into_iter()
            .for_each(|state| found.add(&Socket { state, local: 53, ..Socket::default() }, &[53]));
        assert_eq!((found.local.states.of(TcpState::SynReceived), found.local.states.all()), (2, 2));
    }

    #[test]
    fn a_refusal_is_an_error() {
        let refusal =
            [&36_u32.to_ne_bytes()[..], &NLMSG_ERROR.to_ne_bytes(), &[0; 10], &(-2_i32).to_ne_bytes(), &[0; 16]]
                .concat();
        assert_eq!(parse(&refusal, &mut |_| {}), Step::Refused(2));
        assert_eq!(parse(&[], &mut |_| {}), Step::More);
    }

    proptest! {
        #[test]
        fn any_datagram_ends(
            octets in prop::collection::vec(any::<u8>(), 0..400),
            head in 0_u32..200,
            kind in prop::sample::select(vec![2_u16, 3, 20, 77]),
            attribute in 0_u16..60,
        ) {
            let mut count = 0;
            parse(&octets, &mut |_| count += 1);
            let mut made = [&head.to_ne_bytes()[..], &kind.to_ne_bytes(), &octets].concat();
            if let Some(place) = made.get_mut(HEADER + MESSAGE..HEADER + MESSAGE + 2) {
                place.copy_from_slice(&attribute.to_ne_bytes());
            }
            parse(&made, &mut |_| count += 1);
            prop_assert!(count <= 100);
        }
    }
}
