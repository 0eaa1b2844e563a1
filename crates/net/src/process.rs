//! Child processes: killed when their parent ends, and measured together with their descendants.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::net::UnixListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::{ptr, slice};

use ldplayer_core::text::userinfo;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, getppid, waitid};

use crate::{signals, system};

pub use crate::system::ProcessHandle;

/// A tree deeper or wider than this is not followed further: more than any server has.
const MOST: usize = 4_096;

/// Overwrites user and password of URLs among the arguments of this process ([`ldplayer_core::text::userinfo`]), which all users of the host can
/// see (`ps`, `/proc/PID/cmdline`). To be called when they have been read, before another thread is started; what [`std::env::args`] gives
/// afterwards has them no more. Where the kernel does not tell where they are, they stay.
pub fn hide_secrets() {
    let Some(Range { start, end }) = arguments().filter(|range| range.start < range.end) else { return };
    // SAFETY: the kernel says that the arguments are there, in memory of this process that may be written; the standard library reads them by
    // raw pointers, when it is asked, and no other thread can be asking.
    let all = unsafe { slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut::<u8>(start), end - start) };
    for argument in all.split_mut(|&octet| octet == 0) {
        if let Some(secret) = userinfo(argument) {
            argument[secret].fill(b'*');
        }
    }
}

/// The addresses of the arguments of this process: the fields 48 and 49 of proc_pid_stat(5).
fn arguments() -> Option<Range<usize>> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_whitespace().skip(48 - 3).map(str::parse);
    Some(fields.next()?.ok()?..fields.next()?.ok()?)
}

/// Lets the kernel kill the command's process when the *thread* that starts it ends, however that comes about.
///
/// The children of that process are not killed; servers that fork end theirs when the main process is gone.
pub fn end_with_parent(command: &mut Command) {
    let parent = getpid();
    let ask = move || {
        system::end_with_parent()?;
        // The parent may have ended before the kernel was asked.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: between fork and exec, the closure makes two system calls and neither allocates nor takes a lock.
    unsafe { command.pre_exec(ask) };
}

/// Claims a name on this machine (the network namespace) for as long as the value lives, and no longer than this process: an abstract socket (unix(7)).
///
/// # Errors
/// When another process has claimed it.
pub fn claim(name: &[u8]) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&system::abstract_address(name)?)
}

/// Runs a command in the place of this process, as far as that can be while this one waits: what somebody sends to it reaches the
/// command ([`signals::pass_on`]), and it takes the command's end as its own.
///
/// # Errors
/// When the program cannot be started.
pub fn run_in_place(command: &mut Command) -> io::Result<ExitStatus> {
    signals::pass_on()?;
    let mut child = command.spawn()?;
    signals::pass_on_to(child.id());
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // Not reaped yet, so that its number is nobody else's as long as signals are passed on.
        let end = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while matches!(waitid(WaitId::Pid(pid), end), Err(Errno::INTR)) {}
    }
    signals::pass_on_to(0);
    child.wait()
}

/// The exit status of a shell for a process killed by a signal: 128 plus the signal number.
pub fn exit_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The process and all its descendants, the process first; empty if it does not exist.
///
/// Where the kernel does not list children (`CONFIG_PROC_CHILDREN`), the process alone.
pub fn tree(pid: u32) -> Vec<u32> {
    descend(fs::exists(format!("/proc/{pid}")).unwrap_or(false).then_some(pid).into_iter().collect(), None)
}

/// These processes with all their descendants, each once, but for one with its own.
pub(crate) fn descend(mut found: Vec<u32>, except: Option<u32>) -> Vec<u32> {
    let mut known: HashSet<u32> = found.iter().copied().chain(except).collect();
    let mut next = 0;
    while next < found.len() && found.len() < MOST {
        // A process that moves to another parent meanwhile could be seen twice.
        found.extend(children(found[next]).into_iter().filter(|&child| known.insert(child)));
        next += 1;
    }
    found
}

/// The children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Stdio};

    use super::*;

    /// A shell with a child, and the child's pid, told by the child: between its fork and its exec it would have no memory.
    fn family() -> (Child, u32) {
        let script = "/bin/sh -c 'echo $$; read -r line'; :";
        let mut shell = Command::new("/bin/sh");
        let mut shell = shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (shell, line.trim().parse().unwrap())
    }

    #[test]
    fn a_tree_has_the_children() {
        let (mut shell, child) = family();
        assert_eq!(tree(shell.id()), [shell.id(), child]);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert_eq!(tree(u32::MAX), []);
    }

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let started = std::thread::spawn(|| {
            let mut command = Command::new("/bin/sleep");
            command.arg("1000");
            end_with_parent(&mut command);
            command.spawn().unwrap()
        });
        let mut child = started.join().unwrap();
        assert!(!child.wait().unwrap().success(), "waiting would not end if it lived on");
    }
}
