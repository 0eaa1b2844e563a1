//! C-DNS as a source (RFC 8618): transactions in blocks of CBOR, their messages rebuilt.

mod block;
mod cbor;
mod item;
mod lost;
mod preamble;
mod rebuild;
mod transactions;

use std::path::{Path, PathBuf};

use ldplayer_core::Transaction;
use ldplayer_core::damage::Flaw;
use minicbor::Decoder;

use self::cbor::NoItem;
use self::preamble::Preamble;
use self::transactions::Transactions;
use super::buffer::{Buffer, LazyPlace};
use super::compressed::Content;
use super::{BATCH_OCTETS, OpenOptions, Source, note};
use crate::pair::Room;
use crate::{Place, Tally, TraceError};

/// Transactions in a batch.
const BATCH: usize = 2_048;
/// Octets of the longest block that is read: thousands of transactions take one or two million.
const MAX_BLOCK: usize = 64 << 20;
/// Octets of the longest preamble that is read.
const MAX_PREAMBLE: usize = 1 << 20;
/// Octets looked at first for an item, doubled until it is whole.
const FIRST_LOOK: usize = 64 * 1024;
/// How a file begins: an array of three (or of no stated length), and the text `C-DNS`.
const MAGIC: &[u8] = b"\x65C-DNS";
/// The end of an array without a stated length.
const BREAK: u8 = 0xff;
/// The major version that is read.
const VERSION: u64 = 1;

/// Whether a file begins as C-DNS.
pub(crate) fn is_cdns(head: &[u8]) -> bool {
    matches!(head.first(), Some(0x83 | 0x9f)) && head[1..].starts_with(MAGIC)
}

/// Opens a file; its transactions are not sorted yet.
///
/// # Errors
/// When the system refuses the input, its preamble is damaged, or its version is not read here.
pub(crate) fn open(path: &Path, reader: Content, options: &OpenOptions) -> Result<Box<dyn Source>, TraceError> {
    let mut buffer = Buffer::new(Box::new(reader));
    let (preamble, left) = begin(&mut buffer).map_err(|unread| unread.error(path))?;
    let name = path.display().to_string();
    let transactions = Transactions::new(preamble, &options.roles);
    let cdns = Cdns { path: path.to_owned(), name, buffer, left, blocks: 0, transactions, ended: false };
    Ok(Box::new(cdns))
}

/// Why the beginning of a file cannot be read.
enum Unread {
    Damaged,
    Version(u64, u64),
}

impl Unread {
    fn error(&self, path: &Path) -> TraceError {
        let (what, remedy) = match self {
            Self::Damaged => ("the preamble of this C-DNS file is damaged".into(), "write the file again"),
            Self::Version(major, minor) => (
                format!("unsupported C-DNS version {major}.{minor}"),
                "write it in the format of RFC 8618, which is version 1",
            ),
        };
        TraceError::Format { path: path.to_owned(), what, remedy: remedy.into() }
    }
}

/// Reads up to the first block of a file: its preamble, and the number of its blocks, if the file says it.
fn begin(buffer: &mut Buffer) -> Result<(Preamble, Option<u64>), Unread> {
    // The head of the outer array and the text, which were looked at before.
    buffer.peek(1 + MAGIC.len());
    buffer.consume(1 + MAGIC.len());
    let length = whole(buffer, MAX_PREAMBLE).map_err(|_| Unread::Damaged)?;
    let preamble = Preamble::parse(buffer.take(length)).map_err(|_| Unread::Damaged)?;
    let (major, minor) = preamble.version;
    if major != VERSION {
        return Err(Unread::Version(major, minor));
    }
    let mut decoder = Decoder::new(buffer.peek(9));
    let left = decoder.array().map_err(|_| Unread::Damaged)?;
    let length = decoder.position();
    buffer.consume(length);
    Ok((preamble, left))
}

/// Octets of the item that comes next, once all of it is at hand.
fn whole(buffer: &mut Buffer, most: usize) -> Result<usize, NoItem> {
    let mut look = FIRST_LOOK;
    loop {
        let octets = buffer.peek(look);
        match cbor::extent(octets) {
            Err(NoItem::Cut) if octets.len() == look && look < most => look *= 2,
            Err(NoItem::Cut) if octets.len() == look => return Err(NoItem::Broken),
            found => return found,
        }
    }
}

/// A file that is read.
struct Cdns {
    path: PathBuf,
    name: String,
    buffer: Buffer,
    /// Blocks left; with `None` up to the break.
    left: Option<u64>,
    /// Blocks found so far.
    blocks: u64,
    transactions: Transactions,
    /// Whether there is no block any more.
    ended: bool,
}

impl Cdns {
    fn account(&mut self) {
        self.transactions.account();
        note(&mut self.transactions.tally, self.buffer.progress());
    }

    /// Goes on with a file that was put behind this one; anything else there is damage.
    fn next_file(&mut self) {
        if self.buffer.peek(1).is_empty() && !self.buffer.has_failed() {
            self.ended = true;
            return;
        }
        let place = self.buffer.place(self.blocks + 1);
        let begun = is_cdns(self.buffer.peek(1 + MAGIC.len())).then(|| begin(&mut self.buffer));
        if let Some(Ok((preamble, left))) = begun {
            self.transactions.begin(preamble);
            self.left = left;
            return;
        }
        self.ended = true;
        let reason = if self.buffer.has_failed() { self.buffer.end_within_record() } else { Flaw::BadBlock };
        self.buffer.consume_rest();
        let (name, octets) = (&self.name, self.buffer.passed() - place.offset);
        self.transactions.tally.damage(reason, octets, || place.named(name));
    }

    /// Whether all blocks of the file were read. There may be fewer than it says if its writer did not end it, and another behind it.
    fn is_at_end(&mut self, place: LazyPlace) -> bool {
        if self.left == Some(0) {
            return true;
        }
        let head = self.buffer.peek(1 + MAGIC.len());
        if self.left.is_none() && head.first() == Some(&BREAK) {
            self.buffer.consume(1);
            return true;
        }
        let is_open = is_cdns(head);
        if is_open {
            let name = &self.name;
            self.transactions.tally.damage(Flaw::TruncatedCapture, 0, || place.named(name));
        }
        is_open
    }

    /// Takes up the next block. One whose end is known costs only itself; behind one that is no CBOR nothing is found.
    fn next_block(&mut self) -> Result<(), TraceError> {
        let place = self.buffer.place(self.blocks + 1);
        if self.is_at_end(place) {
            self.next_file();
            return Ok(());
        }
        let found = whole(&mut self.buffer, MAX_BLOCK);
        self.blocks += 1;
        self.left = self.left.map(|left| left - 1);
        let Ok(length) = found else {
            self.ended = true;
            let reason = if found == Err(NoItem::Broken) { Flaw::BadBlock } else { self.buffer.end_within_record() };
            let (name, rest) = (&self.name, self.buffer.consume_rest());
            self.transactions.tally.damage(reason, rest, || place.named(name));
            return match self.buffer.error() {
                Some(source) if self.blocks == 1 => Err(TraceError::File { path: self.path.clone(), source }),
                _ => Ok(()),
            };
        };
        let octets = self.buffer.take(length).to_vec();
        if let Err(reason) = self.transactions.take_block(octets, place) {
            let name = &self.name;
            self.transactions.tally.damage(reason, length as u64, || place.named(name));
        }
        Ok(())
    }
}

impl Source for Cdns {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let mut room = Room { rows: BATCH, octets: BATCH_OCTETS };
        while room.rows > 0 && room.octets > 0 && !self.ended {
            if !self.transactions.next(batch, &mut room, &self.name) {
                self.next_block()?;
            }
        }
        self.account();
        Ok(!self.ended)
    }

    fn tally(&self) -> &Tally {
        &self.transactions.tally
    }
}

/// The place of a transaction: its number, and where its block begins.
fn place(name: &str, number: u64, block: LazyPlace) -> Place {
    Place { file: name.to_owned(), packet: number, offset: block.offset }
}

#[cfg(test)]
mod tests;
