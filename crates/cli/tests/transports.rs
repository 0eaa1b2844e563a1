//! Replays over connections against stock servers: all is answered, as over UDP, and the connections are what was asked for.

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use ldplayer_emulate::stock::{Kind, Output, Process, StockServer, StockSettings, Zone, find};
use serde_json::Value;

use common::{certificate, data, free_address, summary_of};

/// The trace of these tests: a second of a root server's clients.
const TRACE: [&str; 4] = ["--stop", "2s", "--speed", "2"];

fn root_zone(folder: &Path) -> Vec<Zone> {
    let mut zone = Vec::new();
    let packed = std::fs::File::open(data("root-2016100801.zone.xz")).unwrap();
    std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(packed), &mut zone).unwrap();
    let path = folder.join("root.zone");
    std::fs::write(&path, zone).unwrap();
    vec![Zone::new(".", path)]
}

/// Replays the trace and returns the summary of the run.
fn replay(folder: &Path, server: SocketAddr, arguments: &[&str]) -> Value {
    replay_trace(folder, server, &data("l-root-20161006.pcap.xz"), &[&TRACE, arguments].concat())
}

fn replay_trace(folder: &Path, server: SocketAddr, trace: &Path, arguments: &[&str]) -> Value {
    let (run, server) = (folder.join("run"), server.to_string());
    let common = ["--server", &server, "--sources", "pool:127.0.0.0/8", "--query-timeout", "20s", "--force", "-o"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    let patient = ["--connect-timeout", "20s", "--handshake-timeout", "20s"];
    command.arg("replay").arg(trace).args(common).arg(&run).args(patient).args(arguments);
    summary_of(&mut command, &run)
}

/// All was sent over `transport` and answered, with the response codes of `expected`.
fn is_answered(summary: &Value, transport: &str, expected: &Value) {
    all_answered(summary, expected);
    assert_eq!(summary["queries"]["sent_by_transport"][transport], summary["queries"]["trace"]);
}

fn stock_servers(folder: &Path) -> Vec<(SocketAddr, Process)> {
    let zones = root_zone(folder);
    let nothing = "server:\n  local-zone: \".\" static\n  minimal-responses: yes".to_owned();
    let servers: [StockServer; 4] = [
        Kind::NSD.serving(zones.clone()),
        Kind::KNOT.serving(zones.clone()),
        Kind::BIND.serving(zones),
        Kind::UNBOUND.with(StockSettings { extra: nothing, ipv6: false, ..StockSettings::default() }),
    ];
    let start = |server: StockServer| {
        let address = free_address();
        (address, server.start(&[address]).unwrap())
    };
    servers.into_iter().map(start).collect()
}

#[test]
fn stock_servers_answer_over_tcp_as_over_udp() {
    let folder = tempfile::tempdir().unwrap();
    for (server, _process) in stock_servers(folder.path()) {
        let udp = replay(folder.path(), server, &["--transport", "udp"]);
        is_answered(&udp, "udp", &udp);
        assert_eq!(udp["connections"]["opened"], 0);
        // Servers limit how many connections they have (NSD 100, Unbound 10), so that clients had better not keep theirs.
        let reused = replay(folder.path(), server, &["--transport", "tcp", "--idle-timeout", "20ms"]);
        is_answered(&reused, "tcp", &udp);
        let single = replay(folder.path(), server, &["--transport", "tcp", "--queries-per-connection", "1"]);
        is_answered(&single, "tcp", &udp);
        assert_eq!(single["connections"]["opened"], single["queries"]["trace"]);
        assert_eq!(single["connections"]["closed"]["client_last_query"], single["queries"]["trace"]);
        assert!(reused["connections"]["opened"].as_u64() < single["connections"]["opened"].as_u64());
    }
}

/// Unbound and BIND, each with its address for UDP and the one for TLS.
fn stock_servers_over_tls(folder: &Path) -> Vec<(SocketAddr, SocketAddr, Process)> {
    let (key, pem) = (certificate("server.key"), certificate("server.pem"));
    let (plain, tls) = (free_address(), free_address());
    let (ip, port) = (tls.ip(), tls.port());
    let extra = format!(
        "server:\n  local-zone: \".\" static\n  minimal-responses: yes\n  incoming-num-tcp: 1000\n  \
         interface: {ip}@{port}\n  tls-port: {port}\n  tls-service-key: \"{key}\"\n  tls-service-pem: \"{pem}\""
    );
    let unbound =
        Kind::UNBOUND.with(StockSettings { extra, ipv6: false, ..StockSettings::default() }).start(&[plain]).unwrap();
    let (bind_plain, bind_tls) = (free_address(), free_address());
    let (ip, port) = (bind_tls.ip(), bind_tls.port());
    let zones = root_zone(folder);
    let head = format!(
        "tls t {{ key-file \"{key}\"; cert-file \"{pem}\"; }};\noptions {{\n  listen-on port {port} tls t {{ {ip}; }};"
    );
    let options = Kind::BIND.head(Path::new("."), &[bind_plain]).unwrap().replacen("options {", &head, 1);
    let zone = format!("zone \".\" {{ type primary; file \"{}\"; }};\n", zones[0].file.display());
    let bind = Kind::BIND.configured(options + &zone, zones).start(&[bind_plain]).unwrap();
    vec![(plain, tls, unbound), (bind_plain, bind_tls, bind)]
}

#[test]
fn stock_servers_answer_over_tls_as_over_udp() {
    let folder = tempfile::tempdir().unwrap();
    let ca = certificate("ca.pem");
    for (plain, tls, _process) in stock_servers_over_tls(folder.path()) {
        let udp = replay(folder.path(), plain, &["--transport", "udp"]);
        let dot = |arguments: &[&str]| replay(folder.path(), tls, &[&["--transport", "dot"], arguments].concat());
        let reused = dot(&["--tls-ca", &ca, "--tls-name", "dns.test", "--idle-timeout", "50ms"]);
        is_answered(&reused, "dot", &udp);
        assert!(reused["connections"]["opened"].as_u64() >= udp["clients"]["total"].as_u64());
        for version in ["1.2", "1.3"] {
            let single = dot(&["--tls-insecure", "--queries-per-connection", "1", "--tls-version", version]);
            is_answered(&single, "dot", &udp);
            let connections = &single["connections"];
            assert_eq!(connections["opened"], single["queries"]["trace"]);
            // Clients that ask once have nothing to resume, and those that ask again at once have no ticket yet.
            assert!(connections["resumed"].as_u64() > Some(0), "TLS {version}: {connections}");
        }
        // These servers take no early data; asking for it must do no harm.
        let early = dot(&["--tls-insecure", "--queries-per-connection", "1", "--early-data", "on"]);
        is_answered(&early, "dot", &udp);
        assert!(early["latency_ms"]["by_connection"]["fresh_early_data"].is_null());
        let unresumed = dot(&["--tls-insecure", "--queries-per-connection", "1", "--resumption", "off"]);
        assert_eq!(unresumed["connections"]["resumed"], 0);
        let refused = dot(&["--tls-ca", &ca, "--tls-name", "other.test"]);
        assert_eq!(refused["queries"]["failed_by_status"]["tls_failed"], refused["queries"]["trace"]);
        assert_eq!(refused["queries"]["failed_by_reason"]["certificate_name"], refused["queries"]["trace"]);
    }
}

/// Unbound with the option that names the port for each of these addresses, too.
fn encrypted_unbound(plain: SocketAddr, more: &[(&str, SocketAddr)]) -> Process {
    let (key, pem) = (certificate("server.key"), certificate("server.pem"));
    let mut extra = format!(
        "server:\n  local-zone: \".\" static\n  minimal-responses: yes\n  incoming-num-tcp: 1000\n  \
         tls-service-key: \"{key}\"\n  tls-service-pem: \"{pem}\"\n"
    );
    for (option, address) in more {
        extra += &format!("  interface: {}@{}\n  {option}: {}\n", address.ip(), address.port(), address.port());
    }
    Kind::UNBOUND.with(StockSettings { extra, ipv6: false, ..StockSettings::default() }).start(&[plain]).unwrap()
}

/// Unbound, BIND and dnsdist before that, each with its address for UDP and the one for HTTPS.
fn stock_servers_over_https(folder: &Path) -> Vec<(SocketAddr, SocketAddr, Process)> {
    let (key, pem) = (certificate("server.key"), certificate("server.pem"));
    let (plain, https) = (free_address(), free_address());
    let unbound = encrypted_unbound(plain, &[("https-port", https)]);
    let (bind_plain, bind_https) = (free_address(), free_address());
    let (ip, port) = (bind_https.ip(), bind_https.port());
    let zones = root_zone(folder);
    let head = format!(
        "tls t {{ key-file \"{key}\"; cert-file \"{pem}\"; }};\nhttp h {{ endpoints {{ \"/dns-query\"; }}; \
         listener-clients 0; }};\noptions {{\n  listen-on port {port} tls t http h {{ {ip}; }};"
    );
    let options = Kind::BIND.head(Path::new("."), &[bind_plain]).unwrap().replacen("options {", &head, 1);
    let zone = format!("zone \".\" {{ type primary; file \"{}\"; }};\n", zones[0].file.display());
    let bind = Kind::BIND.configured(options + &zone, zones).start(&[bind_plain]).unwrap();
    let (front_plain, front_https) = (free_address(), free_address());
    let front = dnsdist(folder, front_plain, front_https, bind_plain);
    vec![(plain, https, unbound), (front_plain, front_https, front), (bind_plain, bind_https, bind)]
}

/// dnsdist before a server, over UDP and HTTPS.
fn dnsdist(folder: &Path, plain: SocketAddr, https: SocketAddr, behind: SocketAddr) -> Process {
    let file = folder.join("dnsdist.conf");
    let text = format!(
        "setLocal(\"{plain}\")\nsetACL(\"127.0.0.0/8\")\nsetSecurityPollSuffix(\"\")\n\
         newServer{{address=\"{behind}\", healthCheckMode=\"up\"}}\n\
         addDOHLocal(\"{https}\", \"{}\", \"{}\", \"/dns-query\")\n",
        certificate("server.pem"),
        certificate("server.key")
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(find("dnsdist", "dnsdist").unwrap());
    command.args(["--supervised", "--disable-syslog", "-C"]).arg(file);
    let mut process = Process::start("dnsdist", &mut command, Output::Log(folder.join("dnsdist.log"))).unwrap();
    process.wait_for(plain).unwrap();
    process
}

#[test]
fn stock_servers_answer_over_https_as_over_udp() {
    let folder = tempfile::tempdir().unwrap();
    let ca = certificate("ca.pem");
    for (plain, https, _process) in &stock_servers_over_https(folder.path()) {
        let udp = replay(folder.path(), *plain, &["--transport", "udp"]);
        let doh = |arguments: &[&str]| replay(folder.path(), *https, &[&["--transport", "doh2"], arguments].concat());
        for method in ["post", "get"] {
            let reused =
                doh(&["--tls-ca", &ca, "--tls-name", "dns.test", "--idle-timeout", "50ms", "--doh-method", method]);
            is_answered(&reused, "doh2", &udp);
            assert!(reused["connections"]["opened"].as_u64() >= udp["clients"]["total"].as_u64());
        }
        for version in ["1.2", "1.3"] {
            let single = doh(&["--tls-insecure", "--queries-per-connection", "1", "--tls-version", version]);
            is_answered(&single, "doh2", &udp);
            let connections = &single["connections"];
            assert_eq!(connections["opened"], single["queries"]["trace"]);
            assert!(connections["resumed"].as_u64() > Some(0), "TLS {version}: {connections}");
        }
        // The one client of a list of questions has many streams on a connection at once, up to the server's limit.
        let list = folder.path().join("questions");
        std::fs::write(&list, (0..3_000).map(|number| format!("q{number}.test A\n")).collect::<String>()).unwrap();
        let many = ["--transport", "doh2", "--tls-insecure", "--timing", "fast", "--max-outstanding", "150"];
        let crowd = replay_trace(folder.path(), *https, &list, &many);
        assert_eq!((&crowd["queries"]["answered"], &crowd["queries"]["trace"]), (&3_000.into(), &3_000.into()));
        assert!(crowd["connections"]["opened"].as_u64() < Some(60), "{}", crowd["connections"]);
        let elsewhere = doh(&["--tls-insecure", "--doh-path", "/elsewhere", "--idle-timeout", "50ms"]);
        assert_eq!(elsewhere["queries"]["failed_by_reason"]["http_status"], elsewhere["queries"]["trace"]);
    }
}

#[test]
fn queries_go_over_the_transports_that_they_were_recorded_on() {
    let folder = tempfile::tempdir().unwrap();
    let [plain, tls, https] = [free_address(), free_address(), free_address()];
    let _server = encrypted_unbound(plain, &[("tls-port", tls), ("https-port", https)]);
    let rules = folder.path().join("rules.toml");
    let text = ["dot", "doh2"].map(|transport| format!("[[rule]]\nshare = \"40 %\"\ntransport = \"{transport}\"\n"));
    std::fs::write(&rules, text.concat()).unwrap();
    let (tls_port, https_port) = (tls.port().to_string(), https.port().to_string());
    let mixed = ["--rules", rules.to_str().unwrap(), "--idle-timeout", "50ms"];
    let to_ports = ["--tls-insecure", "--tls-port", &tls_port, "--doh-port", &https_port];
    let run = replay(folder.path(), plain, &[&mixed[..], &to_ports].concat());
    let queries = &run["queries"];
    assert_eq!(queries["answered"], queries["trace"], "{queries}");
    for transport in ["udp", "dot", "doh2"] {
        assert!(queries["sent_by_transport"][transport].as_u64() > Some(0), "{transport}: {queries}");
    }
    let untrusting = replay(folder.path(), plain, &mixed);
    let kept_back = &untrusting["queries"]["not_sent_by_reason"]["transport_not_available"];
    let encrypted = ["dot", "doh2"].map(|transport| queries["sent_by_transport"][transport].as_u64().unwrap());
    assert_eq!(kept_back, &encrypted.iter().sum::<u64>());
}

#[test]
fn a_server_that_speaks_no_http_2_fails_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let servers = stock_servers_over_tls(folder.path());
    let (_, tls, _process) = &servers[1];
    let run = replay(folder.path(), *tls, &["--transport", "doh2", "--tls-insecure"]);
    assert_eq!(run["queries"]["failed_by_reason"]["alpn"], run["queries"]["trace"], "{}", run["queries"]);
}

#[test]
fn bad_connection_options_are_one_line_and_status_2() {
    for (arguments, word) in [
        (["--pipeline", "0"], "--pipeline"),
        (["--queries-per-connection", "0"], "--queries-per-connection"),
        (["--idle-timeout", "soon"], "soon"),
        (["--nagle", "maybe"], "on or off"),
        (["--transport", "sctp"], "sctp"),
        (["--transport=dot", "--tls-ca=no/such.pem"], "no/such.pem"),
        (["--transport=dot", "--tls-name=a b"], "a b"),
        (["--transport", "udp=60,tcp=5"], "the shares add up to 65 %"),
        (["--transport-shares", "no/such.toml"], "no/such.toml"),
        (["--doh-method", "put"], "post or get"),
        (["--doh-path", "a b"], "a b"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        let output = command.args(["replay", "x", "--server", "127.0.0.1:5399"]).args(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(word), "{stderr}");
    }
}

/// Shares of the clients, typed and from a file, against a server that speaks all of it.
#[test]
fn clients_have_shares_of_transports_and_classes_a_policy_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, tls, _process) = stock_servers_over_tls(folder.path()).swap_remove(1);
    let port = tls.port().to_string();
    let udp = replay(folder.path(), plain, &["--transport", "udp"]);
    let options: &[&str] = &["--tls-insecure", "--tls-port", &port];
    let typed = replay(folder.path(), plain, &[&["--transport", "udp=50,tcp=20,dot=30"], options].concat());
    all_answered(&typed, &udp);
    let clients = |summary: &Value, class: &str| summary["clients"]["by_class"][class].as_f64().unwrap();
    let total = udp["clients"]["total"].as_f64().unwrap();
    for (class, share, place) in [("udp", 0.5, 1.0), ("tcp", 0.2, 2.0), ("dot", 0.3, 3.0)] {
        let count = clients(&typed, class);
        assert!((count - share * total).abs() < place, "{class}: {count} of {total}");
        let latency = &typed["latency_ms"]["by_class"][class];
        assert_eq!(latency["queries"], typed["queries"]["sent_by_transport"][class]);
    }
    let again =
        replay(folder.path(), plain, &[&["--transport", "udp=50,tcp=20,dot=30", "--workers", "2"], options].concat());
    assert_eq!(again["queries"]["sent_by_transport"], typed["queries"]["sent_by_transport"], "workers change nothing");
    let page = std::fs::read_to_string(folder.path().join("run/report.html")).unwrap();
    let of_connections = ["client_connections_open", "client_tcp_time_wait", "client_connections_opened"];
    for curve in of_connections.into_iter().chain(["dot_fresh", "tcp_reused"]) {
        assert!(page.contains(&format!("\"of\":\"{curve}\"")), "the report has no curve `{curve}`");
    }
    let file = data("classes/mixed.toml");
    let mixed = replay(folder.path(), plain, &[&["--transport-shares", file.to_str().unwrap()], options].concat());
    all_answered(&mixed, &udp);
    let queries = |class: &str| mixed["latency_ms"]["by_class"][class]["queries"].as_u64().unwrap_or(0);
    let sent = &mixed["queries"]["sent_by_transport"];
    assert_eq!(sent["tcp"], queries("tcp") + queries("tcp-at-once"));
    assert_eq!(sent["dot"], queries("dot") + queries("dot-fresh"));
    assert!(mixed["connections"]["closed"]["client_idle"].as_u64() > Some(0), "tcp-at-once closes at once");
    assert!((clients(&mixed, "udp") - 0.65 * total).abs() < 1.0);
}

/// All was answered, with the response codes of `expected`.
fn all_answered(summary: &Value, expected: &Value) {
    let queries = &summary["queries"];
    assert_eq!(queries["answered"], queries["trace"], "{queries}");
    assert_eq!(summary["rcodes"], expected["rcodes"]);
}
