//! `--start-server`: a server in a namespace of its own making, ended with the run.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ldplayer_net::netns::{self, Shortfall, Testbed};

use super::options::Args;
use crate::failure::Failure;

/// How long a server may take until it answers.
const START_WITHIN: Duration = Duration::from_secs(30);
/// How long a server may take to end when asked to, before it is killed.
const END_WITHIN: Duration = Duration::from_secs(5);
/// How long one question to it is waited for.
const PROBE: Duration = Duration::from_millis(100);
/// A question that any server answers, be it with a refusal: `. NS`, ID 0x4c44.
const QUESTION: &[u8] = b"\x4c\x44\0\0\0\x01\0\0\0\0\0\0\0\0\x02\0\x01";

/// A running server; dropping it ends it.
pub struct Server {
    child: Child,
    testbed: Testbed,
}

/// Makes the namespace and starts the server, where the user asked for it.
pub fn start(args: &Args) -> Result<Option<Server>, Failure> {
    let Some(command) = &args.start_server else { return Ok(None) };
    let testbed = Testbed::enter().map_err(Failure::environment)?;
    let child = Command::new("sh")
        .args(["-c", &format!("exec {command}")])
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .spawn()
        .map_err(|error| Failure::environment(anyhow::anyhow!("--start-server: cannot run sh: {error}")))?;
    let mut server = Server { child, testbed };
    for &address in args.server.iter().filter(|server| server.is_ipv4() || netns::has_ipv6()) {
        server.wait_for(address, command)?;
    }
    Ok(Some(server))
}

impl Server {
    /// What its namespace lacks.
    pub fn shortfalls(&self) -> &[Shortfall] {
        self.testbed.shortfalls()
    }

    /// Asks until there is an answer.
    fn wait_for(&mut self, address: SocketAddr, command: &str) -> Result<(), Failure> {
        let begun = Instant::now();
        while begun.elapsed() < START_WITHIN {
            if answers(address).map_err(Failure::environment)? {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().map_err(Failure::environment)? {
                return Err(Failure::environment(anyhow::anyhow!("--start-server `{command}` ended: {status}")));
            }
        }
        Err(Failure::environment(anyhow::anyhow!(
            "--start-server `{command}`: no answer from {address} within {} s; check the address it listens on",
            START_WITHIN.as_secs()
        )))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM first, so that the server writes what it wants to; it is our own child, known by its pid.
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let begun = Instant::now();
        while begun.elapsed() < END_WITHIN {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(PROBE);
        }
        // Neither can fail but for a child that has ended after all.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One question; `false` when there was no answer in time.
fn answers(server: SocketAddr) -> io::Result<bool> {
    let unspecified: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(unspecified, 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(PROBE))?;
    let mut buffer = [0; 512];
    let asked = socket.send(QUESTION).and_then(|_| socket.recv(&mut buffer));
    if asked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::thread::sleep(PROBE);
    }
    Ok(asked.is_ok_and(|length| length > 2 && buffer[..2] == QUESTION[..2]))
}
