//! Comparisons with fields of rows: `latency > 100ms`, `status == timeout`, `client in 192.0.2.0/24`.

use ldplayer_core::expr::{BadExpr, Expr, Relation, Token, Tokens};
use ldplayer_core::time::{BadTime, Span};
use ldplayer_core::{Cidr, name};

use super::view::{Cell, Views};
use crate::rcode;

/// What a field is.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// A column that is true or false.
    Truth,
    /// Whether there was an answer in time.
    Answered,
    Number,
    Duration,
    Rcode,
    Word,
    Address,
    /// A domain name.
    Name,
    /// The type of a question.
    Type,
}

/// The fields, each with its column. Those of rules have the names that they have there.
const FIELDS: [(&str, (&str, Field)); 41] = [
    ("index", ("index", Field::Number)),
    ("client", ("client", Field::Address)),
    ("port", ("client_port", Field::Number)),
    ("server", ("server", Field::Address)),
    ("transport", ("transport", Field::Word)),
    ("connection", ("connection", Field::Number)),
    ("time", ("intended_ns", Field::Duration)),
    ("late", ("late_ns", Field::Duration)),
    ("latency", ("latency_ns", Field::Duration)),
    ("connect", ("connect_ns", Field::Duration)),
    ("handshake", ("handshake_ns", Field::Duration)),
    ("first_byte", ("first_byte_ns", Field::Duration)),
    ("status", ("status", Field::Word)),
    ("answered", ("status", Field::Answered)),
    ("reason", ("reason", Field::Word)),
    ("rcode", ("rcode", Field::Rcode)),
    ("tc", ("tc", Field::Truth)),
    ("truncated", ("tc", Field::Truth)),
    ("aa", ("aa", Field::Truth)),
    ("ad", ("ad", Field::Truth)),
    ("octets", ("query_bytes", Field::Number)),
    ("query_bytes", ("query_bytes", Field::Number)),
    ("response-octets", ("response_bytes", Field::Number)),
    ("response_bytes", ("response_bytes", Field::Number)),
    ("reused", ("reused", Field::Truth)),
    ("resumed", ("resumed", Field::Truth)),
    ("early_data", ("early_data", Field::Truth)),
    ("resent", ("resent", Field::Truth)),
    ("fell_back", ("fell_back", Field::Truth)),
    ("answer", ("answer", Field::Word)),
    ("differs", ("differs", Field::Word)),
    ("class", ("class", Field::Word)),
    ("segments", ("segments", Field::Number)),
    ("retransmits", ("retransmits", Field::Number)),
    ("length_apart", ("length_apart", Field::Truth)),
    ("ede", ("ede", Field::Number)),
    ("attempts", ("attempts", Field::Number)),
    ("gave_up", ("gave_up", Field::Truth)),
    ("follows", ("follows", Field::Number)),
    ("qname", ("qname", Field::Name)),
    ("qtype", ("qtype", Field::Type)),
];

/// What one column of a row is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    column: &'static str,
    with: With,
}

#[derive(Clone, Debug, PartialEq)]
enum With {
    Truth,
    Answered,
    Number(Relation, i64),
    OneOf(Vec<i64>),
    Words(Vec<String>),
    Blocks(Vec<Cidr>),
    /// In lower case; with `under`, names below them, too.
    Names {
        names: Vec<String>,
        under: bool,
    },
}

impl Comparison {
    /// The column that it looks at.
    pub const fn column(&self) -> &'static str {
        self.column
    }

    /// Whether it holds of a row. What is not there compares to nothing: `rcode != NOERROR` is false without an answer.
    pub fn holds(&self, views: &Views<'_>, row: usize) -> bool {
        let number = || views.number(self.column, row);
        match &self.with {
            With::Truth => views.cell(self.column, row) == Cell::Bit(true),
            With::Answered => views.cell(self.column, row) == Cell::Word("answered"),
            With::Number(relation, wanted) => number().is_some_and(|value| relation.holds(value, *wanted)),
            With::OneOf(wanted) => number().is_some_and(|value| wanted.contains(&value)),
            With::Words(wanted) => {
                matches!(views.cell(self.column, row), Cell::Word(word) if wanted.iter().any(|wanted| wanted == word))
            }
            With::Blocks(blocks) => views
                .address(self.column, row)
                .is_some_and(|address| blocks.iter().any(|block| block.contains(address))),
            With::Names { names, under } => views.question(row).is_some_and(|question| {
                names.iter().any(|name| if *under { question.is_under(name) } else { question.is_named(name) })
            }),
        }
    }
}

/// Reads a comparison.
pub fn compare(tokens: &mut Tokens) -> Result<Expr<Comparison>, BadExpr> {
    let (name, (column, field)) = tokens.field(&FIELDS, "latency > 100ms")?;
    let of = |with| Comparison { column, with };
    match field {
        Field::Truth => tokens.truth(&name, of(With::Truth)),
        Field::Answered => tokens.truth(&name, of(With::Answered)),
        Field::Number | Field::Duration | Field::Rcode => number(tokens, &name, field).map(|with| Expr::Is(of(with))),
        Field::Word => equal(
            tokens,
            &name,
            "answered",
            |token| Ok(token.text("a word")?.to_owned()),
            |words| of(With::Words(words)),
        ),
        Field::Type => equal(tokens, &name, "AAAA", qtype, |words| of(With::Words(words))),
        Field::Name if tokens.take_word("under") => {
            let names = tokens.list(qname)?;
            Ok(Expr::Is(of(With::Names { names, under: true })))
        }
        Field::Name => equal(tokens, &name, "www.example.com", qname, |names| of(With::Names { names, under: false })),
        Field::Address => {
            equal(tokens, &name, "192.0.2.0/24", |token| block(&name, token), |blocks| of(With::Blocks(blocks)))
        }
    }
}

fn number(tokens: &mut Tokens, name: &str, field: Field) -> Result<With, BadExpr> {
    if tokens.take_word("in") {
        return tokens.list(|token| value(name, field, token)).map(With::OneOf);
    }
    let Some(relation) = tokens.relation() else {
        return Err(tokens.not_a_condition(name, &format!("`{name} == {}`", example(field))));
    };
    Ok(With::Number(relation, value(name, field, &tokens.take())?))
}

/// Reads the rest of a comparison with something that has no order.
fn equal<T>(
    tokens: &mut Tokens,
    name: &str,
    example: &str,
    read: impl Fn(&Token) -> Result<T, BadExpr>,
    is: impl Fn(Vec<T>) -> Comparison,
) -> Result<Expr<Comparison>, BadExpr> {
    if tokens.take_word("in") {
        return Ok(Expr::Is(is(tokens.list(read)?)));
    }
    let column = tokens.peek().column;
    match tokens.relation() {
        Some(Relation::Equal) => Ok(Expr::Is(is(vec![read(&tokens.take())?]))),
        Some(Relation::Unequal) => Ok(Expr::Not(Box::new(Expr::Is(is(vec![read(&tokens.take())?]))))),
        Some(_) => Err(BadExpr { column, what: format!("`{name}` has no order: use `==`, `!=` or `in [{example}]`") }),
        None => Err(tokens.not_a_condition(name, &format!("`{name} == {example}`"))),
    }
}

fn value(name: &str, field: Field, token: &Token) -> Result<i64, BadExpr> {
    let (wanted, example) = (kind_of(field), example(field));
    let text = token.text(wanted)?;
    let found = match field {
        Field::Rcode => rcode::code(text).map(i64::from),
        // Queries may be sent early, by less than a microsecond.
        Field::Duration => match text.strip_prefix('-') {
            Some(early) => with_unit(early, token)?.map(|ns| -ns),
            None => with_unit(text, token)?,
        },
        _ => text.parse().ok(),
    };
    found.ok_or_else(|| {
        token.wrong(format!("`{text}` is not a valid value of `{name}`, which is {wanted} such as {example}"))
    })
}

/// A duration in nanoseconds; `None` if it is no number at all.
fn with_unit(text: &str, token: &Token) -> Result<Option<i64>, BadExpr> {
    match Span::with_unit(text) {
        Err(unit @ BadTime::Unit(_)) => Err(token.wrong(unit.to_string())),
        read => Ok(read.ok().map(Span::ns)),
    }
}

fn block(name: &str, token: &Token) -> Result<Cidr, BadExpr> {
    let text = token.text("an address")?;
    let bad = |_| {
        token.wrong(format!(
            "`{text}` is not a valid value of `{name}`, which is an address or a block such as 192.0.2.0/24"
        ))
    };
    text.parse().map_err(bad)
}

/// A name in lower case, as questions of rows are compared.
fn qname(token: &Token) -> Result<String, BadExpr> {
    let mut wire = Vec::new();
    name::parse(token.text("a name")?, &mut wire).map_err(|error| token.wrong(error.to_string()))?;
    Ok(name::Presentation(&wire).to_string().to_ascii_lowercase())
}

/// The mnemonic of a type, or `TYPE` with a number.
fn qtype(token: &Token) -> Result<String, BadExpr> {
    Ok(token.text("a type")?.to_ascii_uppercase())
}

const fn kind_of(field: Field) -> &'static str {
    match field {
        Field::Rcode => "a response code",
        Field::Duration => "a duration",
        _ => "a number",
    }
}

const fn example(field: Field) -> &'static str {
    match field {
        Field::Rcode => "NXDOMAIN",
        Field::Duration => "100ms",
        _ => "512",
    }
}
