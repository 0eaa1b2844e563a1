//! A server as a child process: found, started with a log, waited for, ended by its pid.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{StockError, probe};

/// How long a server may take until it answers: a large zone is read in seconds.
const START_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to end when asked to.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How often an ending server is looked at.
const STOP_STEP: Duration = Duration::from_millis(10);
/// So much of the end of a log stands in an error.
const LOG_SHOWN: usize = 600;
/// Folders of server programs that are often not on a user's PATH.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// A running server and its scratch directory. Dropping it ends the server and removes the directory.
#[derive(Debug)]
pub struct Process {
    program: &'static str,
    child: Child,
    scratch: TempDir,
}

impl Process {
    /// Starts the program with what it prints in a log in the scratch directory.
    pub fn start(program: &'static str, command: &mut Command, scratch: TempDir) -> Result<Self, StockError> {
        let log = log_of(&scratch);
        let failed = |source| StockError::Scratch { directory: scratch.path().to_owned(), source };
        let out = File::create(log).map_err(failed)?;
        let err = out.try_clone().map_err(failed)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|source| StockError::Start { program: command.get_program().into(), source })?;
        Ok(Self { program, child, scratch })
    }

    /// Asks until there is an answer from this address.
    pub fn wait_for(&mut self, address: SocketAddr) -> Result<(), StockError> {
        let begun = Instant::now();
        while begun.elapsed() < START_WITHIN {
            if let Some(status) = self.ended() {
                return Err(StockError::Ended { program: self.program, status, log: self.log() });
            }
            if probe::answers(address).map_err(|source| StockError::Ask { address, source })? {
                return Ok(());
            }
        }
        let seconds = START_WITHIN.as_secs();
        Err(StockError::Silent { program: self.program, address, seconds, log: self.log() })
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of the log, on one line.
    fn log(&self) -> String {
        let log = fs::read(log_of(&self.scratch)).unwrap_or_default();
        let shown = &log[log.len().saturating_sub(LOG_SHOWN)..];
        let lines: Vec<_> = shown.split(|&octet| octet == b'\n').map(String::from_utf8_lossy).collect();
        lines.join(" | ").trim_end_matches([' ', '|']).to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It is our own child and not yet waited for, so its pid cannot have become another's.
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let begun = Instant::now();
        while self.ended().is_none() {
            if begun.elapsed() > STOP_WITHIN {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(STOP_STEP);
        }
    }
}

/// A new scratch directory.
pub fn scratch() -> Result<TempDir, StockError> {
    tempfile::Builder::new()
        .prefix("ldplayer-")
        .tempdir()
        .map_err(|source| StockError::Scratch { directory: std::env::temp_dir(), source })
}

/// The path of a program, on the PATH or in a folder of system programs.
pub fn find(program: &'static str, package: &'static str) -> Result<PathBuf, StockError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file()).ok_or(StockError::Missing { program, package })
}

fn log_of(scratch: &TempDir) -> PathBuf {
    Path::new(scratch.path()).join("log")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

    fn shell(script: &str) -> Process {
        Process::start("sh", Command::new("/bin/sh").args(["-c", script]), scratch().unwrap()).unwrap()
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
        assert_eq!(error, "sh ended (exit status: 7) before it answered; it said: one | two");
    }

    #[test]
    fn dropping_ends_the_process_and_removes_its_directory() {
        let process = shell("exec sleep 1000");
        let (pid, directory) = (process.id(), process.scratch.path().to_owned());
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        assert!(!directory.exists());
    }
}
