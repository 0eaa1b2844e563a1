//! `ldplayer serve` of the zones of a folder, and stock servers beside it, as processes that end with their owners.
#![allow(dead_code, reason = "every test uses another part")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::free_address;

/// A test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that ends with its owner.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a program in a folder; what it says is in `PROGRAM.log` there.
pub fn started(program: impl AsRef<Path>, arguments: &[&str], folder: &Path) -> Running {
    let path = format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default());
    let name = program.as_ref().file_name().unwrap().to_string_lossy().into_owned();
    let log = File::create(folder.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new(program.as_ref());
    command.env("PATH", path).args(arguments).current_dir(folder);
    Running(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
}

/// What dig prints. Where no answer is to come, give `+time=1`.
pub fn dig(port: u16, arguments: &[&str]) -> String {
    let mut command = Command::new("dig");
    command.args(["@127.0.0.1", "-p", &port.to_string(), "+time=10", "+tries=1"]).args(arguments);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// What a server answers, once it does.
pub fn asked(server: &mut Running, port: u16, arguments: &[&str]) -> String {
    let begun = Instant::now();
    loop {
        let said = dig(port, arguments);
        if said.contains("status: ") {
            return said;
        }
        assert!(server.0.try_wait().unwrap().is_none(), "it has ended");
        assert!(begun.elapsed() < PATIENCE, "no answer");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The server.
pub struct Served {
    running: Running,
    folder: PathBuf,
    /// Where it listens for UDP and TCP.
    pub port: u16,
    listening: String,
}

impl Served {
    /// Serves a folder of zones of this one. What it says is in `serve.log`.
    pub fn start(folder: &Path, zones: &str, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.args(["serve", zones, "--all-zones-everywhere", "--listen", "127.0.0.1:0"]);
        command.args(["--coverage", "coverage.json"]).args(options).current_dir(folder);
        let log = File::create(folder.join("serve.log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut listening = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut listening).unwrap();
        let plain = listening.trim().split("; ").next().and_then(|plain| plain.rsplit_once(':'));
        let log = || fs::read_to_string(folder.join("serve.log")).unwrap();
        let port = plain.unwrap_or_else(|| panic!("{listening}: {}", log())).1.parse().unwrap();
        Self { running: Running(child), folder: folder.to_owned(), port, listening }
    }

    /// Where it listens for what is encrypted: TLS, HTTPS or QUIC.
    pub fn over(&self, what: &str) -> SocketAddr {
        let start = format!("over {what} on ");
        let found = self.listening.trim().split("; ").find_map(|part| part.strip_prefix(&start));
        found.unwrap_or_else(|| panic!("{what}: {}", self.listening)).parse().unwrap()
    }

    pub fn dig(&self, arguments: &[&str]) -> String {
        dig(self.port, arguments)
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.join("serve.log")).unwrap()
    }

    /// Lets it read its zones anew.
    pub fn reload(&self) {
        kill_process(Pid::from_child(&self.running.0), Signal::HUP).unwrap();
    }

    /// Ends it: its coverage report, and what it said.
    pub fn end(mut self) -> (Value, String) {
        kill_process(Pid::from_child(&self.running.0), Signal::TERM).unwrap();
        assert!(self.running.0.wait().unwrap().success());
        let coverage = serde_json::from_slice(&fs::read(self.folder.join("coverage.json")).unwrap()).unwrap();
        (coverage, self.said())
    }
}

/// Unbound, with more of its `server:` clause and with the clause that names its upstream, once it answers; and its port.
pub fn unbound(folder: &Path, server: &str, upstream: &str) -> (Running, u16) {
    // The kernel may give a port that it chose, and that is free again, to a server of another test.
    let port = free_address().port();
    let configuration = format!(
        "server:\n interface: 127.0.0.1\n port: {port}\n num-threads: 1\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n directory: \"{}\"\n \
         pidfile: \"\"\n use-syslog: no\n do-not-query-localhost: no\n access-control: 127.0.0.0/8 allow\n module-config: iterator\n{server}\
         {upstream}remote-control:\n control-enable: no\n",
        folder.display()
    );
    fs::write(folder.join("unbound.conf"), configuration).unwrap();
    let mut running = started("unbound", &["-d", "-c", "unbound.conf"], folder);
    asked(&mut running, port, &["+time=1", "version.bind", "CH", "TXT"]);
    (running, port)
}
