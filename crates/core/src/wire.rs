//! The wire form of batches of queries and outcomes, for files and for links between hosts.
//!
//! A batch is a header and its rows; all numbers are little-endian:
//!
//! ```text
//!   magic "LDPB" · version u8 · kind u8 · 0 u16 · run u64 · sequence u64 · shard u32 · rows u32 · octets of the rows u32 │ rows
//! ```
//!
//! A row has a fixed form but for addresses and messages, which have their length before them. What follows a batch in a buffer
//! is the next one: [`split`] finds where it ends.

mod read;
mod row;

use bytes::Bytes;

use self::read::Reader;
pub use self::row::Row;

/// Octets that a batch has when it counts as full: what message buses carry best.
pub const BATCH_FULL: usize = 128 << 10;
/// Octets that a batch has at most, its header included: one row beyond [`BATCH_FULL`] with the longest message.
pub const BATCH_MOST: usize = 256 << 10;
/// Octets of a header.
const HEADER: usize = 36;
const MAGIC: [u8; 4] = *b"LDPB";
const VERSION: u8 = 4;

/// Why octets are not a valid batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They do not begin with the magic number.
    #[error("not an ldplayer batch: wrong magic number")]
    Magic,
    /// The format version is not supported.
    #[error("batch version {0} is not supported: run the same release of ldplayer on all hosts")]
    Version(u8),
    /// A batch of queries where one of outcomes was expected, or the other way round.
    #[error("batch of kind {found}, expected kind {expected}")]
    Kind {
        /// What it is.
        found: u8,
        /// What it should be.
        expected: u8,
    },
    /// It ends before its header says.
    #[error("truncated batch: it ends within a row, or is shorter than its header says")]
    Short,
    /// Longer than any batch may be, or with more octets than its rows have.
    #[error("invalid batch length")]
    Length,
    /// A field has a value that it cannot have.
    #[error("row with an invalid {0}")]
    Value(&'static str),
    /// A message longer than DNS has (65,535 octets).
    #[error("message of {0} bytes, the maximum is 65535")]
    Message(usize),
}

/// Which batch it is: the batches of a shard of a run are numbered from 0, so that one that is missing or comes twice is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchHeader {
    /// The run, by a number that its controller chose.
    pub run: u64,
    /// The shard whose clients the rows are of.
    pub shard: u32,
    /// Number of the batch within its shard.
    pub sequence: u64,
}

/// Rows of one shard on their way to becoming batches.
#[derive(Debug)]
pub struct BatchWriter<R> {
    header: BatchHeader,
    octets: Vec<u8>,
    rows: u32,
    kind: std::marker::PhantomData<R>,
}

impl<R: Row> BatchWriter<R> {
    /// An empty batch, the first of `header`'s shard or a later one.
    pub fn new(header: BatchHeader) -> Self {
        Self { header, octets: vec![0; HEADER], rows: 0, kind: std::marker::PhantomData }
    }

    /// Appends a row; whether the batch is full now and should be taken.
    ///
    /// # Errors
    /// When the message of a query is longer than DNS allows; the batch is as before.
    pub fn push(&mut self, row: &R) -> Result<bool, WireError> {
        row.write(&mut self.octets)?;
        self.rows += 1;
        Ok(self.octets.len() >= BATCH_FULL)
    }

    /// Whether there is no row in it.
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The batch so far, and begins the next one.
    pub fn take(&mut self) -> Bytes {
        let next = Vec::with_capacity(BATCH_FULL);
        let mut octets = std::mem::replace(&mut self.octets, next);
        self.octets.resize(HEADER, 0);
        let length = (octets.len() - HEADER) as u32;
        octets[..4].copy_from_slice(&MAGIC);
        octets[4] = VERSION;
        octets[5] = R::KIND;
        octets[8..16].copy_from_slice(&self.header.run.to_le_bytes());
        octets[16..24].copy_from_slice(&self.header.sequence.to_le_bytes());
        octets[24..28].copy_from_slice(&self.header.shard.to_le_bytes());
        octets[28..32].copy_from_slice(&std::mem::take(&mut self.rows).to_le_bytes());
        octets[32..36].copy_from_slice(&length.to_le_bytes());
        self.header.sequence += 1;
        octets.into()
    }
}

/// Octets of the first batch in a buffer, and `None` when it is not all there.
///
/// # Errors
/// The input does not begin with a batch, or with one longer than [`BATCH_MOST`].
pub fn split(buffer: &[u8]) -> Result<Option<usize>, WireError> {
    let known = buffer.len().min(MAGIC.len());
    if buffer[..known] != MAGIC[..known] {
        return Err(WireError::Magic);
    }
    let length = buffer.get(32..HEADER).and_then(|octets| octets.try_into().ok()).map(u32::from_le_bytes);
    let Some(length) = length.map(|length| HEADER + length as usize) else { return Ok(None) };
    if length > BATCH_MOST {
        return Err(WireError::Length);
    }
    Ok((buffer.len() >= length).then_some(length))
}

/// Reads a whole batch. The messages of queries share its octets.
///
/// # Errors
/// What is wrong with it; never a panic, and no more memory than its octets account for.
pub fn read<R: Row>(octets: &Bytes) -> Result<(BatchHeader, Vec<R>), WireError> {
    let length = split(octets)?.ok_or(WireError::Short)?;
    if length != octets.len() {
        return Err(WireError::Length);
    }
    let mut reader = Reader::new(octets);
    let [_, _, _, _, version, kind, _, _] = reader.array()?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    if kind != R::KIND {
        return Err(WireError::Kind { found: kind, expected: R::KIND });
    }
    let (run, sequence, shard) = (reader.u64()?, reader.u64()?, reader.u32()?);
    let (count, _) = (reader.u32()? as usize, reader.u32()?);
    if count > length / R::SHORTEST {
        return Err(WireError::Length);
    }
    let rows = (0..count).map(|_| R::read(&mut reader)).collect::<Result<Vec<R>, _>>()?;
    if reader.is_empty() { Ok((BatchHeader { run, shard, sequence }, rows)) } else { Err(WireError::Length) }
}

#[cfg(test)]
mod tests;
