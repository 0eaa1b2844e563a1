//! What stands in for the interface to Linux on other systems. Values that only Linux makes cannot be made here: whoever tries gets one error, and
//! their methods, which nobody can call, are there for the compiler alone.

use std::io;

/// No value has this type, so that a method of what holds one needs no body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Never {}

/// What needs Linux is refused with this.
pub(crate) fn needs_linux() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this needs Linux")
}
