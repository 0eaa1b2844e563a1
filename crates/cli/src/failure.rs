//! Errors on their way to the user: one line on stderr and the exit status of the interface.

use std::fmt;
use std::process::ExitCode;

use ldplayer_core::text::without_secrets;

/// The run was made, but its verdict or a gate failed.
pub const VERDICT_FAILED: u8 = 1;
/// The noise does not let a gate be decided: it neither holds nor is it broken.
pub const UNDECIDED: u8 = 4;
/// Bad usage or bad input.
pub const BAD_INPUT: u8 = 2;
/// The environment cannot do it.
const ENVIRONMENT: u8 = 3;

/// An error with its exit status.
pub struct Failure {
    status: u8,
    error: anyhow::Error,
}

impl Failure {
    /// What this machine or this user cannot do: exit status 3.
    pub fn environment(error: impl Into<anyhow::Error>) -> Self {
        Self { status: ENVIRONMENT, error: error.into() }
    }

    /// Prints the error, its causes on the same line, and gives the status. A closed pipe is success, as for any filter.
    pub fn report(self) -> ExitCode {
        if is_broken_pipe(&self.error) {
            return ExitCode::SUCCESS;
        }
        tell!("ldplayer: {self}");
        ExitCode::from(self.status)
    }
}

/// The error and its causes in one line.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_secrets(&one_line(&self.error)))
    }
}

/// Any other error is of the usage or the input: exit status 2.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { status: BAD_INPUT, error: error.into() }
    }
}

/// The error and its causes, but for those whose words an error above them quotes already.
fn one_line(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |line, cause| match line {
        line if line.is_empty() => cause,
        line if line.contains(&cause) => line,
        line => format!("{line}: {cause}"),
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn causes_are_told_once() {
        let error =
            anyhow::Error::new(std::io::Error::other("disk full")).context("a.tsv: disk full").context("convert");
        assert_eq!(one_line(&error), "convert: a.tsv: disk full");
        let error = Err::<(), _>(std::io::Error::other("disk full")).context("a.tsv").unwrap_err();
        assert_eq!(one_line(&error), "a.tsv: disk full");
    }
}
