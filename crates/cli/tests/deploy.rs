//! What `deploy/` has for many hosts passes the linters of those who read it, and lets nobody in who has no password.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output as Said};
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_emulate::stock::{Output, Process};
use ldplayer_net::programs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// As `deploy/README.md` has them made.
const PASSWORDS: [(&str, &str); 2] = [("NATS_PASSWORD", "a12e4b6"), ("ROUTES_PASSWORD", "a98e76c")];
const SERVERS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_manifest_and_the_play_pass_their_linters() {
    let checked = Command::new(Path::new(ROOT).join("scripts/deploy.sh")).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));
    assert!(checked.status.success(), "{said}");
    assert!(said.contains("agents.yaml") && said.contains("Passed"), "what was checked is not told: {said}");
}

/// The cluster's port needed neither a password nor a certificate: a server of a stranger joined, and its clients commanded the agents.
#[test]
fn the_manifest_s_servers_let_nobody_in_without_a_password_by_any_port() {
    let manifest = fs::read_to_string(Path::new(ROOT).join("deploy/kubernetes/agents.yaml")).unwrap();
    let configuration = block(&manifest, "  nats.conf: |\n");
    assert!(!PASSWORDS.iter().any(|(_, password)| manifest.contains(password)));
    nobody_gets_in(|cluster, at| {
        let ports = cluster.ports[at];
        let text = configuration
            .replace("0.0.0.0:4222", &format!("127.0.0.1:{}", ports.client))
            .replace("0.0.0.0:8222", &format!("127.0.0.1:{}", ports.monitor))
            .replace("0.0.0.0:6222", &format!("127.0.0.1:{}", ports.routes));
        // As Kubernetes expands the manifest's variables.
        let mut variables: Vec<(String, String)> =
            PASSWORDS.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        variables.push(("POD_NAME".to_owned(), format!("nats-{at}")));
        for route in 0..SERVERS {
            let url = block_value(&manifest, &format!("- name: ROUTE_{route}\n"));
            let url = url.replace("$(ROUTES_PASSWORD)", PASSWORDS[1].1);
            let far = format!("127.0.0.1:{}", cluster.ports[route].routes);
            variables.push((format!("ROUTE_{route}"), url.replace(&format!("nats-{route}.nats:6222"), &far)));
        }
        (text, variables)
    });
}

#[test]
fn the_play_s_servers_let_nobody_in_without_a_password_by_any_port() {
    let linted = Command::new(Path::new(ROOT).join("scripts/deploy.sh")).output().unwrap();
    assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stderr));
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let python = Path::new(ROOT).join(target).join("tools/deploy/bin/python");
    nobody_gets_in(|cluster, at| {
        // The template as Ansible renders it, with a server's ports on this host.
        let script = "import jinja2, sys\n\
            hosts = ['nats-0', 'nats-1', 'nats-2']\n\
            known = dict(groups={'nats': hosts}, hostvars={h: {'ansible_host': h} for h in hosts}, nats_password=sys.argv[2],\n\
            nats_routes_password=sys.argv[3], inventory_hostname=sys.argv[4])\n\
            print(jinja2.Environment(trim_blocks=True).from_string(open(sys.argv[1]).read()).render(**known))";
        let template = Path::new(ROOT).join("deploy/ansible/templates/nats.conf.j2");
        let name = format!("nats-{at}");
        let arguments = [template.to_str().unwrap(), PASSWORDS[0].1, PASSWORDS[1].1, &name];
        let rendered = Command::new(&python).args(["-c", script]).args(arguments).output().unwrap();
        assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
        let mut text = String::from_utf8(rendered.stdout).unwrap();
        for (other, ports) in cluster.ports.iter().enumerate() {
            text = text.replace(&format!("@nats-{other}:6222"), &format!("@127.0.0.1:{}", ports.routes));
        }
        let ports = cluster.ports[at];
        let text = text
            .replace("0.0.0.0:4222", &format!("127.0.0.1:{}", ports.client))
            .replace("0.0.0.0:6222", &format!("127.0.0.1:{}", ports.routes));
        (format!("{text}\nhttp: \"127.0.0.1:{}\"\n", ports.monitor), Vec::new())
    });
}

/// The ports of a server on this host.
#[derive(Clone, Copy)]
struct Ports {
    client: u16,
    routes: u16,
    monitor: u16,
}

struct Cluster {
    folder: tempfile::TempDir,
    ports: Vec<Ports>,
}

impl Cluster {
    /// Starts a server with a configuration, of which the paths are put below the folder.
    fn start(&self, name: &str, text: &str, variables: &[(String, String)]) -> Process {
        let folder = self.folder.path();
        let text = text
            .replace("\"/data\"", &format!("\"{}\"", folder.join(name).display()))
            .replace("\"/var/lib/nats\"", &format!("\"{}\"", folder.join(name).display()))
            .replace("/etc/nats-tls", folder.join("certificates").to_str().unwrap())
            .replace("60GB", "1GB");
        let file = folder.join(format!("{name}.conf"));
        fs::write(&file, text).unwrap();
        let mut command = Command::new(programs::find("nats-server").unwrap());
        command.arg("-c").arg(&file).envs(variables.iter().map(|(name, value)| (name, value)));
        Process::start(name, &mut command, Output::Log(folder.join(format!("{name}.log")))).unwrap()
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default()
    }
}

/// Starts the servers as `render` has them configured, and tries each of their ports.
fn nobody_gets_in(render: impl Fn(&Cluster, usize) -> (String, Vec<(String, String)>)) {
    let cluster =
        Cluster { folder: tempfile::tempdir().unwrap(), ports: (0..=SERVERS).map(|_| free_ports()).collect() };
    let certificates = cluster.folder.path().join("certificates");
    make_certificate(&certificates);
    let _servers: Vec<Process> = (0..SERVERS)
        .map(|at| {
            let (text, variables) = render(&cluster, at);
            cluster.start(&format!("nats-{at}"), &text, &variables)
        })
        .collect();
    let [first, ..] = cluster.ports[..] else { unreachable!() };
    wait_until(|| routes(first.monitor) >= SERVERS as u64 - 1, &cluster);
    let agents = |url: &str| ldplayer(&["agents", "--within", "1s", "--nats", url]);

    // Who has the password is a client.
    let with = format!("nats://ldplayer:{}@127.0.0.1:{}", PASSWORDS[0].1, first.client);
    wait_until(|| said(&agents(&with)).contains("no agent"), &cluster);

    // By the port for clients: without a password, and with that of the cluster.
    for url in [
        format!("nats://127.0.0.1:{}", first.client),
        format!("nats://routes:{}@127.0.0.1:{}", PASSWORDS[1].1, first.client),
    ] {
        let refused = agents(&url);
        assert!(refused.status.code() == Some(3) && said(&refused).contains("credentials"), "{}", said(&refused));
    }

    // By the port of the cluster: a server without a password, with one but without a certificate, and with a certificate of its own.
    let own = cluster.folder.path().join("own");
    let certificate = "cert_file: \"own/tls.crt\", key_file: \"own/tls.key\", ca_file: \"own/ca.crt\", verify: true";
    let certificate = format!("tls {{ {} }}", certificate.replace("own/", &format!("{}/", own.display())));
    make_certificate(&own);
    for (number, (user, tls)) in
        [("", ""), ("routes:a98e76c@", ""), ("routes:a98e76c@", certificate.as_str())].into_iter().enumerate()
    {
        let evil = cluster.ports[SERVERS];
        let text = format!(
            "server_name: evil\nlisten: \"127.0.0.1:{}\"\nhttp: \"127.0.0.1:{}\"\ncluster {{ name: ldplayer, listen: \"127.0.0.1:{}\", {tls}\nroutes: [ \"nats://{user}127.0.0.1:{}\" ] }}\n",
            evil.client, evil.monitor, evil.routes, first.routes
        );
        let name = format!("evil-{number}");
        let _evil = cluster.start(&name, &text, &[]);
        // It has tried, and tried again.
        wait_until(
            || cluster.log(&name).matches("connection closed").count() >= 2 || routes(evil.monitor) > 0,
            &cluster,
        );
        assert_eq!(routes(evil.monitor), 0, "{}", cluster.log(&name));
        assert_eq!(routes(first.monitor), SERVERS as u64 - 1);
    }

    // By the port of the monitor: what it shows has no password in it.
    for page in ["varz", "connz?auth=true", "routez"] {
        let shown = get(first.monitor, page);
        assert!(!PASSWORDS.iter().any(|(_, password)| shown.contains(password)), "{page}");
    }
}

fn make_certificate(directory: &Path) {
    let made = Command::new(Path::new(ROOT).join("deploy/certificates.sh")).arg(directory).arg("127.0.0.1").status();
    assert!(made.unwrap().success());
}

fn free_ports() -> Ports {
    let port = || common::free_address().port();
    Ports { client: port(), routes: port(), monitor: port() }
}

fn wait_until(is_so: impl Fn() -> bool, cluster: &Cluster) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{}", cluster.log("nats-0"));
        thread::sleep(Duration::from_millis(100));
    }
}

/// The servers that a server is joined with, by their names.
fn routes(monitor: u16) -> u64 {
    let shown: serde_json::Value = serde_json::from_str(&get(monitor, "routez")).unwrap_or_default();
    let mut names: Vec<&str> =
        shown["routes"].as_array().into_iter().flatten().filter_map(|route| route["remote_id"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.len() as u64
}

/// A page of the monitor; nothing while it does not listen.
fn get(monitor: u16, page: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", monitor)) else { return String::new() };
    let mut answer = String::new();
    let asked = write!(stream, "GET /{page} HTTP/1.0\r\n\r\n").and_then(|()| stream.read_to_string(&mut answer));
    asked.map_or_else(|_| String::new(), |_| answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned())
}

/// A block of a manifest, without its indentation.
fn block(manifest: &str, head: &str) -> String {
    let (_, rest) = manifest.split_once(head).unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    ") || line.is_empty());
    lines.map(|line| line.trim_start_matches("    ").to_owned() + "\n").collect()
}

/// The value of a variable of a manifest.
fn block_value<'a>(manifest: &'a str, head: &str) -> &'a str {
    let (_, rest) = manifest.split_once(head).unwrap();
    rest.lines().next().unwrap().trim().trim_start_matches("value: ")
}

fn ldplayer(arguments: &[&str]) -> Said {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).env_remove("NATS_URL").output().unwrap()
}

fn said(output: &Said) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
