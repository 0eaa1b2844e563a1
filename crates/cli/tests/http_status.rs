//! A web server that answers some requests with a long page of 404 while others go on: HAProxy before Unbound.

mod common;
#[path = "common/haproxy.rs"]
mod haproxy;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use ldplayer_emulate::stock::{Kind, Process, StockSettings};

use common::{certificate, data, free_address, summary_of};
use haproxy::Proxy;

/// Octets of the page: more than a stream's window admits.
const PAGE: usize = 200_000;

/// Unbound over HTTPS.
fn unbound(https: SocketAddr) -> Process {
    let (ip, port, key, pem) = (https.ip(), https.port(), certificate("server.key"), certificate("server.pem"));
    let extra = format!(
        "server:\n  local-zone: \".\" static\n  minimal-responses: yes\n  incoming-num-tcp: 1000\n  \
         tls-service-key: \"{key}\"\n  tls-service-pem: \"{pem}\"\n  interface: {ip}@{port}\n  https-port: {port}\n"
    );
    Kind::UNBOUND
        .with(StockSettings { extra, ipv6: false, ..StockSettings::default() })
        .start(&[free_address()])
        .unwrap()
}

/// A proxy that answers every other request by itself, with a page.
fn proxy(folder: &Path, listens: SocketAddr, server: SocketAddr) -> Proxy {
    let page = folder.join("page.html");
    std::fs::write(&page, vec![b'x'; PAGE]).unwrap();
    Proxy::start(folder, listens, |pem| {
        format!(
            "global\n  maxconn 2000\n  tune.bufsize {}\ndefaults\n  mode http\n  timeout connect 20s\n  timeout client 60s\n  \
             timeout server 60s\nfrontend f\n  bind {listens} ssl crt {pem} alpn h2\n  \
             http-request return status 404 content-type text/html file {} if {{ rand(2) eq 0 }}\n  default_backend b\n\
             backend b\n  server s {server} ssl verify none alpn h2\n",
            2 * PAGE,
            page.display()
        )
    })
}

#[test]
fn a_long_page_of_404_is_told_as_such_and_the_other_queries_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let (https, front) = (free_address(), free_address());
    let (_unbound, _proxy) = (unbound(https), proxy(folder.path(), front, https));
    let (run, server) = (folder.path().join("run"), front.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.arg("replay").arg(data("l-root-20161006.pcap.xz")).args(["--stop", "2s", "--force", "-o"]).arg(&run);
    command.args(["--server", &server, "--sources", "pool:127.0.0.0/8", "--transport", "doh2", "--tls-insecure"]);
    command.args(["--query-timeout", "20s", "--connect-timeout", "20s", "--handshake-timeout", "20s"]);
    let summary = summary_of(&mut command, &run);
    let queries = &summary["queries"];
    let count = |value: &serde_json::Value| value.as_u64().unwrap();
    let (answered, other) = (count(&queries["answered"]), count(&queries["failed_by_reason"]["http_status"]));
    assert_eq!((answered + other, count(&queries["timed_out"])), (count(&queries["trace"]), 0), "{queries}");
    assert!(answered > 50 && other > 50, "{queries}");
    assert_eq!(summary["connections"]["closed"], serde_json::json!({}), "no connection ends for it");
}
