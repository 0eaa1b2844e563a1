//! Reads and raises limits of the process and the kernel.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::system;

/// Raises the limit of open files as far as this process may, and returns it.
///
/// # Errors
/// Never in practice: what cannot be raised stays.
pub fn raise_nofile() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let most = sysctl_number("fs.nr_open");
    let beyond = Rlimit { current: most, maximum: most };
    if most > limit.maximum && setrlimit(Resource::Nofile, beyond).is_ok() {
        return Ok(most.unwrap_or(u64::MAX));
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Whether the system refused something because descriptors or memory are short: what was asked for may be had later, or when
/// something is given back.
pub fn is_short(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// The limit of open files: the one in force, and how far the process may raise it.
pub fn nofile() -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum)
}

/// Gives the calling thread a table of descriptors of its own, with nothing in it but the standard streams: the limit of open
/// files is one of each table. Descriptors must not be handed to or from this thread any more.
///
/// # Errors
/// When the kernel has no `close_range` (before Linux 5.9).
pub fn own_descriptors() -> io::Result<()> {
    const FIRST: u32 = 3;
    system::own_descriptors(FIRST)
}

/// A kernel setting by its dotted name, as `sysctl -n` prints it.
pub fn sysctl(name: &str) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::read_to_string(path).ok().map(|text| text.trim().replace('\t', " "))
}

/// A kernel setting that is one number.
pub fn sysctl_number(name: &str) -> Option<u64> {
    sysctl(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_raised_to_the_hard_limit_at_least() {
        let hard = nofile().1.unwrap_or(u64::MAX);
        assert!(raise_nofile().unwrap() >= hard);
        assert!(nofile().0.unwrap_or(u64::MAX) >= hard);
    }

    #[test]
    fn a_thread_with_descriptors_of_its_own_leaves_those_of_others_alone() {
        let kept = fs::File::open("/proc/self/status").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&kept);
        let opened = std::thread::spawn(move || {
            own_descriptors().unwrap();
            let first = fs::File::open("/proc/self/limits").unwrap();
            std::os::fd::AsRawFd::as_raw_fd(&first)
        });
        assert!(opened.join().unwrap() <= number);
        assert!(std::io::read_to_string(kept).unwrap().starts_with("Name:"));
    }

    #[test]
    fn what_is_short_is_told_from_what_is_gone() {
        let error = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        assert!(is_short(&error(Errno::MFILE)) && !is_short(&error(Errno::CONNABORTED)));
    }

    #[test]
    fn settings_are_read_by_name() {
        assert!(sysctl("kernel.ostype").is_some_and(|value| value == "Linux"));
        assert!(sysctl_number("fs.nr_open").is_some_and(|value| value > 0));
        assert_eq!(sysctl("no.such.setting"), None);
    }
}
