//! What the tests of replays against stock servers share: files, addresses, and the accounts that must hold.
#![allow(dead_code, reason = "every test uses another part")]

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

pub fn data(name: &str) -> PathBuf {
    Path::new(ROOT).join("data").join(name)
}

/// A file of the engine's tests.
pub fn certificate(name: &str) -> String {
    let path = Path::new(ROOT).join("crates/replay/tests/data").join(name);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// An address whose port is free for UDP and TCP, and is none that the kernel gives to clients: those of other tests would
/// take it before its server does.
pub fn free_address() -> SocketAddr {
    const PORTS: std::ops::Range<u32> = 10_000..32_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let next = || {
        let place = std::process::id().wrapping_mul(97).wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        SocketAddr::from((Ipv4Addr::LOCALHOST, (PORTS.start + place % PORTS.len() as u32) as u16))
    };
    let is_free = |address: &SocketAddr| TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok();
    std::iter::repeat_with(next).take(PORTS.len()).find(is_free).expect("a port is free")
}

/// Makes a replay into the folder `run` and returns its summary, whose accounts hold.
pub fn summary_of(command: &mut Command, run: &Path) -> Value {
    let output = command.output().unwrap();
    // Whether a busy machine was on time is the verdict's to say.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    let summary = json["summary"].clone();
    let count = |name: &str| summary["queries"][name].as_u64().unwrap();
    assert_eq!(count("answered") + count("timed_out") + count("failed"), count("sent"));
    assert_eq!(count("sent") + count("not_sent"), count("trace"));
    let connections = &summary["connections"];
    let closed: u64 = connections["closed"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(connections["opened"].as_u64().unwrap(), connections["open_at_end"].as_u64().unwrap() + closed);
    summary
}
