//! All transports of a worker behind one interface.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use ldplayer_core::{Outcome, Query, Reason, RunTime, Transport};

use super::Extras;
use crate::connections::{ALPN_DOT, Connections, Doh, TlsClient};
use crate::counts::Counts;
use crate::lookups::Lookups;
use crate::quic::{ALPN_DOQ, Doh3, Quic, QuicTls};
use crate::response_sink::{KeptResponses, ResponseSink};
use crate::route::{Route, Sources};
use crate::settings::Settings;
use crate::strays::Strays;
use crate::table::{Config, ConnectionCounts, Machine, Policy};
use crate::udp::{Udp, UdpConfig};

/// The connection machines of a worker, which take turns in numbering their connections: the one over TCP …
const TCP: u64 = 0;
/// … and the one over QUIC.
const QUIC: u64 = 1;

/// The machines of a worker.
pub struct Transports {
    /// DNS over UDP.
    pub udp: Udp,
    /// TCP-based transports.
    pub connections: Connections,
    /// QUIC-based transports.
    pub quic: Quic,
    /// Lookups of clients that react, if there are any.
    pub lookups: Option<Lookups>,
}

impl Transports {
    /// Those of a worker of one of `shards` shards. With `stamps_udp`, the network stamps sent queries over UDP by socket.
    ///
    /// # Errors
    /// The TLS library does not support the required handshake.
    pub fn new(shard: [usize; 2], settings: &Settings, extras: &Extras, stamps_udp: bool) -> io::Result<Self> {
        let udp = Udp::new(udp_config(settings));
        let mut transports = Self {
            udp: if stamps_udp { udp.with_send_stamps() } else { udp },
            connections: connections(shard, settings)?,
            quic: quic(shard, settings)?,
            lookups: Lookups::new(policies(settings), &extras.ignore),
        };
        for sink in transports.response_sinks() {
            let kept = extras.responses.is_some().then(KeptResponses::default);
            *sink = ResponseSink { ignore: Arc::clone(&extras.ignore), kept, ..ResponseSink::default() };
        }
        Ok(transports)
    }

    /// Takes a query that is due.
    pub fn handle_query(&mut self, now: RunTime, query: Query, route: Route) {
        match query.transport {
            Transport::Udp => self.udp.handle_query(query, route),
            Transport::Doq | Transport::Doh3 => self.quic.handle_query(now, query, route),
            Transport::Tcp | Transport::Dot | Transport::Doh2 => self.connections.handle_query(now, query, route),
        }
    }

    /// Records a query that cannot be sent.
    pub fn handle_unroutable(&mut self, query: &Query, reason: Reason) {
        self.udp.handle_unroutable(query, reason);
    }

    /// Ends the queries whose time is over at `now`.
    pub fn handle_timeout(&mut self, now: RunTime) {
        self.udp.handle_timeout(now);
        self.connections.handle_timeout(now);
        self.quic.handle_timeout(now);
        self.tell_lookups(now);
        self.lookups.iter_mut().for_each(|lookups| lookups.handle_timeout(now));
    }

    /// Tells lookups what became of their attempts.
    pub fn tell_lookups(&mut self, now: RunTime) {
        let Some(mut lookups) = self.lookups.take() else { return };
        for sink in self.response_sinks() {
            sink.attempts.drain(..).for_each(|event| lookups.handle_event(now, event));
        }
        self.udp.outcomes().append(lookups.outcomes());
        self.lookups = Some(lookups);
    }

    /// Ends everything in flight, for an interrupted run.
    pub fn handle_interrupt(&mut self, now: RunTime) {
        self.udp.handle_interrupt();
        self.connections.handle_interrupt(now);
        self.quic.handle_interrupt(now);
        self.tell_lookups(now);
        self.lookups.iter_mut().for_each(Lookups::handle_interrupt);
    }

    /// When [`Self::handle_timeout`] must be called next.
    pub fn poll_timeout(&self) -> Option<RunTime> {
        let lookups = self.lookups.as_ref().and_then(Lookups::poll_timeout);
        let timeouts = [self.udp.poll_timeout(), self.connections.poll_timeout(), self.quic.poll_timeout(), lookups];
        timeouts.into_iter().flatten().min()
    }

    /// Retries over TCP those queries over UDP whose answers were truncated.
    pub fn fall_back(&mut self, now: impl Fn() -> RunTime) {
        while let Some(pending) = self.udp.poll_truncated() {
            self.connections.handle_truncated(now(), pending);
        }
    }

    /// Queries in flight, over all transports; at least as many as lookups that have not ended, which may be between two attempts.
    pub fn outstanding(&self) -> usize {
        let lookups = self.lookups.as_ref().map_or(0, Lookups::open);
        lookups.max(self.udp.outstanding() + self.connections.outstanding() + self.quic.outstanding())
    }

    /// Whether arrivals must be read as soon as possible: a connection is being established, or expects several answers,
    /// which would all get the timestamp of the last one when read together. (QUIC datagrams keep theirs until they are read.)
    pub fn is_attentive(&self) -> bool {
        let connections = &self.connections;
        connections.is_opening_any() || connections.is_crowded_any() || self.quic.is_opening_any()
    }

    /// The accounts of queries.
    pub fn counts(&self) -> Counts {
        let machines = self.udp.counts().plus(self.connections.counts()).plus(self.quic.counts());
        self.lookups.as_ref().map_or(machines, |lookups| machines.plus(lookups.counts()))
    }

    /// Responses that belong to no query.
    pub fn strays(&self) -> Strays {
        self.udp.strays().plus(self.connections.table().strays()).plus(self.quic.table().strays())
    }

    /// The accounts of connections.
    pub fn connection_counts(&self) -> ConnectionCounts {
        self.connections.connection_counts().plus(self.quic.connection_counts())
    }

    /// How each machine handles responses.
    pub fn response_sinks(&mut self) -> [&mut ResponseSink; 3] {
        [&mut self.udp.sink, &mut self.connections.table_mut().sink, &mut self.quic.table_mut().sink]
    }

    /// The finished rows since the caller last emptied them.
    pub fn outcomes(&mut self) -> [&mut Vec<Outcome>; 3] {
        [self.udp.outcomes(), self.connections.outcomes(), self.quic.outcomes()]
    }
}

fn udp_config(settings: &Settings) -> UdpConfig {
    UdpConfig {
        query_timeout: settings.query_timeout,
        linger: settings.query_timeout,
        seed: settings.seed,
        tc_fallback: falling_back(settings),
        waits_for_ids: settings.fast,
    }
}

/// The policies: one per client class, or one for all clients without classes.
pub fn policies(settings: &Settings) -> &[Policy] {
    let all = std::slice::from_ref(&settings.policy);
    if settings.classes.is_empty() { all } else { &settings.classes }
}

/// Bitmask of the classes that retry truncated answers over TCP.
fn falling_back(settings: &Settings) -> u64 {
    policies(settings).iter().zip(0..u64::BITS).map(|(policy, at)| u64::from(policy.falls_back()) << at).sum()
}

fn connections(shard: [usize; 2], settings: &Settings) -> io::Result<Connections> {
    let config = config(shard, TCP, settings);
    let tls = settings.tls.as_ref();
    let dot = tls.map(|tls| TlsClient::new(tls, ALPN_DOT)).transpose().map_err(io::Error::other)?;
    let doh = tls.map(|tls| Doh::new(tls, &settings.doh)).transpose().map_err(io::Error::other)?;
    Ok(Connections::new(config, dot).with_doh(doh).with_classes(&settings.classes))
}

/// The QUIC machine. Its run time 0 is an arbitrary moment: only differences count.
fn quic(shard: [usize; 2], settings: &Settings) -> io::Result<Quic> {
    let early_data = settings.policy.early_data || settings.classes.iter().any(|policy| policy.early_data);
    let doq = settings.tls.as_ref().map(|tls| QuicTls::new(tls, ALPN_DOQ, 0, early_data));
    let doq = doq.transpose().map_err(io::Error::other)?;
    let doh3 = settings.tls.as_ref().map(|tls| Doh3::new(tls, &settings.doh, early_data));
    let doh3 = doh3.transpose().map_err(io::Error::other)?;
    Ok(Quic::new(config(shard, QUIC, settings), Instant::now(), doq, doh3).with_classes(&settings.classes))
}

/// The settings of a connection machine; a worker has one over TCP and, with TLS, one over QUIC.
/// Connection numbers are unique across all machines of all shards.
fn config([shard, shards]: [usize; 2], machine: u64, settings: &Settings) -> Config {
    let machines = 1 + u64::from(settings.tls.is_some());
    Config {
        policy: settings.policy,
        query_timeout: settings.query_timeout,
        linger: settings.query_timeout,
        most: connections_at_once(machine, &settings.sources, settings.max_sockets),
        seed: settings.seed,
        first: shard as u64 * machines + machine,
        step: shards as u64 * machines,
    }
}

/// TCP connections have a socket each. QUIC connections share sockets, unless each client has its own.
fn connections_at_once(machine: u64, sources: &Sources, sockets: u32) -> u32 {
    if machine == QUIC && *sources != Sources::Ports { u32::MAX } else { sockets }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_over_quic_that_share_sockets_are_not_bounded_by_their_number() {
        assert_eq!(connections_at_once(QUIC, &Sources::Original, 100), u32::MAX);
        assert_eq!(connections_at_once(QUIC, &Sources::Ports, 100), 100);
        assert_eq!(connections_at_once(TCP, &Sources::Original, 100), 100);
    }
}
