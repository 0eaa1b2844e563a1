//! What clients remember of their servers from one lookup to the next.

use std::net::IpAddr;

use hashbrown::HashMap;
use ldplayer_core::RunTime;
use ldplayer_core::client::{BAND_NS, TEST_LOOKUPS, TEST_NS};

use super::pairs::Mode;
use super::round_trip::RoundTrip;

/// What the clients of a worker remember: nothing, of most of them.
#[derive(Debug, Default)]
pub struct Memory {
    clients: HashMap<IpAddr, Client>,
}

#[derive(Debug, Default)]
struct Client {
    /// The server that it stays with; `None` before it has chosen one.
    current: Option<u8>,
    /// How it asks for A and AAAA together.
    mode: Mode,
    /// Lookups since all servers were asked, and when that was.
    lookups: u16,
    tested: RunTime,
    /// What it knows of its first servers.
    servers: Vec<Server>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Server {
    level: Level,
    /// Attempts in a row at this level without an answer.
    silent: u8,
    /// Whether it has answered at this level.
    is_verified: bool,
    /// `None` before it has answered, or was silent.
    round_trip: Option<RoundTrip>,
}

/// How a client asks a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// As the query is.
    #[default]
    Full,
    /// Without EDNS.
    WithoutEdns,
    /// Without EDNS, and over TCP.
    OverTcp,
}

impl Memory {
    /// The server that a client stays with.
    pub fn current(&self, client: IpAddr) -> usize {
        self.clients.get(&client).and_then(|client| client.current).unwrap_or(0).into()
    }

    /// A client that stays with `server`, of so many, goes over to the next one.
    pub fn leave(&mut self, client: IpAddr, server: usize, servers: usize) {
        if servers > 1 && self.current(client) == server {
            self.stay(client, (server + 1) % servers);
        }
    }

    /// A client stays with a server from now on.
    pub fn stay(&mut self, client: IpAddr, server: usize) {
        self.clients.entry(client).or_default().current = Some(server as u8);
    }

    /// How a client asks for A and AAAA together.
    pub fn mode(&self, client: IpAddr) -> Mode {
        self.clients.get(&client).map_or(Mode::AtOnce, |client| client.mode)
    }

    /// A client asks for A and AAAA in this way from now on.
    pub fn set_mode(&mut self, client: IpAddr, mode: Mode) {
        self.clients.entry(client).or_default().mode = mode;
    }

    /// Whether a client asks all its servers in the lookup that begins at `now`.
    pub fn is_to_test(&mut self, now: RunTime, client: IpAddr) -> bool {
        let client = self.clients.entry(client).or_default();
        client.lookups = client.lookups.saturating_add(1);
        let is_due = client.current.is_none() || client.lookups > TEST_LOOKUPS || now - client.tested > TEST_NS;
        if is_due {
            (client.lookups, client.tested) = (0, now);
        }
        is_due
    }

    /// How a client asks a server.
    pub fn level(&self, client: IpAddr, server: usize) -> Level {
        let known = self.clients.get(&client).and_then(|client| client.servers.get(server));
        known.map_or(Level::Full, |server| server.level)
    }

    /// A server did not answer an attempt of a client that asks it otherwise after `most` of them.
    pub fn note_silence(&mut self, client: IpAddr, server: usize, most: u8) {
        let known = self.server(client, server);
        known.silent = known.silent.saturating_add(1);
        if known.silent >= most && !known.is_verified {
            known.go_to(match known.level {
                Level::Full | Level::OverTcp => Level::WithoutEdns,
                Level::WithoutEdns => Level::OverTcp,
            });
        }
    }

    /// A server answered a client that asks it otherwise after silence.
    pub fn note_answer(&mut self, client: IpAddr, server: usize) {
        let known = self.server(client, server);
        (known.silent, known.is_verified) = (0, true);
    }

    /// How long a client waits for a server, of one whose timeout is `first` before it knows anything of it.
    pub fn timeout(&self, client: IpAddr, server: usize, first: i64) -> i64 {
        let known = self.clients.get(&client).and_then(|client| client.servers.get(server));
        known.and_then(|server| server.round_trip).map_or(first, |round_trip| round_trip.timeout)
    }

    /// A server answered within so many nanoseconds, or not within a timeout.
    pub fn note_round_trip(&mut self, client: IpAddr, server: usize, first: i64, took: Result<i64, i64>) {
        let known = self.server(client, server).round_trip.get_or_insert_with(|| RoundTrip::first(first));
        match took {
            Ok(took) => known.note_answer(took),
            Err(timeout) => known.note_silence(timeout),
        }
    }

    /// One of the servers that a client may ask whose timeouts are about the shortest, by a number that is drawn; `None` if there is none.
    pub fn quickest(&self, client: IpAddr, servers: &[bool], first: i64, drawn: usize) -> Option<usize> {
        let timeout = |server: &usize| self.timeout(client, *server, first);
        let may_ask = || (0..servers.len()).filter(|&server| servers[server]);
        let shortest = may_ask().map(|server| timeout(&server)).min()?;
        let near = || may_ask().filter(|server| timeout(server) <= shortest + BAND_NS);
        near().nth(drawn % near().count())
    }

    /// A server is of use to a client without EDNS only.
    pub fn note_lack_of_edns(&mut self, client: IpAddr, server: usize) {
        let known = self.server(client, server);
        if known.level == Level::Full {
            known.go_to(Level::WithoutEdns);
        }
    }

    fn server(&mut self, client: IpAddr, server: usize) -> &mut Server {
        let servers = &mut self.clients.entry(client).or_default().servers;
        if servers.len() <= server {
            servers.resize(server + 1, Server::default());
        }
        &mut servers[server]
    }
}

impl Server {
    fn go_to(&mut self, level: Level) {
        *self = Self { level, round_trip: self.round_trip, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn a_client_leaves_the_server_that_it_stays_with_and_no_other() {
        let mut memory = Memory::default();
        memory.leave(CLIENT, 1, 3);
        assert_eq!(memory.current(CLIENT), 0);
        let after = [0, 1, 1, 2].map(|server| {
            memory.leave(CLIENT, server, 3);
            memory.current(CLIENT)
        });
        assert_eq!(after, [1, 2, 2, 0]);
        memory.leave(CLIENT, 0, 1);
        assert_eq!(memory.current(CLIENT), 0, "there is no other");
    }

    #[test]
    fn a_silent_server_is_asked_without_edns_then_over_tcp_and_again_over_udp() {
        let mut memory = Memory::default();
        let levels = [(); 10].map(|()| {
            memory.note_silence(CLIENT, 1, 3);
            memory.level(CLIENT, 1)
        });
        use Level::{Full, OverTcp, WithoutEdns};
        assert_eq!(levels[..6], [Full, Full, WithoutEdns, WithoutEdns, WithoutEdns, OverTcp]);
        assert_eq!(levels[6..], [OverTcp, OverTcp, WithoutEdns, WithoutEdns]);
        assert_eq!(memory.level(CLIENT, 0), Full);
        memory.note_answer(CLIENT, 0);
        (0..9).for_each(|_| memory.note_silence(CLIENT, 0, 3));
        assert_eq!(memory.level(CLIENT, 0), Full, "it is known to answer queries with EDNS");
    }

    #[test]
    fn one_of_the_quickest_servers_is_drawn_of_those_that_may_be_asked() {
        let mut memory = Memory::default();
        let first = 376_000_000;
        let drawn =
            |memory: &Memory, may: [bool; 3]| [0, 1, 2].map(|drawn| memory.quickest(CLIENT, &may, first, drawn));
        assert_eq!(drawn(&memory, [true; 3]), [Some(0), Some(1), Some(2)]);
        // 752 ms are within the band, and 1,504 are not.
        memory.note_round_trip(CLIENT, 1, first, Err(first));
        assert_eq!(drawn(&memory, [true; 3]), [Some(0), Some(1), Some(2)]);
        memory.note_round_trip(CLIENT, 1, first, Err(2 * first));
        assert_eq!(drawn(&memory, [true; 3]), [Some(0), Some(2), Some(0)]);
        assert_eq!(drawn(&memory, [false, true, false]), [Some(1); 3]);
        assert_eq!(drawn(&memory, [false; 3]), [None; 3]);
    }

    #[test]
    fn all_servers_are_asked_at_first_and_after_so_many_lookups_or_so_long() {
        let mut memory = Memory::default();
        let mut tests = |times: u16, at: i64| (0..times).filter(|_| memory.is_to_test(RunTime(at), CLIENT)).count();
        assert_eq!(tests(3, 0), 3, "until one has answered");
        let mut memory = Memory::default();
        assert!(memory.is_to_test(RunTime(0), CLIENT));
        memory.stay(CLIENT, 1);
        let mut tests = |times: u16, at: i64| (0..times).filter(|_| memory.is_to_test(RunTime(at), CLIENT)).count();
        assert_eq!((tests(TEST_LOOKUPS, 5), tests(1, 5), tests(1, 6)), (0, 1, 0));
        assert_eq!((tests(1, TEST_NS + 6), tests(1, TEST_NS + 7)), (1, 0));
    }
}
