//! The transports a DNS message can travel on.

use std::fmt;
use std::str::FromStr;

/// A DNS transport, named as in traces, options and reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Transport {
    /// Plain UDP (RFC 1035 §4.2.1).
    #[default]
    Udp,
    /// Plain TCP (RFC 7766).
    Tcp,
    /// DNS over TLS (RFC 7858).
    Dot,
    /// DNS over HTTPS (RFC 8484) on HTTP/2.
    Doh2,
    /// DNS over HTTPS (RFC 8484) on HTTP/3.
    Doh3,
    /// DNS over dedicated QUIC connections (RFC 9250).
    Doq,
}

/// A word that names no transport.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown transport `{0}`: use udp, tcp, dot, doh2, doh3 or doq")]
pub struct UnknownTransport(pub String);

impl Transport {
    /// Every transport, in the order of their discriminants.
    pub const ALL: [Self; 6] = [Self::Udp, Self::Tcp, Self::Dot, Self::Doh2, Self::Doh3, Self::Doq];

    /// The lower-case word used in traces, options and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Dot => "dot",
            Self::Doh2 => "doh2",
            Self::Doh3 => "doh3",
            Self::Doq => "doq",
        }
    }

    /// Whether servers show certificates and messages are not in the clear.
    pub const fn is_encrypted(self) -> bool {
        !matches!(self, Self::Udp | Self::Tcp)
    }

    /// Whether its packets are UDP datagrams, as for plain UDP and QUIC.
    pub const fn is_over_udp(self) -> bool {
        matches!(self, Self::Udp | Self::Doq | Self::Doh3)
    }

    /// Whether messages are content of HTTP (RFC 8484).
    pub const fn is_https(self) -> bool {
        matches!(self, Self::Doh2 | Self::Doh3)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|transport| transport.as_str().eq_ignore_ascii_case(word))
            // What most people mean by it.
            .or_else(|| word.eq_ignore_ascii_case("doh").then_some(Self::Doh2))
            .ok_or_else(|| UnknownTransport(word.to_owned()))
    }
}

crate::serde_as_text!(Transport);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_is_read_back_from_its_word() {
        for transport in Transport::ALL {
            assert_eq!(transport.to_string().parse(), Ok(transport));
        }
        assert!("sctp".parse::<Transport>().is_err());
    }
}
