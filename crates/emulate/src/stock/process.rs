//! A server as a child process: found, started with a log, awaited, and ended with its descendants.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ldplayer_net::cpu_quota::CpuLimit;
use ldplayer_net::veth::Reach;
use ldplayer_net::{clock, process, programs};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tempfile::TempDir;

use super::error::Awaited;
use super::{StockError, probe};

/// How long a server may take until it answers: loading a large zone takes seconds.
const START_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to end after SIGTERM, and its last processes after SIGKILL.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// Polling interval of an ending server.
const STOP_STEP: Duration = Duration::from_millis(10);
/// Octets of the end of a log quoted in an error.
const LOG_SHOWN: usize = 600;
/// The environment variable that marks all processes of a server, including those that left its process group.
const MARK: &str = "LDPLAYER_SERVER";

/// Where the output of a server goes.
#[derive(Clone, Debug)]
pub enum Output {
    /// To this file, whose end is quoted in errors.
    Log(PathBuf),
    /// To our stderr, for the user.
    Stderr,
}

/// A running server. Dropping it ends the server and all processes that it has started.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
    mark: String,
    output: Output,
    /// Removed after the server has ended.
    scratch: Option<TempDir>,
    /// Removed after all servers within it have ended.
    _limit: Option<Arc<CpuLimit>>,
}

/// A command line of the user's, run by sh: a plain one in its own place, so that its process is the server; one of several parts, or that sets
/// variables, by a shell that stays.
pub fn shell(command_line: &str) -> Command {
    let sets_variable = command_line.split_whitespace().next().is_some_and(|word| word.contains('='));
    let has_parts = command_line.trim().contains(['\n', ';', '&', '|', '(', '{']);
    let exec = if sets_variable || has_parts { "" } else { "exec " };
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{exec}{command_line}")]);
    shell
}

impl Process {
    /// Starts the command in a new process group. `name` is used in errors.
    ///
    /// The kernel kills it when the calling thread ends, so that thread must outlive the server's use.
    ///
    /// # Errors
    /// Its log cannot be written, or the program cannot be started.
    pub fn start(name: impl Into<String>, command: &mut Command, output: Output) -> Result<Self, StockError> {
        Self::start_within(name, command, output, None)
    }

    /// As [`Self::start`], with no more of the processors than this.
    ///
    /// # Errors
    /// As for [`Self::start`], or the limit cannot be set.
    pub fn start_within(
        name: impl Into<String>,
        command: &mut Command,
        output: Output,
        limit: Option<Arc<CpuLimit>>,
    ) -> Result<Self, StockError> {
        if let Some(error) = limit.as_ref().and_then(|limit| limit.confine(command).err()) {
            return Err(StockError::Start { program: command.get_program().into(), source: error });
        }
        let mark = new_mark();
        let (out, err) = streams(&output)?;
        process::end_with_parent(command);
        let child = command
            .env(MARK, &mark)
            .env("PATH", programs::search_path())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|source| StockError::Start { program: command.get_program().into(), source })?;
        Ok(Self { name: name.into(), child, status: None, mark, output, scratch: None, _limit: limit })
    }

    /// Keeps this directory while the server runs.
    pub(super) fn keep(&mut self, scratch: TempDir) {
        self.scratch = Some(scratch);
    }

    /// Waits until this address answers over UDP, and checks that the server is alive.
    ///
    /// # Errors
    /// The server ends, or does not answer within a minute.
    pub fn wait_for(&mut self, address: SocketAddr) -> Result<(), StockError> {
        self.wait_until(Awaited::Answer, address, || {
            probe::answers(address).map_err(|source| StockError::Ask { address, source })
        })
    }

    /// Waits until `is_ready`, which blocks briefly if it is not, and checks that the server is alive. `what` is named in the error.
    pub(super) fn wait_until(
        &mut self,
        what: Awaited,
        address: SocketAddr,
        mut is_ready: impl FnMut() -> Result<bool, StockError>,
    ) -> Result<(), StockError> {
        let _reach = Reach::to(address.ip()).map_err(|source| StockError::Ask { address, source })?;
        let begun = Instant::now();
        while begun.elapsed() < START_WITHIN {
            let ready = is_ready()?;
            // Checked even after an answer, which may have come from another server.
            self.ensure_alive()?;
            if ready {
                return Ok(());
            }
        }
        let (program, seconds) = (self.name.clone(), START_WITHIN.as_secs());
        Err(StockError::Silent { program, what, address, seconds, log: self.log_end() })
    }

    /// The PID of the main process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The PIDs of the main process and all its descendants, the main process first.
    pub fn ids(&self) -> Vec<u32> {
        process::tree(self.id())
    }

    /// Its output so far, if it goes to a log.
    pub fn log(&self) -> String {
        let log = self.log_file().and_then(|file| fs::read(file).ok()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The log file, unless the output goes to our stderr.
    pub(super) fn log_file(&self) -> Option<PathBuf> {
        if let Output::Log(file) = &self.output { Some(file.clone()) } else { None }
    }

    /// Its exit status and last output, if it has ended by itself.
    pub fn fallen(&mut self) -> Option<String> {
        if self.has_ended() == Some(false) {
            return None;
        }
        let status = self.end();
        Some(format!("{} ended ({status}); its last log lines: {}", self.name, self.log_end()))
    }

    /// Checks that it has not ended by itself.
    ///
    /// # Errors
    /// It has; the error has its status and last output.
    pub fn ensure_alive(&mut self) -> Result<(), StockError> {
        if self.has_ended() == Some(false) {
            return Ok(());
        }
        let status = self.end();
        Err(StockError::Ended { program: self.name.clone(), status, log: self.log_end() })
    }

    /// Whether the main process has ended, without reaping it; `None` if it has been reaped elsewhere.
    fn has_ended(&self) -> Option<bool> {
        let pid = self.status.is_none().then(|| Pid::from_raw(self.id().cast_signed()))??;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).ok().map(|status| status.is_some())
    }

    /// Sends a signal to the process group, which belongs to the child as long as that is not reaped.
    fn signal(&self, signal: Signal) {
        if let (Some(_), Some(group)) = (self.has_ended(), Pid::from_raw(self.id().cast_signed())) {
            // There may be no process left to signal.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Ends all processes: with SIGTERM first, so that the server can write its files.
    fn end(&mut self) -> ExitStatus {
        if let Some(status) = self.status {
            return status;
        }
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while self.has_ended() == Some(false) && begun.elapsed() < STOP_WITHIN {
            std::thread::sleep(STOP_STEP);
        }
        self.kill_all();
        // Only a child that was reaped elsewhere has no status.
        let status = self.child.wait().unwrap_or_default();
        self.status = Some(status);
        status
    }

    /// Kills all its processes, and returns when none is left.
    fn kill_all(&self) {
        self.signal(Signal::KILL);
        let begun = Instant::now();
        let mut killed = HashSet::new();
        while begun.elapsed() < STOP_WITHIN {
            let group = self.has_ended().and_then(|_| Pid::from_raw(self.id().cast_signed()));
            let left = left_of(&self.mark, group);
            if left.is_empty() {
                return;
            }
            left.into_iter().filter(|&pid| killed.insert(pid)).for_each(|pid| kill_marked(pid, &self.mark));
            std::thread::sleep(STOP_STEP);
        }
    }

    /// The end of the log, on one line.
    fn log_end(&self) -> String {
        if matches!(self.output, Output::Stderr) {
            return "see above; it must stay in the foreground".to_owned();
        }
        let log = self.log();
        if log.trim().is_empty() {
            return "nothing".to_owned();
        }
        let from = log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN));
        // Whole lines, unless there is only one.
        let from = if from == 0 { 0 } else { log[from..].find('\n').map_or(from, |end| from + end + 1) };
        log[from..].lines().map(str::trim).collect::<Vec<_>>().join(" | ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A mark unique to this server on this machine.
fn new_mark() -> String {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}-{}", std::process::id(), clock::realtime_ns())
}

/// The running processes of a server with this mark and process group.
///
/// Both are checked: a server may leave its group, or overwrite the mark with its title.
fn left_of(mark: &str, group: Option<Pid>) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(|&pid| has_mark(pid, mark) || group.is_some_and(|group| is_running_in(pid, group))).collect()
}

/// Whether the process runs and is in this group; a zombie does not run.
fn is_running_in(pid: Pid, group: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name in parentheses may contain anything. State, parent and group follow it.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.next().is_some_and(|state| state != "Z") && fields.nth(1) == Some(&group.as_raw_nonzero().to_string())
}

/// A zombie has no environment, and thus no mark.
fn has_mark(pid: Pid, mark: &str) -> bool {
    let wanted = format!("{MARK}={mark}");
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    environment.split(|&octet| octet == 0).any(|variable| variable == wanted.as_bytes())
}

/// Signals by a descriptor and checks again after opening it: the PID may have been reused in between.
fn kill_marked(pid: Pid, mark: &str) {
    let Ok(process) = process::ProcessHandle::open(pid) else { return };
    if has_mark(pid, mark) {
        let _ = process.signal(Signal::KILL);
    }
}

/// Standard output and error of the server.
fn streams(output: &Output) -> Result<(Stdio, Stdio), StockError> {
    let Output::Log(file) = output else { return Ok((std::io::stderr().into(), Stdio::inherit())) };
    let failed = |source| {
        let directory = file.parent().unwrap_or(Path::new("")).to_owned();
        StockError::Scratch { directory, source }
    };
    let out = ldplayer_net::output::truncate(file).map_err(failed)?;
    let err = out.try_clone().map_err(failed)?;
    Ok((out.into(), err.into()))
}

/// The path of a program, on the PATH or in a system directory.
///
/// # Errors
/// [`StockError::Missing`], which names the package that has it.
pub fn find(program: &'static str, package: &'static str) -> Result<PathBuf, StockError> {
    programs::find(program).ok_or(StockError::Missing { program, package })
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

    fn shell(script: &str) -> Process {
        let directory = tempfile::tempdir().unwrap();
        let log = Output::Log(directory.path().join("log"));
        let mut process = Process::start("sh", Command::new("/bin/sh").args(["-c", script]), log).unwrap();
        process.keep(directory);
        process
    }

    fn is_there(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    /// The number on the first line that the script prints.
    fn first_number(process: &Process) -> u32 {
        loop {
            if let Some((line, _)) = process.log().split_once('\n') {
                return line.parse().unwrap();
            }
            std::thread::yield_now();
        }
    }

    /// `exec` stood before the command line, so that sh never came to its second part.
    #[test]
    fn all_parts_of_a_command_line_are_run() {
        let said = |line: &str| String::from_utf8(super::shell(line).output().unwrap().stdout).unwrap();
        assert_eq!(said("echo one; echo two"), "one\ntwo\n");
        assert_eq!(said("one=1\necho $one"), "1\n");
        assert_eq!(said("NUMBER=2 sh -c 'echo $NUMBER'"), "2\n");
        let args = |line: &str| super::shell(line).get_args().nth(1).unwrap().to_owned();
        assert_eq!(args("nsd -d"), "exec nsd -d");
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let error = find("no-such-server", "some-package").unwrap_err().to_string();
        assert_eq!(error, "no-such-server is not installed: sudo apt-get install some-package");
        assert!(find("sh", "dash").unwrap().ends_with("sh"));
    }

    #[test]
    fn a_server_that_ends_is_quoted() {
        let error = shell("echo one; echo two >&2; exit 7").wait_for(NOBODY).unwrap_err().to_string();
        assert_eq!(error, "sh ended (exit status: 7) before it was ready; its last log lines: one | two");
        assert_eq!(shell("exit 1").wait_for(NOBODY).unwrap_err().to_string().rsplit(": ").next(), Some("nothing"));
    }

    #[test]
    fn an_answer_of_another_is_not_the_servers() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let mut ended = shell("exit 3");
        let pid = Pid::from_raw(ended.id().cast_signed()).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
        std::thread::spawn(move || {
            let mut message = [0; 512];
            let (length, client) = socket.recv_from(&mut message).unwrap();
            message[2] |= 0x80;
            socket.send_to(&message[..length], client).unwrap();
        });
        assert!(matches!(ended.wait_for(address), Err(StockError::Ended { .. })));
    }

    #[test]
    fn dropping_ends_the_process_and_removes_its_directory() {
        let process = shell("exec sleep 1000");
        let (pid, directory) = (process.id(), process.scratch.as_ref().unwrap().path().to_owned());
        drop(process);
        assert!(!is_there(pid));
        assert!(!directory.exists());
    }

    #[test]
    fn dropping_ends_workers_and_daemons() {
        // One that ignores being asked, and one in a session of its own, whose parent has ended.
        for script in [
            "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1000; done' & wait",
            "(setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000",
        ] {
            let process = shell(script);
            let pid = first_number(&process);
            assert!(is_there(pid), "{script}");
            drop(process);
            assert!(state(pid).is_none_or(|state| state == "Z"), "{script}: {pid} was left");
        }
    }

    /// The state of a process in `/proc`: one that was killed may wait for its new parent to reap it.
    fn state(pid: u32) -> Option<String> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(stat.rsplit_once(')')?.1.split_whitespace().next()?.to_owned())
    }
}
