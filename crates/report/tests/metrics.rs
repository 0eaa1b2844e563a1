//! The endpoint for Prometheus over real sockets: its format, its names, and clients that are slow or silent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ldplayer_core::{Outcome, RunTime, Status};
use ldplayer_report::metrics::{CLIENTS, ConnectionFigures, Endpoint, Latencies, Listener, Snapshot, WorkerFigures};
use serde_json::{Value, json};

fn snapshot() -> Snapshot {
    let worker = |sent| WorkerFigures {
        sent,
        answered: sent - 2,
        timed_out: 1,
        failed: 1,
        lag_s: 0.0005,
        ..WorkerFigures::default()
    };
    Snapshot {
        run_s: 1.5,
        read: 45,
        workers: vec![worker(10), worker(30)],
        agents: Vec::new(),
        connections: ConnectionFigures {
            open: 3,
            opened: 9,
            closed_by_client: 4,
            closed_by_server: 2,
            ..Default::default()
        },
    }
}

fn answered(us: i64) -> Outcome {
    let answered = Some(RunTime(us * 1_000));
    Outcome { status: Status::Answered, submitted: Some(RunTime(0)), answered, ..Outcome::EMPTY }
}

/// An attempt of a lookup, by its number.
fn attempt(number: u8) -> Outcome {
    Outcome { attempt: Some(number), ..answered(50) }
}

fn endpoint() -> (Endpoint, SocketAddr) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let latencies = Arc::new(Latencies::default());
    latencies.observe(&[answered(50), answered(51), answered(700), answered(60_000_000), Outcome::EMPTY]);
    latencies.observe(&[attempt(0), attempt(1), attempt(2)]);
    (listener.serve(latencies, snapshot).unwrap(), address)
}

fn ask(address: SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// The samples of a page, each of a family that was announced with its help and type before.
fn samples(page: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut families) = (BTreeMap::new(), Vec::new());
    for line in page.lines() {
        if let Some(head) = line.strip_prefix("# HELP ") {
            families.push(head.split(' ').next().unwrap().to_owned());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(families.last().map(String::as_str), Some(name));
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = families.last().unwrap();
            assert!(name.starts_with(family.as_str()), "{name} in {family}");
            assert!(samples.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{name} twice");
        }
    }
    let distinct: BTreeSet<&String> = families.iter().collect();
    assert_eq!(distinct.len(), families.len(), "a family stands once");
    samples
}

#[test]
fn the_figures_are_in_the_text_format() {
    let (_endpoint, address) = endpoint();
    let answer = ask(address, "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let samples = samples(body);
    for (name, value) in [
        ("ldplayer_run_seconds", 1.5),
        ("ldplayer_queries_read_total", 45.0),
        ("ldplayer_queries_sent_total{worker=\"0\"}", 10.0),
        ("ldplayer_queries_answered_total{worker=\"1\"}", 28.0),
        ("ldplayer_lag_seconds{worker=\"0\"}", 0.0005),
        ("ldplayer_attempts_total{kind=\"first\"}", 1.0),
        ("ldplayer_attempts_total{kind=\"retry\"}", 2.0),
        ("ldplayer_connections_closed_total{by=\"client\"}", 4.0),
        ("ldplayer_latency_seconds_bucket{le=\"0.00005\"}", 1.0),
        ("ldplayer_latency_seconds_bucket{le=\"0.0001\"}", 2.0),
        ("ldplayer_latency_seconds_bucket{le=\"0.001\"}", 3.0),
        ("ldplayer_latency_seconds_bucket{le=\"5\"}", 3.0),
        ("ldplayer_latency_seconds_bucket{le=\"+Inf\"}", 4.0),
        ("ldplayer_latency_seconds_count", 4.0),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name} in {body}");
    }
    assert!((samples["ldplayer_latency_seconds_sum"] - 60.000_801).abs() < 1e-9);
}

#[test]
fn other_paths_and_methods_are_refused() {
    let (_endpoint, address) = endpoint();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("GET /metrics/more HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("\r\n\r\n", "405"),
        ("GET /metrics?now=1 HTTP/1.0\r\n\r\n", "200"),
    ] {
        assert_eq!(ask(address, request).split(' ').nth(1), Some(status), "{request}");
    }
}

/// Clients that say nothing, half of a request, or too much of one, do not keep the next one from its answer.
#[test]
fn silent_clients_do_not_hold_the_endpoint() {
    let (endpoint, address) = endpoint();
    let mut silent: Vec<TcpStream> = (1..CLIENTS).map(|_| TcpStream::connect(address).unwrap()).collect();
    silent[0].write_all(b"GET /metr").unwrap();
    // Only some of it is read, so the rest may find the connection closed.
    let _ = silent[1].write_all(&[b'x'; 64 << 10]);
    assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").contains("ldplayer_run_seconds 1.5"));
    // Ending waits for nobody: the clients above are still there.
    drop(endpoint);
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

/// What is above the number of clients is closed, and what was silent for too long, too.
#[test]
fn there_are_never_more_clients_than_allowed() {
    let (_endpoint, address) = endpoint();
    let mut clients: Vec<TcpStream> = (0..CLIENTS + 4).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut octets = [0; 16];
    for client in &mut clients {
        // Either way the endpoint ends the connection; a reset is an end, too.
        assert_eq!(client.read(&mut octets).unwrap_or(0), 0);
    }
}

#[test]
fn figures_of_several_hosts_are_added_up_and_name_their_agents() {
    let mut all = Snapshot { run_s: 2.5, ..Snapshot::default() };
    all.add("a\"1", &snapshot());
    all.add("b", &snapshot());
    let (one, other) = (Latencies::default(), Latencies::default());
    one.observe(&[answered(50), answered(700)]);
    other.observe(&[answered(51), answered(60_000_000), Outcome::EMPTY, attempt(1)]);
    let shown = Arc::new(Latencies::default());
    let told = [one.counts(), other.counts()];
    assert_eq!(shown.show(told.iter()).len(), 4);
    // What is told anew takes the place of what was told before.
    assert_eq!(shown.show(told.iter()).len(), 4);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let _endpoint = listener.serve(shown, move || all.clone()).unwrap();
    let page = ask(address, "GET /metrics HTTP/1.1\r\n\r\n");
    let samples = samples(page.split_once("\r\n\r\n").unwrap().1);
    assert_eq!(samples["ldplayer_queries_sent_total{worker=\"2\",agent=\"b\"}"], 10.0);
    assert_eq!(samples["ldplayer_queries_sent_total{worker=\"1\",agent=\"a\\\"1\"}"], 30.0);
    assert_eq!((samples["ldplayer_connections_open"], samples["ldplayer_connections_opened_total"]), (6.0, 18.0));
    assert_eq!((samples["ldplayer_latency_seconds_count"], samples["ldplayer_run_seconds"]), (4.0, 2.5));
    assert_eq!(samples["ldplayer_attempts_total{kind=\"retry\"}"], 1.0);
}

/// The page of two agents, so that every label is there.
fn page_of_agents() -> String {
    let mut all = Snapshot::default();
    all.add("a", &snapshot());
    all.add("b", &snapshot());
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let _endpoint = listener.serve(Arc::default(), move || all.clone()).unwrap();
    ask(address, "GET /metrics HTTP/1.1\r\n\r\n").split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn of_repository(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
}

/// Families as they are served: name, type, labels but for `agent`, which stands above the table.
fn served() -> BTreeSet<(String, String, String)> {
    let page = page_of_agents();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned(), labels_of(&page, name))).collect()
}

/// The names of the labels of a family's samples, each once.
fn labels_of(page: &str, family: &str) -> String {
    let samples = page.lines().filter(|line| line.starts_with(family));
    let labels = samples.filter_map(|line| Some(line.split_once('{')?.1.split_once('}')?.0));
    let names = labels.flat_map(|labels| labels.split(',').map(|label| label.split('=').next().unwrap()));
    let names: BTreeSet<&str> = names.filter(|name| *name != "agent").collect();
    names.into_iter().collect::<Vec<_>>().join(" ")
}

/// Every `ldplayer_…` in a PromQL expression, by its family.
fn families_in(promql: &str) -> BTreeSet<String> {
    let words = promql.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let names = words.filter(|word| word.starts_with("ldplayer_"));
    let family = |name: &str| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
        of_histogram.unwrap_or(name).to_owned()
    };
    names.map(family).collect()
}

/// The expressions of all panels.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

fn dashboard() -> Value {
    serde_json::from_str(&of_repository("deploy/grafana/ldplayer.json")).unwrap()
}

#[test]
fn each_family_is_documented_with_its_type_and_labels() {
    let page = of_repository("docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `ldplayer_"));
    let cells = rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect::<Vec<_>>());
    let documented: BTreeSet<_> = cells.map(|cells| (cells[1].clone(), cells[2].clone(), cells[3].clone())).collect();
    assert_eq!(documented, served());
}

#[test]
fn the_dashboard_shows_every_family_and_no_other() {
    let expressions = expressions(&dashboard());
    let shown: BTreeSet<String> = expressions.iter().flat_map(|expression| families_in(expression)).collect();
    assert_eq!(shown, served().into_iter().map(|(name, ..)| name).collect());
    for expression in expressions {
        let (metrics, chosen) =
            (expression.matches("ldplayer_").count(), expression.matches("{job=~\"$job\", ").count());
        assert_eq!(metrics, chosen, "{expression} ignores the runs that are chosen above the panels");
    }
}

/// What Grafana wants of a dashboard that it imports: panels with numbers of their own, on a grid of 24 columns.
#[test]
fn the_panels_of_the_dashboard_are_apart() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let numbers: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + w <= 24, "{}", panel["title"]);
        let places = (x..x + w).flat_map(|column| (y..y + h).map(move |row| (column, row)));
        places.for_each(|place| assert!(taken.insert(place), "{} covers another panel", panel["title"]));
    }
}

#[test]
fn promtool_finds_no_fault_with_the_page() {
    promtool(&["check", "metrics"], page_of_agents());
}

/// As rules, since that is how promtool reads expressions.
#[test]
fn promtool_reads_the_expressions_of_dashboard_and_documentation() {
    let page = of_repository("docs/metrics.md");
    let table = page.split("| question | PromQL |").nth(1).unwrap().lines().skip(2);
    let documented =
        table.take_while(|line| line.starts_with('|')).map(|line| line.split('`').nth(1).unwrap().to_owned());
    let expressions: Vec<String> = documented.chain(expressions(&dashboard())).collect();
    assert!(expressions.len() > 20, "{expressions:?}");
    let rule = |(number, expression): (usize, &String)| {
        let filled = [("$__rate_interval", "1m"), ("$job", ".+"), ("$instance", ".+")];
        let expression = filled.iter().fold(expression.clone(), |text, (name, value)| text.replace(name, value));
        json!({ "record": format!("test:expression:{number}"), "expr": expression })
    };
    let rules: Vec<Value> = expressions.iter().enumerate().map(rule).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    // JSON is YAML.
    fs::write(&file, json!({ "groups": [{ "name": "test", "rules": rules }] }).to_string()).unwrap();
    promtool(&["check", "rules", file.to_str().unwrap()], String::new());
}

/// Runs promtool, which fails on what it finds.
fn promtool(arguments: &[&str], input: String) {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool: scripts/need.sh promtool installs it");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{input}");
}
