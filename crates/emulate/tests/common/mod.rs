//! What tests of servers share: free addresses, questions, and that a server is gone when it should be.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ldplayer_emulate::stock::{Kind, Process};

/// The root zone of 8 October 2016.
pub const ROOT_ZONE: &[u8] = include_bytes!("../../../../data/root-2016100801.zone.xz");
/// Its serial.
pub const SERIAL: u32 = 2_016_100_801;
/// `. SOA IN`, ID 1.
pub const QUESTION: [u8; 17] = [0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 1];
/// How long an answer may take.
pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));

/// An address with a port that no other test has: below the range that the kernel gives out, never the same twice in a
/// process, and far from those of a process that tests at the same time.
pub fn free(ip: IpAddr) -> SocketAddr {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let is_free = |address: &SocketAddr| UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok();
    let next = || {
        let number = std::process::id().wrapping_mul(64).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        10_000 + u16::try_from(number % 20_000).unwrap()
    };
    std::iter::repeat_with(|| SocketAddr::new(ip, next())).take(20_000).find(is_free).unwrap()
}

pub fn free_v4() -> SocketAddr {
    free(Ipv4Addr::LOCALHOST.into())
}

pub fn ask_udp(server: SocketAddr, question: &[u8]) -> Vec<u8> {
    ask_udp_from(
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() },
        server,
        question,
    )
}

pub fn ask_udp_from(source: IpAddr, server: SocketAddr, question: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind((source, 0)).unwrap();
    socket.set_read_timeout(PATIENCE).unwrap();
    socket.send_to(question, server).unwrap();
    let mut answer = vec![0; 4096];
    let length = socket.recv(&mut answer).unwrap();
    answer.truncate(length);
    answer
}

pub fn ask_tcp(server: SocketAddr, question: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(PATIENCE).unwrap();
    let length = u16::try_from(question.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length, question].concat()).unwrap();
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer).unwrap();
    answer
}

pub fn root_zone(directory: &Path) -> PathBuf {
    let mut text = Vec::new();
    liblzma::read::XzDecoder::new(ROOT_ZONE).read_to_end(&mut text).unwrap();
    write(directory, "root.zone", &text)
}

pub fn write(directory: &Path, name: &str, octets: &[u8]) -> PathBuf {
    let file = directory.join(name);
    fs::write(&file, octets).unwrap();
    file
}

/// Whether the process runs: a dead one that its new parent has not reaped does not.
pub fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Ends the server and checks that all its processes are gone.
pub fn end(server: Process) {
    let pids = server.ids();
    assert!(!pids.is_empty() && pids.iter().all(|&pid| runs(pid)), "{pids:?}");
    drop(server);
    assert_eq!(pids.into_iter().find(|&pid| runs(pid)), None, "left running");
}

/// The stock resolvers that are there. Not every distribution has packages of all; where tests are run for a change (`CI` is set), all
/// must be had.
pub fn resolvers() -> Vec<Kind> {
    let (there, missing): (Vec<_>, Vec<_>) = Kind::resolvers().partition(|kind| kind.is_installed());
    assert!(
        missing.is_empty() || std::env::var_os("CI").is_none(),
        "not installed: {missing:?}; scripts/need.sh does it"
    );
    missing.iter().for_each(|kind| eprintln!("NOT TESTED with {}, as it is not installed", kind.name()));
    there
}
