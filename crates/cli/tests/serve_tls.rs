//! `serve` over TLS, as stock clients and forwarders meet it: kdig, Unbound, Knot Resolver.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::free_address;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const ZONE: &str = "$TTL 60\n$ORIGIN example.\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.80\n";

/// A process that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `serve` over UDP, TCP and TLS, in a folder of its own.
struct Server {
    running: Running,
    folder: tempfile::TempDir,
    plain: SocketAddr,
    tls: SocketAddr,
}

impl Server {
    fn start(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("zones")).unwrap();
        fs::write(folder.path().join("zones/example.zone"), ZONE).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.args(["serve", "zones", "--all-zones-everywhere", "--listen", "127.0.0.1:0", "--dot", "127.0.0.1:0"]);
        command
            .args(["--certificate", "ca.pem", "--coverage", "coverage.json"])
            .args(options)
            .current_dir(folder.path());
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (plain, tls) = line.trim().split_once("; over TLS on ").unwrap_or_else(|| panic!("{line}"));
        let plain = plain.rsplit_once(' ').unwrap().1.parse().unwrap();
        Self { running: Running(child), folder, plain, tls: tls.parse().unwrap() }
    }

    fn kdig(&self, options: &[&str]) -> String {
        let ca = self.folder.path().join("ca.pem").display().to_string();
        let mut command = Command::new("kdig");
        command.args(["@127.0.0.1", "-p", &self.tls.port().to_string(), &format!("+tls-ca={ca}")]);
        command.args(["+tls-hostname=server.ldplayer.test", "+timeout=10", "+retry=0"]).args(options);
        let output = command.output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Ends it: queries by transport.
    fn end(mut self) -> Value {
        kill_process(Pid::from_child(&self.running.0), Signal::TERM).unwrap();
        assert!(self.running.0.wait().unwrap().success());
        let coverage: Value =
            serde_json::from_slice(&fs::read(self.folder.path().join("coverage.json")).unwrap()).unwrap();
        coverage["transports"].clone()
    }
}

#[test]
fn kdig_verifies_the_certificate_and_gets_padded_answers() {
    let server = Server::start(&[]);
    let said = server.kdig(&["www.example", "A", "+padding=64", "+ednsopt=11"]);
    assert!(said.contains("192.0.2.80"), "{said}");
    assert!(said.contains("Received 468 B"), "padded to a multiple of 468 octets: {said}");
    assert!(said.contains("TLS1.3") && said.contains("EDNS"), "{said}");
    let plain = server.kdig(&["www.example", "A", "+nopadding"]);
    assert!(plain.contains("192.0.2.80") && !plain.contains("Received 468 B"), "{plain}");
    let other = server.kdig(&["www.example", "A", "+tls-hostname=other.test"]);
    assert!(!other.contains("192.0.2.80"), "a client that looks at the name refuses: {other}");
    let old = server.folder.path().join("ca.pem.key");
    assert!(old.exists());
    let mut dig = Command::new("dig");
    dig.args(["@127.0.0.1", "-p", &server.plain.port().to_string(), "+short", "www.example", "A"]);
    assert_eq!(dig.output().unwrap().stdout, b"192.0.2.80\n");
    let transports = server.end();
    assert_eq!((&transports["dot"], &transports["udp"], &transports["tcp"]), (&2.into(), &1.into(), &0.into()));
}

/// The same faults, by their transport.
#[test]
fn a_fault_may_be_of_tls_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.toml");
    fs::write(&file, "[[fault]]\ntransport = 'dot'\nanswer = 'servfail'\n").unwrap();
    let server = Server::start(&["--faults", file.to_str().unwrap()]);
    assert!(server.kdig(&["www.example", "A"]).contains("SERVFAIL"));
    let mut dig = Command::new("dig");
    dig.args(["@127.0.0.1", "-p", &server.plain.port().to_string(), "+tcp", "+short", "www.example", "A"]);
    assert_eq!(dig.output().unwrap().stdout, b"192.0.2.80\n");
}

/// The records of a transfer as kdig prints them, sorted.
fn transferred(said: &str) -> Vec<String> {
    let is_record = |line: &&str| !line.is_empty() && !line.starts_with(';');
    let mut lines: Vec<String> =
        said.lines().filter(is_record).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    lines
}

#[test]
fn zones_are_transferred_over_tls_where_that_is_allowed() {
    let server = Server::start(&["--transfers"]);
    let records = transferred(&server.kdig(&["example", "AXFR"]));
    let soa = "example. 60 IN SOA ns.example. h.example. 1 2 3 4 60";
    let wanted =
        ["example. 60 IN NS ns.example.", soa, soa, "ns.example. 60 IN A 127.0.0.1", "www.example. 60 IN A 192.0.2.80"];
    assert_eq!(records, wanted);
    assert_eq!(transferred(&server.kdig(&["example", "IXFR=1"])), [soa], "the asker has this version");
    assert_eq!(transferred(&server.kdig(&["example", "IXFR=0"])), wanted);
    assert!(server.kdig(&["other", "AXFR"]).contains("REFUSED"));
    assert!(Server::start(&[]).kdig(&["example", "AXFR"]).contains("REFUSED"));
}

/// What is no TLS ends the connection, and the server goes on.
#[test]
fn what_is_no_handshake_ends_the_connection() {
    use std::io::{Read, Write};
    let server = Server::start(&[]);
    let mut client = std::net::TcpStream::connect(server.tls).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.first(), Some(&21), "an alert (RFC 8446 section 6)");
    assert!(server.kdig(&["www.example", "A"]).contains("192.0.2.80"));
}

fn started(program: &str, arguments: &[&str], folder: &Path) -> Running {
    let path = format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(program);
    command.env("PATH", path).args(arguments).current_dir(folder);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// What a forwarder answers, once it does.
fn asked(forwarder: &mut Running, port: u16) -> String {
    for _ in 0..200 {
        let mut dig = Command::new("dig");
        dig.args(["@127.0.0.1", "-p", &port.to_string(), "+time=5", "+tries=1", "www.example", "A"]);
        let said = String::from_utf8(dig.output().unwrap().stdout).unwrap();
        if said.contains("status: ") {
            return said;
        }
        assert!(forwarder.0.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no answer");
}

#[test]
fn stock_forwarders_ask_over_tls_and_verify() {
    let server = Server::start(&[]);
    let (folder, tls) = (server.folder.path(), server.tls.port());
    let configuration = |port: u16, name: &str| {
        format!(
            "server:\n interface: 127.0.0.1\n port: {port}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n directory: \"{0}\"\n \
             pidfile: \"\"\n use-syslog: no\n do-not-query-localhost: no\n module-config: iterator\n tls-cert-bundle: ca.pem\n\
             forward-zone:\n name: .\n forward-tls-upstream: yes\n forward-addr: 127.0.0.1@{tls}#{name}\nremote-control:\n control-enable: no\n",
            folder.display()
        )
    };
    for (name, wanted) in [("server.ldplayer.test", "192.0.2.80"), ("other.test", "SERVFAIL")] {
        let port = free_address().port();
        fs::write(folder.join("unbound.conf"), configuration(port, name)).unwrap();
        let mut unbound = started("unbound", &["-d", "-c", "unbound.conf"], folder);
        let said = asked(&mut unbound, port);
        assert!(said.contains(wanted), "{name}: {said}");
    }
    let port = free_address().port();
    let configuration = format!(
        "net.listen('127.0.0.1', {port})\ncache.open(1048576, 'lmdb://.')\ntrust_anchors.remove('.')\nlog_level('crit')\n\
         policy.add(policy.all(policy.TLS_FORWARD({{{{ '127.0.0.1@{tls}', hostname = 'server.ldplayer.test', ca_file = 'ca.pem' }}}})))\n"
    );
    fs::write(folder.join("kresd.conf"), configuration).unwrap();
    let mut kresd = started("kresd", &["-n", "-c", "kresd.conf", "."], folder);
    let said = asked(&mut kresd, port);
    assert!(said.contains("192.0.2.80"), "{said}");
    let transports = server.end();
    assert!(transports["dot"].as_u64().unwrap() >= 2 && transports["udp"] == 0, "{transports}");
}
