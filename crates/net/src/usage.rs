//! Resource usage of a process, from `/proc/PID` (proc(5)).

use std::fs;
use std::ops::Add;

use crate::clock;

/// A process at one moment, from its `stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessStat {
    /// Its parent.
    pub parent: u32,
    /// When it started, in ticks since the boot: with the number, it tells a process from a later one of the same number.
    pub started: u64,
    /// Whether it is a zombie.
    pub is_zombie: bool,
    /// What all its threads used, ended ones included.
    pub own: Cost,
    /// Usage of ended children that were waited for, with their own children.
    pub children: Cost,
    /// Threads.
    pub threads: u64,
    /// Resident memory in bytes.
    pub rss_bytes: u64,
}

/// Processor time and page faults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
    /// Seconds of either kind that these two lack, since each is cut to ticks.
    pub rest_s: f64,
    /// Page faults without input.
    pub minor_faults: u64,
    /// Page faults that had to wait for input.
    pub major_faults: u64,
}

impl Cost {
    /// Seconds of either kind.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s + self.rest_s
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            rest_s: self.rest_s + other.rest_s,
            minor_faults: self.minor_faults.saturating_add(other.minor_faults),
            major_faults: self.major_faults.saturating_add(other.major_faults),
        }
    }
}

/// Context switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// It waited for something.
    pub voluntary: u64,
    /// Its core was given to another thread.
    pub involuntary: u64,
}

/// Bytes that a process read from and wrote to storage, without sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Fetched from storage.
    pub read_bytes: u64,
    /// Sent to storage, or going to be.
    pub write_bytes: u64,
}

/// Reads the `stat` of a process, and the clock of its processor time; `None` if it does not exist (any more).
pub fn stat(pid: u32) -> Option<ProcessStat> {
    let mut stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    let fine_s = clock::process_cpu_ns(pid).map_or(0.0, |ns| ns as f64 / 1e9);
    stat.own.rest_s = (fine_s - stat.own.cpu_s()).max(0.0);
    Some(stat)
}

/// The threads of a process; none when it is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Context switches of a thread so far.
pub fn switches(pid: u32, thread: u32) -> Option<Switches> {
    parse_status(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).ok()?)
}

/// How the scheduler treated a thread, or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreWait {
    /// Nanoseconds for which it could have run and had no core.
    pub waited_ns: u64,
    /// How often it got one.
    pub runs: u64,
}

impl Add for CoreWait {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { waited_ns: self.waited_ns.saturating_add(other.waited_ns), runs: self.runs.saturating_add(other.runs) }
    }
}

/// What a thread waited for cores so far; `None` where the kernel does not count it (`CONFIG_SCHED_INFO`). Reading takes some microseconds.
pub fn core_wait(pid: u32, thread: u32) -> Option<CoreWait> {
    parse_schedstat(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?)
}

/// The number of the calling thread.
pub fn own_thread() -> u32 {
    crate::system::own_thread()
}

/// What a process moved from and to storage so far; `None` without the right to trace it, too.
pub fn storage(pid: u32) -> Option<Storage> {
    parse_io(&fs::read_to_string(format!("/proc/{pid}/io")).ok()?)
}

/// Proportional set size in bytes: memory shared by n processes counts as an n-th in each. The kernel walks all pages of the process
/// meanwhile, which takes about two milliseconds for each 100 MB. `None` without the right to trace it, too.
pub fn pss_bytes(pid: u32) -> Option<u64> {
    parse_rollup(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

fn parse_stat(text: &str) -> Option<ProcessStat> {
    // The name in parentheses may hold anything, so count from behind it: the state is field 3.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let at = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let seconds = |field| Some(at(field)? as f64 / rustix::param::clock_ticks_per_second() as f64);
    let cost = |user, minor, major| {
        let (user_s, system_s) = (seconds(user)?, seconds(user + 1)?);
        Some(Cost { user_s, system_s, rest_s: 0.0, minor_faults: at(minor)?, major_faults: at(major)? })
    };
    Some(ProcessStat {
        parent: at(4)?.try_into().ok()?,
        started: at(22)?,
        is_zombie: matches!(fields.first(), Some(&("Z" | "X"))),
        own: cost(14, 10, 12)?,
        children: cost(16, 11, 13)?,
        threads: at(20)?,
        rss_bytes: at(24)?.saturating_mul(rustix::param::page_size() as u64),
    })
}

fn parse_status(text: &str) -> Option<Switches> {
    Some(Switches {
        voluntary: value(text, "voluntary_ctxt_switches:")?,
        involuntary: value(text, "nonvoluntary_ctxt_switches:")?,
    })
}

/// Time on a core, time waiting for one, and how often it ran (Documentation/scheduler/sched-stats.rst).
fn parse_schedstat(text: &str) -> Option<CoreWait> {
    let mut fields = text.split_whitespace().skip(1).map(str::parse);
    Some(CoreWait { waited_ns: fields.next()?.ok()?, runs: fields.next()?.ok()? })
}

fn parse_io(text: &str) -> Option<Storage> {
    Some(Storage { read_bytes: value(text, "read_bytes:")?, write_bytes: value(text, "write_bytes:")? })
}

fn parse_rollup(text: &str) -> Option<u64> {
    value(text, "Pss:")?.checked_mul(1_024)
}

/// The number behind a word that begins a line.
pub(crate) fn value(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line with the number of each field in its place, from field 4 on.
    fn line(name: &str, state: char) -> String {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        format!("77 ({name}) {state} {}\n", fields.join(" "))
    }

    #[test]
    fn fields_are_counted_from_behind_the_name() {
        let stat = parse_stat(&line("a) R 1 (b", 'S')).unwrap();
        let tick = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        assert_eq!((stat.parent, stat.started, stat.threads, stat.is_zombie), (4, 22, 20, false));
        let cost = |user: f64, minor_faults, major_faults| Cost {
            user_s: user * tick,
            system_s: (user + 1.0) * tick,
            rest_s: 0.0,
            minor_faults,
            major_faults,
        };
        assert_eq!((stat.own, stat.children), (cost(14.0, 10, 12), cost(16.0, 11, 13)));
        assert_eq!(stat.rss_bytes, 24 * rustix::param::page_size() as u64);
        assert!(parse_stat(&line("sh", 'Z')).unwrap().is_zombie);
        assert_eq!(parse_stat("77 (cut) S 4 5"), None);
    }

    #[test]
    fn what_is_not_there_is_not_zero() {
        let status = "Threads:\t1\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(parse_status(status), Some(Switches { voluntary: 7, involuntary: 9 }));
        assert_eq!(parse_status("voluntary_ctxt_switches:\t7\n"), None);
        let io = "rchar: 1\nread_bytes: 4096\nwrite_bytes: 512\ncancelled_write_bytes: 0\n";
        assert_eq!(parse_io(io), Some(Storage { read_bytes: 4_096, write_bytes: 512 }));
        assert_eq!(
            parse_rollup("0-1 ---p 0 00:00 0 [rollup]\nRss:  90 kB\nPss:   12 kB\nPss_Dirty: 1 kB\n"),
            Some(12_288)
        );
        assert_eq!((parse_io(""), parse_rollup("Rss: 1 kB")), (None, None));
    }

    /// It was told in ticks of 10 ms, so that a server that took 3 ms in a second took nothing.
    #[test]
    fn processor_time_is_finer_than_a_tick() {
        let pid = std::process::id();
        let cpu_s = || stat(pid).unwrap().own.cpu_s();
        let steps = std::iter::repeat_with(|| {
            let before = cpu_s();
            let begun = clock::thread_cpu_ns();
            while clock::thread_cpu_ns() - begun < 2_000_000 {}
            cpu_s() - before
        });
        let steps: Vec<f64> = steps.take(5).collect();
        assert!(steps.iter().all(|step| *step >= 0.002), "{steps:?}");
        assert!(steps.iter().any(|step| *step < 0.009), "{steps:?}");
        assert_eq!((clock::process_cpu_ns(u32::MAX), clock::process_cpu_ns(0)), (None, None));
    }

    #[test]
    fn a_thread_waits_for_its_core_where_another_has_it() {
        assert_eq!(parse_schedstat("7 12 3\n"), Some(CoreWait { waited_ns: 12, runs: 3 }));
        assert_eq!((parse_schedstat("7 12"), parse_schedstat("")), (None, None));
        let (pid, core) = (std::process::id(), crate::pin::allowed_cores().unwrap()[0]);
        let spin = move || {
            crate::pin::pin_to(core).unwrap();
            let begun = clock::thread_cpu_ns();
            while clock::thread_cpu_ns() - begun < 50_000_000 {}
            core_wait(pid, own_thread()).unwrap()
        };
        let threads = [(); 2].map(|()| std::thread::spawn(spin));
        // Each needs 50 ms of one core; whoever is done first waited for some of the other's.
        let waited = threads.map(|thread| thread.join().unwrap());
        assert!((waited[0] + waited[1]).waited_ns > 25_000_000 && waited.iter().all(|one| one.runs > 0), "{waited:?}");
    }

    #[test]
    fn this_process_is_read_whole() {
        let pid = std::process::id();
        let own = stat(pid).unwrap();
        assert!(own.rss_bytes > 100_000 && own.started > 0 && own.threads >= 1 && !own.is_zombie, "{own:?}");
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(threads(pid).contains(&pid) && switches(pid, pid).is_some() && storage(pid).is_some());
        assert!(pss_bytes(pid).unwrap() > 100_000);
        assert_eq!((stat(u32::MAX), threads(u32::MAX), switches(u32::MAX, 1)), (None, Vec::new(), None));
        assert_eq!((storage(u32::MAX), pss_bytes(u32::MAX)), (None, None));
    }

    proptest! {
        #[test]
        fn any_text_ends_in_a_value_or_none(text in ".{0,300}", fields in prop::collection::vec(any::<u64>(), 0..60)) {
            let fields: Vec<String> = fields.iter().map(u64::to_string).collect();
            for text in [&text, &format!("1 (x) S {}", fields.join(" ")), &format!("Pss: {}", fields.join(" "))] {
                parse_stat(text);
                parse_status(text);
                parse_schedstat(text);
                parse_io(text);
                parse_rollup(text);
            }
        }
    }
}
