//! `serve` over TLS, HTTPS and QUIC, as stock clients and forwarders meet it: kdig, curl, Unbound, Knot Resolver, dnsdist, dnsproxy,
//! systemd-resolved, PowerDNS Recursor, and a replay.

#[path = "common/built_server.rs"]
mod built_server;
mod common;
#[path = "common/served.rs"]
mod served;

use std::fs;
use std::process::Command;
use std::time::Duration;

use built_server::built_server;
use common::free_address;
use serde_json::Value;
use served::{Served, asked, started, unbound};

const ZONE: &str = "$TTL 60\n$ORIGIN example.\n@ SOA ns h 1 2 3 4 60\n@ NS ns\nns A 127.0.0.1\nwww A 192.0.2.80\n";

/// `serve` over UDP, TCP, TLS, HTTPS and QUIC, in a folder of its own.
struct Server {
    served: Served,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("zones")).unwrap();
        fs::write(folder.path().join("zones/example.zone"), ZONE).unwrap();
        let encrypted =
            ["--dot", "127.0.0.1:0", "--doh", "127.0.0.1:0", "--doq", "127.0.0.1:0", "--certificate", "ca.pem"];
        let served = Served::start(folder.path(), "zones", &[&encrypted[..], options].concat());
        Self { served, folder }
    }

    /// What kdig says over TLS, as one that looks at the certificate.
    fn kdig(&self, options: &[&str]) -> String {
        self.kdig_over("TLS", &[&["+tls-hostname=server.ldplayer.test"], options].concat())
    }

    fn kdig_over(&self, what: &str, options: &[&str]) -> String {
        let ca = format!("+tls-ca={}", self.folder.path().join("ca.pem").display());
        let port = self.served.over(what).port().to_string();
        let mut command = Command::new("kdig");
        command.args(["@127.0.0.1", "-p", &port, "+timeout=10", "+retry=0"]);
        match what {
            // It looks at no certificate of QUIC, and says nothing when told to.
            "QUIC" => command.arg("+quic"),
            "HTTPS" => command.args(["+https", &ca, "+tls-hostname=server.ldplayer.test"]),
            _ => command.arg(&ca),
        };
        let output = command.args(options).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Ends it: queries by transport.
    fn end(self) -> Value {
        self.served.end().0["transports"].clone()
    }
}

#[test]
fn kdig_verifies_the_certificate_and_gets_padded_answers() {
    let server = Server::start(&[]);
    let said = server.kdig(&["www.example", "A", "+padding=64", "+ednsopt=11"]);
    assert!(said.contains("192.0.2.80"), "{said}");
    assert!(said.contains("Received 468 B"), "padded to a multiple of 468 octets: {said}");
    assert!(said.contains("TLS1.3") && said.contains("EDNS"), "{said}");
    let plain = server.kdig(&["www.example", "A", "+nopadding"]);
    assert!(plain.contains("192.0.2.80") && !plain.contains("Received 468 B"), "{plain}");
    let other = server.kdig(&["www.example", "A", "+tls-hostname=other.test"]);
    assert!(!other.contains("192.0.2.80"), "a client that looks at the name refuses: {other}");
    let old = server.folder.path().join("ca.pem.key");
    assert!(old.exists());
    let mut dig = Command::new("dig");
    dig.args(["@127.0.0.1", "-p", &server.served.port.to_string(), "+short", "www.example", "A"]);
    assert_eq!(dig.output().unwrap().stdout, b"192.0.2.80\n");
    let transports = server.end();
    assert_eq!((&transports["dot"], &transports["udp"], &transports["tcp"]), (&2.into(), &1.into(), &0.into()));
}

/// The same faults, by their transport.
#[test]
fn a_fault_may_be_of_tls_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.toml");
    fs::write(&file, "[[fault]]\ntransport = 'dot'\nanswer = 'servfail'\n").unwrap();
    let server = Server::start(&["--faults", file.to_str().unwrap()]);
    assert!(server.kdig(&["www.example", "A"]).contains("SERVFAIL"));
    let mut dig = Command::new("dig");
    dig.args(["@127.0.0.1", "-p", &server.served.port.to_string(), "+tcp", "+short", "www.example", "A"]);
    assert_eq!(dig.output().unwrap().stdout, b"192.0.2.80\n");
}

/// The records of a transfer as kdig prints them, sorted.
fn transferred(said: &str) -> Vec<String> {
    let is_record = |line: &&str| !line.is_empty() && !line.starts_with(';');
    let mut lines: Vec<String> =
        said.lines().filter(is_record).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    lines
}

#[test]
fn zones_are_transferred_over_tls_where_that_is_allowed() {
    let server = Server::start(&["--transfers"]);
    let records = transferred(&server.kdig(&["example", "AXFR"]));
    let soa = "example. 60 IN SOA ns.example. h.example. 1 2 3 4 60";
    let wanted =
        ["example. 60 IN NS ns.example.", soa, soa, "ns.example. 60 IN A 127.0.0.1", "www.example. 60 IN A 192.0.2.80"];
    assert_eq!(records, wanted);
    assert_eq!(transferred(&server.kdig(&["example", "IXFR=1"])), [soa], "the asker has this version");
    assert_eq!(transferred(&server.kdig(&["example", "IXFR=0"])), wanted);
    assert!(server.kdig(&["other", "AXFR"]).contains("REFUSED"));
    assert!(Server::start(&[]).kdig(&["example", "AXFR"]).contains("REFUSED"));
}

/// What is no TLS ends the connection, and the server goes on.
#[test]
fn what_is_no_handshake_ends_the_connection() {
    use std::io::{Read, Write};
    let server = Server::start(&[]);
    let mut client = std::net::TcpStream::connect(server.served.over("TLS")).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.first(), Some(&21), "an alert (RFC 8446 section 6)");
    assert!(server.kdig(&["www.example", "A"]).contains("192.0.2.80"));
}

#[test]
fn kdig_asks_over_https_and_quic() {
    let server = Server::start(&["--transfers"]);
    for (what, option) in [("HTTPS", "+https"), ("HTTPS", "+https-get"), ("QUIC", "+quic")] {
        let said = server.kdig_over(what, &[option, "www.example", "A", "+padding=64"]);
        assert!(said.contains("192.0.2.80") && said.contains("Received 468 B"), "{option}: {said}");
    }
    let other = server.kdig_over("HTTPS", &["+tls-hostname=other.test", "www.example", "A"]);
    assert!(!other.contains("192.0.2.80"), "a client that looks at the name refuses: {other}");
    let transfer = transferred(&server.kdig_over("QUIC", &["example", "AXFR"]));
    assert_eq!(transfer, transferred(&server.kdig(&["example", "AXFR"])));
    let refused = server.kdig_over("HTTPS", &["example", "AXFR"]);
    assert!(!refused.contains("192.0.2.80"), "a transfer has more than one message: {refused}");
    let transports = server.end();
    // The handshake with the other name fails, or it asks.
    assert_eq!((&transports["doh3"], &transports["doq"]), (&0.into(), &2.into()), "{transports}");
    assert!(transports["doh2"].as_u64().unwrap() >= 3, "{transports}");
}

/// What curl says of a request over HTTP/2: status, media type and how long the answer may be kept.
fn curl(server: &Server, path: &str, options: &[&str]) -> String {
    let port = server.served.over("HTTPS").port();
    let ca = server.folder.path().join("ca.pem");
    let mut command = Command::new("curl");
    command.args(["-s", "--http2", "--max-time", "20", "-o", "/dev/null", "--cacert"]).arg(ca);
    command.args(["-w", "%{http_code} %header{content-type} %header{cache-control}"]).args(options);
    let output = command.arg(format!("https://localhost:{port}{path}")).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// RFC 8484: what is fresh for how long, and what is no query.
#[test]
fn requests_have_the_status_and_the_freshness_of_their_answers() {
    let server = Server::start(&[]);
    let query = "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlAAABAAE";
    assert_eq!(curl(&server, query, &[]), "200 application/dns-message max-age=60");
    let missing = "/dns-query?dns=AAABAAABAAAAAAAAAm5vB2V4YW1wbGUAAAEAAQ";
    assert_eq!(curl(&server, missing, &[]), "200 application/dns-message max-age=60");
    let message = ["-H", "content-type: application/dns-message"];
    for (path, options, status) in [
        ("/", &[][..], "404"),
        ("/dns-query", &[], "400"),
        ("/dns-query?dns=AAA", &[], "400"),
        ("/dns-query", &["-d", "x"], "415"),
        ("/dns-query", &["-d", "x", message[0], message[1]], "400"),
        ("/dns-query", &["-X", "DELETE"], "405"),
    ] {
        assert_eq!(curl(&server, path, options), status, "{path} {options:?}");
    }
    // The response was lost with the stream, most of the time, where the body came after it.
    for _ in 0..20 {
        assert_eq!(curl(&server, "/dns-query", &["-d", "x"]), "415");
    }
    let long = format!("@{}", server.folder.path().join("long").display());
    std::fs::write(&long[1..], vec![0; 200_000]).unwrap();
    assert_eq!(curl(&server, "/dns-query", &["--data-binary", &long, message[0], message[1]]), "413");
}

/// Many connections of our own client, over each; a fault, and the connections that it closes.
#[test]
fn a_replay_is_answered_over_each_and_faults_are_made_there_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.toml");
    let fault = |transport: &str, under: &str, what: &str| {
        format!(
            "[[fault]]\nname = '{transport} {under}'\ntransport = '{transport}'\nunder = '{under}.example.'\n{what}\n"
        )
    };
    let kinds = [("late", "delay = '300ms'"), ("gone", "answer = 'none'"), ("reset", "answer = 'reset'")];
    let over = ["doh2", "doh3", "doq"];
    let rules = over.iter().flat_map(|transport| kinds.map(|(under, what)| fault(transport, under, what)));
    fs::write(&file, rules.collect::<String>()).unwrap();
    let server = Server::start(&["--faults", file.to_str().unwrap()]);
    let names = ["www", "late", "gone", "reset"];
    let queries: String = (0..40).map(|at| format!("{}.example A\n", names[at / 10])).collect();
    fs::write(folder.path().join("queries.txt"), queries).unwrap();
    for transport in over {
        let address = server.served.over(if transport == "doq" { "QUIC" } else { "HTTPS" }).to_string();
        let (run, ca) = (folder.path().join(transport), server.folder.path().join("ca.pem"));
        let mut replay = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        replay.args(["replay", "queries.txt", "--rate", "20", "--transport", transport, "--server", &address]);
        replay.args(["--tls-name", "server.ldplayer.test", "--query-timeout", "2s", "--tls-ca"]).arg(ca);
        replay.arg("--output").arg(&run).current_dir(folder.path());
        let summary = common::summary_of(&mut replay, &run);
        let count = |name: &str| summary["queries"][name].as_u64().unwrap();
        assert_eq!((count("answered"), count("sent")), (20, 40), "{transport}: {summary}");
        assert!(summary["connections"]["opened"].as_u64().unwrap() > 1, "{transport}: a reset closes: {summary}");
    }
    let report = server.served.end().0;
    let made = |fault: &Value| (fault["fault"].as_str().unwrap().to_owned(), fault["queries"].as_u64().unwrap());
    for (fault, queries) in report["faults"].as_array().unwrap().iter().map(made) {
        assert!(queries >= 10, "{fault}: {queries}");
    }
    assert!(report["quic"]["failed"].as_u64().unwrap() > 0, "{report}");
}

/// Idle connections end, and the longest idle one makes room for another.
#[test]
fn connections_of_https_and_quic_are_bounded_and_end_when_idle() {
    let server = Server::start(&["--connections", "1", "--idle-timeout", "1s"]);
    for (what, option) in [("HTTPS", "+https"), ("QUIC", "+quic")] {
        let two = [option, "www.example", "A", "+keepopen", "+idle=3", "ns.example", "A"];
        let said = server.kdig_over(what, &two[..3]);
        assert!(said.contains("192.0.2.80"), "{said}");
    }
    let raw = std::net::TcpStream::connect(server.served.over("HTTPS")).unwrap();
    let begun = std::time::Instant::now();
    raw.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    std::io::Read::read_to_end(&mut &raw, &mut Vec::new()).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(15), "a client that says nothing is idle");
    let _held = std::net::TcpStream::connect(server.served.over("HTTPS")).unwrap();
    let said = server.kdig_over("QUIC", &["www.example", "A"]);
    assert!(said.contains("192.0.2.80"), "{said}");
    let report = server.served.end().0;
    let count = |kind: &str, end: &str| report[kind][end].as_u64().unwrap();
    assert_eq!((count("tcp", "accepted"), count("quic", "accepted")), (3, 2), "{report}");
    assert!(count("tcp", "idle") >= 1 && count("tcp", "evicted") + count("tcp", "idle") >= 2, "{report}");
}

const WWW: &[&str] = &["www.example", "A"];

#[test]
fn stock_forwarders_ask_over_tls_and_verify() {
    let server = Server::start(&[]);
    let (folder, tls) = (server.folder.path(), server.served.over("TLS").port());
    for (name, wanted) in [("server.ldplayer.test", "192.0.2.80"), ("other.test", "SERVFAIL")] {
        let upstream =
            format!("forward-zone:\n name: .\n forward-tls-upstream: yes\n forward-addr: 127.0.0.1@{tls}#{name}\n");
        let (mut unbound, port) = unbound(folder, " tls-cert-bundle: ca.pem\n", &upstream);
        let said = asked(&mut unbound, port, WWW);
        assert!(said.contains(wanted), "{name}: {said}");
    }
    let port = free_address().port();
    let configuration = format!(
        "net.listen('127.0.0.1', {port})\ncache.open(1048576, 'lmdb://.')\ntrust_anchors.remove('.')\nlog_level('crit')\n\
         policy.add(policy.all(policy.TLS_FORWARD({{{{ '127.0.0.1@{tls}', hostname = 'server.ldplayer.test', ca_file = 'ca.pem' }}}})))\n"
    );
    fs::write(folder.join("kresd.conf"), configuration).unwrap();
    let mut kresd = started("kresd", &["-n", "-c", "kresd.conf", "."], folder);
    let said = asked(&mut kresd, port, WWW);
    assert!(said.contains("192.0.2.80"), "{said}");
    let transports = server.end();
    assert!(transports["dot"].as_u64().unwrap() >= 2 && transports["udp"] == 0, "{transports}");
}

#[test]
fn dnsdist_asks_over_tls_and_https_and_verifies() {
    let server = Server::start(&[]);
    let folder = server.folder.path();
    let [tls, https] = ["TLS", "HTTPS"].map(|what| server.served.over(what).port());
    for (upstream, path, name, wanted) in [
        (tls, "", "server.ldplayer.test", "192.0.2.80"),
        (https, "dohPath = '/dns-query', ", "server.ldplayer.test", "192.0.2.80"),
        (https, "dohPath = '/dns-query', ", "other.test", ""),
    ] {
        let port = free_address().port();
        let configuration = format!(
            "setLocal('127.0.0.1:{port}')\nnewServer({{ address = '127.0.0.1:{upstream}', tls = 'openssl', {path}subjectName = '{name}', \
             caStore = 'ca.pem', healthCheckMode = 'up' }})\n"
        );
        fs::write(folder.join("dnsdist.conf"), configuration).unwrap();
        let mut dnsdist = started("dnsdist", &["--supervised", "-C", "dnsdist.conf"], folder);
        if wanted.is_empty() {
            let said = served::dig(port, &["+time=3", "www.example", "A"]);
            assert!(!said.contains("192.0.2.80") && dnsdist.0.try_wait().unwrap().is_none(), "{said}");
        } else {
            let said = asked(&mut dnsdist, port, WWW);
            assert!(said.contains(wanted), "{path}: {said}");
        }
    }
    let transports = server.end();
    assert!(transports["dot"].as_u64() > Some(0) && transports["doh2"].as_u64() > Some(0), "{transports}");
}

/// Another implementation of QUIC and HTTP/3.
#[test]
fn dnsproxy_asks_over_each() {
    let Some(program) = built_server("dnsproxy") else { return };
    let server = Server::start(&[]);
    let folder = server.folder.path();
    let [tls, https, quic] = ["TLS", "HTTPS", "QUIC"].map(|what| server.served.over(what).port());
    for upstream in [
        format!("tls://127.0.0.1:{tls}"),
        format!("https://127.0.0.1:{https}/dns-query"),
        format!("h3://127.0.0.1:{https}/dns-query"),
        format!("quic://127.0.0.1:{quic}"),
    ] {
        let port = free_address().port().to_string();
        let options = ["-l", "127.0.0.1", "-p", &port, "--insecure", "-u", &upstream];
        let mut dnsproxy = started(&program, &options, folder);
        let said = asked(&mut dnsproxy, port.parse().unwrap(), WWW);
        assert!(said.contains("192.0.2.80"), "{upstream}: {said}");
    }
    let transports = server.end();
    for transport in ["dot", "doh2", "doh3", "doq"] {
        assert!(transports[transport].as_u64().unwrap() >= 1, "{transport}: {transports}");
    }
}

/// In a network and with files of its own, it asks port 853 and trusts our certificate.
const RESOLVED: &str = r#"
set -e
ip link set lo up
ip link add d0 type veth peer name d1
ip address add 198.51.100.1/24 dev d0
ip link set d0 up
ip link set d1 up
ip route add default dev d0
"$LDPLAYER" serve zones --all-zones-everywhere --listen 127.0.0.1:5300 --dot 127.0.0.1 --certificate ca.pem --coverage coverage.json &
server=$!
mount -t tmpfs none /run
mkdir -p /run/systemd/netif/links systemd /etc/systemd
printf '[Resolve]\nDNS=127.0.0.1#%s\nDNSOverTLS=yes\nFallbackDNS=\nCache=no\nDNSSEC=no\nLLMNR=no\nMulticastDNS=no\n' "$NAME" >systemd/resolved.conf
mount --bind systemd /etc/systemd
for table in passwd:x:990:990::/:/usr/sbin/nologin group:x:990:; do
    { cat /etc/${table%%:*}; echo systemd-resolve:${table#*:}; } >${table%%:*}
    mount --bind ${table%%:*} /etc/${table%%:*}
done
until [ -s ca.pem ]; do sleep 0.1; done
export SSL_CERT_FILE=$PWD/ca.pem
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || mount --bind ca.pem /etc/ssl/certs/ca-certificates.crt
LD_LIBRARY_PATH=${RESOLVED%/*} "$RESOLVED" &
until dig @127.0.0.53 +tries=1 +time=1 localhost A >/dev/null; do sleep 0.1; done
dig @127.0.0.53 +tries=1 +time=10 www.example A || true
kill $server
wait $server
"#;

/// Runs a script in a network of its own, in a folder with the zone and more files: what it said, and the coverage report of its server.
fn in_a_network(script: &str, files: &[(&str, &str)], variables: &[(&str, &str)]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("zones")).unwrap();
    for (name, text) in [("zones/example.zone", ZONE)].iter().chain(files) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut command = Command::new("timeout");
    command.args(["60", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let path = format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default());
    command.args(["sh", "-c", script]).current_dir(folder.path()).env("PATH", path);
    command.env("LDPLAYER", env!("CARGO_BIN_EXE_ldplayer")).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let report = fs::read(folder.path().join("coverage.json")).unwrap_or_else(|error| panic!("{error}: {said}"));
    (said, serde_json::from_slice(&report).unwrap())
}

#[test]
fn systemd_resolved_asks_over_tls_and_verifies() {
    let Some(resolved) = built_server("systemd-resolved") else { return };
    for (name, is_answered) in [("server.ldplayer.test", true), ("other.test", false)] {
        let (said, report) = in_a_network(RESOLVED, &[], &[("RESOLVED", resolved.to_str().unwrap()), ("NAME", name)]);
        assert_eq!(said.contains("192.0.2.80"), is_answered, "{name}: {said}");
        assert_eq!(report["transports"]["dot"].as_u64() > Some(0), is_answered, "{name}: {report}");
    }
}

/// Encryption between a resolver and authoritative servers, which RFC 9539 describes: Unbound does so for a zone that its configuration names.
#[test]
fn unbound_asks_an_authoritative_server_over_tls() {
    let server = Server::start(&[]);
    let tls = server.served.over("TLS").port();
    let upstream = format!(
        "stub-zone:\n name: example.\n stub-tls-upstream: yes\n stub-addr: 127.0.0.1@{tls}#server.ldplayer.test\n"
    );
    let (mut unbound, port) = unbound(server.folder.path(), " tls-cert-bundle: ca.pem\n", &upstream);
    let said = asked(&mut unbound, port, WWW);
    assert!(said.contains("192.0.2.80"), "{said}");
    let transports = server.end();
    assert!(transports["dot"].as_u64() > Some(0) && transports["udp"] == 0, "{transports}");
}

/// It asks port 853 of servers whose names are below this one, and does not look at their certificates.
const RECURSOR: &str = r#"
set -e
ip link set lo up
"$LDPLAYER" serve zones --all-zones-everywhere --listen 127.0.0.1 --dot 127.0.0.1 --coverage coverage.json &
server=$!
echo '. 60 NS a.test.
a.test. 60 A 127.0.0.1' >hints
pdns_recursor --config-dir=. --socket-dir=. --daemon=no --local-address=127.0.0.1 --local-port=5301 --hint-file=hints \
    --dont-query= --dot-to-auth-names=test --security-poll-suffix= --dnssec=off --threads=1 --setuid= --setgid= >recursor.log 2>&1 &
until dig @127.0.0.1 -p 5301 +tries=1 +time=1 version.bind CH TXT | grep -q status:; do sleep 0.1; done
dig @127.0.0.1 -p 5301 +tries=1 +time=10 www.example A || true
kill $server
wait $server
"#;

#[test]
fn powerdns_recursor_asks_an_authoritative_server_over_tls() {
    let has_it = |folder: &str| std::path::Path::new(folder).join("pdns_recursor").exists();
    if !["/usr/sbin", "/usr/local/sbin", "/usr/bin"].into_iter().any(has_it) {
        eprintln!("NOT TESTED with PowerDNS Recursor, which is not here");
        return;
    }
    let root = ". SOA a.test. h. 1 2 3 4 60\n. NS a.test.\nexample. NS ns.example.\nns.example. A 127.0.0.1\n";
    let (said, report) = in_a_network(RECURSOR, &[("zones/root.zone", &format!("$TTL 60\n{root}"))], &[]);
    assert!(said.contains("192.0.2.80"), "{said}");
    assert!(report["transports"]["dot"].as_u64() > Some(0), "{report}");
}
