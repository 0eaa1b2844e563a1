//! Resource usage of a set of processes over time, while processes come and go.
//!
//! Processes are found anew for each sample, so that forks are in it from the sample after. One that was seen once stays in it while it
//! lives, also when its parent ends and it becomes the child of another. What a process used is kept when it ends: by its parent, which the
//! kernel adds it to when it is waited for, or else here. So the sums never fall. Usage of children that start and end between two samples
//! without being waited for is missed, and so are the context switches of such threads.

use std::collections::HashMap;
use std::fs;
use std::ops::Add;
use std::os::unix::fs::MetadataExt;

use crate::namespace;
use crate::process;
use crate::usage::{self, CoreWait, Cost, ProcessStat, Storage, Switches};
use crate::wakeups::Thread;
use crate::watched::Watched;

/// Maximum number of threads whose context switches are read for a sample; with more threads the figure is missing, since reading one takes
/// about 10 µs.
const MOST_THREADS: u64 = 1_024;
/// How much less than a child used its parent may seem to have gained by waiting for it: user and system time are each cut to ticks.
const TICKS: f64 = 2.0;

/// Processes that are watched, with what those used that ended.
#[derive(Debug)]
pub struct Processes {
    watched: Watched,
    /// Start time of the named process, to recognize another process that reuses its number.
    started: Option<u64>,
    seen: HashMap<u32, Seen>,
    gone: Gone,
    /// The largest processor time read so far: the kernel rounds a child's usage down to ticks once its parent has waited for it.
    told_s: f64,
    too_many_threads: bool,
}

/// A process as it was seen last.
#[derive(Clone, Debug, Default)]
struct Seen {
    stat: ProcessStat,
    threads: HashMap<u32, Scheduled>,
    storage: Option<Storage>,
}

/// How the scheduler treated a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Scheduled {
    switches: Switches,
    /// `None` where the kernel does not count it.
    wait: Option<CoreWait>,
}

/// What those used that ended, as far as no parent has it.
#[derive(Debug, Default)]
struct Gone {
    cost: Cost,
    scheduled: Scheduled,
    storage: Storage,
}

/// What the processes use together. Totals are since the start of each.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Processor time and page faults, those of ended children included.
    pub cost: Cost,
    /// Resident memory in bytes; memory that processes share counts in each of them.
    pub rss_bytes: u64,
    /// Processes that have not ended.
    pub processes: u64,
    /// Their threads.
    pub threads: u64,
    /// Context switches of their threads; `None` where there are too many threads to read.
    pub switches: Option<Switches>,
    /// What their threads waited for cores; `None` as above, or where the kernel does not count it.
    pub wait: Option<CoreWait>,
    /// What they moved from and to storage; `None` without the right to trace each.
    pub storage: Option<Storage>,
}

/// Which network namespace processes are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// One of the processes in it.
    pub pid: u32,
    /// Whether the calling thread has another one.
    pub is_foreign: bool,
}

impl Processes {
    /// Nothing is read but what tells a named process from a later one of its number.
    pub fn new(watched: Watched) -> Self {
        let started = match watched {
            Watched::Alone(pid) | Watched::Pid(pid) => usage::stat(pid).map(|stat| stat.started),
            Watched::Unit(_) => None,
        };
        Self { watched, started, seen: HashMap::new(), gone: Gone::default(), told_s: 0.0, too_many_threads: false }
    }

    /// Their current usage; `None` if all have ended.
    pub fn sample(&mut self) -> Option<Usage> {
        let stats: HashMap<u32, ProcessStat> =
            self.find().into_iter().filter_map(|pid| Some((pid, usage::stat(pid)?))).collect();
        let has_children = !matches!(self.watched, Watched::Alone(_));
        self.bury(&stats);
        let threads: u64 = stats.values().map(|stat| stat.threads).sum();
        self.too_many_threads |= threads > MOST_THREADS;
        let seen = stats.into_iter().map(|(pid, stat)| (pid, self.look_at(pid, stat))).collect();
        self.seen = seen;
        let alive = self.seen.values().filter(|seen| !seen.stat.is_zombie);
        let processes = alive.clone().count() as u64;
        let cost = |seen: &Seen| if has_children { seen.stat.own + seen.stat.children } else { seen.stat.own };
        let mut cost = self.seen.values().map(cost).fold(self.gone.cost, Cost::add);
        cost.rest_s += (self.told_s - cost.cpu_s()).max(0.0);
        self.told_s = cost.cpu_s();
        (processes > 0).then(|| Usage {
            cost,
            rss_bytes: alive.clone().map(|seen| seen.stat.rss_bytes).sum(),
            processes,
            threads: alive.map(|seen| seen.stat.threads).sum(),
            switches: (!self.too_many_threads).then(|| self.scheduled().switches),
            wait: self.scheduled().wait.filter(|_| !self.too_many_threads),
            storage: self.storage(),
        })
    }

    /// The threads of the last sample.
    pub fn threads(&self) -> Vec<Thread> {
        self.seen.iter().flat_map(|(&pid, seen)| seen.threads.keys().map(move |&thread| (pid, thread))).collect()
    }

    /// Their proportional set size in bytes, which takes the kernel long to compute ([`usage::pss_bytes`]); `None` if it cannot be read for
    /// a process of the last sample, or there is no process.
    pub fn pss_bytes(&self) -> Option<u64> {
        let alive = self.seen.iter().filter(|(pid, seen)| !seen.stat.is_zombie && is_still(**pid, seen.stat.started));
        let sum = alive.map(|(&pid, _)| usage::pss_bytes(pid)).try_fold(0, |sum: u64, pss| Some(sum + pss?))?;
        (sum > 0).then_some(sum)
    }

    /// The network namespace of the processes in the last sample. If a named process (such as `ip netns exec`) is outside the namespace
    /// that all others share, it is that of the others. `None` if they do not share one, or it cannot be read.
    pub fn network(&self) -> Option<Network> {
        let number = |pid: &u32| {
            // A thread of this process may have entered another one than its first thread, whose is at `/proc/PID`.
            let is_own = *pid == std::process::id();
            if is_own {
                namespace::own_number().ok()
            } else {
                Some(fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino())
            }
        };
        let root = self.root();
        let alive = || self.seen.iter().filter(|(_, seen)| !seen.stat.is_zombie).map(|(pid, _)| pid);
        let others: Vec<&u32> = alive().filter(|&&pid| Some(pid) != root).collect();
        let pid = others.first().copied().or_else(|| alive().next())?;
        let found = number(pid)?;
        let all_in_it = others.into_iter().all(|pid| number(pid) == Some(found));
        all_in_it.then_some(Network { pid: *pid, is_foreign: namespace::own_number().ok()? != found })
    }

    /// The process that was named.
    const fn root(&self) -> Option<u32> {
        match self.watched {
            Watched::Alone(pid) | Watched::Pid(pid) => Some(pid),
            Watched::Unit(_) => None,
        }
    }

    /// The processes now.
    fn find(&self) -> Vec<u32> {
        let root = self.root().filter(|&pid| self.started.is_some_and(|started| is_still(pid, started)));
        // Excludes this process, which may have been started by the watched process or be in its unit.
        let own = std::process::id();
        match &self.watched {
            Watched::Unit(unit) => unit.processes().into_iter().filter(|&pid| pid != own).collect(),
            Watched::Alone(_) => root.into_iter().collect(),
            Watched::Pid(_) => {
                let known =
                    self.seen.iter().filter(|(pid, seen)| Some(**pid) != root && is_still(**pid, seen.stat.started));
                process::descend(root.into_iter().chain(known.map(|(&pid, _)| pid)).collect(), Some(own))
            }
        }
    }

    /// Keeps what those used that have ended since the last sample.
    fn bury(&mut self, now: &HashMap<u32, ProcessStat>) {
        let before: HashMap<u32, ProcessStat> = self.seen.iter().map(|(&pid, seen)| (pid, seen.stat)).collect();
        self.gone.cost = self.gone.cost + kept_by_nobody(&before, now);
        for (_, seen) in self.seen.extract_if(|pid, seen| has_ended(*pid, &seen.stat, now)) {
            seen.threads.values().for_each(|scheduled| self.gone.scheduled.add(scheduled));
            let storage = seen.storage.unwrap_or_default();
            self.gone.storage.read_bytes += storage.read_bytes;
            self.gone.storage.write_bytes += storage.write_bytes;
        }
    }

    fn look_at(&mut self, pid: u32, stat: ProcessStat) -> Seen {
        let before = self.seen.remove(&pid).unwrap_or_default();
        let threads = if self.too_many_threads { Vec::new() } else { usage::threads(pid) };
        let read = |thread: u32| {
            let switches = usage::switches(pid, thread)?;
            Some((thread, Scheduled { switches, wait: usage::core_wait(pid, thread) }))
        };
        let threads: HashMap<u32, Scheduled> = threads.into_iter().filter_map(read).collect();
        let ended = before.threads.iter().filter(|(thread, _)| !threads.contains_key(thread));
        ended.for_each(|(_, scheduled)| self.gone.scheduled.add(scheduled));
        // A zombie has no figures any more; its last ones still hold.
        Seen { stat, threads, storage: usage::storage(pid).or(before.storage.filter(|_| stat.is_zombie)) }
    }

    fn scheduled(&self) -> Scheduled {
        let mut sum = self.gone.scheduled;
        self.seen.values().flat_map(|seen| seen.threads.values()).for_each(|scheduled| sum.add(scheduled));
        sum
    }

    fn storage(&self) -> Option<Storage> {
        let Storage { read_bytes, write_bytes } = self.gone.storage;
        self.seen.values().try_fold(Storage { read_bytes, write_bytes }, |sum, seen| {
            let own = seen.storage?;
            Some(Storage {
                read_bytes: sum.read_bytes + own.read_bytes,
                write_bytes: sum.write_bytes + own.write_bytes,
            })
        })
    }
}

/// Whether a process of this number is the one that started then.
fn is_still(pid: u32, started: u64) -> bool {
    usage::stat(pid).is_some_and(|stat| stat.started == started)
}

fn has_ended(pid: u32, before: &ProcessStat, now: &HashMap<u32, ProcessStat>) -> bool {
    now.get(&pid).is_none_or(|now| now.started != before.started)
}

/// What those used that have ended and that no parent has among its children's: nobody waited for them, or somebody else did.
fn kept_by_nobody(before: &HashMap<u32, ProcessStat>, now: &HashMap<u32, ProcessStat>) -> Cost {
    let tolerance = TICKS / rustix::param::clock_ticks_per_second() as f64;
    let gained = |(pid, was): (&u32, &ProcessStat)| {
        let is = now.get(pid).filter(|is| is.started == was.started)?;
        Some((*pid, is.children.cpu_s() - was.children.cpu_s() + tolerance))
    };
    let mut gains: HashMap<u32, f64> = before.iter().filter_map(gained).collect();
    let mut ended: Vec<(&u32, Cost)> = before
        .iter()
        .filter(|(pid, was)| has_ended(**pid, was, now))
        .map(|(pid, was)| (pid, was.own + was.children))
        .collect();
    ended.sort_by(|(_, a), (_, b)| b.cpu_s().total_cmp(&a.cpu_s()));
    let mut is_kept = |pid: &u32, cost: &Cost| {
        let heir = heir(*pid, before, now).and_then(|heir| gains.get_mut(&heir));
        heir.filter(|gain| **gain >= cost.cpu_s()).map(|gain| *gain -= cost.cpu_s()).is_some()
    };
    ended.into_iter().filter(|(pid, cost)| !is_kept(pid, cost)).map(|(_, cost)| cost).fold(Cost::default(), Cost::add)
}

/// The nearest ancestor that has not ended: who waits for a child that waited for its own has both.
fn heir(pid: u32, before: &HashMap<u32, ProcessStat>, now: &HashMap<u32, ProcessStat>) -> Option<u32> {
    let mut at = before.get(&pid)?.parent;
    // No chain is longer than there are processes.
    for _ in 0..before.len() {
        let was = before.get(&at)?;
        if !has_ended(at, was, now) {
            return Some(at);
        }
        at = was.parent;
    }
    None
}

impl Scheduled {
    fn add(&mut self, other: &Self) {
        self.switches.voluntary += other.switches.voluntary;
        self.switches.involuntary += other.switches.involuntary;
        self.wait = match (self.wait, other.wait) {
            (Some(sum), Some(own)) => Some(sum + own),
            (one, other) => one.or(other),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::namespace::Namespace;

    fn stat(parent: u32, own: f64, children: f64) -> ProcessStat {
        let cost = |user_s| Cost { user_s, ..Cost::default() };
        ProcessStat {
            parent,
            started: 1,
            own: cost(own),
            children: cost(children),
            threads: 1,
            ..ProcessStat::default()
        }
    }

    fn kept(before: &[(u32, ProcessStat)], now: &[(u32, ProcessStat)]) -> f64 {
        kept_by_nobody(&before.iter().copied().collect(), &now.iter().copied().collect()).user_s
    }

    #[test]
    fn what_ended_is_kept_once_by_its_parent_or_here() {
        let before = [(1, stat(0, 1.0, 0.0)), (2, stat(1, 5.0, 0.0)), (3, stat(2, 2.0, 0.0))];
        // Waited for; and by whom nobody waits for (SIGCHLD ignored).
        assert_eq!(kept(&before, &[(1, stat(0, 1.0, 0.0)), (2, stat(1, 5.0, 2.1))]), 0.0);
        assert_eq!(kept(&before, &[(1, stat(0, 1.0, 0.0)), (2, stat(1, 5.0, 0.0))]), 2.0);
        // Child and grandchild in one go.
        assert_eq!(kept(&before, &[(1, stat(0, 1.0, 7.0))]), 0.0);
        assert_eq!(kept(&before, &[(1, stat(0, 1.0, 0.0))]), 7.0);
        // All of them; and another process with the number of one.
        assert_eq!(kept(&before, &[]), 8.0);
        let other = ProcessStat { started: 9, ..stat(1, 0.0, 0.0) };
        assert_eq!(kept(&before, &[(1, stat(0, 1.0, 0.0)), (2, stat(1, 5.0, 0.0)), (3, other)]), 2.0);
        // A circle, which a number used again could make, ends.
        assert_eq!(kept(&[(1, stat(2, 1.0, 0.0)), (2, stat(1, 1.0, 0.0))], &[]), 2.0);
    }

    /// A shell that runs a command per line and reports when each has ended.
    struct Shell {
        process: Child,
        said: BufReader<std::process::ChildStdout>,
    }

    impl Shell {
        fn start(command: &mut Command) -> Self {
            let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let said = BufReader::new(process.stdout.take().unwrap());
            Self { process, said }
        }

        /// Has it do something, and waits until it has said each of the words.
        fn tell(&mut self, what: &str, words: &[&str]) -> String {
            writeln!(self.process.stdin.as_ref().unwrap(), "{what}").unwrap();
            let mut said = String::new();
            while !words.iter().all(|word| said.contains(word)) {
                assert!(self.said.read_line(&mut said).unwrap() > 0, "ended: {said}");
            }
            said
        }

        fn end(mut self) {
            drop(self.process.stdin.take());
            self.process.wait().unwrap();
        }
    }

    fn shell() -> Shell {
        Shell::start(Command::new("/bin/sh").arg("-s"))
    }

    /// Shell words that use the processor for some ticks.
    const BURN: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

    #[test]
    fn a_child_counts_while_it_lives_and_after() {
        let mut shell = shell();
        let mut processes = Processes::new(Watched::Pid(shell.process.id()));
        let alone = processes.sample().unwrap();
        assert_eq!((alone.processes, alone.threads), (1, 1));
        // The child stays the shell that it is: in the midst of becoming another program it would have no memory of its own.
        let child = format!("sh -c '{BURN}; echo up; kill -STOP $$' & {BURN}; echo done");
        shell.tell(&child, &["up", "done"]);
        let with_child = processes.sample().unwrap();
        assert_eq!((with_child.processes, with_child.threads), (2, 2));
        assert!(with_child.rss_bytes > alone.rss_bytes, "{with_child:?} after {alone:?}");
        assert!(with_child.cost.cpu_s() > alone.cost.cpu_s() + 0.02, "{with_child:?} after {alone:?}");
        assert!(with_child.cost.minor_faults > alone.cost.minor_faults);
        assert!(with_child.switches.unwrap().voluntary > 0 && with_child.storage.is_some());
        assert!(processes.pss_bytes().unwrap() > 0);
        shell.tell("kill -KILL $!; wait $!; echo gone", &["gone"]);
        assert!(processes.pss_bytes().unwrap() > 0, "of those that are left");
        let after = processes.sample().unwrap();
        assert_eq!(after.processes, 1);
        // Up to a nanosecond, for sums of other parts are rounded otherwise.
        assert!(after.cost.cpu_s() + 1e-9 >= with_child.cost.cpu_s(), "{after:?} after {with_child:?}");
        assert!(after.cost.cpu_s() < with_child.cost.cpu_s() * 1.5, "its time counts once");
        assert!(after.switches.unwrap().voluntary >= with_child.switches.unwrap().voluntary);
        shell.end();
        assert_eq!(processes.sample(), None);
    }

    /// As daemons do it: the child of a child that has ended is the child of another, and still of this server.
    #[test]
    fn a_process_that_lost_its_parent_is_still_watched() {
        let mut shell = shell();
        let mut processes = Processes::new(Watched::Pid(shell.process.id()));
        let said = shell.tell("sh -c 'sleep 1000 >/dev/null & echo $! up; exec sleep 1000 >/dev/null' &", &["up"]);
        assert_eq!(processes.sample().unwrap().processes, 3);
        shell.tell("kill $!; wait $!; echo gone", &["gone"]);
        assert_eq!(processes.sample().unwrap().processes, 2);
        shell.tell(&format!("kill {}; echo killed", said.split(' ').next().unwrap()), &["killed"]);
        shell.end();
    }

    #[test]
    fn another_process_of_the_same_number_is_not_watched() {
        let shell = shell();
        let mut processes = Processes::new(Watched::Pid(shell.process.id()));
        processes.started = processes.started.map(|started| started - 1);
        assert_eq!(processes.sample(), None);
        assert_eq!((processes.pss_bytes(), processes.network()), (None, None));
        shell.end();
        assert_eq!(Processes::new(Watched::Pid(u32::MAX)).sample(), None);
    }

    /// A script that starts a server and then the replay is watched as a whole, but not the replay as a part of the server.
    #[test]
    fn who_watches_is_not_watched() {
        let shell = shell();
        let mut processes = Processes::new(Watched::Pid(std::os::unix::process::parent_id()));
        let found = processes.sample().unwrap();
        assert!(found.processes >= 1 && !processes.seen.contains_key(&std::process::id()));
        assert!(!processes.seen.contains_key(&shell.process.id()), "nor its children");
        shell.end();
    }

    #[test]
    fn alone_is_without_children() {
        let shell = shell();
        let mut own = Processes::new(Watched::Alone(std::process::id()));
        assert_eq!(own.sample().unwrap().processes, 1);
        assert!(own.pss_bytes().unwrap() > 100_000);
        assert_eq!(own.network(), Some(Network { pid: std::process::id(), is_foreign: false }));
        shell.end();
    }

    #[test]
    fn a_thread_of_ours_in_a_namespace_of_its_own_is_at_home_there() {
        let mut own = Processes::new(Watched::Alone(std::process::id()));
        let there = Namespace::create().unwrap().run(|| {
            own.sample().unwrap();
            own.network()
        });
        assert_eq!(there.unwrap(), Some(Network { pid: std::process::id(), is_foreign: false }));
    }

    #[test]
    fn the_namespace_is_that_of_the_server_within_its_wrapper() {
        let namespace = Namespace::create().unwrap();
        let mut command = Command::new("/bin/sh");
        namespace.start_in(command.arg("-s")).unwrap();
        let shell = Shell::start(&mut command);
        let mut processes = Processes::new(Watched::Pid(shell.process.id()));
        processes.sample().unwrap();
        assert_eq!(processes.network(), Some(Network { pid: shell.process.id(), is_foreign: true }));
        shell.end();
    }
}
