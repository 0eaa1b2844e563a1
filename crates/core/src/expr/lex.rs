//! Splits an expression into tokens with their columns.

use super::BadExpr;
use crate::time::is_unit;

/// Characters of bare words besides letters and digits: those of names, addresses, blocks, durations and shares.
const WORD_MARKS: &str = "._-:/*";

/// A word, a quoted text or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A bare word or number, such as `qtype`, `192.0.2.0/24` or `1.5s`.
    Word(String),
    /// A text in quotes.
    Quoted(String),
    /// One of `== != < <= > >= ( ) [ ] ,`.
    Sign(&'static str),
    /// The end of the expression.
    End,
}

/// A part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// The character at which it begins, from 1.
    pub column: usize,
}

/// The signs, longer ones first.
const SIGNS: [&str; 11] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ","];

/// Splits an expression; the last token is [`TokenKind::End`].
///
/// # Errors
/// A character that no expression has, or a quote without its end.
pub fn split(text: &str) -> Result<Vec<Token>, BadExpr> {
    let characters: Vec<char> = text.chars().collect();
    let (mut at, mut tokens) = (0, Vec::new());
    loop {
        while characters.get(at).is_some_and(|character| character.is_whitespace()) {
            at += 1;
        }
        let (kind, length) = next(&characters[at..]).map_err(|what| BadExpr { column: at + 1, what })?;
        let is_end = kind == TokenKind::End;
        tokens.push(Token { kind, column: at + 1 });
        if is_end {
            return Ok(tokens);
        }
        at += length;
    }
}

/// The token at the start of `rest`, and its characters.
fn next(rest: &[char]) -> Result<(TokenKind, usize), String> {
    match rest.first() {
        None => Ok((TokenKind::End, 0)),
        Some(&quote @ ('"' | '\'')) => quoted(rest, quote),
        Some(&first) if is_word(first) => {
            let word = word_of(rest);
            let length = word.chars().count();
            let (unit, length) = unit_behind(&word, &rest[length..])
                .map_or((String::new(), length), |(unit, more)| (unit, length + more));
            Ok((TokenKind::Word(word + &unit), length))
        }
        Some('=') if rest.get(1) != Some(&'=') => Err("`=` is not an operator: use `==`".into()),
        Some(first) => {
            let starts = |sign: &&&str| sign.chars().zip(rest).filter(|(a, b)| a == *b).count() == sign.len();
            let sign = SIGNS.iter().find(starts);
            sign.map(|sign| (TokenKind::Sign(sign), sign.len())).ok_or_else(|| format!("unexpected `{first}`"))
        }
    }
}

fn word_of(rest: &[char]) -> String {
    rest.iter().take_while(|&&character| is_word(character)).collect()
}

/// The unit of time that follows a number after blanks, as in `10 ms`, and the characters up to its end.
fn unit_behind(number: &str, rest: &[char]) -> Option<(String, usize)> {
    number.parse::<f64>().ok()?;
    let blanks = rest.iter().take_while(|character| character.is_whitespace()).count();
    let unit = word_of(&rest[blanks..]);
    is_unit(&unit).then(|| (unit.clone(), blanks + unit.chars().count()))
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || WORD_MARKS.contains(character) || character == 'µ'
}

fn quoted(rest: &[char], quote: char) -> Result<(TokenKind, usize), String> {
    let inner: String = rest[1..].iter().take_while(|&&character| character != quote).collect();
    let length = inner.chars().count();
    match rest.get(length + 1) {
        Some(_) => Ok((TokenKind::Quoted(inner), length + 2)),
        None => Err(format!("missing closing {quote}")),
    }
}
