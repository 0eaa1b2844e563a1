//! Writes the TSV trace: a header line, then one query per line.

use std::fmt::Write as _;
use std::io::Write as _;

use ldplayer_core::name::Presentation;
use ldplayer_core::{Message, Transaction};

use super::{Output, Sink, Written, more_than_a_question};
use crate::TraceError;
use crate::columns::{Columns, NOTHING, class_name, type_name, write_edns, write_flags};
use crate::source::tsv::Column;

/// A TSV file being written.
pub(crate) struct TsvSink {
    output: Output,
    /// Text not yet given to the output.
    text: String,
    written: Written,
}

impl TsvSink {
    pub fn new(output: Output) -> Self {
        let names: Vec<&str> = Column::ALL.iter().map(|&(_, name)| name).collect();
        Self { output, text: names.join("\t") + "\n", written: Written::default() }
    }

    fn write_row(&mut self, row: &Transaction) {
        let Some(message) = row.query.as_deref().and_then(Message::new) else {
            return self.written.leave_out("no_query");
        };
        if let Some(reason) = more_than_a_question(&message) {
            return self.written.leave_out(reason);
        }
        self.written.transactions += 1;
        let columns = Columns::of(&message);
        let Transaction { time, client, server, transport, .. } = row;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{}\t{}\t{}\t", time.seconds(), client.ip(), client.port());
        let _ = write!(self.text, "{}\t{}\t{transport}\t", server.ip(), server.port());
        let _ = match columns.question {
            Some(asked) => {
                let (qtype, qclass) = (type_name(asked.qtype), class_name(asked.qclass));
                write!(self.text, "{}\t{qtype}\t{qclass}\t", Presentation(asked.name))
            }
            None => write!(self.text, "{NOTHING}\t{NOTHING}\t{NOTHING}\t"),
        };
        write_flags(&mut self.text, columns.flags);
        self.text.push('\t');
        write_edns(&mut self.text, columns.edns);
        self.text.push('\n');
    }

    fn drain(&mut self) -> Result<(), TraceError> {
        self.output.write_all(self.text.as_bytes()).map_err(|error| self.output.error(error))?;
        self.text.clear();
        Ok(())
    }
}

impl Sink for TsvSink {
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
