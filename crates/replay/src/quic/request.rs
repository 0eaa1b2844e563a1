//! An in-flight query over QUIC.

use bytes::Bytes;
use quinn_proto::{StreamId, VarInt};

use super::http3::Response;
use crate::table;

/// One query on its way, whose ID is the number of its stream.
pub type Request = table::Request<Octets>;

/// What has not passed on the stream of a request.
#[derive(Debug, Default)]
pub struct Octets {
    /// What the stream has no room for yet.
    pub output: Bytes,
    /// The beginning of what the stream brings; over HTTP/3, of the body in it.
    pub input: Vec<u8>,
    /// How far the response has been read, over HTTP/3.
    pub response: Response,
}

impl Request {
    /// The stream that carries it, once it is written.
    pub fn stream(&self) -> Option<StreamId> {
        Some(VarInt::from_u64(self.id?).ok()?.into())
    }
}
