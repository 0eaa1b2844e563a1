//! How clients use connections: one table, from which options, class files, run specifications and run.json follow.
//!
//! A key is declared once, in the table at the end of this file: its name, type and default, the values it allows, and the
//! sentence that the help prints. [`Policy`] has a field for each key, [`PolicyOverrides`] an optional one, and [`KEYS`]
//! lists them for whoever reads, prints or documents them.

mod overrides;
mod value;

pub use value::{BadValue, Kind, TlsVersion, Value};

/// In-flight queries of a connection at most, whatever the policy says: half of the query IDs that there are.
pub const MAX_PIPELINE: u32 = 1 << 15;
/// The block to whose multiple queries are padded by default, in octets (RFC 8467 §4.1).
pub const QUERY_BLOCK: u16 = 128;
/// The largest block of padding, in octets.
pub const MAX_PADDING: u16 = 4_096;

/// A key of the table.
#[derive(Debug)]
pub struct Key {
    /// Its name, with underscores, as in run specifications and run.json.
    pub name: &'static str,
    /// The values that it allows.
    pub kind: Kind,
    /// What it sets, in the words of the help.
    pub help: &'static str,
    read: fn(&Policy) -> Value,
    read_override: fn(&PolicyOverrides) -> Option<Value>,
    write_override: fn(&mut PolicyOverrides, Value),
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

    /// The value that a policy has.
    pub fn value(&self, policy: &Policy) -> Value {
        (self.read)(policy)
    }

    /// The default, as it is written.
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

    /// Whether TLS over TCP is spoken in version 1.2.
    pub const fn is_tls12(&self) -> bool {
        matches!(self.tls_version, TlsVersion::Tls12)
    }
}

/// Declares the fields of [`Policy`] and [`PolicyOverrides`] and the list of keys from one table.
macro_rules! policy {
    ($($name:ident: $type:ty = $default:expr, $kind:expr, $help:literal, $doc:literal;)*) => {
        /// The connection policy of all clients, or of a class of them. A client has its connections for itself, and uses
        /// one as long as it may; a query that finds none with room opens another at once, so that it never waits for the
        /// answer to an earlier one.
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
            help: $help,
            read: |policy| policy.$name.into(),
            read_override: |overrides| overrides.$name.map(Value::from),
            write_override: |overrides, value| overrides.$name = value.try_into().ok(),
        },)*];

        /// The keys of a policy that are given, as by options, a class or a run specification; `None` leaves a key as it is
        /// for all other clients.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PolicyOverrides { $(#[doc = $doc] pub $name: Option<$type>,)* }

        impl PolicyOverrides {
            /// The policy `base` with what is given here in its place.
            pub fn over(&self, base: Policy) -> Policy {
                Policy { $($name: self.$name.unwrap_or(base.$name),)* }
            }

            /// What is given here, and where nothing is, what `below` gives.
            #[must_use]
            pub fn or(self, below: Self) -> Self {
                Self { $($name: self.$name.or(below.$name),)* }
            }
        }
    };
}

policy! {
    idle_timeout: i64 = 20_000_000_000, Kind::Span { least: 0 },
        "Clients close a connection on which nothing has been in flight for this long; 0 closes it with its last answer",
        "Idle timeout of the client in nanoseconds (RFC 7766 §6.2.3); the default is where the paper finds most of the gain of reuse (§5.2).";
    queries_per_connection: u32 = u32::MAX, Kind::Count { least: 1, most: u32::MAX },
        "Clients close a connection after this many queries",
        "Queries after which the client closes a connection; `u32::MAX` is no limit.";
    pipeline: u32 = MAX_PIPELINE, Kind::Count { least: 1, most: MAX_PIPELINE },
        "Maximum in-flight queries per connection; the next one opens another connection",
        "Queries in flight on a connection at once, from 1 to [`MAX_PIPELINE`] (RFC 7766 §6.2.1.1).";
    connect_timeout: i64 = 5_000_000_000, Kind::Span { least: 1 },
        "Connect timeout",
        "How long a connection may take until the server is first heard, in nanoseconds.";
    handshake_timeout: i64 = 5_000_000_000, Kind::Span { least: 1 },
        "Handshake timeout of TLS and QUIC, from the moment the server is first heard",
        "How long the handshake of TLS or QUIC may take from then on, in nanoseconds.";
    tc_fallback: bool = false, Kind::Switch,
        "Retry truncated answers over TCP, as a stub does; both are one query",
        "An answer over UDP that is truncated is asked for again over TCP (RFC 1035 §4.2.1, RFC 2181 §9).";
    nagle: bool = false, Kind::Switch,
        "Nagle's algorithm: small segments wait for the acknowledgement of earlier ones",
        "Small segments wait for the acknowledgement of earlier ones (RFC 896).";
    fast_open: bool = false, Kind::Switch,
        "TCP Fast Open: send the first query with the first segment, where the server allows it",
        "The first query travels with the connection's first segment, where the server has given a cookie (RFC 7413).";
    tls_version: TlsVersion = TlsVersion::Tls13, Kind::TlsVersion,
        "TLS version over TCP",
        "The version of TLS where it is spoken over TCP.";
    resumption: bool = true, Kind::Switch,
        "Clients resume their own TLS sessions",
        "Clients resume their own TLS sessions (RFC 8446 §2.2, RFC 5077).";
    early_data: bool = false, Kind::Switch,
        "Send queries with the first message of a resumed session (0-RTT), where the server allows it; never updates or zone transfers",
        "Queries that are safe to replay travel with the first message of a resumed session (RFC 8446 §2.3), where the server allows it.";
    padding: u16 = QUERY_BLOCK, Kind::Padding,
        "Pad queries over encrypted transports to a multiple of this many bytes; on is 128 (RFC 8467). Queries without EDNS are not padded",
        "Queries on encrypted connections are padded to a multiple of this many octets, up to [`MAX_PADDING`]; 0 is no padding.";
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
