//! Traces of text with a query a line.

use std::io::Write as _;

use ldplayer_core::{Message, Transaction};

use super::{Output, Sink, Written};
use crate::TraceError;

/// Appends the line of a query with its end; or says why the format cannot hold it, and appends nothing.
pub(crate) type WriteLine = fn(&Transaction, &Message<'_>, &mut String) -> Result<(), &'static str>;

/// A file of lines being written.
pub(crate) struct LineSink {
    output: Output,
    /// Text not yet given to the output.
    text: String,
    write_line: WriteLine,
    written: Written,
}

impl LineSink {
    /// A file that begins with `head`.
    pub fn new(output: Output, head: String, write_line: WriteLine) -> Self {
        Self { output, text: head, write_line, written: Written::default() }
    }

    fn write_row(&mut self, row: &Transaction) {
        let message = row.query.as_deref().and_then(Message::new).ok_or("no_query");
        match message.and_then(|message| (self.write_line)(row, &message, &mut self.text)) {
            Ok(()) => self.written.transactions += 1,
            Err(reason) => self.written.leave_out(reason),
        }
    }

    fn drain(&mut self) -> Result<(), TraceError> {
        self.output.write_all(self.text.as_bytes()).map_err(|error| self.output.error(error))?;
        self.text.clear();
        Ok(())
    }
}

impl Sink for LineSink {
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
