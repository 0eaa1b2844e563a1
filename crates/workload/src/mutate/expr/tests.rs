//! Tests of expressions: what they match, and their error messages.

use bytes::Bytes;
use ldplayer_core::message::QueryParts;
use proptest::prelude::*;

use super::*;

fn row() -> Transaction {
    let mut wire = Vec::new();
    let name = b"\x03WWW\x07example\x03com\0";
    QueryParts { id: 1, flags: flag::RD, name, qtype: 28, qclass: 1, edns: Some((1232, true)) }.compose(&mut wire);
    let mut response = wire.clone();
    response[2] |= 0x80;
    response[3] |= 3;
    Transaction {
        index: 0,
        time: TraceTime(90_000_000_000),
        client: "192.0.2.7:4000".parse().unwrap(),
        server: "[2001:db8::53]:53".parse().unwrap(),
        transport: Transport::Tcp,
        stream: None,
        query: Some(Bytes::from(wire)),
        response: Some(Bytes::from(response)),
        response_delay: None,
        retry_of: None,
    }
}

fn holds_for(row: &Transaction, text: &str) -> bool {
    let expr: Expr = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    expr.holds(&Seen::of(row, TraceTime(60_000_000_000)))
}

fn refusal(text: &str) -> (usize, String) {
    let BadExpr { column, what } = text.parse::<Expr>().unwrap_err();
    (column, what)
}

#[test]
fn each_field_is_asked() {
    for text in [
        "qname == www.example.com",
        "qname under example.com.",
        "qname under [org, COM]",
        "qname != example.com",
        "qtype == AAAA and qclass == IN",
        "qtype in [A, TYPE28]",
        "qtype == 28",
        "transport != udp",
        "client in 192.0.2.0/24",
        "client == 192.0.2.7 and server in [10.0.0.0/8, 2001:db8::/32]",
        "rcode == NXDOMAIN",
        "size >= 1232 and size < 1233",
        "time > 29.9s and time <= 30",
        "do and edns and rd and answered",
        "not cd and ad == false and rd == true and rd != false",
        "labels == 3 and port == 4000 and octets > 12",
        "ipv6 or not (truncated or opcode == NOTIFY)",
    ] {
        assert!(holds_for(&row(), text), "{text}");
        assert!(!holds_for(&row(), &format!("not ({text})")), "{text}");
    }
}

#[test]
fn and_binds_tighter_than_or() {
    assert!(holds_for(&row(), "rd or rd and cd"));
    assert!(!holds_for(&row(), "(rd or rd) and cd"));
    assert!(!holds_for(&row(), "not rd or cd"));
}

#[test]
fn what_is_not_there_compares_to_nothing() {
    let row = Transaction { query: None, response: None, ..row() };
    for text in ["size < 512", "size != 512", "rcode != NOERROR", "qname under .", "do", "qtype in [A]"] {
        assert!(!holds_for(&row, text), "{text}");
    }
}

#[test]
fn the_root_is_above_everything() {
    assert!(holds_for(&row(), "qname under ."));
    assert!(!holds_for(&row(), "qname == ."));
    assert!(!holds_for(&row(), "qname under xample.com"));
}

#[test]
fn names_may_come_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "# popular\nexample.org\nExample.COM 17\n\n").unwrap();
    assert!(holds_for(&row(), &format!("qname under file(\"{}\")", file.path().display())));
    std::fs::write(file.path(), "example.org\na..b\n").unwrap();
    let (column, what) = refusal(&format!("qname in file('{}')", file.path().display()));
    assert!(column == 15 && what.contains("line 2") && what.contains("empty label"), "{column} {what}");
    assert!(refusal("qname under file('nowhere')").1.contains("nowhere: No such file"));
}

#[test]
fn type_errors_name_their_place() {
    for (text, column, said) in [
        ("do == 5", 7, "`do` is a boolean"),
        ("rd and qtype", 13, "`qtype` alone is not a condition, write `qtype == AAAA`"),
        ("qtype == 5s", 10, "`5s` is not a valid value of `qtype`, which is a type"),
        ("rd and transport < tcp", 18, "`transport` has no order"),
        ("client == example.com", 11, "is an address or a block"),
        ("client < 192.0.2.1", 8, "has no order"),
        ("time > AAAA", 8, "a duration since the start of the trace"),
        ("size == 'big'", 9, "a number"),
        ("qname == a..b", 10, "empty label"),
        ("rcode == 70000", 10, "a response code"),
    ] {
        let (at, what) = refusal(text);
        assert!(at == column && what.contains(said), "{text}: column {at}: {what}");
    }
}

#[test]
fn errors_of_form_name_their_place() {
    for (text, column, said) in [
        ("", 1, "expected a condition such as `qtype == A`, found the end"),
        ("qtyp == A", 1, "did you mean `qtype`?"),
        ("qtype = A", 7, "use `==`"),
        ("(rd", 4, "expected `)`"),
        ("rd cd", 4, "expected `and`, `or` or the end, found `cd`"),
        ("qtype in [A, ", 14, "expected a type, found the end"),
        ("qtype in [A B]", 13, "`,` or `]`"),
        ("rd & cd", 4, "unexpected `&`"),
        ("qname == 'a", 10, "missing closing"),
        ("and", 1, "unknown field `and`"),
    ] {
        let (at, what) = refusal(text);
        assert!(at == column && what.contains(said), "{text}: column {at}: {what}");
    }
    assert!(refusal(&"(".repeat(10_000)).1.contains("nested more than"));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,40}") {
        let _ = text.parse::<Expr>();
    }

    #[test]
    fn no_words_make_it_panic(words in prop::collection::vec(prop::sample::select(vec![
        "not", "and", "or", "(", ")", "[", "]", ",", "==", "<", "in", "under", "qtype", "qname", "do", "A", "client", "'x'", "file", "time",
    ]), 0..12)) {
        let text = words.join(" ");
        if let Ok(expr) = text.parse::<Expr>() {
            expr.holds(&Seen::of(&row(), TraceTime(0)));
        }
    }

    #[test]
    fn no_message_makes_it_panic(octets in prop::collection::vec(any::<u8>(), 0..80)) {
        let row = Transaction { query: Some(Bytes::from(octets.clone())), response: Some(Bytes::from(octets)), ..row() };
        for text in ["qname under example.com", "size > 1 or rcode == 1", "labels > 2", "qname == ."] {
            let _ = holds_for(&row, text);
        }
    }
}
