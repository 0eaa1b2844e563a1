//! Separates the code of Rust source from comments and literals, preserving lines and columns.

/// One line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The code: what stands in comments and literals is blank, so that a brace or a word is one of the program.
    pub code: String,
    /// The comments alone, without code and literals.
    pub comment: String,
}

/// Where the scanner is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    /// Nesting depth of block comments.
    BlockComment(usize),
    /// A string with escapes, or a character.
    Quoted(char),
    /// A raw string closed by this many `#`.
    Raw(usize),
}

/// Splits a source text into lines of code and comment.
pub fn mask(text: &str) -> Vec<Line> {
    let mut scanner = Scanner { lines: vec![Line::default()], state: State::Code };
    let characters: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < characters.len() {
        at += scanner.step(&characters, at);
    }
    if text.ends_with('\n') {
        scanner.lines.pop();
    }
    scanner.lines
}

struct Scanner {
    lines: Vec<Line>,
    state: State,
}

impl Scanner {
    /// Takes one token at `at` and returns its length.
    fn step(&mut self, text: &[char], at: usize) -> usize {
        if text[at] == '\n' {
            if self.state == State::LineComment {
                self.state = State::Code;
            }
            self.lines.push(Line::default());
            return 1;
        }
        match self.state {
            State::Code => self.code(text, at),
            State::LineComment => self.comment(text[at], 1),
            State::BlockComment(depth) => self.block(&text[at..], depth),
            State::Quoted(quote) => self.quoted(&text[at..], quote),
            State::Raw(hashes) => self.raw(&text[at..], hashes),
        }
    }

    fn code(&mut self, text: &[char], at: usize) -> usize {
        let rest = &text[at..];
        if rest.starts_with(&['/', '/']) {
            self.state = State::LineComment;
            return self.comment('/', 1);
        }
        if rest.starts_with(&['/', '*']) {
            self.state = State::BlockComment(1);
            return self.comment(' ', 2);
        }
        let is_word_before = at > 0 && is_word(text[at - 1]);
        if let Some(hashes) = raw_string(rest).filter(|_| !is_word_before) {
            self.state = State::Raw(hashes);
            let prefix = rest.iter().take_while(|&&character| character != '"').count();
            return self.blank(prefix + 1);
        }
        if rest[0] == '"' || (rest[0] == '\'' && is_character(rest)) {
            self.state = State::Quoted(rest[0]);
            return self.blank(1);
        }
        self.line().code.push(rest[0]);
        1
    }

    fn comment(&mut self, character: char, length: usize) -> usize {
        self.line().comment.push(character);
        length
    }

    fn block(&mut self, rest: &[char], depth: usize) -> usize {
        if rest.starts_with(&['/', '*']) {
            self.state = State::BlockComment(depth + 1);
            return self.comment(' ', 2);
        }
        if rest.starts_with(&['*', '/']) {
            self.state = if depth == 1 { State::Code } else { State::BlockComment(depth - 1) };
            return self.comment(' ', 2);
        }
        self.comment(rest[0], 1)
    }

    /// An escape is skipped as a whole, except for that of a line end, which begins the next line.
    fn quoted(&mut self, rest: &[char], quote: char) -> usize {
        if rest[0] == quote {
            self.state = State::Code;
        }
        let escapes = rest[0] == '\\' && rest.get(1).is_some_and(|&next| next != '\n');
        self.blank(if escapes { 2 } else { 1 })
    }

    fn raw(&mut self, rest: &[char], hashes: usize) -> usize {
        let closes =
            rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|&character| character == '#');
        if !closes {
            return self.blank(1);
        }
        self.state = State::Code;
        self.blank(1 + hashes)
    }

    /// Something of a literal: a blank in the code.
    fn blank(&mut self, length: usize) -> usize {
        self.line().code.push(' ');
        length
    }

    fn line(&mut self) -> &mut Line {
        if self.lines.is_empty() {
            self.lines.push(Line::default());
        }
        let last = self.lines.len() - 1;
        &mut self.lines[last]
    }
}

/// Whether a character can stand in a name.
pub fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

/// Whether a quote begins a character rather than a lifetime.
fn is_character(rest: &[char]) -> bool {
    match rest.get(1) {
        Some('\\') => true,
        Some(_) => rest.get(2) == Some(&'\''),
        None => false,
    }
}

/// The number of `#` of a raw string that begins here: `r"`, `br#"`, `cr##"`.
fn raw_string(rest: &[char]) -> Option<usize> {
    let prefix = usize::from(matches!(rest[0], 'b' | 'c'));
    if rest.get(prefix) != Some(&'r') {
        return None;
    }
    let hashes = rest[prefix + 1..].iter().take_while(|&&character| character == '#').count();
    (rest.get(prefix + 1 + hashes) == Some(&'"')).then_some(hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of a text, with blanks taken together.
    fn code(text: &str) -> String {
        let lines: Vec<String> = mask(text).into_iter().map(|line| line.code).collect();
        lines.join("\n").split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(code("a // unsafe {\nb"), "a \nb");
        assert_eq!(code("a /* { /* } */ { */ b"), "a b");
        let lines = mask("a // why\n/* x\ny */ b");
        assert_eq!(lines[0].comment, "// why");
        assert_eq!((lines[1].comment.trim(), lines[2].comment.trim()), ("x", "y"));
    }

    #[test]
    fn literals_are_not_code() {
        assert_eq!(code(r#"f("{ \" } //", b'}', '\'', '{')"#), "f( , b , , )");
        assert_eq!(code("r#\"a \" { \"# x"), "x");
        assert_eq!(code("br\"\\\" x"), "x");
        assert_eq!(code("var\"x\""), "var");
    }

    #[test]
    fn lifetimes_are_code() {
        assert_eq!(code("fn f<'a>(x: &'a str) -> X<'_> {}"), "fn f<'a>(x: &'a str) -> X<'_> {}");
        assert_eq!(code("'outer: loop { 'x' }"), "'outer: loop { }");
    }

    #[test]
    fn lines_keep_their_numbers() {
        let lines = mask("let a = \"one\ntwo\";\nlet r = r\"\n\n\";\nend\n");
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[5].code, "end");
    }

    #[test]
    fn an_escaped_line_end_keeps_the_count() {
        let lines = mask("\"a \\\n b\"\nend");
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2].code, "end");
    }

    #[test]
    fn text_that_ends_early_is_no_trouble() {
        for text in ["", "\"", "'", "r#", "b", "/*", "'\\", "\"\\"] {
            mask(text);
        }
    }
}
