//! Lines for people: names of files and zones, and whatever else is somebody else's, cannot tell the terminal what to do.

/// Prints a line to standard error.
macro_rules! tell {
    ($($argument:tt)*) => { eprintln!("{}", ldplayer_core::printable::Printable(format_args!($($argument)*))) };
}

/// Prints a line to standard output.
macro_rules! say {
    ($($argument:tt)*) => { println!("{}", ldplayer_core::printable::Printable(format_args!($($argument)*))) };
}

/// Writes a line to whatever takes lines for people.
macro_rules! write_line {
    ($out:expr, $($argument:tt)*) => { writeln!($out, "{}", ldplayer_core::printable::Printable(format_args!($($argument)*))) };
}
