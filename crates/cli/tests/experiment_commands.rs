//! Experiments with servers that the user's own commands start, and with those of `data/servers`.

#[path = "common/built_server.rs"]
mod built_server;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const ZONE: &str =
    "example. 60 SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.1\n";
/// NSD as a user would write it.
const OWN: &str = r#"
[server.own]
kind = "command"
command = "exec nsd -d -c {{ config }}"
zones = "zones"
threads = 2
version = "nsd -v"
transports = ["udp", "tcp", "dot"]
config = '''
server:
{% for at in listen %}  ip-address: {{ at.ip }}@{{ port }}
{% if tls %}  ip-address: {{ at.ip }}@{{ tls.port }}
{% endif %}{% endfor %}{% if tls %}  tls-port: {{ tls.port }}
  tls-service-key: "{{ key }}"
  tls-service-pem: "{{ certificate }}"
{% endif %}  username: ""
  database: ""
  zonesdir: "{{ zones }}"
  pidfile: "{{ dir }}/pid"
  xfrdfile: "{{ dir }}/xfrd"
  zonelistfile: "{{ dir }}/list"
  cookie-secret-file: "{{ dir }}/cookies"
  server-count: {{ threads }}
remote-control:
  control-enable: no
{% for zone in zones %}zone:
  name: "{{ zone.apex }}"
  zonefile: "{{ zone.file }}"
{% endfor %}'''
"#;

/// Makes an experiment of two queries; `path` is searched for programs, too.
fn made(folder: &Path, text: &str, path: &Path) -> Output {
    fs::create_dir(folder.join("zones")).unwrap();
    fs::write(folder.join("zones/example.zone"), ZONE).unwrap();
    let trace =
        "time\tsrc\tqname\tqtype\tflags\n1\t192.0.2.1\tns.example.\tA\trd\n1.1\t192.0.2.2\tno.example.\tA\trd\n";
    fs::write(folder.join("trace.tsv"), trace).unwrap();
    fs::write(folder.join("experiment.toml"), format!("trace = 'trace.tsv'\nmax_retries = 0\n{text}")).unwrap();
    let paths = std::env::var("PATH").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.env("PATH", format!("{paths}:{}", path.display()));
    command.arg("experiment").arg(folder.join("experiment.toml")).arg("-o").arg(folder.join("out"));
    command.output().unwrap()
}

/// The record, whose every run had both answers.
fn answered(folder: &Path, output: &Output) -> Value {
    // Whether a busy machine was on time is the verdict's to say.
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
    let read = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
    let record = read(&folder.join("out/experiment.json"));
    for run in record["runs"].as_array().unwrap() {
        let directory = run["directory"].as_str().unwrap_or_else(|| panic!("{run}: {said}"));
        let summary = &read(&folder.join("out").join(directory).join("run.json"))["summary"];
        let rcodes = &summary["rcodes"];
        assert_eq!((&rcodes["NOERROR"], &rcodes["NXDOMAIN"]), (&1.into(), &1.into()), "{directory}: {summary}");
    }
    record
}

#[test]
fn any_server_is_started_by_a_command_and_says_when_it_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let ready = OWN.replace("server.own]", "server.log]").replace("version =", "ready = 'log: nsd started'\nversion =");
    let name = OWN.replace("server.own]", "server.name]").replace("version =", "ready = 'example.'\nversion =");
    let matrix = "[matrix]\nserver = ['own', 'log', 'name']\ntransport = ['udp', 'dot']\n";
    let output = made(folder.path(), &format!("{OWN}{ready}{name}{matrix}"), Path::new("/"));
    let record = answered(folder.path(), &output);
    assert_eq!(record["runs"].as_array().unwrap().len(), 6, "{record}");
    assert!(record["versions"]["own"].as_str().unwrap().contains("NSD"), "{}", record["versions"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("starts `exec nsd -d -c {{ config }}`"), "{said}");
}

#[test]
fn a_command_that_ends_or_cannot_be_made_is_told_in_a_line() {
    for (command, told) in [
        ("echo no such thing; exit 7", "server.own: sh ended (exit status: 7)"),
        ("exec nsd {{ nothing }}", "undefined value"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let text = OWN.replace("exec nsd -d -c {{ config }}", command);
        let output = made(folder.path(), &text, Path::new("/"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(told), "{command}: {said}");
        assert_ne!(output.status.code(), Some(0), "{said}");
    }
}

#[test]
fn dnsmasq_and_dnsproxy_are_kinds_of_their_own() {
    let Some(program) = built_server::built_server("dnsproxy") else { return };
    let folder = tempfile::tempdir().unwrap();
    let text = "exclude = [{ server = 'mask', transport = 'dot' }, { server = 'mask', transport = 'doq' }]\n\
        [server.nsd]\nkind = 'nsd'\nzones = 'zones'\n\
        [server.mask]\nkind = 'dnsmasq'\nbackend = 'nsd'\n[server.front]\nkind = 'dnsproxy'\nbackend = 'nsd'\n\
        [matrix]\nserver = ['mask', 'front']\ntransport = ['udp', 'tcp', 'dot', 'doq']\n";
    let output = made(folder.path(), text, program.parent().unwrap());
    let record = answered(folder.path(), &output);
    assert_eq!(record["runs"].as_array().unwrap().len(), 6, "{record}");
    assert!(record["versions"]["mask"].as_str().unwrap().contains("Dnsmasq"), "{}", record["versions"]);
}

#[test]
fn coredns_and_hickory_are_kinds_of_their_own() {
    for (kind, program) in [("coredns", "coredns"), ("hickory", "hickory-dns")] {
        let Some(program) = built_server::built_server(program) else { continue };
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "[server.own]\nkind = '{kind}'\nzones = 'zones'\nthreads = 2\n\
             [matrix]\ntransport = ['udp', 'tcp', 'dot', 'doh2', 'doq']\n"
        );
        let output = made(folder.path(), &text, program.parent().unwrap());
        let record = answered(folder.path(), &output);
        assert_eq!(record["runs"].as_array().unwrap().len(), 5, "{record}");
        let version = record["versions"]["own"].as_str().unwrap().to_lowercase();
        assert!(version.contains(kind), "{version}");
    }
}
