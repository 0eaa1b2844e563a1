//! Runs tests that mostly wait: more of them at once than there are cores.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// So many at once, unless `--test-threads` says otherwise.
const AT_ONCE: usize = 4;

/// Runs those that the command line selects, as tests of the standard harness are run.
pub fn run(tests: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Functions as tests of their names. A panic fails a test.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        vec![$(libtest_mimic::Trial::test(stringify!($test), || {
            $test();
            Ok(())
        })),*]
    };
}

pub(crate) use tests;
