//! Finds and ends all processes in a testbed's namespaces.
//!
//! The kernel reuses the inode number of a namespace that is gone. So a namespace of a testbed whose holder has died only
//! counts if its loopback interface still has the address that marks it. A process that left for another namespace
//! (`unshare --net`) is found by the mark on the mounts that hide the host's name resolution from it.

use std::collections::HashSet;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use ldplayer_net::interfaces::has_loopback;

use super::process::{Ending, Identity};

/// How long all processes together may take to end after SIGTERM; then they are killed.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of searches, since processes may start others while they are ended.
const ROUNDS: usize = 100;
/// Number of processes ended at a time: each takes a descriptor.
const AT_ONCE: usize = 256;

/// Identifies the processes inside.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    /// Inode numbers of network namespaces.
    pub namespaces: Vec<u64>,
    /// The address that marks them; `None` if we hold them open, so that the numbers cannot be reused.
    pub loopback: Option<Ipv4Addr>,
    /// The mark on mounts.
    pub mark: String,
}

/// A process does not exit even after SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck(pub u32);

impl Inside {
    /// Ends all processes inside except this one, including those that they start meanwhile; returns their number. They get SIGTERM, and
    /// SIGKILL after `patience`.
    ///
    /// # Errors
    /// A process does not exit.
    pub fn end(&self, patience: Duration) -> Result<usize, Stuck> {
        let mut ended = HashSet::new();
        for round in 0..ROUNDS {
            let found = self.find();
            if found.is_empty() {
                break;
            }
            // Processes started after the first round are killed at once.
            let patience = if round == 0 { patience } else { Duration::ZERO };
            found.chunks(AT_ONCE).try_for_each(|some| end_all(some, patience))?;
            ended.extend(found.iter().map(|process| (process.pid, process.start)));
        }
        match self.find().first() {
            Some(left) => Err(Stuck(left.pid)),
            None => Ok(ended.len()),
        }
    }

    /// The processes inside, except this one.
    fn find(&self) -> Vec<Identity> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let own_mounts = inode("self", "mnt");
        let others = pids.filter(|&pid| pid != std::process::id());
        others.filter(|&pid| self.has(pid, own_mounts)).filter_map(Identity::of).collect()
    }

    fn has(&self, pid: u32, own_mounts: Option<u64>) -> bool {
        let is_in = || inode(pid, "net").is_some_and(|number| self.namespaces.contains(&number));
        let is_same = || self.loopback.is_none_or(|address| has_loopback(pid, address));
        // A process with the same mounts as this one does not have the host's name resolution hidden, or shares that with it.
        let is_marked = || inode(pid, "mnt") != own_mounts && self.is_marked(pid);
        (is_in() && is_same()) || (!self.mark.is_empty() && is_marked())
    }

    /// Whether one of the process' mounts has this source, the last field but one (proc_pid_mountinfo(5)).
    fn is_marked(&self, pid: u32) -> bool {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        mounts.lines().any(|line| line.rsplit(' ').nth(1) == Some(&self.mark))
    }
}

/// The inode number of a process' namespace.
fn inode(pid: impl std::fmt::Display, kind: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/ns/{kind}")).ok().map(|file| file.ino())
}

/// Sends SIGTERM to processes, waits for all of them together, and kills the rest.
fn end_all(processes: &[Identity], patience: Duration) -> Result<(), Stuck> {
    let endings: Vec<Ending> = processes.iter().filter_map(Identity::open).collect();
    if !patience.is_zero() {
        endings.iter().for_each(Ending::ask);
    }
    let until = Instant::now() + patience;
    let left: Vec<&Ending> =
        endings.iter().filter(|ending| !ending.has_ended(until.saturating_duration_since(Instant::now()))).collect();
    left.iter().for_each(|ending| ending.kill());
    match left.iter().find(|ending| !ending.has_ended(PATIENCE)) {
        Some(stuck) => Err(Stuck(stuck.pid())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    use ldplayer_net::namespace::Namespace;

    /// A shell in a namespace that says when it runs.
    fn start(namespace: &Namespace, script: &str) -> Child {
        let mut command = Command::new("sh");
        namespace.start_in(command.args(["-c", script]).env_clear()).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    #[test]
    fn all_processes_in_a_namespace_are_ended_and_no_others() {
        let [ours, other] = [Namespace::create().unwrap(), Namespace::create().unwrap()];
        let mut child = start(&ours, "trap '' TERM; (setsid cat <&0 &); echo; cat");
        let mut stranger = start(&other, "echo; exec cat");
        let inside = Inside { namespaces: vec![ours.inode().unwrap()], ..Inside::default() };
        assert!(inside.end(Duration::from_millis(1)).unwrap() >= 2);
        assert_eq!(inside.find(), []);
        assert!(!child.wait().unwrap().success() && stranger.try_wait().unwrap().is_none());
        drop(stranger.stdin.take());
        assert!(stranger.wait().unwrap().success());
    }

    #[test]
    fn a_namespace_that_has_the_number_of_another_is_left_alone() {
        let (namespace, mark) = (Namespace::create().unwrap(), Ipv4Addr::new(127, 200, 3, 4));
        let mut child = start(&namespace, "echo; exec cat");
        let inside = Inside { namespaces: vec![namespace.inode().unwrap()], loopback: Some(mark), mark: String::new() };
        assert_eq!((inside.end(PATIENCE), child.try_wait().unwrap()), (Ok(0), None));
        namespace.add_loopback(mark).unwrap();
        assert_eq!(inside.end(PATIENCE), Ok(1));
        assert!(!child.wait().unwrap().success());
    }
}
