//! Replays where something runs out, or a certificate is no good: told by status and reason, and every query accounted for.

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use ldplayer_emulate::stock::{Kind, StockSettings};
use serde_json::Value;

use common::{certificate, data, free_address, summary_of};

/// Where the server listens, in a namespace of its own.
const SERVER: &str = "127.0.0.1:5300";

/// The summary of a replay, whose accounts hold.
fn replay(folder: &Path, arguments: &[&str]) -> Value {
    let run = folder.join("run");
    let system = "/usr/local/sbin:/usr/sbin:/sbin";
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.arg("replay").arg(data("l-root-20161006.pcap.xz")).args(["--stop", "2s", "--force", "-o"]).arg(&run);
    command.args(arguments).env("PATH", format!("{}:{system}", std::env::var("PATH").unwrap()));
    summary_of(&mut command, &run)
}

#[test]
fn clients_that_find_no_port_are_not_sent_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let server: SocketAddr = SERVER.parse().unwrap();
    let file = folder.path().join("nsd.conf");
    std::fs::write(&file, Kind::NSD.serving(Vec::new()).configuration(folder.path(), &[server]).unwrap()).unwrap();
    // Twenty ports for all clients, which keep their connections.
    let range = "echo 40000 40019 > /proc/sys/net/ipv4/ip_local_port_range";
    let command = format!("sh -c '{range} && exec nsd -d -c {}'", file.display());
    let start = ["--start-server", &command, "--server", SERVER];
    let common = ["--sources", "pool:127.0.0.9", "--transport", "tcp", "--idle-timeout", "60s"];
    let summary = replay(folder.path(), &[&start[..], &common].concat());
    let queries = &summary["queries"];
    let unsent = queries["not_sent_by_reason"]["no_source_address"].as_u64().unwrap();
    assert_eq!((queries["not_sent"].as_u64(), queries["failed"].as_u64()), (Some(unsent), Some(0)), "{queries}");
    let opened = summary["connections"]["opened"].as_u64().unwrap();
    assert!((1..=20).contains(&opened) && unsent > 0, "{summary}");
    assert!(queries["answered"].as_u64() >= Some(opened), "{queries}");
    // With short connections the same ports are used again and again.
    let short = ["--sources", "pool:127.0.0.0/24", "--transport", "tcp", "--idle-timeout", "0s"];
    let summary = replay(folder.path(), &[&start[..], &short].concat());
    assert_eq!(summary["queries"]["answered"], summary["queries"]["trace"], "{summary}");
}

/// Most were not sent, and those behind them late.
#[test]
fn clients_share_the_ports_that_there_are_and_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nsd.conf");
    std::fs::write(
        &file,
        Kind::NSD.serving(Vec::new()).configuration(folder.path(), &[SERVER.parse().unwrap()]).unwrap(),
    )
    .unwrap();
    let range = "echo 40000 40019 > /proc/sys/net/ipv4/ip_local_port_range";
    let command = format!("sh -c '{range} && exec nsd -d -c {}'", file.display());
    let start = ["--start-server", &command, "--server", SERVER, "--sources", "ports"];
    for workers in ["1", "2"] {
        let summary = replay(folder.path(), &[&start[..], &["--workers", workers]].concat());
        assert_eq!(summary["queries"]["answered"], summary["queries"]["trace"], "{summary}");
        let run: Value = serde_json::from_slice(&std::fs::read(folder.path().join("run/run.json")).unwrap()).unwrap();
        let warnings = run["warnings"].as_array().unwrap();
        let told = warnings.iter().find(|warning| warning["code"] == "shared_ports").unwrap_or_else(|| panic!("{run}"));
        assert!(told.to_string().contains("shared the UDP ports of others: there were "), "{told}");
    }
}

#[test]
fn a_bad_certificate_of_a_stock_server_is_told_by_its_fault() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, key) = (certificate("ca.pem"), certificate("server.key"));
    for (file, reason) in [("expired.pem", "certificate_time"), ("stranger.pem", "certificate_untrusted")] {
        let (plain, tls) = (free_address(), free_address());
        let (ip, port, pem) = (tls.ip(), tls.port(), certificate(file));
        let extra = format!(
            "server:\n  local-zone: \".\" static\n  interface: {ip}@{port}\n  tls-port: {port}\n  \
             tls-service-key: \"{key}\"\n  tls-service-pem: \"{pem}\""
        );
        let _unbound = Kind::UNBOUND
            .with(StockSettings { extra, ipv6: false, ..StockSettings::default() })
            .start(&[plain])
            .unwrap();
        let server = tls.to_string();
        let options = ["--server", &server, "--sources", "pool:127.0.0.0/8", "--transport", "dot"];
        let trust = ["--tls-ca", &ca, "--tls-name", "dns.test"];
        let summary = replay(folder.path(), &[&options[..], &trust].concat());
        let queries = &summary["queries"];
        assert_eq!(queries["failed_by_status"]["tls_failed"], queries["trace"], "{queries}");
        assert_eq!(queries["failed_by_reason"][reason], queries["trace"], "{queries}");
        assert_eq!(summary["connections"]["opened"], 0);
    }
}
