//! Reads query files of dnsperf and resperf: one name and type per line, without times or clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ldplayer_core::damage::Flaw;
use ldplayer_core::message::{CLASS_IN, Question, flag};
use ldplayer_core::{TraceTime, Transaction, Transport};

use super::text::LineParser;
use super::tsv::{DNS_PORT, unknown_server};
use crate::columns::{Columns, Composer, parse_name, parse_type};

/// Nanoseconds between two queries, since the file has no times.
const GAP: i64 = 1_000_000;
/// The one client of such a file.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Reads `name type` lines; `;` begins a comment, and so does `#` unless a query stands there. Either begins one behind the type.
#[derive(Default)]
pub(crate) struct Queries {
    read: i64,
    name: Vec<u8>,
    composer: Composer,
}

impl LineParser for Queries {
    fn parse(&mut self, line: &str) -> Result<Option<Transaction>, Flaw> {
        let (name, qtype) = split(line).ok_or(Flaw::WrongNumberOfColumns)?;
        parse_name(name, &mut self.name).map_err(|_| Flaw::BadName)?;
        let qtype = parse_type(qtype).ok_or(Flaw::BadType)?;
        let question = Some(Question { name: &self.name, qtype, qclass: CLASS_IN });
        let query = self.composer.compose(&Columns { question, flags: flag::RD, edns: None }, self.read as u16);
        let time = TraceTime(self.read * GAP);
        self.read += 1;
        Ok(Some(Transaction {
            index: 0,
            time,
            client: SocketAddr::new(CLIENT, 0),
            server: SocketAddr::new(unknown_server(CLIENT), DNS_PORT),
            transport: Transport::Udp,
            stream: None,
            query: Some(query),
            response: None,
            response_delay: None,
            retry_of: None,
        }))
    }

    /// dnsperf knows `;` only, and names that begin with `#` are asked: such a line is a comment unless it is a query.
    fn is_comment(&self, line: &str) -> bool {
        line.starts_with(';') || line.starts_with('#') && !is_query(line)
    }

    fn skipped(&self, line: &str) -> Option<&'static str> {
        is_update(line).then_some("dynamic_update")
    }

    fn is_list(&self) -> bool {
        true
    }
}

/// Whether a line is a query: a name, and a type by its mnemonic.
pub(crate) fn is_query(line: &str) -> bool {
    split(line).is_some_and(|(_, qtype)| qtype.parse::<u16>().is_err() && parse_type(qtype).is_some())
}

/// Name and type. A comment may stand right behind the type.
fn split(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (name, word) = (words.next()?, words.next()?);
    let qtype = word.split([';', '#']).next().filter(|qtype| !qtype.is_empty())?;
    let is_end = qtype.len() < word.len() || words.next().is_none_or(|word| word.starts_with([';', '#']));
    is_end.then_some((name, qtype))
}

/// The commands of dynamic updates in files for `dnsperf -u`.
const UPDATE_COMMANDS: [&str; 5] = ["require", "prohibit", "add", "delete", "send"];

/// Whether a line is of a dynamic update: a command, or behind `>`.
pub(crate) fn is_update(line: &str) -> bool {
    let first = line.split_ascii_whitespace().next().unwrap_or_default();
    // Names may begin so, too.
    first == ">" || (first.starts_with('>') || UPDATE_COMMANDS.contains(&first)) && !is_query(line)
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::{open, read_all};
    use super::*;
    use ldplayer_core::Message;

    #[test]
    fn a_name_may_begin_with_a_hash() {
        let (all, tally) = read_all(b"a.example A\n#192.168.2. A\n# b.example A\n");
        assert_eq!((all.len(), tally.damaged.len()), (2, 0));
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_name() {
        let (all, tally) = read_all("\u{feff}a.example A\nx y z\nb.example A\n".as_bytes());
        assert_eq!(
            Message::new(all[0].query.as_ref().unwrap()).unwrap().question().unwrap().name,
            b"\x01a\x07example\0"
        );
        assert_eq!((tally.damaged[0].first.packet, tally.damaged[0].first.offset), (2, 15));
    }

    #[test]
    fn text_in_utf_16_is_refused_as_such() {
        for text in [b"\xff\xfea\0 \0A\0\n\0".as_slice(), b"\xfe\xff\0a\0 \0A\0\n"] {
            let refusal = open(text).err().unwrap().to_string();
            assert!(refusal.contains("UTF-16") && refusal.contains("iconv"), "{refusal}");
        }
    }

    #[test]
    fn a_comment_may_follow_a_query() {
        let (all, tally) = read_all(b"d.example. txt ; trailing\n#e.example A # one\nf.example A ;\ng.example A b\n");
        assert_eq!((all.len(), tally.damaged.len(), tally.damaged[0].first.packet), (3, 1, 4));
    }

    #[test]
    fn a_comment_may_stand_right_behind_the_type() {
        let (all, tally) = read_all(b"d.example. txt;trailing\ne.example A# one\nf.example ;A\n");
        assert_eq!((all.len(), tally.damaged.len(), tally.damaged[0].first.packet), (2, 1, 3));
    }

    #[test]
    fn dynamic_updates_are_left_out_and_counted() {
        let (all, tally) =
            read_all(b"a.example A\nb.example A\nc.example A\n> b.example\nadd www 300 A 192.0.2.1\nsend\nsend A\n");
        assert_eq!((all.len(), tally.skipped.get("dynamic_update"), tally.damaged.len()), (4, Some(&3), 0));
        let refusal = open(b"example\nrequire www\nadd www 300 A 192.0.2.1\nsend\n").err().unwrap().to_string();
        assert!(refusal.contains("dynamic updates"), "{refusal}");
    }

    #[test]
    fn queries_are_a_millisecond_apart() {
        let (all, tally) = read_all(b"; head\nwww.example A\n\n# more\na\\.b.example.\tTYPE65\nx y z\n. NS\n");
        let times: Vec<i64> = all.iter().map(|row| row.time.0).collect();
        assert_eq!(times, [0, GAP, 2 * GAP]);
        assert_eq!((tally.damaged[0].reason.as_str(), tally.damaged[0].first.packet), ("wrong_number_of_columns", 6));
        let message = Message::new(all[1].query.as_ref().unwrap()).unwrap();
        assert_eq!(message.question().unwrap().name, b"\x03a.b\x07example\0");
        assert_eq!((message.flags(), all[1].client), (flag::RD, "127.0.0.1:0".parse().unwrap()));
    }
}
