//! The text columns of the original LDplayer: time, source, qname, qclass, qtype, protocol, with or without an Fsdb header.

use std::net::IpAddr;

use ldplayer_core::TraceTime;

use super::text::{LineParser, Unknown};
use super::tsv::{Column, Layout, Rows, Separator};
use crate::columns::{parse_class, parse_type};

/// The columns of a file without header.
const PLAIN: [Column; 6] = [Column::Time, Column::Src, Column::Qname, Column::Qclass, Column::Qtype, Column::Transport];

/// How the header of Fsdb begins.
const HEADER: &str = "#fsdb";

/// The parser, if one of the first lines is an Fsdb header.
pub(crate) fn recognise(lines: &[&str]) -> Result<Option<Box<dyn LineParser>>, Unknown> {
    let Some(line) = lines.iter().find(|line| is_header(line)) else { return Ok(None) };
    Ok(header(line)?.map(|(layout, separator)| Box::new(Rows::new(layout, separator)) as Box<dyn LineParser>))
}

/// Whether a line is an Fsdb header.
pub(crate) fn is_header(line: &str) -> bool {
    line.starts_with(HEADER)
}

/// What an Fsdb header says of the rows behind it; `None` if the line is none.
pub(crate) fn header(line: &str) -> Result<Option<(Layout, Separator)>, Unknown> {
    let Some(header) = line.strip_prefix(HEADER) else { return Ok(None) };
    let mut words = header.split_ascii_whitespace();
    let mut separator = Separator::Blanks;
    let mut columns = Vec::new();
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            Some("F") => separator = field_separator(words.next().unwrap_or_default()),
            Some(option) if option.starts_with('F') => separator = field_separator(&option[1..]),
            Some(_) => {}
            None => columns.push(column(word)),
        }
    }
    Ok(Some((Layout::new(columns)?, separator)))
}

fn field_separator(code: &str) -> Separator {
    if code == "t" { Separator::Tab } else { Separator::Blanks }
}

/// The column by its Fsdb name, which may have a type behind a colon.
fn column(word: &str) -> Option<Column> {
    let name = word.split(':').next().unwrap_or(word);
    Some(match name {
        "srcip" | "src_ip" | "source" => Column::Src,
        "srcport" => Column::SrcPort,
        "dstip" | "dst_ip" => Column::Dst,
        "dstport" => Column::DstPort,
        "protocol" | "proto" => Column::Transport,
        _ => return Column::named(name),
    })
}

/// Whether a line is a row of a file without header.
pub(crate) fn is_row(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let mut next = || fields.next().unwrap_or_default();
    TraceTime::from_seconds(next()).is_ok()
        && next().parse::<IpAddr>().is_ok()
        && !next().is_empty()
        && parse_class(next()).is_some()
        && parse_type(next()).is_some()
        && !next().is_empty()
}

/// The parser of a file without header.
pub(crate) fn without_header() -> Box<dyn LineParser> {
    // The six columns are distinct and hold the required ones, which is all that can be wrong with a layout.
    let layout = Layout::new(PLAIN.map(Some)).expect("constant layout");
    Box::new(Rows::new(layout, Separator::Blanks))
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::{open, read_all};
    use ldplayer_core::{Message, TraceTime, Transport};

    #[test]
    fn an_fsdb_header_names_the_columns() {
        let text = b"#fsdb -F t time:d srcip qname qclass qtype protocol\n1.5\t192.0.2.7\twww.example.\tIN\tAAAA\ttcp\n#  | mutator\n";
        let (all, tally) = read_all(text);
        assert!(tally.damaged.is_empty(), "{tally:?}");
        assert_eq!((all[0].time, all[0].transport), (TraceTime(1_500_000_000), Transport::Tcp));
        let message = Message::new(all[0].query.as_ref().unwrap()).unwrap();
        assert_eq!(message.question().unwrap().qtype, 28);
    }

    #[test]
    fn rows_without_header_are_recognised() {
        for separator in ["\t", " ", "  \t"] {
            let rows = ["1.5 192.0.2.7 www.example IN A udp", "2 2001:db8::1 . 1 NS tls"];
            let text = rows.join("\n").replace(' ', separator);
            let (all, tally) = read_all(text.as_bytes());
            assert!(tally.damaged.is_empty(), "{tally:?}");
            assert_eq!((all.len(), all[1].transport), (2, Transport::Dot));
            assert_eq!(all[1].server, "[::]:53".parse().unwrap());
        }
    }

    #[test]
    fn an_fsdb_header_without_a_needed_column_is_refused() {
        let refusal = open(b"#fsdb time srcip qname\n").err().unwrap().to_string();
        assert!(refusal.contains("has no column `qtype`"), "{refusal}");
    }
}
