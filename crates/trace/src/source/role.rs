//! The role of the recording party, as in dnstap and C-DNS.

use std::fmt;
use std::str::FromStr;

/// The names of the kinds of messages by their numbers, from 1 (`Message.Type` of `dnstap.proto`).
pub(crate) const KINDS: [&str; 14] = [
    "AUTH_QUERY",
    "AUTH_RESPONSE",
    "RESOLVER_QUERY",
    "RESOLVER_RESPONSE",
    "CLIENT_QUERY",
    "CLIENT_RESPONSE",
    "FORWARDER_QUERY",
    "FORWARDER_RESPONSE",
    "STUB_QUERY",
    "STUB_RESPONSE",
    "TOOL_QUERY",
    "TOOL_RESPONSE",
    "UPDATE_QUERY",
    "UPDATE_RESPONSE",
];

/// The role in which a program saw a message; each has a kind for queries and one for responses. The client of the
/// transaction is always the querier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// An authoritative server and the resolvers that ask it, at the server.
    Auth,
    /// A resolver and the authoritative servers that it asks, at the resolver.
    Resolver,
    /// A resolver and its clients, at the resolver.
    Client,
    /// A forwarder and the resolver that it asks, at the forwarder.
    Forwarder,
    /// A stub resolver and the resolver that it asks, at the stub.
    Stub,
    /// A tool such as dig and the server that it asks, at the tool.
    Tool,
    /// An authoritative server and those that send it dynamic updates (RFC 2136), at the server.
    Update,
}

/// An unknown role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown role `{0}`: use auth, resolver, client, forwarder, stub, tool or update")]
pub struct UnknownRole(String);

impl Role {
    /// Every role, in the order of the numbers of their kinds.
    pub const ALL: [Self; 7] =
        [Self::Auth, Self::Resolver, Self::Client, Self::Forwarder, Self::Stub, Self::Tool, Self::Update];

    /// The word for it in options.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Resolver => "resolver",
            Self::Client => "client",
            Self::Forwarder => "forwarder",
            Self::Stub => "stub",
            Self::Tool => "tool",
            Self::Update => "update",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|role| role.as_str().eq_ignore_ascii_case(word));
        found.ok_or_else(|| UnknownRole(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_read_back_and_has_two_kinds() {
        for (number, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(role.to_string().parse(), Ok(role));
            let [query, response] = [KINDS[2 * number], KINDS[2 * number + 1]];
            assert_eq!(
                (query, response),
                (
                    &*format!("{}_QUERY", role.as_str().to_uppercase()),
                    &*format!("{}_RESPONSE", role.as_str().to_uppercase()),
                )
            );
        }
        assert!("CLIENT".parse::<Role>().is_ok());
        assert!("server".parse::<Role>().is_err());
    }
}
