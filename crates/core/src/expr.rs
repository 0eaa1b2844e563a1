//! The form of conditions that users write: `and`, `or`, `not`, parentheses, and comparisons of fields that a language of its own knows.
//!
//! [`parse`] reads the form, and asks the language for each comparison. Rules that change traces are one such language, the rows of a run
//! another.

mod lex;

use crate::nearest::suggest;
use crate::printable::Printable;
pub use lex::{Token, TokenKind};

/// Parentheses and `not`s within each other at most, so that no expression exhausts the stack.
const MAX_DEPTH: usize = 100;

/// A condition made of comparisons `C`.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr<C> {
    /// Both hold.
    And(Box<Expr<C>>, Box<Expr<C>>),
    /// At least one holds.
    Or(Box<Expr<C>>, Box<Expr<C>>),
    /// It does not hold.
    Not(Box<Expr<C>>),
    /// A comparison.
    Is(C),
}

impl<C> Expr<C> {
    /// Whether it holds, where `is` says so of each comparison.
    pub fn holds(&self, is: &impl Fn(&C) -> bool) -> bool {
        match self {
            Self::And(a, b) => a.holds(is) && b.holds(is),
            Self::Or(a, b) => a.holds(is) || b.holds(is),
            Self::Not(inner) => !inner.holds(is),
            Self::Is(comparison) => is(comparison),
        }
    }
}

/// How two numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
}

impl Relation {
    /// Whether `a` stands in this relation to `b`.
    pub const fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Unequal => a != b,
            Self::Less => a < b,
            Self::AtMost => a <= b,
            Self::More => a > b,
            Self::AtLeast => a >= b,
        }
    }

    /// Whether it is `==` or `!=`, which need no order.
    pub const fn is_equality(self) -> bool {
        matches!(self, Self::Equal | Self::Unequal)
    }
}

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {}", Printable(what))]
pub struct BadExpr {
    /// The character at which it stands, from 1.
    pub column: usize,
    /// What is wrong there, and what to write instead.
    pub what: String,
}

/// Reads an expression. `compare` reads one comparison, which begins with a field.
///
/// # Errors
/// What is wrong, with its column.
pub fn parse<C>(text: &str, compare: &impl Fn(&mut Tokens) -> Result<Expr<C>, BadExpr>) -> Result<Expr<C>, BadExpr> {
    let mut tokens = Tokens { tokens: lex::split(text)?, at: 0, depth: 0 };
    let expr = any_of(&mut tokens, compare)?;
    match &tokens.peek().kind {
        TokenKind::End => Ok(expr),
        _ => Err(tokens.wrong("`and`, `or` or the end")),
    }
}

fn any_of<C>(
    tokens: &mut Tokens,
    compare: &impl Fn(&mut Tokens) -> Result<Expr<C>, BadExpr>,
) -> Result<Expr<C>, BadExpr> {
    let mut expr = all_of(tokens, compare)?;
    while tokens.take_word("or") {
        expr = Expr::Or(Box::new(expr), Box::new(all_of(tokens, compare)?));
    }
    Ok(expr)
}

fn all_of<C>(
    tokens: &mut Tokens,
    compare: &impl Fn(&mut Tokens) -> Result<Expr<C>, BadExpr>,
) -> Result<Expr<C>, BadExpr> {
    let mut expr = one(tokens, compare)?;
    while tokens.take_word("and") {
        expr = Expr::And(Box::new(expr), Box::new(one(tokens, compare)?));
    }
    Ok(expr)
}

fn one<C>(tokens: &mut Tokens, compare: &impl Fn(&mut Tokens) -> Result<Expr<C>, BadExpr>) -> Result<Expr<C>, BadExpr> {
    tokens.depth += 1;
    if tokens.depth > MAX_DEPTH {
        let what = format!("conditions are nested more than {MAX_DEPTH} deep");
        return Err(BadExpr { column: tokens.peek().column, what });
    }
    let expr = if tokens.take_word("not") {
        Expr::Not(Box::new(one(tokens, compare)?))
    } else if tokens.take_sign("(") {
        let inner = any_of(tokens, compare)?;
        if !tokens.take_sign(")") {
            return Err(tokens.wrong("`)`"));
        }
        inner
    } else {
        compare(tokens)?
    };
    tokens.depth -= 1;
    Ok(expr)
}

/// The words of an expression, taken one by one.
#[derive(Debug)]
pub struct Tokens {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Tokens {
    /// The next token.
    pub fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    /// Takes the next token; the end is never passed.
    pub fn take(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    /// Takes the word, if it is next.
    pub fn take_word(&mut self, word: &str) -> bool {
        let found = matches!(&self.peek().kind, TokenKind::Word(found) if found == word);
        if found {
            self.take();
        }
        found
    }

    /// Takes the sign, if it is next.
    pub fn take_sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek().kind, TokenKind::Sign(found) if found == sign);
        if found {
            self.take();
        }
        found
    }

    /// Takes the field that a comparison begins with. Returns its name and what `fields` has for it; `example` is a comparison.
    ///
    /// # Errors
    /// There is no such field.
    pub fn field<F: Copy>(&mut self, fields: &[(&str, F)], example: &str) -> Result<(String, F), BadExpr> {
        let column = self.peek().column;
        let TokenKind::Word(word) = self.peek().kind.clone() else {
            return Err(self.wrong(&format!("a condition such as `{example}`")));
        };
        let Some((_, field)) = fields.iter().find(|(name, _)| *name == word) else {
            let known: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
            return Err(BadExpr { column, what: format!("unknown field `{word}`{}", suggest(&word, &known)) });
        };
        self.take();
        Ok((word, *field))
    }

    /// Takes a relation, if one is next.
    pub fn relation(&mut self) -> Option<Relation> {
        let TokenKind::Sign(sign) = self.peek().kind else { return None };
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

    /// Reads the rest of a comparison with a field that is true or false: nothing, `== true`, `!= false` and so on.
    ///
    /// # Errors
    /// What follows is neither.
    pub fn truth<C>(&mut self, field: &str, truth: C) -> Result<Expr<C>, BadExpr> {
        let Some(relation) = self.relation() else { return Ok(Expr::Is(truth)) };
        let value = self.take();
        let is = match &value.kind {
            TokenKind::Word(word) if word == "true" => true,
            TokenKind::Word(word) if word == "false" => false,
            _ => return Err(value.wrong(format!("`{field}` is a boolean: use `{field}` or `not {field}`"))),
        };
        match (relation, is) {
            (Relation::Equal, true) | (Relation::Unequal, false) => Ok(Expr::Is(truth)),
            (Relation::Equal, false) | (Relation::Unequal, true) => Ok(Expr::Not(Box::new(Expr::Is(truth)))),
            _ => Err(value.wrong(format!("`{field}` is a boolean and has no order: use `{field}` or `not {field}`"))),
        }
    }

    /// Reads one value, or several in brackets.
    ///
    /// # Errors
    /// That of a value, or what stands between them.
    pub fn list<T>(&mut self, read: impl Fn(&Token) -> Result<T, BadExpr>) -> Result<Vec<T>, BadExpr> {
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

    /// The error that something else stands where `wanted` should.
    pub fn wrong(&self, wanted: &str) -> BadExpr {
        let Token { kind, column } = self.peek();
        let found = match kind {
            TokenKind::Word(word) | TokenKind::Quoted(word) => format!("`{word}`"),
            TokenKind::Sign(sign) => format!("`{sign}`"),
            TokenKind::End => "the end".to_owned(),
        };
        BadExpr { column: *column, what: format!("expected {wanted}, found {found}") }
    }

    /// The error that a field is compared with nothing.
    pub fn not_a_condition(&self, field: &str, example: &str) -> BadExpr {
        let BadExpr { column, what } = self.wrong("a comparison");
        BadExpr { column, what: format!("{what}: `{field}` alone is not a condition, write {example}") }
    }
}

impl Token {
    /// The text of a value.
    ///
    /// # Errors
    /// There is none.
    pub fn text(&self, wanted: &str) -> Result<&str, BadExpr> {
        match &self.kind {
            TokenKind::Word(text) | TokenKind::Quoted(text) => Ok(text),
            TokenKind::Sign(sign) => Err(self.wrong(format!("expected {wanted}, found `{sign}`"))),
            TokenKind::End => Err(self.wrong(format!("expected {wanted}, found the end"))),
        }
    }

    /// An error at this token.
    pub const fn wrong(&self, what: String) -> BadExpr {
        BadExpr { column: self.column, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A language of which every field is true or false by its name.
    fn read(text: &str) -> Result<Expr<bool>, BadExpr> {
        parse(text, &|tokens: &mut Tokens| {
            let (field, is) = tokens.field(&[("yes", true), ("no", false)], "yes")?;
            tokens.truth(&field, is)
        })
    }

    #[test]
    fn and_binds_tighter_than_or_and_not_tightest() {
        for (text, holds) in [
            ("yes or yes and no", true),
            ("(yes or yes) and no", false),
            ("not yes or yes", true),
            ("not (yes or yes)", false),
            ("no == false and yes != false", true),
        ] {
            assert_eq!(read(text).unwrap().holds(&|is| *is), holds, "{text}");
        }
    }

    #[test]
    fn a_number_and_its_unit_are_one_value() {
        let words = |text: &str| {
            lex::split(text).unwrap().into_iter().map(|token| (token.kind, token.column)).collect::<Vec<_>>()
        };
        let word = |text: &str, column| (TokenKind::Word(text.to_owned()), column);
        assert_eq!(
            words("10  ms and 5 or"),
            [word("10ms", 1), word("and", 8), word("5", 12), word("or", 14), (TokenKind::End, 16)]
        );
        assert_eq!(words("a ms"), [word("a", 1), word("ms", 3), (TokenKind::End, 5)]);
    }

    /// Found by fuzzing.
    #[test]
    fn an_error_is_one_line_whatever_is_in_the_text() {
        let said = read("'\n'\n").unwrap_err().to_string();
        assert!(said.starts_with("column 1: ") && !said.contains('\n'), "{said}");
    }

    #[test]
    fn errors_name_their_place() {
        for (text, column, said) in [
            ("", 1, "expected a condition such as `yes`, found the end"),
            ("yse", 1, "expected one of yes, no"),
            ("yes no", 5, "expected `and`, `or` or the end, found `no`"),
            ("(yes", 5, "expected `)`"),
            ("yes == 5", 8, "`yes` is a boolean"),
            ("yes < true", 7, "has no order"),
        ] {
            let BadExpr { column: at, what } = read(text).unwrap_err();
            assert!(at == column && what.contains(said), "{text}: column {at}: {what}");
        }
        assert!(read(&"(".repeat(10_000)).unwrap_err().what.contains("nested"));
    }
}
