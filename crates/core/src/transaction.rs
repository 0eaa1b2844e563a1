//! One recorded query with its response: a row of a trace.

use std::net::SocketAddr;

use bytes::Bytes;

use crate::time::TraceTime;
use crate::transport::Transport;

/// A DNS transaction as it was recorded: a query, a response, or both.
///
/// Messages are in wire format without a length prefix. They share the reader's buffers, so cloning one is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// Its row in the inputs, from 0, by which a query of a run is found there again: whoever reads a trace to replay it numbers
    /// the rows, and what changes them keeps the numbers. 0 where nobody has.
    pub index: u64,
    /// When the query was seen; when the response was, if the query was not.
    pub time: TraceTime,
    /// Address and port of the client.
    pub client: SocketAddr,
    /// Address and port of the server.
    pub server: SocketAddr,
    /// What carried the messages.
    pub transport: Transport,
    /// Number of the connection in the capture, for connection transports.
    pub stream: Option<u64>,
    /// The query message, if it was seen.
    pub query: Option<Bytes>,
    /// The response message, if it was seen.
    pub response: Option<Bytes>,
    /// Response time minus query time, in nanoseconds, if both were seen.
    pub response_delay: Option<i64>,
    /// The row, as [`Self::index`], of the first query of the lookup that this query tries again; `None` of a first query, and where nobody has
    /// looked for retries.
    pub retry_of: Option<u64>,
}

impl Transaction {
    /// Octets of its messages.
    pub fn message_octets(&self) -> usize {
        [&self.query, &self.response].into_iter().flatten().map(|message| message.len()).sum()
    }
}
