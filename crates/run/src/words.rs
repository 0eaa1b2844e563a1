//! The syntax of specification values, the same on the command line and in files.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ldplayer_core::cidr::canonical;
use ldplayer_core::time::Span;
use ldplayer_core::{Transport, serde_as_text};
use ldplayer_net::cpu_quota::LEAST_CORES;
use ldplayer_workload::ClientClass;

use crate::classes::parse_shares;

/// The recorded servers.
const RECORDED: &str = "recorded";
/// The most cores of a quota.
const MOST_CORES: f64 = 1_024.0;
/// The port of DNS (RFC 1035 §4.2).
pub const DNS_PORT: u16 = 53;

/// A target server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// At this address.
    Address(SocketAddr),
    /// At the addresses of this name, resolved when the run is prepared.
    Name {
        /// The name.
        host: String,
        /// The port.
        port: u16,
    },
    /// The recorded server of each query.
    Recorded,
}

/// An invalid server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a server: give an address or a name with an optional port, such as 192.0.2.1, [2001:db8::1]:53 or ns1.example:53, or recorded"
)]
pub struct BadServer(String);

impl FromStr for Server {
    type Err = BadServer;

    fn from_str(word: &str) -> Result<Self, BadServer> {
        if word == RECORDED {
            return Ok(Self::Recorded);
        }
        if let Ok(address) = word.parse() {
            return Ok(Self::Address(canonical(address)));
        }
        let bare = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(word);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Address(canonical(SocketAddr::new(address, DNS_PORT))));
        }
        let (host, port) = match word.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| BadServer(word.to_owned()))?),
            None => (word, DNS_PORT),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        // Digits and dots alone are a mistyped address.
        let has_letter = host.chars().any(|c| c.is_ascii_alphabetic());
        if has_letter && host.chars().all(is_name) {
            return Ok(Self::Name { host: host.to_owned(), port });
        }
        Err(BadServer(word.to_owned()))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Recorded => f.write_str(RECORDED),
        }
    }
}

/// The transport of a run's queries.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TransportChoice {
    /// Each query keeps its recorded one.
    #[default]
    AsRecorded,
    /// All use this one.
    All(Transport),
    /// Clients are divided among them.
    Shares(Vec<ClientClass>),
}

impl FromStr for TransportChoice {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if word == "as-recorded" {
            return Ok(Self::AsRecorded);
        }
        if word.contains('=') {
            return parse_shares(word).map(Self::Shares);
        }
        Transport::from_str(word).map(Self::All).map_err(|error| error.to_string())
    }
}

impl fmt::Display for TransportChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsRecorded => f.write_str("as-recorded"),
            Self::All(transport) => transport.fmt(f),
            Self::Shares(classes) => {
                let share = |class: &ClientClass| format!("{}={}", class.name, class.share.part() * 100.0);
                f.write_str(&classes.iter().map(share).collect::<Vec<_>>().join(","))
            }
        }
    }
}

/// Cores that a server may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreShare(pub f64);

impl FromStr for CoreShare {
    type Err = String;

    /// In percent of a core, or in cores.
    fn from_str(word: &str) -> Result<Self, String> {
        let cores = match word.strip_suffix('%') {
            Some(percent) => percent.trim().parse().map(|percent: f64| percent / 100.0),
            None => word.parse(),
        };
        let allowed = LEAST_CORES..=MOST_CORES;
        cores.ok().filter(|cores| allowed.contains(cores)).map(Self).ok_or_else(|| {
            format!("`{word}` is no share of the processor: give cores or percent of one, such as 0.2 or 20%, from {LEAST_CORES} to {MOST_CORES} cores")
        })
    }
}

impl fmt::Display for CoreShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

serde_as_text!(CoreShare);

/// How late a query may be before it is not sent any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag(pub Span);

impl FromStr for Lag {
    type Err = String;

    /// With a unit, or in milliseconds.
    fn from_str(word: &str) -> Result<Self, String> {
        let with_unit = if word.parse::<f64>().is_ok() { format!("{word}ms") } else { word.to_owned() };
        let bad = |_| format!("`{word}` is no time: give milliseconds, or a unit, such as 500, 500ms or 1s");
        with_unit.parse().map(Self).map_err(bad)
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

serde_as_text!(Server);

/// The factor of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(pub f64);

impl FromStr for Speed {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let speed = word.parse().ok().filter(|&speed: &f64| speed > 0.0 && speed.is_finite());
        speed
            .map(Self)
            .ok_or_else(|| format!("`{word}` is no speed: give a number above 0, such as 2 for twice as fast"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_addresses_or_names_and_may_omit_their_port() {
        for (word, server) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5300", "192.0.2.1:5300"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5300", "[::1]:5300"),
            ("localhost", "localhost:53"),
            ("::ffff:192.0.2.1", "192.0.2.1:53"),
            ("[::ffff:192.0.2.1]:5300", "192.0.2.1:5300"),
            ("recorded", "recorded"),
            ("ns1.example:5300", "ns1.example:5300"),
        ] {
            assert_eq!(word.parse::<Server>().unwrap().to_string(), server);
        }
        for word in ["", "192.0.2", "192.0.2.256", "ns1.example:dns", "a b", "ns1.example:70000", "[ns1.example]"] {
            assert!(word.parse::<Server>().is_err(), "{word}");
        }
    }

    #[test]
    fn transports_are_read_back_from_what_they_say() {
        for word in ["as-recorded", "udp", "doh3", "udp=60,tcp=5,dot=35", "udp=62.5,tcp=37.5"] {
            assert_eq!(word.parse::<TransportChoice>().unwrap().to_string(), word);
        }
        assert!("sctp".parse::<TransportChoice>().unwrap_err().contains("sctp"));
        assert!("udp=60".parse::<TransportChoice>().unwrap_err().contains("60 %"));
    }
}
