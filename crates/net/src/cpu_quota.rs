//! What a process and its children may have of the processors: a quota of time, by a control group of their own (cgroups(7)), and certain
//! processors.
//!
//! The group is made at the top of the tree of the controller, where only root may, and removed once it is empty. Version 2 has `cpu.max`, version
//! 1 `cpu.cfs_quota_us`; where both are mounted, the one that has the processor is taken.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::io::write;

use crate::system::Cores;
use crate::usage;
use crate::watched::CGROUPS;

/// Length of a period in microseconds: a server that has used its part of one rests for a few milliseconds. With longer ones, latency near the limit is
/// as much higher, and a socket with a small buffer overflows meanwhile.
const PERIOD_US: u64 = 5_000;
/// The least that the kernel takes for a quota, in microseconds.
const LEAST_US: u64 = 1_000;
/// The longest period that it takes.
const LONGEST_US: u64 = 1_000_000;
/// How the names of groups begin; the number of the process that made them follows.
const PREFIX: &str = "ldplayer-";
/// Tries to remove a group that is not empty yet, and the pause between them.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);
/// The least share of a core that can be given.
pub const LEAST_CORES: f64 = LEAST_US as f64 / LONGEST_US as f64;

/// Why there is no quota. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum QuotaError {
    /// No control groups have the processor.
    #[error("no control groups with the controller cpu in {}; use a machine that has them, or leave the quota out", .0.display())]
    NoGroups(PathBuf),
    /// The group cannot be made.
    #[error("{}: {source}; run as root, or start the server with `systemd-run --scope -p CPUQuota=20%` and --watch-pid", path.display())]
    Refused {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What a process may have of the processors. Dropping it ends the quota, within which no process may run by then.
#[derive(Debug, PartialEq, Eq)]
pub struct CpuLimit {
    quota: Option<CpuQuota>,
    processors: Vec<usize>,
}

impl CpuLimit {
    /// So many cores together, and these processors only, where either is given; `None` for neither.
    ///
    /// # Errors
    /// As for [`CpuQuota::new`].
    pub fn new(cores: Option<f64>, processors: &[usize]) -> Result<Option<Self>, QuotaError> {
        let quota = cores.map(CpuQuota::new).transpose()?;
        let is_limit = quota.is_some() || !processors.is_empty();
        Ok(is_limit.then(|| Self { quota, processors: processors.to_vec() }))
    }

    /// Holds the command's process to the limit before it becomes the program, so that all of it is within.
    ///
    /// # Errors
    /// The group's list of processes cannot be opened, or there is no such processor.
    pub fn confine(&self, command: &mut Command) -> io::Result<()> {
        if let Some(quota) = &self.quota {
            quota.confine(command)?;
        }
        if self.processors.is_empty() {
            return Ok(());
        }
        let none = |number| io::Error::new(io::ErrorKind::InvalidInput, format!("there is no processor {number}"));
        let cores = Cores::of(&self.processors).map_err(none)?;
        // SAFETY: between fork and exec, the closure makes one system call with a set that it owns, and neither allocates nor takes a lock.
        unsafe { command.pre_exec(move || cores.keep_to().map_err(Into::into)) };
        Ok(())
    }
}

/// A control group with a quota. Dropping it removes the group, which must be empty by then.
#[derive(Debug, PartialEq, Eq)]
pub struct CpuQuota {
    group: PathBuf,
}

/// The version of control groups that has the controller, and the top of its tree.
#[derive(Debug, PartialEq)]
enum Tree {
    One(PathBuf),
    Two(PathBuf),
}

/// Groups made by this process so far, for their names.
static MADE: AtomicU32 = AtomicU32::new(0);

impl CpuQuota {
    /// Makes a group whose processes may use so many cores together, at least [`LEAST_CORES`].
    ///
    /// # Errors
    /// There are no control groups, or this process may not make one.
    pub fn new(cores: f64) -> Result<Self, QuotaError> {
        Self::below(Path::new(CGROUPS), cores)
    }

    fn below(root: &Path, cores: f64) -> Result<Self, QuotaError> {
        let tree = Tree::find(root).ok_or_else(|| QuotaError::NoGroups(root.to_owned()))?;
        sweep(tree.top());
        let name = format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let group = tree.top().join(name);
        let refused = |path: &Path| {
            let path = path.to_owned();
            move |source| QuotaError::Refused { path, source }
        };
        fs::create_dir(&group).map_err(refused(&group))?;
        // From here on, the group is removed when something fails.
        let quota = Self { group };
        let (quota_us, period_us) = parts(cores);
        let settings = match tree {
            Tree::Two(_) => vec![("cpu.max", format!("{quota_us} {period_us}"))],
            // The period first: the kernel checks the quota against it.
            Tree::One(_) => {
                vec![("cpu.cfs_period_us", period_us.to_string()), ("cpu.cfs_quota_us", quota_us.to_string())]
            }
        };
        for (file, value) in settings {
            let path = quota.group.join(file);
            fs::write(&path, value).map_err(refused(&path))?;
        }
        Ok(quota)
    }

    /// Lets the command's process enter the group before it becomes the program, so that all of it is within the quota.
    ///
    /// # Errors
    /// The group's list of processes cannot be opened.
    pub fn confine(&self, command: &mut Command) -> io::Result<()> {
        let processes = fs::File::options().write(true).open(self.group.join("cgroup.procs"))?;
        // SAFETY: between fork and exec, the closure makes one system call on a descriptor that it owns, and neither allocates nor takes a lock.
        // A 0 stands for the process that writes it.
        unsafe { command.pre_exec(move || write(processes.as_fd(), b"0").map(drop).map_err(Into::into)) };
        Ok(())
    }
}

impl Drop for CpuQuota {
    /// Processes that were killed are in the group until somebody has waited for them.
    fn drop(&mut self) {
        for _ in 0..TRIES {
            match fs::remove_dir(&self.group) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(PAUSE),
                _ => return,
            }
        }
    }
}

/// Removes groups of processes that are gone, which had no time to remove them.
fn sweep(top: &Path) {
    let of = |name: &str| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok();
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        let is_left = of(&entry.file_name().to_string_lossy()).is_some_and(|pid| usage::stat(pid).is_none());
        if is_left {
            // One that still has a process stays.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Tree {
    fn find(root: &Path) -> Option<Self> {
        let has_cpu = |file: &Path| {
            fs::read_to_string(file).is_ok_and(|controllers| controllers.split_whitespace().any(|name| name == "cpu"))
        };
        if has_cpu(&root.join("cgroup.controllers")) {
            let below = root.join("cgroup.subtree_control");
            // Where it is not given to groups yet; refused, the group's own file is missing, which is told.
            if !has_cpu(&below) {
                let _ = fs::write(below, "+cpu");
            }
            return Some(Self::Two(root.to_owned()));
        }
        let one = ["cpu", "cpu,cpuacct"].map(|name| root.join(name));
        one.into_iter()
            .find(|tree| tree.join("cpu.cfs_quota_us").exists() || tree.join("cgroup.procs").exists())
            .map(Self::One)
    }

    fn top(&self) -> &Path {
        match self {
            Self::One(top) | Self::Two(top) => top,
        }
    }
}

/// Quota and period in microseconds.
fn parts(cores: f64) -> (u64, u64) {
    let quota = (cores * PERIOD_US as f64).round() as u64;
    if quota >= LEAST_US {
        return (quota, PERIOD_US);
    }
    let period = (LEAST_US as f64 / cores.max(LEAST_CORES)).round() as u64;
    (LEAST_US, period.min(LONGEST_US))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_on_its_processors_only() {
        let allowed = crate::pin::allowed_cores().unwrap();
        let (first, last) = (allowed[0], *allowed.last().unwrap());
        for processors in [vec![last], vec![first, last]] {
            let limit = CpuLimit::new(None, &processors).unwrap().unwrap();
            let mut command = Command::new("grep");
            command.args(["Cpus_allowed_list", "/proc/self/status"]);
            limit.confine(&mut command).unwrap();
            let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let list = said.split_whitespace().nth(1).unwrap();
            assert_eq!(list.split([',', '-']).next_back(), Some(last.to_string().as_str()), "{said}");
            assert_eq!(list.parse() == Ok(last), processors.len() == 1 || first == last, "{said}");
        }
        assert_eq!(CpuLimit::new(None, &[]).unwrap(), None);
        let none = CpuLimit::new(None, &[usize::MAX]).unwrap().unwrap();
        assert!(none.confine(&mut Command::new("true")).unwrap_err().to_string().contains("no processor"));
    }

    #[test]
    fn a_quota_is_a_part_of_a_short_period() {
        assert_eq!(
            [0.2, 1.0, 1.5, 0.05, 0.001, 0.0].map(parts),
            [(1_000, 5_000), (5_000, 5_000), (7_500, 5_000), (1_000, 20_000), (1_000, 1_000_000), (1_000, 1_000_000)]
        );
    }

    #[test]
    fn both_versions_of_control_groups_are_found_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(matches!(CpuQuota::below(root, 0.2), Err(QuotaError::NoGroups(_))));
        fs::create_dir(root.join("cpu")).unwrap();
        fs::write(root.join("cpu/cgroup.procs"), "1\n").unwrap();
        assert_eq!(Tree::find(root), Some(Tree::One(root.join("cpu"))));
        fs::write(root.join("cgroup.controllers"), "cpuset cpu io\n").unwrap();
        assert_eq!(Tree::find(root), Some(Tree::Two(root.to_owned())));
        assert_eq!(fs::read_to_string(root.join("cgroup.subtree_control")).unwrap(), "+cpu");
        let quota = CpuQuota::below(root, 0.2).unwrap();
        assert_eq!(fs::read_to_string(quota.group.join("cpu.max")).unwrap(), "1000 5000");
        fs::remove_file(quota.group.join("cpu.max")).unwrap();
        let group = quota.group.clone();
        drop(quota);
        assert!(!group.exists());
    }

    #[test]
    fn a_process_and_its_children_get_no_more_than_the_quota() {
        let quota = match CpuQuota::new(0.2) {
            Ok(quota) => quota,
            Err(error) => return eprintln!("NOT TESTED: {error}"),
        };
        let mut command = Command::new("sh");
        command.args(["-c", "for i in 1 2; do while :; do :; done & done; wait"]).process_group(0);
        quota.confine(&mut command).unwrap();
        let mut shell = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1_000));
        let used = crate::process::tree(shell.id())
            .into_iter()
            .filter_map(usage::stat)
            .map(|stat| stat.own.cpu_s())
            .sum::<f64>();
        rustix::process::kill_process_group(rustix::process::Pid::from_child(&shell), rustix::process::Signal::KILL)
            .unwrap();
        shell.wait().unwrap();
        let group = quota.group.clone();
        drop(quota);
        assert!(!group.exists(), "{}", group.display());
        // Two loops would take a core or two; a fifth of one, with the clock's steps and what the start took.
        assert!((0.05..0.4).contains(&used), "{used}");
    }
}
