//! Servers with a certificate that somebody has made by `openssl req -x509`: `--tls-ca` with that very file is enough.

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use ldplayer_emulate::stock::{Kind, Process, StockSettings};
use serde_json::Value;

use common::{certificate, data, free_address, summary_of};

/// A certificate and its key, made as the manual of openssl says.
struct KeyPair {
    key: String,
    certificate: String,
}

fn make(folder: &Path, name: &str, more: &[&str]) -> KeyPair {
    let file = |end: &str| folder.join(format!("{name}.{end}")).to_str().unwrap().to_owned();
    let made = KeyPair { key: file("key"), certificate: file("pem") };
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30"]).args(more);
    let output = command.args(["-keyout", &made.key, "-out", &made.certificate]).output();
    let output = output.expect("no openssl: scripts/need.sh openssl installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    made
}

/// Unbound over TLS and HTTPS.
fn unbound(made: &KeyPair) -> (SocketAddr, SocketAddr, Process) {
    let (plain, tls, https) = (free_address(), free_address(), free_address());
    let (ip, tls_port, https_port) = (tls.ip(), tls.port(), https.port());
    let extra = format!(
        "server:\n  local-zone: \".\" static\n  minimal-responses: yes\n  incoming-num-tcp: 1000\n  \
         tls-service-key: \"{}\"\n  tls-service-pem: \"{}\"\n  interface: {ip}@{tls_port}\n  tls-port: {tls_port}\n  \
         interface: {ip}@{https_port}\n  https-port: {https_port}\n",
        made.key, made.certificate
    );
    let process =
        Kind::UNBOUND.with(StockSettings { extra, ipv6: false, ..StockSettings::default() }).start(&[plain]).unwrap();
    (tls, https, process)
}

/// The accounts of queries of a replay of half a second.
fn replay(folder: &Path, server: SocketAddr, arguments: &[&str]) -> Value {
    let (run, server) = (folder.join("run"), server.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.arg("replay").arg(data("l-root-20161006.pcap.xz")).args(["--server", &server, "--force", "-o"]).arg(&run);
    command.args(["--stop", "500ms", "--sources", "pool:127.0.0.0/8", "--idle-timeout", "50ms"]);
    command.args(["--query-timeout", "20s", "--connect-timeout", "20s", "--handshake-timeout", "20s"]);
    summary_of(command.args(arguments), &run)["queries"].clone()
}

fn failed(queries: &Value, reason: &str) {
    assert_eq!(queries["failed_by_reason"][reason], queries["trace"], "{queries}");
}

#[test]
fn the_very_certificate_of_a_server_is_trusted_and_another_one_of_its_kind_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["-subj", "/CN=dns.test", "-addext", "subjectAltName=DNS:dns.test"];
    let (ours, other) = (make(folder.path(), "ours", &names), make(folder.path(), "other", &names));
    let (tls, https, _process) = unbound(&ours);
    let pinned = ["--tls-ca", &ours.certificate, "--tls-name"];
    for (transport, server) in [("dot", tls), ("doh2", https)] {
        let replay =
            |arguments: &[&str]| replay(folder.path(), server, &[&["--transport", transport], arguments].concat());
        for version in ["1.3", "1.2"] {
            let queries = replay(&[&pinned[..], &["dns.test", "--tls-version", version]].concat());
            assert_eq!(queries["answered"], queries["trace"], "{transport}, TLS {version}: {queries}");
        }
        failed(&replay(&[&pinned[..], &["other.test"]].concat()), "certificate_name");
        for other in [&other.certificate, &certificate("ca.pem")] {
            failed(&replay(&["--tls-ca", other, "--tls-name", "dns.test"]), "certificate_untrusted");
        }
    }
}

#[test]
fn a_pinned_certificate_without_names_is_for_any() {
    let folder = tempfile::tempdir().unwrap();
    let ours = make(folder.path(), "ours", &["-subj", "/CN=my server"]);
    let (tls, _, _process) = unbound(&ours);
    let queries = replay(folder.path(), tls, &["--transport", "dot", "--tls-ca", &ours.certificate]);
    assert_eq!(queries["answered"], queries["trace"], "{queries}");
}
