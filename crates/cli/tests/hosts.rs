//! `testbed up`, `exec`, `status` and `down` as root and as a plain user, also after a crash.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ldplayer_net::namespace::Namespace;
use ldplayer_net::rights;
use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The user `nobody` of Debian.
const NOBODY: u32 = 65_534;
/// An address that nobody in the testbed owns.
const OUTSIDE: &str = "8.8.8.8:53";
const SERVER: &str = "198.51.100.1:53";
const RESOLVER: &str = "10.53.0.2:53";

/// A user with a folder of their own, in it copies of the command and of this test. Takes the testbed down in the end.
struct User {
    folder: PathBuf,
    is_plain: bool,
}

impl User {
    fn new(name: &str, is_plain: bool) -> Self {
        let folder = std::env::temp_dir().join(format!("ldplayer-{name}-{is_plain}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_ldplayer"), folder.join("ldplayer")).unwrap();
        fs::copy(std::env::current_exe().unwrap(), folder.join("probe")).unwrap();
        let user = Self { folder, is_plain };
        if user.changes() {
            chown(&user.folder, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        user
    }

    /// Only root may become another user; anybody else is a plain user already.
    fn changes(&self) -> bool {
        self.is_plain && fs::metadata("/proc/self").unwrap().uid() == 0
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.folder.join("ldplayer"));
        command
            .current_dir(&self.folder)
            .env("XDG_RUNTIME_DIR", self.folder.join("run"))
            .arg("testbed")
            .args(arguments);
        if self.changes() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command says; it must succeed.
    fn say(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}, plain user {}: {output:?}", self.is_plain);
        String::from_utf8(output.stdout).unwrap()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.say(&["status", "--json"])).unwrap()
    }

    /// Runs a part of this test on a host.
    fn probe(&self, host: &str, part: &str) -> String {
        self.say(&["exec", host, "--", "./probe", "--exact", part, "--ignored"])
    }

    /// Starts a server on a host, and waits until it listens.
    fn serve(&self, host: &str, part: &str) -> Child {
        let part = ["exec", host, "--", "./probe", "--exact", part, "--ignored", "--nocapture"];
        let mut server = self.command(&part).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("listening")));
        server
    }
}

/// Whether to be root and whether a plain user: no plain user where the TUN device is root's, which is said aloud and does not pass with CI set.
fn kinds() -> Vec<bool> {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let is_open = fs::metadata("/dev/net/tun").is_ok_and(|device| device.mode() & 0o006 == 0o006);
    if is_root && !is_open && std::env::var_os("CI").is_none() {
        eprintln!("NOT TESTED as a plain user: /dev/net/tun is root's; OPEN_TUN=1 make test opens it");
        return vec![false];
    }
    vec![false, true]
}

impl Drop for User {
    fn drop(&mut self) {
        self.run(&["down"]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
#[ignore = "runs inside a testbed, started by the tests below"]
fn serve() {
    let socket = UdpSocket::bind(SERVER).unwrap();
    println!("listening");
    loop {
        let (length, client) = socket.recv_from(&mut [0; 100]).unwrap();
        socket.send_to(&b"answer"[..length.min(6)], client).unwrap();
    }
}

#[test]
#[ignore = "runs inside a testbed, started by the tests below"]
fn respond() {
    let socket = UdpSocket::bind(RESOLVER).unwrap();
    println!("listening");
    let mut message = [0; 4_096];
    loop {
        let (length, client) = socket.recv_from(&mut message).unwrap();
        message[2] |= 0x80; // QR: a response
        socket.send_to(&message[..length], client).unwrap();
    }
}

#[test]
#[ignore = "runs inside a testbed, started by the tests below"]
fn ask() {
    let socket = UdpSocket::bind("203.0.113.9:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.send_to(b"question", SERVER).unwrap();
    assert_eq!(socket.recv_from(&mut [0; 100]).unwrap(), (6, SERVER.parse().unwrap()));
}

#[test]
#[ignore = "runs inside a testbed, started by the tests below"]
fn stray() {
    UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"stray", OUTSIDE).unwrap();
}

#[test]
fn a_testbed_is_used_told_of_and_taken_down() {
    for is_plain in kinds() {
        let user = User::new("hosts", is_plain);
        let said = user.say(&["up", "--rtt", "2ms"]);
        assert!(said.contains("clients    10.53.0.1 fd53::1"), "{said}");
        assert_eq!(user.run(&["up"]).status.code(), Some(3), "it is up already");
        let mut server = user.serve("internet", "serve");
        user.probe("clients", "ask");
        user.probe("resolver", "stray");
        let status = user.status();
        assert_eq!(status["rootless"], is_plain);
        let leaks = status["wire"]["leaks"].as_array().unwrap();
        assert_eq!(
            (leaks.len(), &leaks[0]["host"], &leaks[0]["destination"]),
            (1, &"resolver".into(), &"8.8.8.8".into())
        );
        assert_eq!(status["wire"]["dropped"]["leaked"], 1);
        assert_eq!(status["wire"]["hosts"][2]["delivered"]["packets"], 1);
        assert_eq!(user.run(&["exec", "root", "--", "true"]).status.code(), Some(2));
        assert_eq!(user.run(&["exec", "clients", "--", "sh", "-c", "exit 7"]).status.code(), Some(7));
        // System programs are not on every user's PATH.
        let mut unbound = user.command(&["exec", "resolver", "--", "unbound", "-V"]);
        assert!(unbound.env("PATH", "/usr/bin:/bin").output().unwrap().status.success());
        assert_eq!(user.say(&["down"]), "testbed default is down; 1 process in it was ended\n");
        assert!(!server.wait().unwrap().success());
        assert_eq!(user.say(&["down"]), "testbed default was not up\n");
        assert_eq!(user.run(&["status"]).status.code(), Some(3));
    }
}

#[test]
fn a_capture_is_replayed_from_its_clients_at_their_distance() {
    let user = User::new("distance", *kinds().last().unwrap());
    user.say(&["up", "--rtt", "20ms"]);
    let mut server = user.serve("resolver", "respond");
    let capture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/l-root-20161006.pcap.xz");
    fs::copy(capture, user.folder.join("capture.pcap.xz")).unwrap();
    let replay = ["./ldplayer", "replay", "capture.pcap.xz", "--server", "10.53.0.2", "--transport", "udp"];
    let options = ["--stop", "10s", "--speed", "10", "--no-probe", "-o", "replayed"];
    let output = user.run(&[&["exec", "clients", "--"][..], &replay, &options].concat());
    // Whether a busy machine was on time is the verdict's to say.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let run: Value = serde_json::from_slice(&fs::read(user.folder.join("replayed/run.json")).unwrap()).unwrap();
    let (queries, latency) = (&run["summary"]["queries"], &run["summary"]["latency_ms"]["from_sent"]);
    // IPv6 clients have no server here.
    assert_eq!(queries["answered"], queries["sent"]);
    assert!(queries["sent"].as_u64().unwrap() > 1_500, "{queries}");
    assert!(latency["p50"].as_f64().unwrap() >= 20.0, "{latency}");
    let wire = &user.status()["wire"];
    assert_eq!((&wire["hosts"][0]["sent"]["packets"], &wire["leaks"]), (&queries["sent"], &Value::Array(Vec::new())));
    user.say(&["down"]);
    assert!(!server.wait().unwrap().success());
}

#[test]
fn what_a_crash_leaves_is_cleared() {
    for is_plain in kinds() {
        let user = User::new("crash", is_plain);
        user.say(&["up"]);
        let mut server = user.serve("internet", "serve");
        let holder = user.status()["holder"].as_i64().unwrap();
        kill_process(Pid::from_raw(holder as i32).unwrap(), Signal::KILL).unwrap();
        // The holder's descriptors are closed, and its lock is free, when it is gone for good.
        while fs::read_to_string(format!("/proc/{holder}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now();
        }
        for arguments in [&["status"][..], &["up"], &["exec", "clients", "--", "true"]] {
            let output = user.run(arguments);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.code() == Some(3) && said.contains("the process that holds testbed"),
                "{arguments:?} {said}"
            );
        }
        let said = user.say(&["down"]);
        assert_eq!(said, "what a crash had left of testbed default is cleared; 1 process in it was ended\n");
        assert!(!server.wait().unwrap().success());
        assert_eq!(user.say(&["down"]), "testbed default was not up\n");
        user.say(&["up"]);
    }
}

/// Processes with a session and an environment of their own, one of which has left for another network: their numbers.
const DAEMONS: &str = "for how in '' 'unshare --net'; do \
    setsid env -i $how sh -c 'trap \"\" HUP; exec sleep 1000' >/dev/null 2>&1 </dev/null & echo $!; done";

#[test]
fn no_process_is_left_of_a_testbed_whatever_it_has_become() {
    for (is_plain, is_killed) in kinds().into_iter().flat_map(|is_plain| [(is_plain, false), (is_plain, true)]) {
        let user = User::new("daemons", is_plain);
        let holder = {
            user.say(&["up"]);
            user.status()["holder"].as_i64().unwrap()
        };
        let mut left: Vec<String> =
            user.say(&["exec", "clients", "--", "sh", "-c", DAEMONS]).lines().map(str::to_owned).collect();
        assert_eq!(left.len(), 2);
        // One that somebody has put there from outside.
        let mut guest = (!is_plain && fs::metadata("/proc/self").unwrap().uid() == 0).then(|| {
            let network = format!("--net=/proc/{}/ns/net", left[0]);
            Command::new("nsenter").args([&network, "sleep", "1000"]).spawn().unwrap()
        });
        if let Some(guest) = &guest {
            let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
            while network(&guest.id().to_string()) != network(&left[0]) {
                std::thread::yield_now();
            }
            left.push(guest.id().to_string());
        }
        if is_killed {
            kill_process(Pid::from_raw(holder as i32).unwrap(), Signal::KILL).unwrap();
            while fs::read_to_string(format!("/proc/{holder}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
                std::thread::yield_now();
            }
        }
        let said = user.say(&["down"]);
        let stats = left.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default());
        assert!(
            stats.clone().all(|stat| stat.is_empty() || stat.contains(") Z ")),
            "{said}{:?}",
            stats.collect::<Vec<_>>()
        );
        assert!(said.ends_with(&format!("; {} processes in it were ended\n", left.len())), "{said}");
        let _ = guest.as_mut().map(std::process::Child::wait);
    }
}

#[test]
fn what_cannot_be_is_told_in_one_line() {
    let user = User::new("bad", false);
    for (arguments, status, told) in [
        (&["up", "--name", "../x"][..], 2, "invalid testbed name"),
        (&["up", "--capture", "missing/x.pcap"], 3, "missing/x.pcap: No such file"),
        (&["up", "--rtt", "fast"], 2, "is not a round-trip time"),
        (&["exec", "clients", "--", "true"], 3, "testbed default is not up: bring it up first"),
    ] {
        let output = user.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(status) && said.contains(told), "{arguments:?}: {output:?}");
    }
}

/// Name services whose sockets are files: the first is asked by every program of the C library before anything else.
const SERVICES: [&str; 4] =
    ["nscd/socket", "systemd/resolve/io.systemd.Resolve", "dbus/system_bus_socket", "a-resolver-of-its-own.sock"];
/// What the host knows and nobody else.
const KNOWN: &str = "192.0.2.99 only-on-the-host\n";
/// What programs ask for when they resolve a name.
const GETENT: [&str; 3] = ["getent", "hosts", "only-on-the-host"];

/// A host of its own, as far as files go, on which name services listen.
struct Host {
    services: Vec<UnixListener>,
}

impl Host {
    /// To be made in a mount namespace of its own.
    fn new(folder: &std::path::Path) -> Self {
        mount(c"host", c"/run", c"tmpfs", MountFlags::empty(), c"mode=0755").unwrap();
        for (file, text) in [("hosts", KNOWN), ("resolv.conf", "nameserver 192.0.2.53\n")] {
            fs::write(folder.join(file), text).unwrap();
            fs::set_permissions(folder.join(file), fs::Permissions::from_mode(0o644)).unwrap();
            mount_bind(folder.join(file), format!("/etc/{file}")).unwrap();
        }
        let listen = |service: &str| {
            let path = std::path::Path::new("/run").join(service);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let listener = UnixListener::bind(&path).unwrap();
            listener.set_nonblocking(true).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
            listener
        };
        Self { services: SERVICES.map(listen).into() }
    }

    /// How many have come to the services since this was asked last; they are turned away.
    fn seen(&self) -> usize {
        self.services.iter().map(|service| std::iter::from_fn(|| service.accept().ok()).count()).sum()
    }
}

/// What a program, in namespaces of its own, finds of the host: what it prints.
const LOOK: &str = "getent hosts only-on-the-host; cat /etc/resolv.conf; ls /run/systemd/resolve /run/nscd /run/dbus; \
    for socket in /run/a-*; do test -S $socket && echo socket; done; true";

/// What a server that a replay starts finds in the host's file of names.
fn server_sees(user: &User) -> String {
    let (queries, seen) = (user.folder.join("queries"), user.folder.join("seen"));
    fs::write(&queries, "example. A\n").unwrap();
    let server = format!("sh -c 'cat /etc/hosts >{0}.new && mv {0}.new {0}'", seen.display());
    let mut replay = Command::new(user.folder.join("ldplayer"));
    let arguments = ["--server", "127.0.0.1:5300", "--start-server", &server, "-o", "seen-run"];
    replay.current_dir(&user.folder).arg("replay").arg(&queries).args(arguments);
    if user.changes() {
        replay.uid(NOBODY).gid(NOBODY);
    }
    assert_eq!(replay.output().unwrap().status.code(), Some(3), "it is no server");
    fs::read_to_string(seen).unwrap()
}

#[test]
#[ignore = "runs in a mount namespace, started by the test below"]
fn on_a_host_with_resolvers() {
    let scratch = tempfile::tempdir().unwrap();
    let host = Host::new(scratch.path());
    rights::ensure_rights().unwrap();
    // No network is enough not to send, but not to be told: the daemon that caches names for all programs is asked.
    let namespace = Namespace::create().unwrap();
    let mut asks = Command::new(GETENT[0]);
    namespace.start_in(asks.args(&GETENT[1..])).unwrap();
    let mut asks = asks.stdout(Stdio::piped()).spawn().unwrap();
    let mut seen = 0;
    while asks.try_wait().unwrap().is_none() {
        seen += host.seen();
        std::thread::yield_now();
    }
    let told = String::from_utf8(asks.wait_with_output().unwrap().stdout).unwrap();
    assert!(told.starts_with("192.0.2.99") && seen > 0, "this test can fail: {told}");
    for is_plain in kinds() {
        let user = User::new("resolvers", is_plain);
        user.say(&["up"]);
        for on in ["clients", "resolver", "internet"] {
            let said = user.say(&["exec", on, "--", "sh", "-c", LOOK]);
            assert_eq!(
                said,
                "nameserver 10.53.0.2\nnameserver fd53::2\n/run/dbus:\n\n/run/nscd:\n\n/run/systemd/resolve:\n"
            );
            assert!(user.say(&["exec", on, "--", "getent", "hosts", "resolver"]).starts_with("fd53::2"));
        }
        let alone = user.say(&["run", "--", "sh", "-c", LOOK]);
        assert!(alone.starts_with("nameserver 127.0.0.1\n/run/dbus:"), "{alone}");
        assert_eq!(server_sees(&user), "127.0.0.1 localhost\n::1 localhost\n");
        assert_eq!(host.seen(), 0, "plain user {is_plain}");
    }
    // For everybody else the host is as it was.
    assert!(fs::exists("/run/nscd/socket").unwrap() && fs::read_to_string("/etc/hosts").unwrap() == KNOWN);
}

#[test]
fn nothing_in_a_testbed_sees_the_resolvers_of_the_host() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut unshare = Command::new("unshare");
    unshare.arg("--mount").args((!is_root).then_some("--map-root-user"));
    unshare.arg(std::env::current_exe().unwrap()).args(["--exact", "on_a_host_with_resolvers", "--ignored"]);
    let output = unshare.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_page_about_testbeds_works_as_it_stands() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/testbed.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    let script: String = blocks.collect();
    for is_plain in kinds() {
        let user = User::new("page", is_plain);
        let mut shell = Command::new("sh");
        shell.current_dir(&user.folder).env("XDG_RUNTIME_DIR", user.folder.join("run")).args(["-c", &script]);
        // As an ordinary user has it.
        shell.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", user.folder.display()));
        if user.changes() {
            shell.uid(NOBODY).gid(NOBODY);
        }
        let output = shell.output().unwrap();
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        for wanted in [
            "testbed default is up",
            "192.0.2.80      www.example",
            "\ndropped ",
            "testbed default is down; 1 process in it was ended",
        ] {
            assert!(said.contains(wanted), "plain user {is_plain}: {wanted} is not in {said}{errors}");
        }
        // The wire of the second loses a hundredth.
        for (run, least) in [("alone", 2), ("packets", 2), ("resolved", 0)] {
            let text = fs::read(user.folder.join("runs").join(run).join("run.json")).unwrap();
            let run: Value = serde_json::from_slice(&text).unwrap();
            let queries = &run["summary"]["queries"];
            assert!(queries["sent"] == 2 && queries["answered"].as_u64().unwrap() >= least, "{queries}");
        }
        assert_eq!(said.matches("leak:").count(), 0, "{said}");
    }
}
