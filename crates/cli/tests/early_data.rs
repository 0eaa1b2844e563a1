//! Early data over TLS against a stock server that takes it: HAProxy before NSD.

mod common;
#[path = "common/haproxy.rs"]
mod haproxy;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use ldplayer_emulate::stock::Kind;
use serde_json::Value;

use common::{data, free_address, summary_of};
use haproxy::Proxy;

/// A proxy that speaks TLS to clients and TCP to the server behind it.
fn proxy(folder: &Path, listens: SocketAddr, server: SocketAddr) -> Proxy {
    Proxy::start(folder, listens, |pem| {
        format!(
            "global\n  maxconn 2000\ndefaults\n  mode tcp\n  timeout connect 20s\n  timeout client 60s\n  \
             timeout server 60s\nfrontend f\n  bind {listens} ssl crt {pem} allow-0rtt alpn dot\n  default_backend b\n\
             backend b\n  server s {server}\n"
        )
    })
}

/// The summary of a replay in which all is answered.
fn replay(folder: &Path, server: SocketAddr, early_data: &str) -> Value {
    let (run, server) = (folder.join("run"), server.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.arg("replay").arg(data("l-root-20161006.pcap.xz")).args(["--stop", "8s", "--speed", "2", "--force", "-o"]);
    command.arg(&run).args(["--server", &server, "--sources", "pool:127.0.0.0/8", "--transport", "dot"]);
    command.args(["--tls-insecure", "--idle-timeout", "50ms", "--early-data", early_data]);
    command.args(["--query-timeout", "20s", "--connect-timeout", "20s", "--handshake-timeout", "20s"]);
    let summary = summary_of(&mut command, &run);
    assert_eq!(summary["queries"]["answered"], summary["queries"]["trace"], "{}", summary["queries"]);
    assert_eq!(summary["queries"]["stray"], 0);
    summary
}

#[test]
fn a_server_that_takes_early_data_gets_it_and_all_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, tls) = (free_address(), free_address());
    let _nsd = Kind::NSD.serving(Vec::new()).start(&[plain]).unwrap();
    let _proxy = proxy(folder.path(), tls, plain);
    let [early, other] = ["on", "off"].map(|early| replay(folder.path(), tls, early));
    let queries = |summary: &Value, class: &str| {
        summary["latency_ms"]["by_connection"][class]["queries"].as_u64().unwrap_or_default()
    };
    assert!(queries(&early, "fresh_early_data") > 50, "{}", early["latency_ms"]["by_connection"]);
    assert_eq!(queries(&other, "fresh_early_data"), 0);
    assert!(queries(&other, "fresh_resumed") > 50);
    assert_eq!(early["rcodes"], other["rcodes"]);
}
