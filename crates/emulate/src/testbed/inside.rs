//! The processes in namespaces of ours, found whatever they have become, and ended.
//!
//! A namespace has a number, which the kernel gives to another one when it is gone. So a namespace of a testbed whose holder is no
//! more is only taken for it when its loopback still has the address that it was given as a mark. A process that left it for another
//! one (`unshare --net`) is found by the mark on what hides the host's names from it, which stands in its list of mounts.

use std::collections::HashSet;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use ldplayer_net::interfaces::has_loopback;

use super::process::{Ending, Identity};

/// How long processes may take to end when they are asked to, all together; then they are killed.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How often processes are looked for, as they may start others while they are ended.
const ROUNDS: usize = 100;
/// Processes that are ended at a time: each of them takes a descriptor.
const AT_ONCE: usize = 256;

/// What tells processes inside.
#[derive(Clone, Debug, Default)]
pub struct Inside {
    /// Numbers of network namespaces.
    pub namespaces: Vec<u64>,
    /// The address that they have as a mark; `None` where something of ours keeps them, so that the numbers are still theirs.
    pub loopback: Option<Ipv4Addr>,
    /// The mark on mounts.
    pub mark: String,
}

/// A process does not end, not even when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck(pub u32);

impl Inside {
    /// Ends all processes inside but this one, and those that they start meanwhile; how many there were. They are asked, and killed
    /// after `patience`.
    ///
    /// # Errors
    /// When one does not end.
    pub fn end(&self, patience: Duration) -> Result<usize, Stuck> {
        let mut ended = HashSet::new();
        for round in 0..ROUNDS {
            let found = self.find();
            if found.is_empty() {
                break;
            }
            // Who was started by a process that was asked to end is not asked.
            let patience = if round == 0 { patience } else { Duration::ZERO };
            found.chunks(AT_ONCE).try_for_each(|some| end_all(some, patience))?;
            ended.extend(found.iter().map(|process| (process.pid, process.start)));
        }
        match self.find().first() {
            Some(left) => Err(Stuck(left.pid)),
            None => Ok(ended.len()),
        }
    }

    /// The processes inside, this one left out.
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
        // Who sees the same mounts as this process has not had the host's names hidden, or shares that with it.
        let is_marked = || inode(pid, "mnt") != own_mounts && self.is_marked(pid);
        (is_in() && is_same()) || (!self.mark.is_empty() && is_marked())
    }

    /// Whether one of the process's mounts is of this source, the last field but one (proc_pid_mountinfo(5)).
    fn is_marked(&self, pid: u32) -> bool {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        mounts.lines().any(|line| line.rsplit(' ').nth(1) == Some(&self.mark))
    }
}

/// The number of a process's namespace.
fn inode(pid: impl std::fmt::Display, kind: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{pid}/ns/{kind}")).ok().map(|file| file.ino())
}

/// Asks processes to end, waits for all together, and kills those that do not.
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
