//! Writes query files of dnsperf and resperf: one name and type per line.

use std::fmt::Write as _;
use std::io::Write as _;

use ldplayer_core::name::Presentation;
use ldplayer_core::{Message, Transaction};

use super::{Output, Sink, Written};
use crate::TraceError;
use crate::columns::type_name;

/// A query file being written.
pub(crate) struct DnsperfSink {
    output: Output,
    text: String,
    written: Written,
}

impl DnsperfSink {
    pub fn new(output: Output) -> Self {
        Self { output, text: String::new(), written: Written::default() }
    }

    fn write_row(&mut self, row: &Transaction) {
        let Some(message) = row.query.as_deref().and_then(Message::new) else {
            return self.written.leave_out("no_query");
        };
        let Some(asked) = message.question() else { return self.written.leave_out("no_question") };
        self.written.transactions += 1;
        let start = self.text.len();
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{} {}", Presentation(asked.name), type_name(asked.qtype));
        if self.text[start..].starts_with('#') {
            self.text.replace_range(start..=start, "\\035"); // else it would be a comment
        }
    }

    fn drain(&mut self) -> Result<(), TraceError> {
        self.output.write_all(self.text.as_bytes()).map_err(|error| self.output.error(error))?;
        self.text.clear();
        Ok(())
    }
}

impl Sink for DnsperfSink {
    fn write(&mut self, batch: &mut Vec<Transaction>) -> Result<(), TraceError> {
        batch.drain(..).for_each(|row| self.write_row(&row));
        self.drain()
    }

    fn finish(mut self: Box<Self>) -> Result<Written, TraceError> {
        self.drain()?;
        self.output.finish()?;
        Ok(self.written)
    }
}
