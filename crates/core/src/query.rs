//! A query to be sent: what planning makes of a transaction.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use crate::compare::Fingerprint;
use crate::time::RunTime;
use crate::transport::Transport;

/// One query with the moment at which it is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Row of the transaction in the inputs, from 0; copies that rules make share one.
    pub index: u64,
    /// When it shall be sent, counted from the start of the run.
    pub due: RunTime,
    /// The client as recorded; it keeps one identity through the run.
    pub client: IpAddr,
    /// Source port as recorded, 0 when unknown.
    pub client_port: u16,
    /// Server as recorded.
    pub server: SocketAddr,
    /// Transport to send it over.
    pub transport: Transport,
    /// The class of its client, where clients are parted into some; numbered from 0.
    pub class: Option<u8>,
    /// What the response says that its answer is compared with; `None` where it is not compared.
    pub expected: Option<Fingerprint>,
    /// The message in wire format, without length prefix.
    pub wire: Bytes,
}
