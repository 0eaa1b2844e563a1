//! HTTP/2 frames: headers, types, flags and error codes (RFC 9113 §4, §6, §7).

/// Octets of a frame's header.
pub const HEADER: usize = 9;
/// Octets of content that a frame has at most unless its receiver allows more (RFC 9113 §4.2). We do not.
pub const SIZE: usize = 1 << 14;

/// Kinds of frames (RFC 9113 §6).
pub mod kind {
    /// A part of a body.
    pub const DATA: u8 = 0;
    /// The beginning of a header block.
    pub const HEADERS: u8 = 1;
    /// Deprecated advice.
    pub const PRIORITY: u8 = 2;
    /// The end of a stream by an error.
    pub const RST_STREAM: u8 = 3;
    /// What the sender allows.
    pub const SETTINGS: u8 = 4;
    /// A response that nobody asked for.
    pub const PUSH_PROMISE: u8 = 5;
    /// A question whether the other side is there.
    pub const PING: u8 = 6;
    /// The sender takes no new streams.
    pub const GOAWAY: u8 = 7;
    /// More may be sent.
    pub const WINDOW_UPDATE: u8 = 8;
    /// More of a header block.
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames; their meaning depends on the kind.
pub mod flag {
    /// The sender's last frame with content on the stream.
    pub const END_STREAM: u8 = 0x1;
    /// The answer to SETTINGS or PING.
    pub const ACK: u8 = 0x1;
    /// The header block is complete.
    pub const END_HEADERS: u8 = 0x4;
    /// The content has padding.
    pub const PADDED: u8 = 0x8;
    /// The header block is preceded by a priority.
    pub const PRIORITY: u8 = 0x20;
}

/// Why a stream or a connection is ended (RFC 9113 §7): those that we send or look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// In order.
    NoError = 0x0,
    /// The other side broke the protocol.
    Protocol = 0x1,
    /// It sent more than it was allowed.
    FlowControl = 0x3,
    /// A frame of a size that its kind cannot have.
    FrameSize = 0x6,
    /// The stream was not looked at, and may be tried again.
    RefusedStream = 0x7,
    /// The stream is not needed any more.
    Cancel = 0x8,
    /// A header block that cannot be read.
    Compression = 0x9,
    /// The other side makes too much work.
    EnhanceYourCalm = 0xb,
}

/// A frame that has come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// One of [`kind`], or an unknown one.
    pub kind: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The stream, from 1; 0 is the connection.
    pub stream: u32,
    /// What is behind the header.
    pub payload: &'a [u8],
}

/// Takes the first whole frame off `octets`; `None` while it is not all there.
///
/// # Errors
/// When its header says that it is longer than we allow.
pub fn split<'a>(octets: &mut &'a [u8]) -> Result<Option<Frame<'a>>, ErrorCode> {
    let Some((&[a, b, c, kind, flags, s0, s1, s2, s3], rest)) = octets.split_first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([0, a, b, c]) as usize;
    if length > SIZE {
        return Err(ErrorCode::FrameSize);
    }
    let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(None) };
    *octets = rest;
    let stream = u32::from_be_bytes([s0, s1, s2, s3]) & (u32::MAX >> 1);
    Ok(Some(Frame { kind, flags, stream, payload }))
}

/// The header of a frame with `length` octets of content.
pub const fn header(length: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEADER] {
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    [a, b, c, kind, flags, s0, s1, s2, s3]
}

/// Appends the header of a frame.
pub fn append_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&header(length, kind, flags, stream));
}

/// Appends a frame of 32-bit words: RST_STREAM, WINDOW_UPDATE and GOAWAY are of this form.
pub fn append_words(out: &mut Vec<u8>, kind: u8, stream: u32, words: &[u32]) {
    append_header(out, 4 * words.len(), kind, 0, stream);
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
}

/// Appends the end of a stream.
pub fn append_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    append_words(out, kind::RST_STREAM, stream, &[code as u32]);
}

/// Appends the end of a connection on which the server opened no stream.
pub fn append_goaway(out: &mut Vec<u8>, code: ErrorCode) {
    append_words(out, kind::GOAWAY, 0, &[0, code as u32]);
}

impl<'a> Frame<'a> {
    /// Whether it has a part of a response in it.
    pub const fn is_response(&self) -> bool {
        matches!(self.kind, kind::DATA | kind::HEADERS)
    }

    /// Whether all bits of `flags` are set.
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The content of DATA and HEADERS without padding and priority (RFC 9113 §6.1, §6.2).
    ///
    /// # Errors
    /// When these are longer than the frame.
    pub fn content(&self) -> Result<&'a [u8], ErrorCode> {
        let mut content = self.payload;
        let mut padding = 0;
        if self.has(flag::PADDED) {
            let (&length, rest) = content.split_first().ok_or(ErrorCode::FrameSize)?;
            (padding, content) = (usize::from(length), rest);
        }
        if self.kind == kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..).ok_or(ErrorCode::FrameSize)?;
        }
        let length = content.len().checked_sub(padding).ok_or(ErrorCode::Protocol)?;
        Ok(&content[..length])
    }

    /// The 32-bit word at `place`, counted in words; `None` behind the end.
    pub fn word(&self, place: usize) -> Option<u32> {
        let octets = self.payload.get(4 * place..)?.first_chunk()?;
        Some(u32::from_be_bytes(*octets))
    }
}
