//! Runs nsd-checkzone and named-checkzone.

use std::path::{Path, PathBuf};
use std::process::Command;

use ldplayer_core::name::Presentation;

use super::CheckError;
use super::report::{Finding, Report};
use crate::sources::{Source, on_all_cores};
use crate::stock::find;

/// A checker of a stock server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checker {
    /// nsd-checkzone.
    Nsd,
    /// named-checkzone.
    Bind,
}

impl Checker {
    /// All checkers.
    pub const ALL: [Self; 2] = [Self::Nsd, Self::Bind];

    /// Its name in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nsd => "nsd",
            Self::Bind => "bind",
        }
    }

    /// Its program, package and options.
    const fn program(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Self::Nsd => ("nsd-checkzone", "nsd", &[]),
            // By default, it would look up the data of other zones in the real DNS.
            Self::Bind => ("named-checkzone", "bind9-utils", &["-i", "local", "-k", "ignore"]),
        }
    }
}

/// An installed checker.
pub struct Program {
    checker: Checker,
    path: PathBuf,
}

impl Program {
    /// Finds the program of a checker.
    ///
    /// # Errors
    /// It is not installed; the error names its package and the option to do without it.
    pub fn find(checker: Checker) -> Result<Self, CheckError> {
        let (program, package, _) = checker.program();
        let missing = |source| CheckError::Missing { source, checker: checker.name() };
        Ok(Self { checker, path: find(program, package).map_err(missing)? })
    }

    /// The first complaint about a zone file: line and text.
    fn complaint(&self, directory: &Path, source: &Source) -> Result<Option<(u32, String)>, CheckError> {
        let (_, _, options) = self.checker.program();
        let failed = |source| CheckError::Program { path: self.path.clone(), source };
        let file = std::path::absolute(&source.file).map_err(failed)?;
        let mut command = Command::new(&self.path);
        // Included files are relative to the zone file.
        command.args(options).arg("--").arg(Presentation(&source.apex).to_string()).arg(&file).current_dir(directory);
        let output = command.output().map_err(failed)?;
        if output.status.success() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        Ok(Some(read_complaint(&said, &file)))
    }
}

/// The line and text of the first complaint.
fn read_complaint(said: &str, file: &Path) -> (u32, String) {
    let place = format!("{}:", file.display());
    let with = |text: &str| said.lines().find(|line| line.contains(text));
    let first =
        with("error: ").or_else(|| with(&place)).or_else(|| said.lines().next()).unwrap_or("no error message").trim();
    let words = first.split_once("error: ").map_or(first, |(_, words)| words);
    let Some((before, behind)) = words.split_once(&place) else {
        return (0, words.to_owned());
    };
    let digits = behind.split(|octet: char| !octet.is_ascii_digit()).next().unwrap_or_default();
    let text = format!("{before}{}", behind[digits.len()..].trim_start_matches([':', ' ']));
    (digits.parse().unwrap_or(0), text)
}

/// Runs each checker on each zone.
///
/// # Errors
/// A checker cannot be run.
pub fn check(
    checkers: &[Program],
    directory: &Path,
    sources: &[Source],
    report: &mut Report,
) -> Result<(), CheckError> {
    for checker in checkers {
        let mut loaded = 0;
        let complaints = on_all_cores(sources, |source| checker.complaint(directory, source));
        for (source, complaint) in sources.iter().zip(complaints) {
            let name = checker.checker.name();
            match complaint? {
                None => loaded += 1,
                Some((line, text)) => {
                    let (program, ..) = checker.checker.program();
                    report.add(Finding::error(name, source.file.clone(), line, format!("{program}: {text}")));
                }
            }
        }
        report.loaded.insert(checker.checker.name(), loaded);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_read_with_their_line() {
        let file = Path::new("/z/example.zone");
        for (said, wanted) in [
            (
                "dns_rdata_fromtext: /z/example.zone:23: near eol: unexpected end of input\nzone example/IN: loading failed\n",
                (23, "dns_rdata_fromtext: near eol: unexpected end of input"),
            ),
            (
                "zone example. file /z/example.zone has 1 errors\n[2026-01-01 00:00:00.000] nsd-checkzone[1]: error: /z/example.zone:4: unknown type\n",
                (4, "unknown type"),
            ),
            (
                "zone example/IN: has no NS records\nzone example/IN: not loaded due to errors.\n",
                (0, "zone example/IN: has no NS records"),
            ),
            ("", (0, "no error message")),
        ] {
            assert_eq!(read_complaint(said, file), (wanted.0, wanted.1.to_owned()), "{said}");
        }
    }
}
