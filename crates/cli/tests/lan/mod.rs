//! Hosts in network namespaces of their own, joined by the wire: a controller, agents, NATS servers, and a DNS server that notes who asked it.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output as Said};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_emulate::stock::{Output, Process};
use ldplayer_emulate::wire::{Forwarder, Host, HostId, LinkSpec, Precision, Running, Settings, Wire, WirePath as Link};
use ldplayer_net::namespace::Namespace;
use ldplayer_net::programs;
use ldplayer_net::wiring::Wiring;
use serde_json::Value;

/// Where the DNS server is.
const SERVER: usize = 0;
const CONTROLLER: usize = 1;
const FIRST_NATS: usize = 2;
/// What agents may do: send load to the hosts of the LAN, and read traces.
const MAY: [&str; 4] = ["--allow-target", "10.77.0.0/24", "--trace-dir", "/"];
/// What streams may reserve at a NATS server: without this it is a share of what the disk has free.
const FILE_STORE: &str = "64GB";
/// A test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The hosts and the wire between them.
pub struct Lan {
    hosts: Vec<(Namespace, IpAddr)>,
    _running: Running,
    nats: usize,
    pub folder: tempfile::TempDir,
}

/// Who asked the DNS server what: (source, name).
pub type Asked = Arc<Mutex<Vec<(SocketAddr, String)>>>;

impl Lan {
    /// So many NATS servers and agents; the wire delays and loses what agents send and get.
    pub fn new(nats: usize, agents: usize, rtt: &str, loss: Option<&str>) -> Self {
        let count = FIRST_NATS + nats + agents;
        let address = |host: usize| IpAddr::V4(Ipv4Addr::new(10, 77, 0, host as u8 + 1));
        let host = |at: usize| Host {
            name: format!("host{at}"),
            owns: vec![format!("{}/32", address(at)).parse().unwrap()],
            learns: false,
        };
        let link =
            LinkSpec { rtt: rtt.parse().unwrap(), loss: loss.map(|loss| loss.parse().unwrap()), ..LinkSpec::default() };
        let pairs = (FIRST_NATS + nats..count).flat_map(|far| (0..FIRST_NATS + nats).map(move |near| (far, near)));
        let path =
            |(far, near): (usize, usize)| Link { far: HostId(far as u8), near: HostId(near as u8), link: link.clone() };
        let settings =
            Settings { hosts: (0..count).map(host).collect(), paths: pairs.map(path).collect(), ..Settings::default() };
        let (mut hosts, mut tuns) = (Vec::new(), Vec::new());
        for at in 0..count {
            let namespace = Namespace::create().unwrap();
            let wiring = Wiring { addresses: vec![address(at)], any_ip: false, mtu: 1_500, queues: 1 };
            tuns.push(wiring.connect(&namespace).unwrap());
            hosts.push((namespace, address(at)));
        }
        let running = Forwarder::new(Wire::new(&settings), tuns, Precision::Normal, None).start(None).unwrap();
        Self { hosts, _running: running, nats, folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, host: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", programs::search_path()).env_remove("NATS_URL").current_dir(self.folder.path());
        self.hosts[host].0.start_in(&mut command).unwrap();
        command
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Takes an agent's host off the wire.
    pub fn cut_off(&self, agent: usize) {
        let mut command = self.command(FIRST_NATS + self.nats + agent, programs::find("ip").unwrap());
        assert!(command.args(["link", "set", "wire0", "down"]).status().unwrap().success());
    }

    /// A DNS server that answers every query with itself, as a response, and notes it.
    pub fn dns_server(&self) -> (SocketAddr, Asked) {
        let (namespace, address) = &self.hosts[SERVER];
        let socket = namespace.run(|| UdpSocket::bind((*address, 53)).unwrap()).unwrap();
        let noted = Asked::default();
        let notes = Arc::clone(&noted);
        thread::spawn(move || {
            let mut message = [0; 4_096];
            while let Ok((length, client)) = socket.recv_from(&mut message) {
                message[2] |= 0x80;
                let label = &message[13..13 + usize::from(message[12])];
                notes.lock().unwrap().push((client, String::from_utf8_lossy(label).into_owned()));
                // A client that is gone needs no answer.
                let _ = socket.send_to(&message[..length], client);
            }
        });
        (SocketAddr::new(*address, 53), noted)
    }

    /// The URL of the NATS servers, of all of them.
    pub fn url(&self) -> String {
        let one = |at: usize| format!("nats://lab:secret@{}:4222", self.hosts[FIRST_NATS + at].1);
        (0..self.nats).map(one).collect::<Vec<_>>().join(",")
    }

    /// Starts a NATS server, for the first time or again. Several are a cluster.
    pub fn nats(&self, at: usize) -> Process {
        let (host, store) = (FIRST_NATS + at, self.file(&format!("nats-{at}")));
        let address = self.hosts[host].1;
        let routes: Vec<String> =
            (0..self.nats).map(|other| format!("nats://{}:6222", self.hosts[FIRST_NATS + other].1)).collect();
        let cluster = match self.nats {
            1 => String::new(),
            _ => format!("cluster {{ name: lab, listen: \"{address}:6222\", routes: [{}] }}\n", routes.join(", ")),
        };
        let text = format!(
            "server_name: nats-{at}\nlisten: \"{address}:4222\"\nhttp: \"{address}:8222\"\nmax_payload: 1MB\n\
             jetstream {{ store_dir: \"{}\", max_file_store: {FILE_STORE} }}\nauthorization {{ user: lab, password: secret }}\n{cluster}",
            store.display()
        );
        let configuration = self.file(&format!("nats-{at}.conf"));
        fs::write(&configuration, text).unwrap();
        let mut command = self.command(host, programs::find("nats-server").unwrap());
        command.arg("-c").arg(&configuration);
        Process::start(format!("nats-{at}"), &mut command, Output::Log(self.file(&format!("nats-{at}.log")))).unwrap()
    }

    /// Starts an agent, which may write below a directory.
    pub fn agent(&self, number: usize) -> Process {
        let scratch = self.file(&format!("scratch-{number}"));
        fs::create_dir_all(&scratch).unwrap();
        let mut command = self.command(FIRST_NATS + self.nats + number, env!("CARGO_BIN_EXE_ldplayer"));
        command.args(["agent", "--name", &format!("a{number}"), "--nats", &self.url(), "--scratch"]).arg(scratch);
        command.args(MAY);
        Process::start(format!("a{number}"), &mut command, Output::Log(self.file(&format!("a{number}.log")))).unwrap()
    }

    /// The same on a disk of its own, of this size.
    pub fn agent_with_disk(&self, number: usize, size: &str) -> Process {
        let scratch = self.file(&format!("scratch-{number}"));
        fs::create_dir_all(&scratch).unwrap();
        let script = "mount -t tmpfs -o size=$SIZE disk \"$OUT\" && exec \"$LDPLAYER\" agent --name \"$NAME\" --scratch \"$OUT\" \"$@\"";
        let mut command = self.command(FIRST_NATS + self.nats + number, programs::find("unshare").unwrap());
        command
            .args(["--mount", "sh", "-c", script, "sh"])
            .args(MAY)
            .env("SIZE", size)
            .env("OUT", scratch)
            .env("NAME", format!("a{number}"));
        command.env("LDPLAYER", env!("CARGO_BIN_EXE_ldplayer")).env("NATS_URL", self.url());
        Process::start(format!("a{number}"), &mut command, Output::Log(self.file(&format!("a{number}.log")))).unwrap()
    }

    /// Waits until so many agents are there, and a cluster has its leaders.
    pub fn wait_for_agents(&self, count: usize) {
        let begun = Instant::now();
        loop {
            let listed = self.controller(&["agents", "--json"]).output().unwrap();
            let said: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            let there = said.as_array().map_or(0, Vec::len);
            if there == count {
                return;
            }
            let log = |name: String| fs::read_to_string(self.file(&name)).unwrap_or_default();
            let why = format!("{}{}", String::from_utf8_lossy(&listed.stderr), log("a0.log".into()));
            assert!(begun.elapsed() < PATIENCE, "{there} of {count} agents came; {why}");
        }
    }

    /// A command of ldplayer on the controller's host.
    pub fn controller(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(CONTROLLER, env!("CARGO_BIN_EXE_ldplayer"));
        command.args(arguments).env("NATS_URL", self.url());
        command
    }

    /// Starts a replay of the trace on agents, into a run directory.
    pub fn replay(&self, server: SocketAddr, agents: usize, run: &str, more: &[&str]) -> Replay {
        self.replay_of("trace.tsv", server, agents, run, more)
    }

    /// The same of another trace.
    pub fn replay_of(&self, trace: &str, server: SocketAddr, agents: usize, run: &str, more: &[&str]) -> Replay {
        let (server, agents, url) = (server.to_string(), agents.to_string(), self.url());
        let mut command =
            self.controller(&["replay", trace, "--server", &server, "--agents", &agents, "--nats", &url, "-o", run]);
        command.args(OPTIONS).args(more);
        Replay::start(&mut command, &self.file(&format!("{run}.said")))
    }

    /// The same on the controller's host alone.
    pub fn alone(&self, server: SocketAddr, run: &str) -> Said {
        let server = server.to_string();
        self.controller(&["replay", "trace.tsv", "--server", &server, "-o", run]).args(OPTIONS).output().unwrap()
    }

    /// Writes a trace: queries of so many clients at even gaps, each with a name of its own.
    pub fn trace(&self, queries: usize, clients: usize, seconds: f64) {
        let line = |number: usize| {
            let (time, client) = (number as f64 * seconds / queries as f64, number * 7 % clients);
            format!("{time:.6}\t10.9.{}.{}\tq{number}.example.\tA\n", client / 250, client % 250 + 1)
        };
        let lines: String = (0..queries).map(line).collect();
        fs::write(self.file("trace.tsv"), format!("time\tsrc\tqname\tqtype\n{lines}")).unwrap();
    }

    pub fn report(&self, run: &str) -> Value {
        serde_json::from_slice(&fs::read(self.file(run).join("run.json")).unwrap()).unwrap()
    }
}

pub const OPTIONS: [&str; 10] =
    ["--transport", "udp", "--workers", "1", "--precision", "low", "--query-timeout", "1s", "--sources", "ports"];

/// A replay under way, whose words go to a file.
pub struct Replay {
    child: std::process::Child,
    said: PathBuf,
}

impl Replay {
    pub fn start(command: &mut Command, said: &Path) -> Self {
        let file = fs::File::create(said).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: command.spawn().unwrap(), said: said.to_owned() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the DNS server was asked so often. A replay that ends before says why.
    pub fn wait_for_queries(&mut self, asked: &Asked, count: usize) {
        let begun = Instant::now();
        let came = || asked.lock().unwrap().len();
        while came() < count {
            let ended = self.child.try_wait().unwrap();
            let waits = ended.is_none() && begun.elapsed() < PATIENCE;
            assert!(waits, "{} of {count} queries came; end: {ended:?}; it said: {}", came(), self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end. Returns its exit status and what it said.
    pub fn end(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begun.elapsed() > 2 * PATIENCE {
                signal(self.id(), "KILL");
                panic!("the replay hangs; it said: {}", self.said());
            }
            thread::sleep(Duration::from_millis(50));
        }
        (self.child.wait().unwrap().code(), self.said())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap_or_default()
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process of ours.
pub fn signal(process: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status().unwrap();
    assert!(sent.success());
}

/// How often each name was asked for.
pub fn times(asked: &Asked) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    asked.lock().unwrap().iter().for_each(|(_, name)| *times.entry(name.clone()).or_default() += 1);
    times
}
