//! How clients use their connections.

use crate::padding::QUERY_BLOCK;

/// Queries outstanding on one connection at most, whatever the policy says: half of the IDs that there are.
pub const PIPELINE_MOST: u32 = 1 << 15;

/// The connection policy of all clients, or of a class of them. A client has its connections for itself, and uses one as
/// long as it may; a query that finds none with room opens another at once, so that it never waits for the answer to an
/// earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The client closes a connection on which nothing has been outstanding for so many nanoseconds; 0 closes it with its
    /// last answer (RFC 7766 §6.2.3).
    pub idle_timeout: i64,
    /// Queries after which the client closes a connection; at least 1.
    pub queries_per_connection: u32,
    /// Queries outstanding on a connection at once, from 1 to [`PIPELINE_MOST`] (RFC 7766 §6.2.1.1).
    pub pipeline: u32,
    /// How long a server may leave the opening of a connection without a sign of it, in nanoseconds.
    pub connect_timeout: i64,
    /// How long the handshake of TLS or QUIC may take from then on, in nanoseconds.
    pub handshake_timeout: i64,
    /// Small segments wait for the acknowledgement of earlier ones (RFC 896).
    pub nagle: bool,
    /// The first query travels with the connection's first segment, where the server has given a cookie (RFC 7413).
    pub fast_open: bool,
    /// TLS 1.2 instead of 1.3, where TLS is spoken over TCP.
    pub tls12: bool,
    /// Clients resume their own TLS sessions, where the settings of TLS allow it.
    pub resumption: bool,
    /// Queries that do no harm when they are replayed travel with the first message of a resumed session (RFC 8446 §2.3),
    /// where the server allows it.
    pub early_data: bool,
    /// Queries on encrypted connections are padded to a multiple of so many octets; 0 leaves them as they are.
    pub padding: u16,
    /// An answer over UDP that is truncated is asked for again over TCP (RFC 1035 §4.2.1, RFC 2181 §9).
    pub tc_fallback: bool,
}

impl Policy {
    /// The default idle timeout, in nanoseconds: with which the paper finds most of the gain of reuse (§5.2).
    pub const IDLE_TIMEOUT: i64 = 20_000_000_000;
    /// The default connect timeout, in nanoseconds.
    pub const CONNECT_TIMEOUT: i64 = 5_000_000_000;
    /// The default handshake timeout, in nanoseconds.
    pub const HANDSHAKE_TIMEOUT: i64 = 5_000_000_000;

    /// The same within the ranges told above.
    pub fn bounded(self) -> Self {
        Self {
            idle_timeout: self.idle_timeout.max(0),
            queries_per_connection: self.queries_per_connection.max(1),
            pipeline: self.pipeline.clamp(1, PIPELINE_MOST),
            connect_timeout: self.connect_timeout.max(1),
            handshake_timeout: self.handshake_timeout.max(1),
            ..self
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            idle_timeout: Self::IDLE_TIMEOUT,
            queries_per_connection: u32::MAX,
            pipeline: PIPELINE_MOST,
            connect_timeout: Self::CONNECT_TIMEOUT,
            handshake_timeout: Self::HANDSHAKE_TIMEOUT,
            nagle: false,
            fast_open: false,
            tls12: false,
            resumption: true,
            early_data: false,
            padding: QUERY_BLOCK,
            tc_fallback: false,
        }
    }
}
