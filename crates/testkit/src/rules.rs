//! The rules: each is a function from a file to findings.

use std::fmt;

use crate::mask::{Line, is_word, mask};

/// Maximum number of lines of a function, from its `fn` to its closing brace.
pub const FUNCTION_LINES: usize = 70;
/// Maximum number of lines of a file, without its test modules.
pub const FILE_LINES: usize = 800;

/// Marks of work left undone.
const UNDONE: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: [&str; 5] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/t", "mp/")];
/// Wordings of comments that must be read twice, each with what to write.
const RIDDLES: [(&str, &str); 5] = [
    ("none where", "`None` if …"),
    ("is none of", "is not one of …"),
    ("are none of", "are not …"),
    ("such of which", "the ones whose …"),
    ("of which none", "without any …"),
];
/// Folders whose Rust files are tests or the like as a whole.
const TEST_FOLDERS: [&str; 3] = ["tests", "benches", "examples"];

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the root of the repository.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The rule, and by how much it is broken.
    pub rule: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.rule)
    }
}

/// A Rust file, split into its parts.
pub struct Source<'a> {
    file: &'a str,
    text: &'a str,
    lines: Vec<Line>,
    /// For each line, whether it is of an item under `#[cfg(test)]`.
    tests: Vec<bool>,
}

impl<'a> Source<'a> {
    /// Reads the text of a file.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        let lines = mask(text);
        let tests = test_lines(&lines);
        Self { file, text, lines, tests }
    }

    /// All rules for Rust. `is_test` when the file is compiled for tests only.
    pub fn findings(&self, is_test: bool) -> Vec<Finding> {
        let mut found: Vec<Finding> = self.without_purpose().into_iter().collect();
        found.extend(self.too_long());
        found.extend(self.long_functions());
        found.extend(self.unsafe_code());
        found.extend(self.riddles());
        if !is_test && !is_in_test_folder(self.file) {
            found.extend(self.unexplained_panics());
            found.extend(self.files_through_links());
            found.extend(self.unfiltered_terminals());
        }
        found
    }

    /// Files of modules that are declared under `#[cfg(test)]` here: a file, and a folder with a slash at its end.
    pub fn test_modules(&self) -> Vec<String> {
        let base = module_folder(self.file);
        let declared = self.lines.iter().zip(&self.tests).filter(|&(_, &is_test)| is_test);
        declared
            .filter_map(|(line, _)| line.code.trim().strip_suffix(';')?.rsplit_once("mod "))
            .flat_map(|(_, name)| [format!("{base}{name}.rs"), format!("{base}{name}/")])
            .collect()
    }

    /// The code without comments, literals and tests.
    pub fn code(&self) -> String {
        let lines = self.lines.iter().zip(&self.tests).filter(|(_, is_test)| !**is_test);
        lines.flat_map(|(line, _)| [line.code.as_str(), "\n"]).collect()
    }

    fn finding(&self, line: usize, rule: impl Into<String>) -> Finding {
        Finding { file: self.file.to_owned(), line: line + 1, rule: rule.into() }
    }

    fn without_purpose(&self) -> Option<Finding> {
        let stated =
            self.text.strip_prefix("//!").is_some_and(|rest| !rest.lines().next().unwrap_or("").trim().is_empty());
        (!stated).then(|| self.finding(0, "the first line must say the file's purpose: `//! …`"))
    }

    fn too_long(&self) -> Option<Finding> {
        let count = self.tests.iter().filter(|&&is_test| !is_test).count();
        (count > FILE_LINES)
            .then(|| self.finding(FILE_LINES, format!("{count} lines without tests, the maximum is {FILE_LINES}")))
    }

    fn long_functions(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        for (number, line) in self.lines.iter().enumerate() {
            let Some(column) = function_at(&line.code) else { continue };
            let Some(end) = item_end(&self.lines, number, column) else { continue };
            let count = end - number + 1;
            if count > FUNCTION_LINES {
                found.push(
                    self.finding(number, format!("a function of {count} lines, the maximum is {FUNCTION_LINES}")),
                );
            }
        }
        found
    }

    /// A wording may be spread over two lines.
    fn riddles(&self) -> Vec<Finding> {
        let text = |number: usize| {
            self.lines.get(number).map_or("", |line| line.comment.trim().trim_start_matches(['/', '!', ' ']))
        };
        let found = (0..self.lines.len()).filter_map(|number| {
            let (line, next) = (text(number), text(number + 1));
            let both = format!("{line} {next}");
            let begins_here = |wording: &str| both.find(wording).is_some_and(|at| at < line.len());
            let (wording, better) = RIDDLES.iter().find(|(wording, _)| begins_here(wording))?;
            Some(self.finding(number, format!("`{wording}` must be read twice: write {better}")))
        });
        found.collect()
    }

    fn unsafe_code(&self) -> Vec<Finding> {
        if self.file.starts_with("crates/net/") {
            return Vec::new();
        }
        let lines = self.lines.iter().enumerate().filter(|(_, line)| words(&line.code).any(|word| word == "unsafe"));
        lines.map(|(number, _)| self.finding(number, "`unsafe` belongs in crates/net")).collect()
    }

    /// `File::create` and `fs::write` follow links, which may lead to files of the user. Benches and build scripts write where nobody else does, and net
    /// the files of the kernel.
    fn files_through_links(&self) -> Vec<Finding> {
        let is_free =
            ["crates/net/", "crates/bench/", "crates/testkit/", "fuzz/"].iter().any(|free| self.file.starts_with(free));
        if is_free || self.file.ends_with("/build.rs") {
            return Vec::new();
        }
        let writes = |code: &str| code.contains("File::create(") || code.contains("fs::write(");
        let lines = self.lines.iter().enumerate().zip(&self.tests);
        let found = lines.filter(|((_, line), is_test)| !**is_test && writes(&line.code));
        found
            .map(|((number, _), _)| {
                self.finding(number, "files are written by `ldplayer_net::output`, never through links")
            })
            .collect()
    }

    /// What the command line prints goes through `printing.rs`, whose types escape what would tell a terminal what to do. Libraries print
    /// nothing; traces are written to standard output as data.
    fn unfiltered_terminals(&self) -> Vec<Finding> {
        const FREE: [&str; 4] =
            ["crates/cli/src/printing.rs", "crates/trace/src/sink.rs", "crates/bench/", "crates/testkit/"];
        if FREE.iter().any(|free| self.file.starts_with(free)) || !self.file.starts_with("crates/") {
            return Vec::new();
        }
        let prints = |code: &str| {
            ["io::stdout()", "io::stderr()"].iter().any(|stream| {
                let behind = code.split(stream).skip(1);
                behind.into_iter().any(|rest| !rest.starts_with(".is_terminal()") && !rest.starts_with(".into()"))
            })
        };
        let lines = self.lines.iter().enumerate().zip(&self.tests);
        let found =
            lines.filter(|((_, line), is_test)| !**is_test && prints(&line.code) && !line.code.contains("Printable("));
        found.map(|((number, _), _)| self.finding(number, "text for people is printed by `printing.rs`")).collect()
    }

    fn unexplained_panics(&self) -> Vec<Finding> {
        let is_explained = |number: usize| {
            let above = number.checked_sub(1).map(|above| &self.lines[above]);
            has_reason(&self.lines[number]) || above.is_some_and(|line| line.code.trim().is_empty() && has_reason(line))
        };
        let candidates = (0..self.lines.len()).filter(|&number| !self.tests[number]);
        candidates
            .filter(|&number| may_panic(&self.lines[number].code) && !is_explained(number))
            .map(|number| self.finding(number, "`unwrap` or `expect` without the invariant in a comment above it"))
            .collect()
    }
}

/// Rules for any text: nothing left undone, no path of one machine.
pub fn of_any_text(file: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut add = |rule: String| found.push(Finding { file: file.to_owned(), line: number + 1, rule });
        if let Some(mark) = UNDONE.iter().find(|&&mark| has_bounded(line, mark, mark.len())) {
            add(format!("{mark}: do it, or open an issue"));
        }
        // The slash at the end is no part of what must stand alone.
        if let Some(path) = MACHINE_PATHS.iter().find(|&&path| has_bounded(line, path, 0)) {
            add(format!("{path}… is a machine-specific path"));
        }
    }
    found
}

/// Every dependency of the workspace says what it is for, at the end of its line.
pub fn of_manifest(file: &str, text: &str) -> Vec<Finding> {
    let mut inside = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line.trim() == "[workspace.dependencies]";
        }
        let is_dependency = inside && line.split_once('=').is_some() && !line.starts_with('#');
        if is_dependency && !ends_with_comment(line) {
            let rule = "a dependency must say what it is for and why this one: `# …`".to_owned();
            found.push(Finding { file: file.to_owned(), line: number + 1, rule });
        }
    }
    found
}

/// Whether something but blanks stands behind a `#` that is not in a string.
fn ends_with_comment(line: &str) -> bool {
    let mut quoted = false;
    for (at, character) in line.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '#' if !quoted => return !line[at + 1..].trim().is_empty(),
            _ => {}
        }
    }
    false
}

/// Whether `part` stands in the line with no word, point or slash before it and, with `length` above 0, no word behind it.
/// The slashes of a URL without a host (`file:` and two of them) are none: what follows is a path from the root.
fn has_bounded(line: &str, part: &str, length: usize) -> bool {
    line.match_indices(part).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let behind = line[at + part.len()..].chars().next();
        let is_part = |character: char| is_word(character) || matches!(character, '.' | '/' | '*' | '}' | '-' | '~');
        let is_alone = !before.is_some_and(is_part) || line[..at].ends_with("://");
        is_alone && (length == 0 || !behind.is_some_and(is_word))
    })
}

fn is_in_test_folder(file: &str) -> bool {
    file.split('/').any(|folder| TEST_FOLDERS.contains(&folder))
}

/// The folder of the modules that a file declares.
fn module_folder(file: &str) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => format!("{folder}/"),
        _ => format!("{}/", file.trim_end_matches(".rs")),
    }
}

/// Whether a comment stands in the line that is not documentation, which speaks of the whole item.
fn has_reason(line: &Line) -> bool {
    let comment = line.comment.trim();
    !comment.is_empty() && !comment.starts_with("///") && !comment.starts_with("//!")
}

fn may_panic(code: &str) -> bool {
    [".unwrap()", ".expect(", ".unwrap_err()", ".expect_err("].iter().any(|call| code.contains(call))
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character| !is_word(character)).filter(|word| !word.is_empty())
}

/// Where the name of a function stands that is defined in this line; a type `fn(…)` has none.
fn function_at(code: &str) -> Option<usize> {
    let mut starts = code.match_indices("fn ").filter(|&(at, _)| !code[..at].chars().next_back().is_some_and(is_word));
    starts.find(|&(at, _)| code[at + 3..].chars().next().is_some_and(is_word)).map(|(at, _)| at + 3)
}

/// The last line of the item that goes on at this place: that of its closing brace, or of its semicolon.
fn item_end(lines: &[Line], first: usize, column: usize) -> Option<usize> {
    let (mut brackets, mut braces) = (0_usize, 0_usize);
    for (number, line) in lines.iter().enumerate().skip(first) {
        let code = if number == first { &line.code[column..] } else { &line.code };
        for character in code.chars() {
            match character {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                '{' => braces += 1,
                '}' if braces <= 1 => return Some(number),
                '}' => braces -= 1,
                ';' if braces == 0 && brackets == 0 => return Some(number),
                _ => {}
            }
        }
    }
    None
}

/// For each line, whether it is of an item under `#[cfg(test)]`.
fn test_lines(lines: &[Line]) -> Vec<bool> {
    const ATTRIBUTE: &str = "#[cfg(test)]";
    let mut tests = vec![lines.iter().any(|line| line.code.trim() == "#![cfg(test)]"); lines.len()];
    for (number, line) in lines.iter().enumerate() {
        let Some(at) = line.code.find(ATTRIBUTE) else { continue };
        if let Some(end) = item_end(lines, number, at + ATTRIBUTE.len()) {
            tests[number..=end].fill(true);
        }
    }
    tests
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines with findings, in a file of the program.
    fn lines(text: &str) -> Vec<usize> {
        found(text).into_iter().map(|finding| finding.line).collect()
    }

    fn found(text: &str) -> Vec<Finding> {
        Source::new("crates/x/src/a.rs", text).findings(false)
    }

    fn function(body: usize) -> String {
        format!("//! Purpose.\nfn long(\n    x: [u8; 2],\n) {{\n{}}}\n", "    f(\"}\");\n".repeat(body))
    }

    #[test]
    fn a_function_may_have_seventy_lines() {
        assert_eq!(lines(&function(FUNCTION_LINES - 4)), []);
        assert_eq!(
            found(&function(FUNCTION_LINES - 3))[0].to_string(),
            "crates/x/src/a.rs:2: a function of 71 lines, the maximum is 70"
        );
    }

    #[test]
    fn declarations_and_pointers_are_no_functions() {
        let text = format!("//! P.\ntrait T {{ fn f(&self) -> [u8; 2]; }}\ntype F = fn (u8);\n{}", "a();\n".repeat(90));
        assert_eq!(lines(&text), []);
    }

    #[test]
    fn a_file_may_have_eight_hundred_lines_and_more_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    a();\n".repeat(50));
        let text = |count| format!("//! P.\n{}{tests}", "a();\n".repeat(count - 1));
        assert_eq!(lines(&text(FILE_LINES)), []);
        assert_eq!(lines(&text(FILE_LINES + 1)), [FILE_LINES + 1]);
    }

    #[test]
    fn a_file_states_its_purpose() {
        for text in ["", "//!\n", "// Purpose.\n", "\n//! Purpose.\n"] {
            assert_eq!(lines(text), [1], "{text:?}");
        }
        assert_eq!(lines("//! Purpose.\n"), []);
    }

    #[test]
    fn text_for_people_that_no_filter_sees_is_found() {
        let text = "//! P.\nfn a() {\n    b(io::stdout());\n    c(std::io::stderr().lock());\n    d(io::stdout().is_terminal());\n}\n";
        let found =
            |file: &str| Source::new(file, text).findings(false).iter().map(|found| found.line).collect::<Vec<_>>();
        assert_eq!(found("crates/cli/src/commands/a.rs"), [3, 4]);
        assert_eq!(found("crates/cli/src/printing.rs"), []);
    }

    #[test]
    fn a_wording_that_must_be_read_twice_is_found_in_comments_over_two_lines_too() {
        let text = "//! P.\n/// The lines; none where nothing was.\nfn a() {}\n// That is none\n// of ours.\nfn b() { c(\"none where\") }\n";
        assert_eq!(lines(text), [2, 4]);
    }

    #[test]
    fn unsafe_code_is_found_where_it_is_code() {
        let text = "//! unsafe\n#![forbid(unsafe_code)]\nfn a() { unsafe { b(\"unsafe\") } }\n";
        assert_eq!(lines(text), [3]);
        assert_eq!(Source::new("crates/net/src/a.rs", text).findings(false), []);
    }

    #[test]
    fn a_panic_needs_its_reason() {
        let text = "//! P.\nlet a = b.unwrap();\n// Never empty.\nlet a = b.unwrap();\nlet a = b\n    .expect(\"c\"); // set above\n\
                    let a = b.unwrap_or(1);\nlet a = b // trailing\n.unwrap();\n";
        assert_eq!(lines(text), [2, 9]);
    }

    #[test]
    fn a_panic_on_success_needs_its_reason_too() {
        let text = "//! P.\nlet a = b.unwrap_err();\nlet a = b.expect_err(\"c\");\n// Always fails.\nlet a = b.unwrap_err();\n\
                    let a = b.unwrap_err_or();\n#[cfg(test)]\nmod tests {\n    fn a() { b.unwrap_err() }\n}\n";
        assert_eq!(lines(text), [2, 3]);
    }

    #[test]
    fn tests_may_panic() {
        let text = "//! P.\n#[cfg(test)]\nmod tests {\n    fn a() { b.unwrap() }\n}\nfn c() { d.unwrap() }\n";
        assert_eq!(lines(text), [6]);
        assert_eq!(Source::new("crates/x/src/a.rs", text).findings(true), []);
        assert_eq!(Source::new("crates/x/tests/a.rs", text).findings(false), []);
    }

    #[test]
    fn modules_declared_for_tests_are_tests() {
        let text = "//! P.\nmod a;\n#[cfg(test)]\nmod harness;\n#[cfg(test)]\npub(crate) mod more;\n";
        let modules = |file| Source::new(file, text).test_modules();
        assert_eq!(modules("crates/x/src/lib.rs")[..2], ["crates/x/src/harness.rs", "crates/x/src/harness/"]);
        assert_eq!(modules("crates/x/src/b.rs")[2..], ["crates/x/src/b/more.rs", "crates/x/src/b/more/"]);
    }

    #[test]
    fn work_left_undone_and_paths_of_a_machine_are_found() {
        let texts = [
            (format!("// {}: later", UNDONE[0]), 1),
            (format!("// {}", UNDONE[1]), 1),
            (format!("{}LIST METHOD", UNDONE[0]), 0),
            (format!("\"{}x\"", MACHINE_PATHS[0]), 1),
            (format!("see {}user/x", MACHINE_PATHS[2]), 1),
            (format!("zones{}x, target{}", MACHINE_PATHS[1], MACHINE_PATHS[4]), 0),
            (format!("open file://{}user/run", MACHINE_PATHS[2]), 1),
            (format!("https://example.net{}x, ../{}", MACHINE_PATHS[4], MACHINE_PATHS[0]), 0),
        ];
        for (text, count) in texts {
            assert_eq!(of_any_text("a", &text).len(), count, "{text}");
        }
    }

    #[test]
    fn dependencies_have_reasons() {
        let text = "[package]\na = 1\n[workspace.dependencies]\nb = \"1\" # why\nc = \"1\"\nd = { x = \"#\" }\n# e = 1\n\nf = 1 #\n[x]\ng = 1\n";
        let lines: Vec<usize> = of_manifest("Cargo.toml", text).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [5, 6, 9]);
    }
}
