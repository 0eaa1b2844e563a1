//! The TSV trace: columns by the names in the header line, one transaction per line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ldplayer_core::damage::Flaw;
use ldplayer_core::message::{CLASS_IN, Question, flag};
use ldplayer_core::{TraceTime, Transaction, Transport};

use super::ldplayer;
use super::text::{LineParser, Unknown};
use crate::columns::{
    Columns, Composer, NOTHING, parse_address, parse_class, parse_edns, parse_flags, parse_name, parse_type,
};

/// Server port where none is given.
pub const DNS_PORT: u16 = 53;

/// A column of a text trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Column {
    Time,
    Src,
    SrcPort,
    Dst,
    DstPort,
    Transport,
    Qname,
    Qtype,
    Qclass,
    Flags,
    Edns,
}

impl Column {
    /// Every column with its name, in the order of output.
    pub const ALL: [(Self, &str); 11] = [
        (Self::Time, "time"),
        (Self::Src, "src"),
        (Self::SrcPort, "src_port"),
        (Self::Dst, "dst"),
        (Self::DstPort, "dst_port"),
        (Self::Transport, "transport"),
        (Self::Qname, "qname"),
        (Self::Qtype, "qtype"),
        (Self::Qclass, "qclass"),
        (Self::Flags, "flags"),
        (Self::Edns, "edns"),
    ];

    /// The columns without a default.
    pub const REQUIRED: [Self; 4] = [Self::Time, Self::Src, Self::Qname, Self::Qtype];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|&(column, _)| column)
    }

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The position of each column in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    places: [Option<usize>; Column::ALL.len()],
    width: usize,
}

impl Layout {
    /// The layout of columns in this order; those that are `None` are unknown and skipped.
    pub fn new(columns: impl IntoIterator<Item = Option<Column>>) -> Result<Self, Unknown> {
        let mut layout = Self::default();
        for column in columns {
            if let Some(column) = column
                && layout.places[column as usize].replace(layout.width).is_some()
            {
                return Err(bad_header(format!("the header has the column `{}` twice", column.name())));
            }
            layout.width += 1;
        }
        match Column::REQUIRED.into_iter().find(|&column| layout.places[column as usize].is_none()) {
            Some(missing) => Err(bad_header(format!("the header has no column `{}`", missing.name()))),
            None => Ok(layout),
        }
    }
}

fn bad_header(what: String) -> Unknown {
    let remedy = "the columns time, src, qname and qtype are required, all others have defaults".into();
    Unknown { what, remedy }
}

/// The parser, if `first` is the header line of a TSV trace.
pub(crate) fn recognise(first: &str) -> Result<Option<Box<dyn LineParser>>, Unknown> {
    if let Some(layout) = header(first)? {
        return Ok(Some(Box::new(Rows::new(layout, Separator::Tab))));
    }
    let separated_otherwise = ["time,", "time;", "time "].iter().any(|start| first.starts_with(start));
    if separated_otherwise && first.contains("qname") {
        return Err(Unknown {
            what: "the columns of the header are not separated by tabs".into(),
            remedy: "separate columns with tabs".into(),
        });
    }
    Ok(None)
}

/// The layout, if `line` is the header of a TSV trace.
fn header(line: &str) -> Result<Option<Layout>, Unknown> {
    let names: Vec<&str> = line.split('\t').map(str::trim).collect();
    let has = |column: Column| names.iter().any(|name| name.eq_ignore_ascii_case(column.name()));
    let is_header = has(Column::Time) && (has(Column::Src) || has(Column::Qname));
    is_header.then(|| Layout::new(names.iter().map(|name| Column::named(name)))).transpose()
}

/// The separator between columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// One tab.
    Tab,
    /// Any run of tabs and spaces.
    Blanks,
}

/// Parses rows of a layout.
pub(crate) struct Rows {
    layout: Layout,
    separator: Separator,
    name: Vec<u8>,
    composer: Composer,
    rows: u64,
}

impl Rows {
    pub fn new(layout: Layout, separator: Separator) -> Self {
        Self { layout, separator, name: Vec::new(), composer: Composer::default(), rows: 0 }
    }

    /// Takes the columns of a header, the first or that of a file put behind another. If the other ended without a line feed, its last
    /// row is before the header.
    ///
    /// # Errors
    /// The `flaw` of the line, if it is no header.
    #[cold]
    fn begin_file(&mut self, line: &str, flaw: Flaw) -> Result<Option<Transaction>, Flaw> {
        let begun = |at: usize| match ldplayer::header(&line[at..]) {
            Ok(Some(header)) => Some((at, header)),
            _ => Some((at, (header(&line[at..]).ok()??, Separator::Tab))),
        };
        let starts = ["time\t", "#fsdb "].into_iter().flat_map(|start| line.match_indices(start));
        let places = std::iter::once(0).chain(starts.map(|(at, _)| at));
        let (at, (layout, separator)) = places.filter_map(begun).next().ok_or(flaw)?;
        let before = (at > 0).then(|| self.parse_fields(&line[..at])).transpose();
        (self.layout, self.separator) = (layout, separator);
        before
    }

    fn parse_fields(&mut self, line: &str) -> Result<Transaction, Flaw> {
        let fields = Fields::split(line, self.separator, &self.layout)?;
        let time = TraceTime::from_seconds(fields.get(Column::Time)).map_err(|_| Flaw::BadTime)?;
        let client = parse_address(fields.get(Column::Src)).ok_or(Flaw::BadAddress)?;
        let server = fields.given(Column::Dst).map_or(Some(unknown_server(client)), parse_address);
        let server = server.ok_or(Flaw::BadAddress)?;
        let transport = fields.given(Column::Transport).map_or(Some(Transport::Udp), parse_transport);
        let columns = fields.columns(&mut self.name)?;
        let query = self.composer.compose(&columns, self.rows as u16);
        self.rows += 1;
        Ok(Transaction {
            index: 0,
            time,
            client: SocketAddr::new(client, fields.port(Column::SrcPort, 0)?),
            server: SocketAddr::new(server, fields.port(Column::DstPort, DNS_PORT)?),
            transport: transport.ok_or(Flaw::BadTransport)?,
            stream: None,
            query: Some(query),
            response: None,
            response_delay: None,
            retry_of: None,
        })
    }
}

impl LineParser for Rows {
    fn parse(&mut self, line: &str) -> Result<Option<Transaction>, Flaw> {
        match self.parse_fields(line) {
            Ok(transaction) => Ok(Some(transaction)),
            Err(flaw) => self.begin_file(line, flaw),
        }
    }

    /// The header of Fsdb looks like a comment.
    fn is_comment(&self, line: &str) -> bool {
        line.starts_with('#') && !ldplayer::is_header(line)
    }
}

/// A server that was not recorded: the unspecified address of the client's family.
pub fn unknown_server(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Parses a transport: our word, or the original LDplayer's.
fn parse_transport(word: &str) -> Option<Transport> {
    let alias = || match word.to_ascii_lowercase().as_str() {
        "tls" => Some(Transport::Dot),
        "https" | "doh" => Some(Transport::Doh2),
        "quic" => Some(Transport::Doq),
        _ => None,
    };
    word.parse().ok().or_else(alias)
}

/// The fields of one line by their columns.
struct Fields<'a>([Option<&'a str>; Column::ALL.len()]);

impl<'a> Fields<'a> {
    fn split(line: &'a str, separator: Separator, layout: &Layout) -> Result<Self, Flaw> {
        match separator {
            Separator::Tab => Self::place(line.split('\t'), layout),
            Separator::Blanks => Self::place(line.split_ascii_whitespace(), layout),
        }
    }

    fn place(parts: impl Iterator<Item = &'a str>, layout: &Layout) -> Result<Self, Flaw> {
        let mut fields = Self([None; Column::ALL.len()]);
        let mut width = 0;
        for part in parts {
            if let Some(at) = layout.places.iter().position(|&place| place == Some(width)) {
                fields.0[at] = Some(part.trim());
            }
            width += 1;
        }
        if width == layout.width { Ok(fields) } else { Err(Flaw::WrongNumberOfColumns) }
    }

    /// The field, empty if there is no such column.
    fn get(&self, column: Column) -> &'a str {
        self.0[column as usize].unwrap_or_default()
    }

    /// The field unless it is empty, [`NOTHING`] or missing.
    fn given(&self, column: Column) -> Option<&'a str> {
        self.0[column as usize].filter(|field| !field.is_empty() && *field != NOTHING)
    }

    fn port(&self, column: Column, default: u16) -> Result<u16, Flaw> {
        self.given(column).map_or(Ok(default), |field| field.parse().map_err(|_| Flaw::BadPort))
    }

    fn columns<'n>(&self, name: &'n mut Vec<u8>) -> Result<Columns<'n>, Flaw> {
        let flags = self.0[Column::Flags as usize].map_or(Some(flag::RD), parse_flags).ok_or(Flaw::BadFlags)?;
        let edns = parse_edns(self.get(Column::Edns)).ok_or(Flaw::BadEdns)?;
        if self.get(Column::Qname) == NOTHING {
            return Ok(Columns { question: None, flags, edns });
        }
        parse_name(self.get(Column::Qname), name).map_err(|_| Flaw::BadName)?;
        let qtype = parse_type(self.get(Column::Qtype)).ok_or(Flaw::BadType)?;
        let qclass = self.given(Column::Qclass).map_or(Some(CLASS_IN), parse_class).ok_or(Flaw::BadClass)?;
        Ok(Columns { question: Some(Question { name, qtype, qclass }), flags, edns })
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::{open, read_all};
    use super::*;
    use ldplayer_core::Message;

    #[test]
    fn ipv4_mapped_addresses_are_ipv4() {
        let (all, _) = read_all(b"time\tsrc\tdst\tqname\tqtype\n1\t::ffff:192.0.2.1\t::ffff:198.51.100.1\ta\tA\n");
        assert_eq!((all[0].client.ip(), all[0].server.ip()), ([192, 0, 2, 1].into(), [198, 51, 100, 1].into()));
    }

    #[test]
    fn a_full_row_is_read() {
        let text = "# a comment\ntime\tsrc\tsrc_port\tdst\tdst_port\ttransport\tqname\tqtype\tqclass\tflags\tedns\n\
            1475762100.123456789\t2001:db8::1\t4242\t2001:db8::53\t853\tdot\tWww.example.\tTYPE65\tCH\trd,cd\t1232,do\n";
        let (all, tally) = read_all(text.as_bytes());
        assert_eq!((tally.packets, tally.queries, tally.damaged.len()), (1, 1, 0));
        let row = &all[0];
        assert_eq!(row.time, TraceTime(1_475_762_100_123_456_789));
        assert_eq!(
            (row.client, row.server),
            ("[2001:db8::1]:4242".parse().unwrap(), "[2001:db8::53]:853".parse().unwrap())
        );
        assert_eq!(row.transport, Transport::Dot);
        let columns = Columns::of(&Message::new(row.query.as_ref().unwrap()).unwrap());
        let question = Question { name: b"\x03Www\x07example\0", qtype: 65, qclass: 3 };
        let expected = Columns { question: Some(question), flags: flag::RD | flag::CD, edns: Some((1232, true)) };
        assert_eq!(columns, expected);
    }

    #[test]
    fn columns_go_by_name_and_have_defaults() {
        let (all, tally) = read_all(b"note\tqtype\tqname\ttime\tsrc\nx\tA\ta.example\t5\t192.0.2.1\n");
        assert!(tally.damaged.is_empty(), "{tally:?}");
        assert_eq!((all[0].client.port(), all[0].server), (0, "0.0.0.0:53".parse().unwrap()));
        assert_eq!(all[0].transport, Transport::Udp);
        let message = Message::new(all[0].query.as_ref().unwrap()).unwrap();
        assert_eq!((message.flags(), message.question().unwrap().qclass, message.edns()), (flag::RD, CLASS_IN, None));
    }

    #[test]
    fn bad_fields_are_counted_by_reason() {
        let rows = [
            ("x\t192.0.2.1\ta\tA", "bad_time"),
            ("1\t192.0.2\ta\tA", "bad_address"),
            ("1\t192.0.2.1\ta..b\tA", "bad_name"),
            ("1\t192.0.2.1\ta\t?", "bad_type"),
            ("1\t192.0.2.1\ta", "wrong_number_of_columns"),
            ("1\t192.0.2.1\ta\tA\t", "wrong_number_of_columns"),
        ];
        for (row, reason) in rows {
            let (all, tally) = read_all(format!("time\tsrc\tqname\tqtype\n{row}\n").as_bytes());
            assert_eq!((all.len(), tally.damaged[0].reason.as_str()), (0, reason), "{row}");
            assert_eq!((tally.damaged[0].first.packet, tally.damaged[0].first.offset), (2, 21));
        }
    }

    #[test]
    fn a_header_that_cannot_serve_is_refused() {
        let refusal = |text: &str| open(text.as_bytes()).err().unwrap().to_string();
        assert!(refusal("time\tsrc\tqname\n").contains("has no column `qtype`"));
        assert!(refusal("time\ttime\tsrc\tqname\tqtype\n").contains("`time` twice"));
        assert!(refusal("time,src,qname,qtype\n").contains("tabs"));
    }
}
