//! The connection policy of clients: one table, from which options, class files, run specifications and run.json follow.
//!
//! A key is declared once, in the table at the end of this file: its name, type and default, the values it allows, and its help text.
//! [`Policy`] has a field for each key, [`PolicyOverrides`] an optional one, and [`KEYS`] lists them all.

mod overrides;
mod value;

use std::fmt;

use crate::client::{ClientModel, Stub};
use crate::transport::Transport;
pub use value::{BadValue, TlsVersion, Value, ValueKind};

/// Upper limit of in-flight queries per connection: half of all query IDs.
pub const MAX_PIPELINE: u32 = 1 << 15;
/// Default padding block size for queries, in octets (RFC 8467 §4.1).
pub const QUERY_BLOCK: u16 = 128;
/// Largest padding block size, in octets.
pub const MAX_PADDING: u16 = 4_096;

/// A key of the table.
#[derive(Debug)]
pub struct Key {
    /// The name, with underscores, as in run specifications and run.json.
    pub name: &'static str,
    /// The values that the key allows.
    pub kind: ValueKind,
    /// The transports that it concerns.
    pub scope: Scope,
    /// The help text.
    pub help: &'static str,
    read: fn(&Policy) -> Value,
    read_override: fn(&PolicyOverrides) -> Option<Value>,
    write_override: fn(&mut PolicyOverrides, Value),
}

/// Some of the transports, as what concerns only them says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All of them.
    Any,
    /// Plain UDP.
    Udp,
    /// All but plain UDP.
    Connections,
    /// What runs over TCP.
    Tcp,
    /// All with certificates.
    Encrypted,
    /// Those of [`Self::Encrypted`] that run over TCP.
    TlsOverTcp,
    /// DNS over HTTPS.
    Https,
}

impl Scope {
    /// Whether the transport is one of them.
    pub const fn includes(self, transport: Transport) -> bool {
        let is_quic = matches!(transport, Transport::Doh3 | Transport::Doq);
        match self {
            Self::Any => true,
            Self::Udp => matches!(transport, Transport::Udp),
            Self::Connections => !matches!(transport, Transport::Udp),
            Self::Tcp => !matches!(transport, Transport::Udp) && !is_quic,
            Self::Encrypted => transport.is_encrypted(),
            Self::TlsOverTcp => transport.is_encrypted() && !is_quic,
            Self::Https => transport.is_https(),
        }
    }
}

/// As the end of "a query goes over …".
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any transport",
            Self::Udp => "UDP",
            Self::Connections => "a connection",
            Self::Tcp => "TCP",
            Self::Encrypted => "an encrypted transport",
            Self::TlsOverTcp => "TLS over TCP",
            Self::Https => "DNS over HTTPS",
        })
    }
}

impl Key {
    /// The name with hyphens, as options and class files have it.
    pub fn option(&self) -> String {
        self.name.replace('_', "-")
    }

    /// The key of this name, with underscores or hyphens.
    pub fn find(name: &str) -> Option<&'static Self> {
        let is_same = |key: &str| key.len() == name.len() && key.chars().eq(name.chars().map(underscore));
        KEYS.iter().find(|key| is_same(key.name))
    }

    /// The key's value in a policy.
    pub fn value(&self, policy: &Policy) -> Value {
        (self.read)(policy)
    }

    /// The default as text.
    pub fn default(&self) -> String {
        self.value(&Policy::default()).to_string()
    }
}

const fn underscore(c: char) -> char {
    if c == '-' { '_' } else { c }
}

impl Policy {
    /// Clamps each field to the range that its key documents.
    pub fn bounded(self) -> Self {
        let mut bounds = PolicyOverrides::default();
        KEYS.iter().for_each(|key| (key.write_override)(&mut bounds, key.kind.clamp(key.value(&self))));
        bounds.over(self)
    }

    /// Whether truncated answers over UDP are asked again over TCP, by this key or by the client's model.
    pub const fn falls_back(&self) -> bool {
        self.tc_fallback || matches!(self.client, ClientModel::Stub(Stub { tcp: true, .. }))
    }

    /// Whether TLS over TCP is spoken in version 1.2.
    pub const fn is_tls12(&self) -> bool {
        matches!(self.tls_version, TlsVersion::Tls12)
    }
}

/// Declares the fields of [`Policy`] and [`PolicyOverrides`] and the list of keys from one table.
macro_rules! policy {
    ($($name:ident: $type:ty = $default:expr, $kind:expr, $scope:ident, $help:literal, $doc:literal;)*) => {
        /// The connection policy of all clients, or of a class of them. Clients do not share connections. A client reuses its
        /// connection as long as it may; a query that finds none with room opens another at once, so that it never waits for
        /// the answer to an earlier one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Policy { $(#[doc = $doc] pub $name: $type,)* }

        impl Default for Policy {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        /// Every key, in the order of the help.
        pub static KEYS: &[Key] = &[$(Key {
            name: stringify!($name),
            kind: $kind,
            scope: Scope::$scope,
            help: $help,
            read: |policy| policy.$name.into(),
            read_override: |overrides| overrides.$name.map(Value::from),
            write_override: |overrides, value| overrides.$name = value.try_into().ok(),
        },)*];

        /// The keys set by options, a class or a run specification; `None` leaves a key unchanged.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PolicyOverrides { $(#[doc = $doc] pub $name: Option<$type>,)* }

        impl PolicyOverrides {
            /// `base` with the keys set here replaced.
            pub fn over(&self, base: Policy) -> Policy {
                Policy { $($name: self.$name.unwrap_or(base.$name),)* }
            }

            /// The keys set here, or else those set in `below`.
            #[must_use]
            pub fn or(self, below: Self) -> Self {
                Self { $($name: self.$name.or(below.$name),)* }
            }
        }
    };
}

policy! {
    client: ClientModel = ClientModel::Open, ValueKind::Client, Any,
        "What a client does when no answer comes, or a bad one: open (nothing), glibc, android, musl, go, c-ares, windows or custom, each with settings as in \
         glibc:timeout=1s,attempts=3",
        "What a client does when no answer comes, or a bad one.";
    idle_timeout: i64 = 20_000_000_000, ValueKind::Span { least: 0 }, Connections,
        "Idle timeout: clients close a connection with no query in flight for this long; 0 closes it after its last answer",
        "Idle timeout of the client in nanoseconds (RFC 7766 §6.2.3). At the default, the paper finds most of the gain of reuse (§5.2).";
    queries_per_connection: u32 = u32::MAX, ValueKind::Count { least: 1, most: u32::MAX }, Connections,
        "Maximum queries per connection; the client then closes it",
        "Maximum queries per connection, after which the client closes it; `u32::MAX` is no limit.";
    pipeline: u32 = MAX_PIPELINE, ValueKind::Count { least: 1, most: MAX_PIPELINE }, Connections,
        "Maximum in-flight queries per connection; further queries open another connection",
        "Maximum in-flight queries per connection, from 1 to [`MAX_PIPELINE`] (RFC 7766 §6.2.1.1).";
    connect_timeout: i64 = 5_000_000_000, ValueKind::Span { least: 1 }, Connections,
        "Connect timeout",
        "Connect timeout in nanoseconds: the time until the server's first packet.";
    handshake_timeout: i64 = 5_000_000_000, ValueKind::Span { least: 1 }, Encrypted,
        "TLS and QUIC handshake timeout, counted from the server's first packet",
        "TLS and QUIC handshake timeout in nanoseconds, counted from the server's first packet.";
    tc_fallback: bool = false, ValueKind::Switch, Udp,
        "Retry truncated answers over TCP, as a stub resolver does; both attempts count as one query",
        "Whether truncated answers over UDP are retried over TCP (RFC 1035 §4.2.1, RFC 2181 §9).";
    nagle: bool = false, ValueKind::Switch, Tcp,
        "Use Nagle's algorithm: delay small segments until earlier ones are acknowledged",
        "Whether Nagle's algorithm delays small segments until earlier ones are acknowledged (RFC 896).";
    fast_open: bool = false, ValueKind::Switch, Tcp,
        "Use TCP Fast Open: send the first query in the SYN, where the server allows it",
        "Whether the first query travels in the SYN, where the server has given a cookie (RFC 7413).";
    tls_version: TlsVersion = TlsVersion::Tls13, ValueKind::TlsVersion, TlsOverTcp,
        "TLS version of connections over TCP",
        "TLS version of connections over TCP.";
    resumption: bool = true, ValueKind::Switch, Encrypted,
        "Resume TLS sessions; each client resumes only its own",
        "Whether clients resume their own TLS sessions (RFC 8446 §2.2, RFC 5077).";
    early_data: bool = false, ValueKind::Switch, Encrypted,
        "Send queries as early data (0-RTT) of resumed sessions, where the server allows it; never updates or zone transfers",
        "Whether queries that are safe to replay are sent as early data of resumed sessions (RFC 8446 §2.3), where the server allows it.";
    padding: u16 = QUERY_BLOCK, ValueKind::Padding, Encrypted,
        "Pad queries over encrypted transports to a multiple of this many bytes; on means 128 (RFC 8467). Queries without EDNS are not padded",
        "Block size in octets to which queries on encrypted connections are padded, up to [`MAX_PADDING`]; 0 is no padding.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_reads_back_what_it_prints() {
        let defaults = Policy::default();
        for key in KEYS {
            let value = key.value(&defaults);
            assert_eq!(key.kind.parse(&value.to_string()), Ok(value), "{}", key.name);
            assert_eq!(Key::find(&key.option()).map(|found| found.name), Some(key.name));
        }
        assert!(Key::find("idle").is_none() && Key::find("idle_timeouts").is_none());
    }

    #[test]
    fn a_policy_is_clamped_to_the_documented_ranges() {
        let wild = Policy {
            idle_timeout: -5,
            queries_per_connection: 0,
            pipeline: u32::MAX,
            connect_timeout: 0,
            padding: u16::MAX,
            ..Policy::default()
        };
        let expected = Policy {
            idle_timeout: 0,
            queries_per_connection: 1,
            pipeline: MAX_PIPELINE,
            connect_timeout: 1,
            padding: MAX_PADDING,
            ..Policy::default()
        };
        assert_eq!(wild.bounded(), expected);
        assert_eq!(Policy::default().bounded(), Policy::default());
    }
}
