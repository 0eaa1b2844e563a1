//! Identifies processes beyond reuse of their PID, and ends them.

use std::fs;
use std::os::fd::AsFd;
use std::time::Duration;

use ldplayer_net::process::ProcessHandle;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};

/// How long a process may take to end after SIGTERM; then it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process by PID and start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its PID.
    pub pid: u32,
    /// Its start, in clock ticks since boot.
    pub start: u64,
}

impl Identity {
    /// The current process with this PID.
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

    /// A handle that stays valid if the PID is reused; `None` if the process is gone.
    pub fn open(&self) -> Option<Ending> {
        let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
        let handle = ProcessHandle::open(pid).ok()?;
        // Checked after opening: from here on the handle refers to this process only.
        let (start, has_exited) = stat(self.pid)?;
        (start == self.start).then_some(Ending { handle, pid: self.pid, has_exited })
    }

    /// Sends SIGTERM, and SIGKILL if that does not help. Returns whether the process is gone.
    pub fn end(&self) -> bool {
        let Some(ending) = self.open() else { return !self.is_alive() };
        ending.ask();
        if !ending.has_ended(PATIENCE) {
            ending.kill();
        }
        ending.has_ended(PATIENCE)
    }
}

/// A process to be ended.
#[derive(Debug)]
pub struct Ending {
    handle: ProcessHandle,
    pid: u32,
    /// Whether its first thread was gone when it was opened: the others may be ending.
    has_exited: bool,
}

impl Ending {
    /// Its PID.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends SIGTERM.
    pub fn ask(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if !self.has_exited {
            // It may have ended in the meantime.
            let _ = self.handle.signal(signal);
        }
    }

    /// Waits for it to end.
    pub fn wait(&self) {
        while !self.has_ended(PATIENCE) {}
    }

    /// Waits for it to end, up to a timeout.
    pub fn has_ended(&self, patience: Duration) -> bool {
        let patience = Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: patience.subsec_nanos().into() };
        let mut waited = [PollFd::from_borrowed_fd(self.handle.as_fd(), PollFlags::IN)];
        poll(&mut waited, Some(&patience)).is_ok_and(|ready| ready > 0)
    }
}

/// The start time of a process, and whether its first thread has exited.
fn stat(pid: u32) -> Option<(u64, bool)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, so count from behind it: state is field 3, the start time field 22.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_exited = matches!(fields.next()?, "Z" | "X");
    Some((fields.nth(18)?.parse().ok()?, has_exited))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Child, Command, Stdio};

    /// A process that runs its program already, and ends with the test at the latest, when its input does.
    fn running() -> Child {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    #[test]
    fn a_process_is_ended_and_a_number_used_again_is_not() {
        let mut child = running();
        let identity = Identity::of(child.id()).unwrap();
        let other = Identity { start: identity.start + 1, ..identity };
        assert!(identity.is_alive() && !other.is_alive());
        assert!(other.end() && identity.is_alive(), "another process is left alone");
        assert!(identity.end() && !identity.is_alive());
        assert!(!child.wait().unwrap().success());
    }
}
