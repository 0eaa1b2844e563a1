//! Reads dnstap: messages logged by DNS software in a stream of frames.
//!
//! The schema is `dnstap.proto` of dnstap.info. A query and its response come in frames of their own or in one.

mod record;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ldplayer_core::damage::Flaw;
use ldplayer_core::{Message, Transaction};

use self::record::Record;
use super::buffer::{Buffer, LazyPlace};
use super::compressed::Content;
use super::framestream::Frames;
use super::role::{KINDS, Role};
use super::{BATCH_OCTETS, OpenOptions, Source, note};
use crate::pair::{Pairing, Room, Seen};
use crate::refused::{Refused, count_message};
use crate::{Tally, TraceError};

/// The content type of a stream of dnstap frames.
pub(crate) const CONTENT: &[u8] = b"protobuf:dnstap.Dnstap";
/// Transactions in a batch.
const BATCH: usize = 2_048;
/// Maximum number of frames read for a batch: they may be without messages.
const FRAMES: usize = 8 * BATCH;

/// Opens a stream of dnstap frames, one of several `inputs`; its transactions are not sorted yet.
///
/// # Errors
/// The stream declares another content type.
pub(crate) fn open(
    path: &Path,
    reader: Content,
    options: &OpenOptions,
    inputs: usize,
) -> Result<Box<dyn Source>, TraceError> {
    let mut frames = Frames::new(Buffer::new(Box::new(reader)), record::is_plausible);
    if let Some(control) = frames.head().filter(|control| !control.allows(CONTENT)) {
        let content = control.contents.concat().escape_ascii().to_string();
        return Err(TraceError::Format {
            path: path.to_owned(),
            what: format!("the frame stream has content type `{content}`, not `{}`", CONTENT.escape_ascii()),
            remedy: "give a dnstap stream".into(),
        });
    }
    let dnstap = Dnstap {
        path: path.to_owned(),
        frames,
        decoder: Decoder::new(path.display().to_string(), &options.roles, Pairing::one_of(inputs)),
        ended: false,
    };
    Ok(Box::new(dnstap))
}

/// A stream being read.
struct Dnstap {
    path: PathBuf,
    frames: Frames,
    decoder: Decoder,
    /// Whether the stream has ended, and only incomplete transactions are left.
    ended: bool,
}

impl Dnstap {
    /// Reads a batch; `false` at the end.
    fn read_batch(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let mut room = Room { rows: BATCH, octets: BATCH_OCTETS };
        for _ in 0..FRAMES {
            let decoder = &mut self.decoder;
            decoder.pairing.drain(batch, &mut room, self.ended);
            if room.rows == 0 || room.octets == 0 {
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            match self.frames.next(&mut decoder.tally, &decoder.name) {
                Some((place, octets)) => decoder.frame(place, octets),
                None => self.finish()?,
            }
        }
        Ok(true)
    }

    /// Ends the reading. Damage at the end was counted with its place, unless nothing came before it.
    fn finish(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        match self.frames.buffer().error() {
            Some(source) if self.decoder.tally.packets == 0 => {
                Err(TraceError::File { path: self.path.clone(), source })
            }
            _ => Ok(()),
        }
    }
}

impl Source for Dnstap {
    fn read(&mut self, batch: &mut Vec<Transaction>) -> Result<bool, TraceError> {
        let more = self.read_batch(batch);
        self.decoder.account();
        note(&mut self.decoder.tally, self.frames.buffer().progress());
        more
    }

    fn tally(&self) -> &Tally {
        &self.decoder.tally
    }
}

/// The pipeline from frames to transactions.
struct Decoder {
    name: String,
    /// Whether messages of a role are wanted, in the order of [`Role::ALL`].
    wanted: [bool; Role::ALL.len()],
    pairing: Pairing,
    /// Frames by kind of message, in the order of [`KINDS`].
    kinds: [u64; KINDS.len()],
    tally: Tally,
}

impl Decoder {
    /// For messages of `roles`; of all roles if empty.
    fn new(name: String, roles: &[Role], pairing: Pairing) -> Self {
        let wanted = Role::ALL.map(|role| roles.is_empty() || roles.contains(&role));
        Self { name, wanted, pairing, kinds: [0; KINDS.len()], tally: Tally::default() }
    }

    /// Adds the counts by kind to the tally.
    fn account(&mut self) {
        let counts = KINDS.map(Cow::Borrowed).into_iter().zip(self.kinds).filter(|(_, count)| *count > 0);
        self.tally.kinds.extend(counts);
    }

    fn frame(&mut self, place: LazyPlace, octets: &[u8]) {
        self.tally.packets += 1;
        if let Err(refused) = self.decode(octets) {
            refused.count(&mut self.tally, octets.len() as u64, || place.named(&self.name));
        }
    }

    fn decode(&mut self, octets: &[u8]) -> Result<(), Refused> {
        let record = Record::parse(octets)?;
        let kind = record.kind;
        let count = self.kinds.get_mut(kind).ok_or(Refused::Foreign("unknown_dnstap_kind"))?;
        *count += 1;
        if !self.wanted[kind / 2] {
            return Err(Refused::Foreign("other_role"));
        }
        for what in record.missing().into_iter().flatten() {
            self.tally.lose(what);
        }
        // If one message of a frame is damaged, the other is still used.
        let (query, response) = (record.query(), record.response());
        let damage = query.err().or(response.err());
        let added = match (query.unwrap_or(None), response.unwrap_or(None)) {
            (Some(query), Some(response)) => self.both(&query, &response),
            (Some(one), None) | (None, Some(one)) => self.one(&one),
            (None, None) => Err(Refused::Foreign("no_message")),
        };
        damage.map_or(added, Err)
    }

    fn one(&mut self, seen: &Seen<'_>) -> Result<(), Refused> {
        let message = Message::new(seen.octets).ok_or(Refused::Damaged(Flaw::ShortMessage))?;
        self.pairing.add(seen, &message);
        count_message(&mut self.tally, &message)
    }

    fn both(&mut self, query: &Seen<'_>, response: &Seen<'_>) -> Result<(), Refused> {
        let message = Message::new(response.octets).ok_or(Refused::Damaged(Flaw::ShortMessage))?;
        let is_new = self.pairing.add_both(query, response, &message);
        let asked = match Message::new(query.octets) {
            Some(query) if is_new => count_message(&mut self.tally, &query),
            _ => Ok(()),
        };
        count_message(&mut self.tally, &message).and(asked)
    }
}

#[cfg(test)]
mod tests;
