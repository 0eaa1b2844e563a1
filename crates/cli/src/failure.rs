//! Errors on their way to the user: one line on stderr and the exit status of the interface.

use std::process::ExitCode;

/// The run was made, but its verdict or a gate failed.
pub const VERDICT_FAILED: u8 = 1;
/// Bad usage or bad input.
const BAD_INPUT: u8 = 2;
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
        eprintln!("ldplayer: {:#}", self.error);
        ExitCode::from(self.status)
    }
}

/// Any other error is of the usage or the input: exit status 2.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { status: BAD_INPUT, error: error.into() }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
