//! Lines for people: names of files and zones, and whatever else is somebody else's, cannot tell the terminal what to do.

use std::fmt::{Arguments, Display};
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::path::Path;

use ldplayer_core::printable::{Printable, PrintableJson, PrintableLines};
use serde::Serialize;

/// Words that are coloured on a terminal: failures in red, successes in green, warnings in yellow.
const COLOURS: [(&str, &str); 4] = [("FAILED", "31;1"), ("LOST", "31;1"), ("ENDED EARLY", "31;1"), ("MISSING", "31;1")];
/// Words that stand out at the beginning of a line or behind a space, where they are words of ours.
const STATES: [(&str, &str); 2] = [("ok", "32"), ("warning", "33;1")];

/// Prints a line to standard error. Nothing depends on whether somebody reads it.
macro_rules! tell {
    ($($argument:tt)*) => { $crate::printing::to_stderr(format_args!("{}\n", ldplayer_core::printable::Printable(format_args!($($argument)*)))) };
}

/// Prints a line to standard output; an error where it cannot be written, unless the reader has gone.
macro_rules! say {
    ($($argument:tt)*) => { $crate::printing::to_stdout(format_args!("{}\n", ldplayer_core::printable::Printable(format_args!($($argument)*)))) };
}

/// Writes a line to whatever takes lines for people.
macro_rules! write_line {
    ($out:expr, $($argument:tt)*) => { writeln!($out, "{}", ldplayer_core::printable::Printable(format_args!($($argument)*))) };
}

/// Where text for people goes, and nothing else can: its control characters are escaped, but for the ends of lines. What a file, a server
/// or an agent says can so not tell a terminal what to do, whoever writes it.
pub struct Screen<W>(W);

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        write!(self.0, "{}", PrintableLines(String::from_utf8_lossy(octets))).map(|()| octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Standard output for people, locked.
pub fn stdout() -> Screen<Output> {
    Screen(data())
}

/// Standard error for people, locked.
pub fn stderr() -> Screen<io::StderrLock<'static>> {
    Screen(io::stderr().lock())
}

/// Standard output without the filter, locked: for output that programs read. Callers escape text of others themselves.
pub fn data() -> Output {
    Output(io::stdout().lock())
}

/// Writes to standard error, if somebody is there to read it.
pub fn to_stderr(text: Arguments<'_>) {
    // A message that nobody can read is no reason to end, and there is nowhere else to tell it.
    let _ = stderr().write_fmt(text);
}

/// Writes a line over the one that a terminal shows last on standard error; with nothing, that line is gone.
pub fn overwrite(line: impl Display) {
    // As above.
    let _ = write!(io::stderr().lock(), "\r{}\x1b[K", Printable(line));
}

/// Writes to standard output. A closed pipe is not an error.
pub fn to_stdout(text: Arguments<'_>) -> io::Result<()> {
    unless_gone(stdout(), text)
}

/// Writes a value as JSON of several lines to standard output.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    to_stdout(format_args!("{}\n", PrintableJson(serde_json::to_string_pretty(value)?)))
}

/// Writes the text of a file to standard output: printable on a terminal, and exact where it goes to a file or a program.
pub fn text(text: &str) -> io::Result<()> {
    match io::stdout().is_terminal() {
        true => to_stdout(format_args!("{text}")),
        false => unless_gone(data(), format_args!("{text}")),
    }
}

/// Writes a report to standard output, with verdicts and warnings in colour if the terminal has colours.
pub fn report(text: impl Display) -> io::Result<()> {
    let lines = PrintableLines(text).to_string();
    unless_gone(data(), format_args!("{}", coloured(&lines, has_colours())))
}

fn unless_gone(mut out: impl Write, text: Arguments<'_>) -> io::Result<()> {
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Standard output, whose errors say that they are its own.
pub struct Output(StdoutLock<'static>);

impl Write for Output {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.write(octets).map_err(of_stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(of_stdout)
    }
}

/// An error of standard output with its name.
pub fn of_stdout(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {error}"))
}

/// Whether standard output takes colours: it is a terminal, and nobody asked for none (NO_COLOR).
fn has_colours() -> bool {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_unwanted && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// A report with its verdicts and warnings in colour, where that is wanted.
fn coloured(text: &str, is_wanted: bool) -> String {
    if !is_wanted {
        return text.to_owned();
    }
    let lines: Vec<String> = text.split('\n').map(colour_line).collect();
    lines.join("\n")
}

fn colour_line(line: &str) -> String {
    let painted = |word: &str, colour: &str| format!("\x1b[{colour}m{word}\x1b[0m");
    let failed =
        COLOURS.iter().fold(line.to_owned(), |line, (word, colour)| line.replace(word, &painted(word, colour)));
    STATES.iter().fold(failed, |line, (word, colour)| {
        let words: Vec<String> = line
            .split(' ')
            .map(|found| match found.strip_prefix(word) {
                Some(rest) if rest.is_empty() || rest == ":" => format!("{}{rest}", painted(word, colour)),
                _ => found.to_owned(),
            })
            .collect();
        words.join(" ")
    })
}

/// The path as a URL (RFC 8089), with special characters escaped.
pub fn file_url(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt;
    let mut url = String::from("file://");
    // A path that cannot be made absolute is shown as it is.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for &octet in path.as_os_str().as_bytes() {
        if octet.is_ascii_alphanumeric() || b"/-._~".contains(&octet) {
            url.push(char::from(octet));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(url, "%{octet:02X}");
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_escaped() {
        assert_eq!(file_url(Path::new("/a b/é#1/report.html")), "file:///a%20b/%C3%A9%231/report.html");
    }

    #[test]
    fn text_for_people_cannot_tell_a_terminal_anything_whoever_writes_it() {
        let mut screen = Screen(Vec::new());
        let title = "\u{1b}]0;title\u{7}é\u{202e}";
        writeln!(screen, "{title}").unwrap();
        screen.write_all(b"\xff\x9b").unwrap();
        assert_eq!(String::from_utf8(screen.0).unwrap(), "\\u{1b}]0;title\\u{7}é\\u{202e}\n\u{fffd}\u{fffd}");
    }

    #[test]
    fn verdicts_and_warnings_stand_out_and_nothing_else() {
        let text = "server     FAILED: answered 85.1 %\nreplay     ok: faithful\nqueries    token 5";
        let expected = "server     \x1b[31;1mFAILED\x1b[0m: answered 85.1 %\nreplay     \x1b[32mok\x1b[0m: faithful\nqueries    token 5";
        assert_eq!(coloured(text, true), expected);
        assert_eq!(coloured(text, false), text);
    }
}
