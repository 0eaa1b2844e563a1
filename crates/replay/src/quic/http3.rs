//! The part of HTTP/3 that DNS over HTTPS needs (RFC 9114): requests, responses and control streams.
//!
//! Field sections use the static table only: the client admits no dynamic one (RFC 9204 §3.2.3) and makes none.

mod control;
mod frames;
mod qpack;
mod request;
mod response;

use ldplayer_core::Reason;

pub use self::control::Http3;
#[cfg(test)]
pub use self::frames::take_frame;
use self::frames::{append_number, kind};
pub use self::request::Head;
pub use self::response::Response;

/// What clients offer to speak (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";
/// Streams that a server may open: for control and QPACK, and some of unknown types, which are skipped (RFC 9114 §6.2).
pub const UNI_STREAMS: u32 = 8;

/// Why a connection or stream is ended (RFC 9114 §8.1, RFC 9204 §6).
pub mod code {
    /// No error.
    pub const NO_ERROR: u32 = 0x100;
    /// The server opened a stream that it may not.
    pub const STREAM_CREATION_ERROR: u32 = 0x103;
    /// A stream that must stay has ended.
    pub const CLOSED_CRITICAL_STREAM: u32 = 0x104;
    /// A frame at the wrong place.
    pub const FRAME_UNEXPECTED: u32 = 0x105;
    /// A frame of the wrong form.
    pub const FRAME_ERROR: u32 = 0x106;
    /// The other side makes too much work.
    pub const EXCESSIVE_LOAD: u32 = 0x107;
    /// An identifier that nobody gave.
    pub const ID_ERROR: u32 = 0x108;
    /// Control does not begin with settings.
    pub const MISSING_SETTINGS: u32 = 0x10a;
    /// The server has done nothing about a request.
    pub const REQUEST_REJECTED: u32 = 0x10b;
    /// The answer is not wanted any more.
    pub const REQUEST_CANCELLED: u32 = 0x10c;
    /// A response that is none.
    pub const MESSAGE_ERROR: u32 = 0x10e;
    /// A field section that cannot be read.
    pub const DECOMPRESSION_FAILED: u32 = 0x200;
}

/// What begins the client's control stream: its type, and settings that repeat the defaults (RFC 9114 §6.2.1, §7.2.4).
pub const CONTROL: &[u8] = &[0x00, kind::SETTINGS as u8, 4, 0x01, 0, 0x07, 0];

/// What is wrong with what a server sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is to be ended with this code.
    Connection(u32),
    /// Rejects the response for a reason, and tells the server with a code to stop sending.
    Stream(Reason, u32),
}
