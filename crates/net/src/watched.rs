//! Selects the processes to watch during a run: one, one with its descendants, or a systemd unit.
//!
//! systemd has a control group for each unit, which lists the unit's processes in its `cgroup.procs` (cgroups(7)). They are read anew
//! for each sample, as a server forks and ends workers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where control groups are.
pub const CGROUPS: &str = "/sys/fs/cgroup";
/// Below it, the trees that systemd may keep its units in: version 2 alone, version 2 beside 1, and version 1.
const TREES: [&str; 3] = ["", "unified", "systemd"];
/// The list of a group's processes.
const PROCESSES: &str = "cgroup.procs";
/// Groups looked at for one at most: more than any machine has.
const MOST: usize = 65_536;
/// What the names of units that have processes end in (systemd.unit(5)).
const KINDS: [&str; 3] = [".service", ".scope", ".slice"];

/// What keeps a unit from being watched. Exit status 3.
#[derive(Debug, thiserror::Error)]
pub enum UnitError {
    /// There is no tree of control groups.
    #[error("--watch-unit {unit}: no control groups in {}; without systemd, use --watch-pid", root.display())]
    NoGroups {
        /// The unit.
        unit: String,
        /// Where they were looked for.
        root: PathBuf,
    },
    /// No group has its name.
    #[error("--watch-unit {unit}: no such unit is running; see `systemctl status {unit}`")]
    Missing {
        /// The unit.
        unit: String,
    },
    /// Its group has no process, as after the unit has ended.
    #[error("--watch-unit {unit}: the unit has no process; start it with `systemctl start {unit}`")]
    Empty {
        /// The unit.
        unit: String,
    },
}

/// Which processes are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// A process without its children, by its number.
    Alone(u32),
    /// A process and all its descendants, by its number.
    Pid(u32),
    /// The processes of a unit.
    Unit(Unit),
}

/// A systemd unit that has processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    name: String,
    group: PathBuf,
}

impl Unit {
    /// Finds a unit by its name, `nsd` for `nsd.service`, among the control groups below `root` ([`CGROUPS`]).
    ///
    /// # Errors
    /// There is no such unit, or it has no process.
    pub fn find(name: &str, root: &Path) -> Result<Self, UnitError> {
        let unit = full_name(name);
        let trees: Vec<PathBuf> = TREES.iter().map(|tree| root.join(tree)).filter(|tree| is_group(tree)).collect();
        if trees.is_empty() {
            return Err(UnitError::NoGroups { unit, root: root.to_owned() });
        }
        let found: Vec<Self> =
            trees.iter().filter_map(|tree| find(tree, &unit)).map(|group| Self { name: unit.clone(), group }).collect();
        let is_missing = found.is_empty();
        let running = found.into_iter().find(|unit| !unit.processes().is_empty());
        running.ok_or(if is_missing { UnitError::Missing { unit } } else { UnitError::Empty { unit } })
    }

    /// Its name, with what kind of unit it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its processes now, those of groups within its own included.
    pub fn processes(&self) -> Vec<u32> {
        let mut processes = Vec::new();
        walk(&self.group, |group| {
            let text = fs::read_to_string(group.join(PROCESSES)).unwrap_or_default();
            // A process of another PID namespace is listed as 0.
            processes.extend(text.lines().filter_map(|line| line.parse().ok()).filter(|&pid: &u32| pid > 0));
            false
        });
        processes
    }
}

fn full_name(name: &str) -> String {
    let is_full = KINDS.iter().any(|kind| name.ends_with(kind));
    if is_full { name.to_owned() } else { format!("{name}{}", KINDS[0]) }
}

fn is_group(path: &Path) -> bool {
    path.join(PROCESSES).is_file()
}

/// The group of a name in a tree.
fn find(tree: &Path, name: &str) -> Option<PathBuf> {
    let mut found = None;
    walk(tree, |group| {
        let is_it = group.file_name().is_some_and(|found| found == name);
        found = is_it.then(|| group.to_owned());
        is_it
    });
    found
}

/// Visits a group and its descendants, breadth first, until `visit` has seen enough. Groups that vanish meanwhile are skipped.
fn walk(tree: &Path, mut visit: impl FnMut(&Path) -> bool) {
    let mut groups = vec![tree.to_owned()];
    let mut next = 0;
    while next < groups.len() && groups.len() < MOST {
        if visit(&groups[next]) {
            return;
        }
        groups.extend(within(&groups[next]).unwrap_or_default());
        next += 1;
    }
}

fn within(group: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(group)?.filter_map(Result::ok);
    Ok(entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that waits for us.
    fn process() -> Child {
        Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    }

    fn end(mut process: Child) {
        drop(process.stdin.take());
        process.wait().unwrap();
    }

    fn group(path: &Path, processes: &[u32]) {
        fs::create_dir_all(path).unwrap();
        let lines: String = processes.iter().map(|pid| format!("{pid}\n")).collect();
        fs::write(path.join(PROCESSES), lines).unwrap();
    }

    #[test]
    fn a_unit_is_found_in_each_kind_of_tree_and_read_anew() {
        let (first, second) = (process(), process());
        for tree in TREES {
            let root = tempfile::tempdir().unwrap();
            let slice = root.path().join(tree).join("system.slice");
            group(root.path().join(tree).as_path(), &[1]);
            group(&slice, &[]);
            group(&slice.join("nsd.service"), &[first.id()]);
            let unit = Unit::find("nsd", root.path()).unwrap();
            assert_eq!((unit.name(), unit.processes()), ("nsd.service", vec![first.id()]));
            assert_eq!(Unit::find("nsd.service", root.path()).unwrap(), unit);
            // A group within, as for a unit that delegates.
            group(&slice.join("nsd.service/workers"), &[0, second.id()]);
            assert_eq!(unit.processes(), [first.id(), second.id()]);
            fs::remove_dir_all(slice.join("nsd.service")).unwrap();
            assert_eq!(unit.processes(), []);
        }
        [first, second].into_iter().for_each(end);
    }

    #[test]
    fn what_cannot_be_watched_says_why() {
        let root = tempfile::tempdir().unwrap();
        let error = |name: &str| Unit::find(name, root.path()).unwrap_err();
        assert!(matches!(error("nsd"), UnitError::NoGroups { .. }));
        group(root.path(), &[1]);
        assert!(matches!(error("nsd"), UnitError::Missing { unit } if unit == "nsd.service"));
        group(&root.path().join("system.slice/nsd.service"), &[]);
        assert!(matches!(error("nsd"), UnitError::Empty { .. }));
        assert!(matches!(error("nsd.scope"), UnitError::Missing { .. }));
    }

    /// Where this user may make a control group, one of the kernel's.
    #[test]
    fn the_kernels_own_groups_are_read() {
        let trees = TREES.iter().map(|tree| Path::new(CGROUPS).join(tree)).filter(|tree| is_group(tree));
        let name = format!("ldplayer-test-{}.service", std::process::id());
        let made = trees.map(|tree| tree.join(&name)).find(|group| fs::create_dir(group).is_ok());
        let Some(group) = made else { return };
        let process = process();
        fs::write(group.join(PROCESSES), process.id().to_string()).unwrap();
        let unit = Unit::find(&name, Path::new(CGROUPS));
        let processes = unit.as_ref().map(Unit::processes);
        let pid = process.id();
        end(process);
        fs::remove_dir(&group).unwrap();
        assert_eq!(processes.unwrap(), [pid]);
    }
}
