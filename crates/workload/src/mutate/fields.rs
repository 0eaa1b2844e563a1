//! Formats the fields of a transaction, to print changes.

use std::fmt::Write as _;

use ldplayer_core::message::Message;
use ldplayer_core::name::Presentation;
use ldplayer_core::{Transaction, name};
use ldplayer_trace::columns::{Columns, NOTHING, class_name, type_name, write_edns, write_flags};

/// The fields compared, in the order of TSV columns.
pub const NAMES: [&str; 11] =
    ["time", "client", "server", "transport", "qname", "qtype", "qclass", "flags", "edns", "options", "response"];

/// The fields of a transaction as text, one for each of [`NAMES`].
pub fn words(row: &Transaction) -> [String; NAMES.len()] {
    let message = row.query.as_deref().and_then(Message::new);
    let columns = message.as_ref().map(Columns::of);
    let question = columns.and_then(|columns| columns.question);
    let asked = |text: &dyn Fn(&ldplayer_core::message::Question<'_>) -> String| {
        question.as_ref().map_or_else(|| NOTHING.to_owned(), text)
    };
    let (mut flags, mut edns) = (String::new(), String::new());
    write_flags(&mut flags, columns.map_or(0, |columns| columns.flags));
    write_edns(&mut edns, columns.and_then(|columns| columns.edns));
    [
        row.time.seconds().to_string(),
        row.client.to_string(),
        row.server.to_string(),
        row.transport.to_string(),
        asked(&|asked| Presentation(asked.name).to_string()),
        asked(&|asked| type_name(asked.qtype).to_string()),
        asked(&|asked| class_name(asked.qclass).to_string()),
        flags,
        edns,
        message.map_or_else(|| NOTHING.to_owned(), |message| options(&message)),
        if row.response.is_some() { "recorded" } else { NOTHING }.to_owned(),
    ]
}

/// The differences between two transactions, after name and type: `transport udp → tcp, edns - → 1232,do`.
pub fn difference(before: &[String; NAMES.len()], after: &[String; NAMES.len()]) -> String {
    let mut text = format!("{} {} of {}", before[4], before[5], before[1]);
    let differing = NAMES.iter().zip(before.iter().zip(after)).filter(|(_, (before, after))| before != after);
    for (at, (name, (before, after))) in differing.enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{name} {before} → {after}", if at == 0 { ": " } else { ", " });
    }
    text
}

/// The options of EDNS as `code:hex`, separated by commas.
fn options(message: &Message<'_>) -> String {
    let mut text = String::new();
    let options = message.opt_offset().and_then(|at| message.octets().get(at + 9..));
    let Some([high, low, rest @ ..]) = options else { return NOTHING.to_owned() };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let mut rest = rest.get(..length).unwrap_or_default();
    while let [a, b, c, d, value @ ..] = rest {
        let (code, length) = (u16::from_be_bytes([*a, *b]), usize::from(u16::from_be_bytes([*c, *d])));
        let Some((value, behind)) = value.split_at_checked(length) else { break };
        let _ = write!(text, "{}{code}:", if text.is_empty() { "" } else { "," });
        value.iter().take(name::MAX_LABEL).for_each(|octet| {
            let _ = write!(text, "{octet:02x}");
        });
        rest = behind;
    }
    if text.is_empty() { NOTHING.to_owned() } else { text }
}
