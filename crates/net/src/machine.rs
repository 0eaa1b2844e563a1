//! Facts about the machine from `/proc` and `/sys`.

use std::fs;

use serde::{Deserialize, Serialize};

/// What a run should remember of the machine it was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Name of the host.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Model of the first core.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Whether this is a virtual machine that says so.
    pub virtualised: bool,
    /// Memory in octets.
    pub memory_bytes: u64,
    /// The kernel's clock source.
    pub clock_source: String,
    /// Frequency governor of the first core, if there is one.
    pub governor: Option<String>,
    /// Load average of the last minute when the facts were read.
    pub load_1m: f64,
}

/// Reads the facts; what cannot be read is empty.
pub fn facts() -> Facts {
    let cpuinfo = read("/proc/cpuinfo");
    Facts {
        host: read("/proc/sys/kernel/hostname"),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpu: field(&cpuinfo, "model name").to_owned(),
        cores: crate::pin::allowed_cores().map_or(0, |cores| cores.len()),
        virtualised: is_hypervised(&cpuinfo),
        memory_bytes: number(field(&read("/proc/meminfo"), "MemTotal")) * 1_024,
        clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governor: fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .ok()
            .map(|text| text.trim().to_owned()),
        load_1m: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
    }
}

/// Whether this is a virtual machine that says so.
pub fn is_virtual() -> bool {
    is_hypervised(&read("/proc/cpuinfo"))
}

fn is_hypervised(cpuinfo: &str) -> bool {
    field(cpuinfo, "flags").split(' ').any(|flag| flag == "hypervisor")
}

/// CPU time of all cores since the start of the machine, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    all: u64,
    stolen: u64,
    /// In processes: user, nice and system.
    busy: u64,
}

impl CpuTimes {
    /// Share of the time since `earlier` that the host gave to others, from 0 to 1.
    pub fn steal_share_since(&self, earlier: &Self) -> f64 {
        let all = self.all.saturating_sub(earlier.all);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        if all == 0 { 0.0 } else { stolen as f64 / all as f64 }
    }

    /// Seconds of all cores that processes of this machine used, without interrupts.
    pub fn busy_s(&self) -> f64 {
        self.busy as f64 / rustix::param::clock_ticks_per_second() as f64
    }
}

/// Reads the CPU times (proc_stat(5): user nice system idle iowait irq softirq steal, guest time is part of user).
pub fn cpu_times() -> CpuTimes {
    let stat = read("/proc/stat");
    let line = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or("");
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(number).collect();
    CpuTimes { all: ticks.iter().sum(), stolen: ticks.get(7).copied().unwrap_or(0), busy: ticks.iter().take(3).sum() }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| found.trim() == name).map_or("", |(_, value)| value.trim())
}

/// The number at the start of `text`, or 0.
fn number(text: &str) -> u64 {
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let facts = facts();
        assert!(!facts.kernel.is_empty() && facts.cores > 0 && facts.memory_bytes > 0, "{facts:?}");
    }

    #[test]
    fn a_hypervisor_is_a_flag_of_the_core() {
        let told = |flags: &str| is_hypervised(&format!("model name\t: x\nflags\t\t: {flags}\nbugs\t: none\n"));
        assert!(told("fpu hypervisor lahf_lm") && !told("fpu lahf_lm") && !is_hypervised(""));
    }

    #[test]
    fn steal_is_a_share_of_all_time() {
        let (before, after) = (CpuTimes { all: 100, stolen: 10, busy: 5 }, CpuTimes { all: 300, stolen: 60, busy: 9 });
        assert_eq!(after.steal_share_since(&before), 0.25);
        assert_eq!(after.steal_share_since(&after), 0.0);
    }
}
