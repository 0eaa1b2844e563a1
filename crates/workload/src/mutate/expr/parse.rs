//! From the words of an expression to a condition, with the type of everything checked.

use std::path::Path;

use ldplayer_core::message::flag;
use ldplayer_core::time::Span;
use ldplayer_core::{Cidr, Transport, name};
use ldplayer_trace::columns::{parse_class, parse_opcode, parse_rcode, parse_type};

use super::lex::{Kind, Token, split};
use super::{BadExpr, End, Expr, Names, Number, Relation, Truth, transport_number};
use ldplayer_core::nearest::suggest;

/// Parentheses and `not`s within each other at most, so that no expression exhausts the stack.
const MAX_DEPTH: usize = 100;
/// Octets of a list of names read from a file at most.
const MAX_LIST: u64 = 256 << 20;

/// What a field holds.
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

/// Reads an expression.
pub fn parse(text: &str) -> Result<Expr, BadExpr> {
    let mut parser = Parser { tokens: split(text)?, at: 0, depth: 0 };
    let expr = parser.any_of()?;
    match &parser.peek().kind {
        Kind::End => Ok(expr),
        _ => Err(parser.wrong("`and`, `or` or the end")),
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    /// The next token; the end is never passed.
    fn take(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(&self.peek().kind, Kind::Word(found) if found == word);
        if found {
            self.take();
        }
        found
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek().kind, Kind::Sign(found) if found == sign);
        if found {
            self.take();
        }
        found
    }

    /// The error that something else stands where `wanted` should.
    fn wrong(&self, wanted: &str) -> BadExpr {
        let Token { kind, column } = self.peek();
        let found = match kind {
            Kind::Word(word) | Kind::Quoted(word) => format!("`{word}`"),
            Kind::Sign(sign) => format!("`{sign}`"),
            Kind::End => "the end".to_owned(),
        };
        BadExpr { column: *column, what: format!("{found} stands where {wanted} is expected") }
    }

    fn any_of(&mut self) -> Result<Expr, BadExpr> {
        let mut expr = self.all_of()?;
        while self.take_word("or") {
            expr = Expr::Or(Box::new(expr), Box::new(self.all_of()?));
        }
        Ok(expr)
    }

    fn all_of(&mut self) -> Result<Expr, BadExpr> {
        let mut expr = self.one()?;
        while self.take_word("and") {
            expr = Expr::And(Box::new(expr), Box::new(self.one()?));
        }
        Ok(expr)
    }

    fn one(&mut self) -> Result<Expr, BadExpr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let what = format!("more than {MAX_DEPTH} conditions within each other");
            return Err(BadExpr { column: self.peek().column, what });
        }
        let expr = if self.take_word("not") {
            Expr::Not(Box::new(self.one()?))
        } else if self.take_sign("(") {
            let inner = self.any_of()?;
            if !self.take_sign(")") {
                return Err(self.wrong("`)`"));
            }
            inner
        } else {
            self.condition()?
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// A field, and what it is compared with.
    fn condition(&mut self) -> Result<Expr, BadExpr> {
        let column = self.peek().column;
        let Kind::Word(word) = self.peek().kind.clone() else {
            return Err(self.wrong("a condition such as `qtype == A`"));
        };
        let Some((_, field)) = FIELDS.iter().find(|(name, _)| *name == word) else {
            let known: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
            return Err(BadExpr { column, what: format!("unknown field `{word}`{}", suggest(&word, &known)) });
        };
        self.take();
        match *field {
            Field::Truth(truth) => self.truth(&word, truth),
            Field::Number(number) => self.number(&word, number),
            Field::Address(end) => self.address(&word, end),
            Field::Name => self.name(),
        }
    }

    fn truth(&mut self, field: &str, truth: Truth) -> Result<Expr, BadExpr> {
        let Some(relation) = self.relation() else { return Ok(Expr::Is(truth)) };
        let value = self.take();
        let is = match &value.kind {
            Kind::Word(word) if word == "true" => true,
            Kind::Word(word) if word == "false" => false,
            _ => {
                return Err(BadExpr {
                    column: value.column,
                    what: format!("`{field}` is true or false: write `{field}` or `not {field}`"),
                });
            }
        };
        match (relation, is) {
            (Relation::Equal, true) | (Relation::Unequal, false) => Ok(Expr::Is(truth)),
            (Relation::Equal, false) | (Relation::Unequal, true) => Ok(Expr::Not(Box::new(Expr::Is(truth)))),
            _ => Err(BadExpr {
                column: value.column,
                what: format!("`{field}` is true or false, neither less nor more"),
            }),
        }
    }

    fn number(&mut self, field: &str, number: Number) -> Result<Expr, BadExpr> {
        if self.take_word("in") {
            let wanted = self.list(|token| value(field, number, token))?;
            return Ok(Expr::OneOf(number, wanted));
        }
        let column = self.peek().column;
        let Some(relation) = self.relation() else {
            return Err(self.not_a_condition(field, &format!("`{field} == {}`", example(number))));
        };
        if !is_ordered(number) && !matches!(relation, Relation::Equal | Relation::Unequal) {
            return Err(BadExpr {
                column,
                what: format!("`{field}` has no order: use `==`, `!=` or `in [{}]`", example(number)),
            });
        }
        let wanted = value(field, number, &self.take())?;
        Ok(Expr::Number(number, relation, wanted))
    }

    fn address(&mut self, field: &str, end: End) -> Result<Expr, BadExpr> {
        if self.take_word("in") {
            return Ok(Expr::Address(end, self.list(|token| block(field, token))?));
        }
        let column = self.peek().column;
        match self.relation() {
            Some(Relation::Equal) => Ok(Expr::Address(end, vec![block(field, &self.take())?])),
            Some(Relation::Unequal) => {
                let blocks = vec![block(field, &self.take())?];
                Ok(Expr::Not(Box::new(Expr::Address(end, blocks))))
            }
            Some(_) => Err(BadExpr {
                column,
                what: format!("`{field}` is an address, neither less nor more than another one"),
            }),
            None => Err(self.not_a_condition(field, &format!("`{field} in 192.0.2.0/24`"))),
        }
    }

    fn name(&mut self) -> Result<Expr, BadExpr> {
        if self.take_word("under") {
            return Ok(Expr::Under(self.names()?));
        }
        if self.take_word("in") {
            return Ok(Expr::Named(self.names()?));
        }
        let column = self.peek().column;
        match self.relation() {
            Some(Relation::Equal) => Ok(Expr::Named(self.names()?)),
            Some(Relation::Unequal) => Ok(Expr::Not(Box::new(Expr::Named(self.names()?)))),
            Some(_) => {
                Err(BadExpr { column, what: "`qname` is a name, neither less nor more than another one".into() })
            }
            None => Err(self.not_a_condition("qname", "`qname under example.com`")),
        }
    }

    fn not_a_condition(&self, field: &str, example: &str) -> BadExpr {
        let BadExpr { column, what } = self.wrong("a comparison");
        BadExpr { column, what: format!("{what}: `{field}` alone is no condition, write {example}") }
    }

    /// One name, several in brackets, or `file("names.txt")` with one a line.
    fn names(&mut self) -> Result<Names, BadExpr> {
        if self.take_word("file") {
            return self.names_of_file();
        }
        Ok(self.list(wire_name)?.into_iter().collect())
    }

    fn names_of_file(&mut self) -> Result<Names, BadExpr> {
        if !self.take_sign("(") {
            return Err(self.wrong("`(\"FILE\")`"));
        }
        let Token { kind, column } = self.take();
        let (Kind::Word(path) | Kind::Quoted(path)) = kind else {
            return Err(BadExpr { column, what: "the name of a file in quotes is expected".into() });
        };
        if !self.take_sign(")") {
            return Err(self.wrong("`)`"));
        }
        names_in(Path::new(&path)).map_err(|what| BadExpr { column, what: format!("{path}: {what}") })
    }

    /// One value, or several in brackets.
    fn list<T>(&mut self, read: impl Fn(&Token) -> Result<T, BadExpr>) -> Result<Vec<T>, BadExpr> {
        if !self.take_sign("[") {
            return Ok(vec![read(&self.take())?]);
        }
        let mut values = Vec::new();
        loop {
            values.push(read(&self.take())?);
            if self.take_sign("]") {
                return Ok(values);
            }
            if !self.take_sign(",") {
                return Err(self.wrong("`,` or `]`"));
            }
        }
    }

    fn relation(&mut self) -> Option<Relation> {
        let Kind::Sign(sign) = self.peek().kind else { return None };
        let relation = match sign {
            "==" => Relation::Equal,
            "!=" => Relation::Unequal,
            "<" => Relation::Less,
            "<=" => Relation::AtMost,
            ">" => Relation::More,
            ">=" => Relation::AtLeast,
            _ => return None,
        };
        self.take();
        Some(relation)
    }
}

/// The text of a value, or the error that there is none.
fn text<'t>(token: &'t Token, wanted: &str) -> Result<&'t str, BadExpr> {
    match &token.kind {
        Kind::Word(text) | Kind::Quoted(text) => Ok(text),
        Kind::Sign(sign) => {
            Err(BadExpr { column: token.column, what: format!("`{sign}` stands where {wanted} is expected") })
        }
        Kind::End => Err(BadExpr { column: token.column, what: format!("the end stands where {wanted} is expected") }),
    }
}

/// A value for a number field: a word of its kind, or a number in its range.
fn value(field: &str, number: Number, token: &Token) -> Result<i64, BadExpr> {
    let wanted = kind_of(number);
    let text = text(token, wanted)?;
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
        what: format!("`{text}` is no value for `{field}`, which is {wanted} such as {}", example(number)),
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
    let text = text(token, "an address")?;
    text.parse().map_err(|_| BadExpr {
        column: token.column,
        what: format!("`{text}` is no value for `{field}`, which is an address or a block such as 192.0.2.0/24"),
    })
}

fn wire_name(token: &Token) -> Result<Box<[u8]>, BadExpr> {
    let text = text(token, "a name")?;
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
        return Err(format!("a list of {length} octets is too long; {MAX_LIST} are read at most"));
    }
    let list = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let words = list.lines().enumerate().filter_map(|(line, text)| Some((line, text.split_whitespace().next()?)));
    words
        .filter(|(_, word)| !word.starts_with('#'))
        .map(|(line, word)| lower_name(word).map_err(|error| format!("line {}: {error}", line + 1)))
        .collect()
}
