//! A testbed as root and as a plain user: every address is local in it, nothing leaves it, and nothing is left of it.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The user `nobody` of Debian.
const NOBODY: u32 = 65_534;

/// Copies of the command and of this test that any user may run.
struct Copies(PathBuf);

impl Copies {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ldplayer-{name}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_ldplayer"), folder.join("ldplayer")).unwrap();
        fs::copy(std::env::current_exe().unwrap(), folder.join("probe")).unwrap();
        Self(folder)
    }

    fn run(&self, plain_user: bool, arguments: &[&str]) -> Output {
        self.command(plain_user, &[&["--"], arguments].concat()).output().unwrap()
    }

    fn command(&self, plain_user: bool, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.0.join("ldplayer"));
        command.current_dir(&self.0).args(["testbed", "run"]).args(arguments);
        // Only root may become another user; anybody else is a plain user already.
        if plain_user && fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
#[ignore = "runs inside a testbed, started by nothing_leaves_a_testbed"]
fn probe() {
    let interfaces = fs::read_to_string("/proc/net/dev").unwrap();
    let names: Vec<&str> = interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    assert_eq!(names, ["lo"]);
    for (own, other) in [("198.51.100.7:0", "8.8.8.8:53"), ("[2001:db8::7]:0", "[2001:4860:4860::8888]:53")] {
        let socket = UdpSocket::bind(own).unwrap();
        socket.connect(other).unwrap();
        socket.send(b"x").unwrap();
        // The namespace itself is that host, and nobody listens there.
        assert_eq!(socket.recv(&mut [0; 9]).unwrap_err().kind(), ErrorKind::ConnectionRefused, "{other}");
        let server = UdpSocket::bind(other).unwrap();
        socket.send(b"hello").unwrap();
        assert_eq!(server.recv_from(&mut [0; 9]).unwrap(), (5, socket.local_addr().unwrap()));
    }
}

#[test]
fn nothing_leaves_a_testbed() {
    let copies = Copies::new("leave");
    for plain_user in [false, true] {
        let output = copies.run(plain_user, &["./probe", "--exact", "probe", "--ignored"]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "plain user {plain_user}: {output:?}");
    }
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    let copies = Copies::new("status");
    for plain_user in [false, true] {
        assert_eq!(copies.run(plain_user, &["sh", "-c", "exit 7"]).status.code(), Some(7));
    }
    assert_eq!(copies.run(false, &["./missing"]).status.code(), Some(3));
}

/// Whether a process runs: one that was killed may wait for its new parent to reap it.
fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ") && !stat.contains(") X "))
}

#[test]
fn what_a_command_leaves_is_ended_with_its_testbed() {
    let copies = Copies::new("left");
    for plain_user in [false, true] {
        // A session and an environment of its own, and no parent any more.
        let script = "setsid env -i sleep 1000 >/dev/null 2>&1 </dev/null & echo $!";
        let output = copies.run(plain_user, &["sh", "-c", script]);
        let pid = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && pid.trim().parse::<u32>().is_ok(), "{pid}");
        assert!(!runs(pid.trim()), "plain user {plain_user}");
    }
}

#[test]
fn nothing_is_left_of_a_testbed_that_is_killed() {
    let copies = Copies::new("killed");
    for plain_user in [false, true] {
        let script = "(setsid env -i sh -c 'echo $$; exec sleep 1000' &); exec cat";
        let mut command = copies.command(plain_user, &["--", "sh", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut pid = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut pid).unwrap();
        assert!(runs(pid.trim()));
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        while runs(pid.trim()) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn signals_reach_the_command_and_its_end_is_told_as_shells_do() {
    let copies = Copies::new("signals");
    let script = "trap 'exit 9' TERM; echo ready; while :; do read line || :; done";
    let mut command = copies.command(false, &["--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let stdin = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    drop(stdin);
    assert_eq!(copies.run(false, &["sh", "-c", "kill -9 $$"]).status.code(), Some(128 + 9));
}

#[test]
#[ignore = "runs inside a testbed, started by a_command_waits_for_the_server_that_it_needs"]
fn asks_once() {
    let socket = UdpSocket::bind("192.0.2.7:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect("198.51.100.53:53").unwrap();
    socket.send(b"\0\x01\0\0\0\x01\0\0\0\0\0\0\x07example\0\0\x06\0\x01").unwrap();
    let mut answer = [0; 512];
    assert!(socket.recv(&mut answer).unwrap() > 12 && answer[7] == 1);
}

#[test]
fn a_command_waits_for_the_server_that_it_needs() {
    let copies = Copies::new("server");
    fs::create_dir(copies.0.join("zones")).unwrap();
    // Enough to be read for a while.
    let hosts: String = (0..50_000).map(|number| format!("host-{number} A 192.0.2.1\n")).collect();
    fs::write(copies.0.join("zones/example.zone"), format!("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n{hosts}")).unwrap();
    let server = "./ldplayer serve zones --all-zones-everywhere >/dev/null";
    let wait = ["--start-server", server, "--wait-for", "198.51.100.53", "--"];
    let probe = ["./probe", "--exact", "asks_once", "--ignored"];
    let output = copies.command(true, &[&wait[..], &probe].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    let never = ["--start-server", "false", "--wait-for", "198.51.100.53", "--", "true"];
    let output = copies.command(true, &never).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("--start-server `false` ended"), "{said}");
}

#[test]
fn servers_are_found_where_ordinary_users_do_not_look() {
    let copies = Copies::new("sbin");
    let users = |mut command: Command| command.env("PATH", "/usr/bin:/bin").output().unwrap();
    for program in [&["nsd", "-v"][..], &["named", "-v"], &["sh", "-c", "unbound -V"]] {
        let output = users(copies.command(true, &[&["--"], program].concat()));
        assert!(output.status.success(), "{program:?}: {output:?}");
    }
    let server = ["--start-server", "knotd -V", "--wait-for", "127.0.0.1:5300", "--", "true"];
    let said = String::from_utf8(users(copies.command(true, &server)).stderr).unwrap();
    assert!(said.contains("ended (exit status: 0)"), "{said}");
    let mut doctor = Command::new(copies.0.join("ldplayer"));
    doctor.args(["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&users(doctor).stdout).unwrap();
    assert!(found.to_string().contains("sbin/nsd"), "{found}");
}

/// `scripts/need.sh tun` where the device is another, for root alone: status, what it says, and the mode afterwards.
fn need_tun(variable: &str) -> (Option<i32>, String, String) {
    let script = "mount -t tmpfs dev /dev/net && touch /dev/net/tun && chmod 600 /dev/net/tun && \
        { \"$0\" tun; status=$?; stat -c %a /dev/net/tun; exit $status; }";
    let need = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/need.sh");
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut unshare = Command::new("unshare");
    unshare.arg("--mount").args((!is_root).then_some("--map-root-user")).args(["sh", "-c", script, need]);
    unshare.env_remove("CI").env_remove("OPEN_TUN");
    if let Some((name, value)) = variable.split_once('=') {
        unshare.env(name, value);
    }
    let output = unshare.output().unwrap();
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).trim().to_owned();
    (output.status.code(), text(&output.stderr), text(&output.stdout))
}

#[test]
fn the_device_of_testbeds_is_opened_only_where_the_caller_says_so() {
    let (status, said, mode) = need_tun("OPEN_TUN=no");
    assert_eq!((status, mode.as_str()), (Some(0), "600"), "{said}");
    assert!(said.contains("left out") && said.contains("OPEN_TUN=1 make test"), "{said}");
    for told in ["OPEN_TUN=1", "CI=true"] {
        let (status, said, mode) = need_tun(told);
        assert_eq!((status, mode.as_str()), (Some(0), "666"), "{said}");
        assert!(said.contains("opening /dev/net/tun to all users (mode 666, was 600)"), "{said}");
    }
}

#[test]
fn where_mounts_are_refused_a_command_ends_and_a_server_is_warned_of() {
    let copies = Copies::new("mounts");
    fs::create_dir(copies.0.join("zones")).unwrap();
    fs::write(copies.0.join("zones/example.zone"), "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n").unwrap();
    fs::write(copies.0.join("queries"), "example A\n").unwrap();
    let refused = |script: &str| {
        let mut unshare = Command::new("unshare");
        let script = format!("echo 0 >/proc/sys/user/max_mnt_namespaces && exec ./ldplayer {script}");
        unshare.current_dir(&copies.0).args(["--user", "--map-root-user", "sh", "-c", &script]).output().unwrap()
    };
    let output = refused("testbed run -- true");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("cannot hide the name resolution of this host"), "{said}");
    let server = "./ldplayer serve zones --all-zones-everywhere --listen 127.0.0.1:5300 >&2";
    let output = refused(&format!("replay queries --server 127.0.0.1:5300 --start-server '{server}' -o run"));
    let text = fs::read(copies.0.join("run/run.json")).unwrap_or_else(|_| panic!("{output:?}"));
    let run: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(run["summary"]["queries"]["answered"], 1);
    assert!(run.to_string().contains("the server may resolve names as this host does"), "{run}");
}
