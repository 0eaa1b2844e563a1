//! Processes told apart for certain, although their numbers are used again, and ended.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};

/// How long a process may take to end when it is asked to, in seconds; then it is killed.
const PATIENCE: i64 = 5;

/// A process by its number and the time that it was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its number.
    pub pid: u32,
    /// Clock ticks from the start of the machine to its own.
    pub start: u64,
}

impl Identity {
    /// The process with this number now.
    pub fn of(pid: u32) -> Option<Self> {
        let (start, has_exited) = stat(pid)?;
        (!has_exited).then_some(Self { pid, start })
    }

    /// This process.
    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Asks it to end, and kills it when it does not. Returns whether it is gone.
    pub fn end(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(Ok(handle)) = pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return !self.is_alive() };
        // Looked at after it was opened: from here on the handle stands for this process and no other.
        match stat(self.pid) {
            Some((start, has_exited)) if start == self.start => {
                // Of a process that has exited, other threads may be about to.
                let signals: &[Signal] = if has_exited { &[] } else { &[Signal::TERM, Signal::KILL] };
                let mut ends =
                    signals.iter().map(|&signal| pidfd_send_signal(&handle, signal).is_ok() && has_ended(&handle));
                ends.any(|ended| ended) || has_ended(&handle)
            }
            _ => true,
        }
    }
}

/// When a process was started, and whether its first thread has exited.
fn stat(pid: u32) -> Option<(u64, bool)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so count from behind it: state is field 3, the start field 22.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_exited = matches!(fields.next()?, "Z" | "X");
    Some((fields.nth(18)?.parse().ok()?, has_exited))
}

/// Waits for a process to end, but not for ever.
fn has_ended(handle: &OwnedFd) -> bool {
    let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
    let mut waited = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
    poll(&mut waited, Some(&patience)).is_ok_and(|ready| ready > 0)
}

/// The processes in one of these network namespaces that have `mark` in their environment, this one left out.
pub fn marked(namespaces: &[u64], mark: &str) -> Vec<Identity> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let others = pids.filter(|&pid| pid != std::process::id());
    others.filter(|&pid| is_in(pid, namespaces) && is_marked(pid, mark)).filter_map(Identity::of).collect()
}

fn is_in(pid: u32, namespaces: &[u64]) -> bool {
    fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|file| namespaces.contains(&file.ino()))
}

fn is_marked(pid: u32, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|&octet| octet == 0).any(|variable| variable == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    /// A process that runs its program already, and ends with the test at the latest, when its input does.
    fn running(variable: &str) -> Child {
        let mut command = Command::new("cat");
        command.env("LDPLAYER_TEST_MARK", variable).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    #[test]
    fn a_process_is_ended_and_a_number_used_again_is_not() {
        let mut child = running("end");
        let identity = Identity::of(child.id()).unwrap();
        let other = Identity { start: identity.start + 1, ..identity };
        assert!(identity.is_alive() && !other.is_alive());
        assert!(other.end() && identity.is_alive(), "another process is left alone");
        assert!(identity.end() && !identity.is_alive());
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn processes_are_found_by_namespace_and_mark() {
        let own = fs::metadata("/proc/self/ns/net").unwrap().ino();
        let mut child = running("find");
        let mark = "LDPLAYER_TEST_MARK=find";
        let found: Vec<u32> = marked(&[own], mark).iter().map(|process| process.pid).collect();
        assert_eq!(found, [child.id()]);
        assert_eq!(marked(&[own + 1_000_000], mark), []);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
