//! Writes the TSV trace: a header line, then one query per line.

use std::fmt::Write as _;

use ldplayer_core::name::Presentation;
use ldplayer_core::{Message, Transaction};

use super::more_than_a_question;
use crate::columns::{Columns, NOTHING, class_name, type_name, write_edns, write_flags};
use crate::source::tsv::Column;

/// The header line.
pub(crate) fn head() -> String {
    let names: Vec<&str> = Column::ALL.iter().map(|&(_, name)| name).collect();
    names.join("\t") + "\n"
}

/// The header line with a column for retries.
pub(crate) fn marked_head() -> String {
    format!("{}\tretry_of\n", head().trim_end())
}

/// Appends the line of a query, and the row that it is a retry of.
pub(crate) fn write_marked_line(
    row: &Transaction,
    message: &Message<'_>,
    text: &mut String,
) -> Result<(), &'static str> {
    write_line(row, message, text)?;
    text.pop();
    // Writing to a string cannot fail.
    let _ = match row.retry_of {
        Some(first) => writeln!(text, "\t{first}"),
        None => writeln!(text, "\t{NOTHING}"),
    };
    Ok(())
}

/// Appends the line of a query.
pub(crate) fn write_line(row: &Transaction, message: &Message<'_>, text: &mut String) -> Result<(), &'static str> {
    if let Some(reason) = more_than_a_question(message) {
        return Err(reason);
    }
    let columns = Columns::of(message);
    let Transaction { time, client, server, transport, .. } = row;
    // Writing to a string cannot fail.
    let _ = write!(text, "{}\t{}\t{}\t", time.seconds(), client.ip(), client.port());
    let _ = write!(text, "{}\t{}\t{transport}\t", server.ip(), server.port());
    let _ = match columns.question {
        Some(asked) => {
            let (qtype, qclass) = (type_name(asked.qtype), class_name(asked.qclass));
            write!(text, "{}\t{qtype}\t{qclass}\t", Presentation(asked.name))
        }
        None => write!(text, "{NOTHING}\t{NOTHING}\t{NOTHING}\t"),
    };
    write_flags(text, columns.flags);
    text.push('\t');
    write_edns(text, columns.edns);
    text.push('\n');
    Ok(())
}
