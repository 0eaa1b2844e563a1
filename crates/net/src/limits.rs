//! Limits of the process and the kernel, read and, where allowed, raised.

use std::fs;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

/// The limit of open files: the one in force, and how far the process may raise it.
pub fn nofile() -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum)
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
    fn settings_are_read_by_name() {
        assert!(sysctl("kernel.ostype").is_some_and(|value| value == "Linux"));
        assert!(sysctl_number("fs.nr_open").is_some_and(|value| value > 0));
        assert_eq!(sysctl("no.such.setting"), None);
    }
}
