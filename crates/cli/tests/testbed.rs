//! A testbed as root and as a plain user: every address is local in it, and nothing leaves it.

use std::fs;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

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
        let mut command = Command::new(self.0.join("ldplayer"));
        command.current_dir(&self.0).args(["testbed", "run", "--"]).args(arguments);
        // Only root may become another user; anybody else is a plain user already.
        if plain_user && fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output().unwrap()
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
