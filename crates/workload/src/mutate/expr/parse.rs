//! Parses and type-checks expressions.

use std::path::Path;

use ldplayer_core::expr::{self, Expr, Relation, Token, TokenKind, Tokens};
use ldplayer_core::message::flag;
use ldplayer_core::time::Span;
use ldplayer_core::{Cidr, Transport, name};
use ldplayer_trace::columns::{parse_class, parse_opcode, parse_rcode, parse_type};

use super::{BadExpr, Comparison, End, Names, Number, Truth, transport_number};

/// Maximum size of a file of names in octets.
const MAX_LIST: u64 = 256 << 20;

/// The type of a field.
#[derive(Clone, Copy)]
enum Field {
    Truth(Truth),
    Number(Number),
    Address(End),
    Name,
}

/// The fields by their names.
const FIELDS: [(&str, Field); 26] = [
    ("qname", Field::Name),
    ("qtype", Field::Number(Number::Qtype)),
    ("qclass", Field::Number(Number::Qclass)),
    ("opcode", Field::Number(Number::Opcode)),
    ("rcode", Field::Number(Number::Rcode)),
    ("transport", Field::Number(Number::Transport)),
    ("size", Field::Number(Number::Size)),
    ("octets", Field::Number(Number::Octets)),
    ("response-octets", Field::Number(Number::ResponseOctets)),
    ("labels", Field::Number(Number::Labels)),
    ("port", Field::Number(Number::Port)),
    ("time", Field::Number(Number::Time)),
    ("client", Field::Address(End::Client)),
    ("server", Field::Address(End::Server)),
    ("edns", Field::Truth(Truth::Edns)),
    ("do", Field::Truth(Truth::DnssecOk)),
    ("answered", Field::Truth(Truth::Answered)),
    ("truncated", Field::Truth(Truth::Truncated)),
    ("ipv6", Field::Truth(Truth::V6)),
    ("aa", Field::Truth(Truth::Flag(flag::AA))),
    ("tc", Field::Truth(Truth::Flag(flag::TC))),
    ("rd", Field::Truth(Truth::Flag(flag::RD))),
    ("ra", Field::Truth(Truth::Flag(flag::RA))),
    ("z", Field::Truth(Truth::Flag(flag::Z))),
    ("ad", Field::Truth(Truth::Flag(flag::AD))),
    ("cd", Field::Truth(Truth::Flag(flag::CD))),
];

/// Parses an expression.
pub fn parse(text: &str) -> Result<Expr<Comparison>, BadExpr> {
    expr::parse(text, &compare)
}

/// Parses a field with its comparison.
fn compare(tokens: &mut Tokens) -> Result<Expr<Comparison>, BadExpr> {
    let (word, field) = tokens.field(&FIELDS, "qtype == A")?;
    match field {
        Field::Truth(truth) => tokens.truth(&word, Comparison::Truth(truth)),
        Field::Number(field) => number(tokens, &word, field).map(Expr::Is),
        Field::Address(end) => address(tokens, &word, end),
        Field::Name => qname(tokens),
    }
}

fn number(tokens: &mut Tokens, field: &str, number: Number) -> Result<Comparison, BadExpr> {
    if tokens.take_word("in") {
        return Ok(Comparison::OneOf(number, tokens.list(|token| value(field, number, token))?));
    }
    let column = tokens.peek().column;
    let Some(relation) = tokens.relation() else {
        return Err(tokens.not_a_condition(field, &format!("`{field} == {}`", example(number))));
    };
    if !is_ordered(number) && !relation.is_equality() {
        let what = format!("`{field}` has no order: use `==`, `!=` or `in [{}]`", example(number));
        return Err(BadExpr { column, what });
    }
    Ok(Comparison::Number(number, relation, value(field, number, &tokens.take())?))
}

fn address(tokens: &mut Tokens, field: &str, end: End) -> Result<Expr<Comparison>, BadExpr> {
    let within = |blocks| Expr::Is(Comparison::Address(end, blocks));
    if tokens.take_word("in") {
        return Ok(within(tokens.list(|token| block(field, token))?));
    }
    let column = tokens.peek().column;
    match tokens.relation() {
        Some(Relation::Equal) => Ok(within(vec![block(field, &tokens.take())?])),
        Some(Relation::Unequal) => Ok(Expr::Not(Box::new(within(vec![block(field, &tokens.take())?])))),
        Some(_) => {
            Err(BadExpr { column, what: format!("`{field}` is an address and has no order: use `==`, `!=` or `in`") })
        }
        None => Err(tokens.not_a_condition(field, &format!("`{field} in 192.0.2.0/24`"))),
    }
}

fn qname(tokens: &mut Tokens) -> Result<Expr<Comparison>, BadExpr> {
    let named = |names| Expr::Is(Comparison::Named(names));
    if tokens.take_word("under") {
        return Ok(Expr::Is(Comparison::Under(names(tokens)?)));
    }
    if tokens.take_word("in") {
        return Ok(named(names(tokens)?));
    }
    let column = tokens.peek().column;
    match tokens.relation() {
        Some(Relation::Equal) => Ok(named(names(tokens)?)),
        Some(Relation::Unequal) => Ok(Expr::Not(Box::new(named(names(tokens)?)))),
        Some(_) => {
            Err(BadExpr { column, what: "`qname` is a name and has no order: use `==`, `!=`, `in` or `under`".into() })
        }
        None => Err(tokens.not_a_condition("qname", "`qname under example.com`")),
    }
}

/// One name, several in brackets, or `file("names.txt")` with one a line.
fn names(tokens: &mut Tokens) -> Result<Names, BadExpr> {
    if tokens.take_word("file") {
        return names_of_file(tokens);
    }
    Ok(tokens.list(wire_name)?.into_iter().collect())
}

fn names_of_file(tokens: &mut Tokens) -> Result<Names, BadExpr> {
    if !tokens.take_sign("(") {
        return Err(tokens.wrong("`(\"FILE\")`"));
    }
    let token = tokens.take();
    let (TokenKind::Word(path) | TokenKind::Quoted(path)) = &token.kind else {
        return Err(token.wrong("expected a file name in quotes".into()));
    };
    if !tokens.take_sign(")") {
        return Err(tokens.wrong("`)`"));
    }
    names_in(Path::new(path)).map_err(|what| token.wrong(format!("{path}: {what}")))
}

/// A value for a number field: a word of its kind, or a number in its range.
fn value(field: &str, number: Number, token: &Token) -> Result<i64, BadExpr> {
    let wanted = kind_of(number);
    let text = token.text(wanted)?;
    let count = || text.parse::<u32>().ok().map(i64::from);
    let found = match number {
        Number::Qtype => parse_type(text).map(i64::from),
        Number::Qclass => parse_class(text).map(i64::from),
        Number::Opcode => parse_opcode(text).map(i64::from),
        Number::Rcode => parse_rcode(text).map(i64::from),
        Number::Transport => text.parse::<Transport>().ok().map(transport_number),
        Number::Time => text.parse::<Span>().ok().map(Span::ns),
        Number::Size | Number::Octets | Number::ResponseOctets | Number::Labels | Number::Port => count(),
    };
    found.ok_or_else(|| BadExpr {
        column: token.column,
        what: format!("`{text}` is not a valid value of `{field}`, which is {wanted} such as {}", example(number)),
    })
}

const fn kind_of(number: Number) -> &'static str {
    match number {
        Number::Qtype => "a type",
        Number::Qclass => "a class",
        Number::Opcode => "an opcode",
        Number::Rcode => "a response code",
        Number::Transport => "a transport",
        Number::Time => "a duration since the start of the trace",
        Number::Size | Number::Octets | Number::ResponseOctets | Number::Labels | Number::Port => "a number",
    }
}

const fn example(number: Number) -> &'static str {
    match number {
        Number::Qtype => "AAAA",
        Number::Qclass => "CH",
        Number::Opcode => "NOTIFY",
        Number::Rcode => "NXDOMAIN",
        Number::Transport => "tcp",
        Number::Time => "60s",
        Number::Labels => "3",
        Number::Size | Number::Octets | Number::ResponseOctets | Number::Port => "1232",
    }
}

const fn is_ordered(number: Number) -> bool {
    !matches!(number, Number::Qtype | Number::Qclass | Number::Opcode | Number::Rcode | Number::Transport)
}

fn block(field: &str, token: &Token) -> Result<Cidr, BadExpr> {
    let text = token.text("an address")?;
    text.parse().map_err(|_| BadExpr {
        column: token.column,
        what: format!(
            "`{text}` is not a valid value of `{field}`, which is an address or a block such as 192.0.2.0/24"
        ),
    })
}

fn wire_name(token: &Token) -> Result<Box<[u8]>, BadExpr> {
    let text = token.text("a name")?;
    lower_name(text).map_err(|error| BadExpr { column: token.column, what: error.to_string() })
}

fn lower_name(text: &str) -> Result<Box<[u8]>, name::BadName> {
    let mut wire = Vec::new();
    name::parse(text, &mut wire)?;
    wire.make_ascii_lowercase();
    Ok(wire.into())
}

/// The names in a file: the first word of each line that is neither empty nor a comment (`#`).
fn names_in(path: &Path) -> Result<Names, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > MAX_LIST {
        return Err(format!("a list of {length} bytes is too long; {MAX_LIST} are read at most"));
    }
    let list = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let words = list.lines().enumerate().filter_map(|(line, text)| Some((line, text.split_whitespace().next()?)));
    words
        .filter(|(_, word)| !word.starts_with('#'))
        .map(|(line, word)| lower_name(word).map_err(|error| format!("line {}: {error}", line + 1)))
        .collect()
}
