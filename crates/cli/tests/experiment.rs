//! `ldplayer experiment`: runs for real, what is not run again, and what goes wrong on the way.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use common::data;
use ldplayer_emulate::stock::Kind;
use serde_json::Value;

const ZONE: &str =
    "example. 60 SOA ns.example. h.example. 1 2 3 4 5\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.1\n";

/// A folder with a trace of three queries and a zone that has their answers.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trace = "time\tsrc\tqname\tqtype\n1\t192.0.2.1\texample.\tNS\n1.1\t192.0.2.2\tns.example.\tA\n1.2\t2001:db8::1\tno.example.\tA\n";
        fs::write(folder.path().join("trace.tsv"), trace).unwrap();
        fs::create_dir(folder.path().join("zones")).unwrap();
        fs::write(folder.path().join("zones/example.zone"), ZONE).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes an experiment with this trace.
    fn write(&self, text: &str) {
        fs::write(self.path("experiment.toml"), format!("trace = 'trace.tsv'\nmax_retries = 0\n{text}")).unwrap();
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.arg("experiment").arg(self.path("experiment.toml")).arg("-o").arg(self.path("out")).args(more);
        command
    }

    fn run(&self, more: &[&str]) -> Output {
        self.command(more).output().unwrap()
    }

    fn record(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("out/experiment.json")).unwrap()).unwrap()
    }

    /// The runs of the record: cell, repeat and state.
    fn runs(&self) -> Vec<(String, u64, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let record = self.record();
        let runs = record["runs"].as_array().unwrap().iter();
        runs.map(|run| (text(&run["cell"]), run["repeat"].as_u64().unwrap(), text(&run["state"]))).collect()
    }
}

const META: &str = "[server.meta]\nkind = 'meta'\nzones = 'zones'\n";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether a busy machine was on time is the verdict's to say.
fn was_made(output: &Output) {
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(output));
}

fn run_json(place: &Place, directory: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path("out").join(directory).join("run.json")).unwrap()).unwrap()
}

#[test]
fn a_small_matrix_is_run_in_turns_and_a_second_call_runs_nothing() {
    let place = Place::new();
    place.write(&format!(
        "repeats = 2\n{META}[matrix]\ntransport = ['udp', 'tcp']\n[expect]\nall = 'answered = 100 %'\n"
    ));
    let output = place.run(&["--json"]);
    was_made(&output);
    let order: Vec<(String, u64)> = place.runs().into_iter().map(|(cell, repeat, _)| (cell, repeat)).collect();
    let [udp, tcp] = ["server=meta,transport=udp", "server=meta,transport=tcp"].map(str::to_owned);
    assert_eq!(order, [(udp.clone(), 1), (tcp.clone(), 1), (udp, 2), (tcp, 2)], "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["cells"][1]["server"]["passed"], summary["cells"][1]["server"]["of"], "{summary}");
    assert!(summary["versions"]["meta"].as_str().unwrap().starts_with("ldplayer "));
    // Each client has its own address, and the server's processes are looked at.
    let run = run_json(&place, "server=meta,transport=tcp/2");
    assert_eq!((&run["summary"]["queries"]["answered"], &run["config"]["sources"]), (&3.into(), &"original".into()));
    assert!(run["spec"]["watch_pid"].is_u64(), "{}", run["spec"]);
    let before = fs::read(place.path("out/server=meta,transport=udp/1/run.json")).unwrap();
    let runs = place.runs();
    was_made(&place.run(&[]));
    assert_eq!(place.runs(), runs, "something was run again");
    assert_eq!(fs::read(place.path("out/server=meta,transport=udp/1/run.json")).unwrap(), before);
}

#[test]
fn what_was_measured_is_told_also_where_the_page_cannot_be_written() {
    let place = Place::new();
    place.write(META);
    was_made(&place.run(&[]));
    fs::remove_file(place.path("out/report.html")).unwrap();
    fs::create_dir(place.path("out/report.html")).unwrap();
    let output = place.run(&[]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("100.000"), "{output:?}");
    let said = stderr(&output);
    assert_eq!(said.lines().filter(|line| line.contains("report.html")).count(), 1, "{said}");
}

#[test]
fn what_means_the_same_stays_when_the_file_changes_and_the_rest_is_told() {
    let place = Place::new();
    place.write(&format!("{META}[matrix]\ntransport = ['udp']\n"));
    was_made(&place.run(&[]));
    place.write(&format!("{META}[matrix]\ntransport = ['udp', 'tcp']\n"));
    let more = place.run(&[]);
    was_made(&more);
    assert!(stderr(&more).contains("still valid: 1, no longer valid: 0"), "{}", stderr(&more));
    assert_eq!(place.runs().len(), 2);
    place.write(&format!("seed = 7\n{META}[matrix]\ntransport = ['udp', 'tcp']\n"));
    let other = place.run(&[]);
    was_made(&other);
    assert!(stderr(&other).contains("still valid: 0, no longer valid: 2"), "{}", stderr(&other));
    assert_eq!(place.runs().len(), 4);
    // What was measured before is where it was.
    for directory in ["1", "1.2"] {
        assert!(place.path("out/server=meta,transport=udp").join(directory).join("run.json").exists(), "{directory}");
    }
}

#[test]
fn a_server_that_does_not_start_is_told_with_its_last_words_and_the_others_are_run() {
    let place = Place::new();
    fs::write(place.path("bad.conf"), "server:\n  no-such-option: yes\n").unwrap();
    place.write(&format!("[server.bad]\nkind = 'nsd'\nzones = 'zones'\nconfiguration = 'bad.conf'\n{META}"));
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("server=bad repeat 1: failed: server.bad: nsd ended") && said.contains("bad"), "{said}");
    let record = place.record();
    let (bad, good) = (&record["runs"][0], &record["runs"][1]);
    assert_eq!((&bad["state"], &bad["directory"]), (&"failed".into(), &Value::Null));
    assert!(bad["reason"].as_str().unwrap().contains("before it was ready; its last log lines: "), "{bad}");
    assert!(matches!(good["state"].as_str(), Some("done" | "disturbed")), "{good}");
}

#[test]
fn a_server_that_dies_in_mid_run_is_told_and_its_run_is_kept() {
    let place = Place::new();
    // A build of the program that ends when the run has begun.
    let (program, begun) = (place.path("mortal"), place.path("out/server=meta/1/run.json"));
    let ldplayer = env!("CARGO_BIN_EXE_ldplayer");
    let text = format!(
        "#!/bin/sh\n[ $1 = serve ] || exec '{ldplayer}' \"$@\"\n'{ldplayer}' \"$@\" &\nwhile ! [ -e '{}' ]; do :; done\nkill $!\nexit 7\n",
        begun.display()
    );
    fs::write(&program, text).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
    fs::write(place.path("trace.tsv"), long_trace(40)).unwrap();
    place.write(&format!("query_timeout = '200ms'\n{META}program = 'mortal'\n"));
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let record = place.record();
    let run = &record["runs"][0];
    assert_eq!(run["state"], "server_died", "{run}");
    assert!(run["reason"].as_str().unwrap().contains("exit status: 7"), "{run}");
    let summary = run_json(&place, "server=meta/1")["summary"]["queries"].clone();
    assert_eq!(summary["trace"], 40);
    assert!(summary["answered"].as_u64().unwrap() < 40, "{summary}");
}

/// Queries of four seconds.
fn long_trace(queries: usize) -> String {
    let line = |number: usize| format!("{}.{}\t192.0.2.1\tns.example.\tA\n", 1 + number / 10, number % 10);
    "time\tsrc\tqname\tqtype\n".to_owned() + &(0..queries).map(line).collect::<String>()
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn an_interrupt_ends_it_with_nothing_left_and_the_same_command_goes_on() {
    let place = Place::new();
    fs::write(place.path("trace.tsv"), long_trace(40)).unwrap();
    place.write(&format!("repeats = 2\n{META}"));
    let mut child =
        place.command(&["--progress", "plain"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first run is made; the second one has begun.
    said.by_ref().map(Result::unwrap).find(|line| line.starts_with("[2/2]") && line.contains("begins")).unwrap();
    interrupt(&child);
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    let states = || place.runs().into_iter().map(|(_, repeat, state)| (repeat, state)).collect::<Vec<_>>();
    let was_kept = states()[0].clone();
    assert!(matches!(was_kept.1.as_str(), "done" | "disturbed"), "{:?}", states());
    assert!(
        states()[1..]
            .iter()
            .all(|(repeat, state)| *repeat == 2 && ["interrupted", "planned"].contains(&state.as_str()))
    );
    assert!(servers_of(place.folder.path()).is_empty(), "a server was left");
    let output = place.run(&[]);
    was_made(&output);
    let last = states().pop().unwrap();
    assert!(last.0 == 2 && ["done", "disturbed"].contains(&last.1.as_str()), "{:?}", states());
    assert_eq!(states()[0], was_kept, "a finished run was touched");
}

/// Processes that serve zones below a folder.
fn servers_of(folder: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let names_it = |path: &PathBuf| {
        let words = fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(folder.to_str().unwrap())
    };
    processes.filter(names_it).collect()
}

#[test]
fn two_experiments_in_one_directory_and_a_directory_of_others_are_refused() {
    let place = Place::new();
    place.write(META);
    fs::create_dir(place.path("out")).unwrap();
    let lock = fs::File::create(place.path("out/.lock")).unwrap();
    lock.lock().unwrap();
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("another ldplayer experiment is running in this directory"),
        "{}",
        stderr(&output)
    );
    drop(lock);
    fs::write(place.path("out/letter.txt"), "mine").unwrap();
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("does not hold an experiment"), "{}", stderr(&output));
}

/// On a disk of its own, in a namespace: the record keeps 4 MB aside, each run 2 MB while it lasts.
#[test]
fn a_full_disk_ends_it_with_one_line_and_what_is_finished_stays() {
    let place = Place::new();
    place.write(&format!("repeats = 9\n{META}"));
    fs::create_dir(place.path("out")).unwrap();
    let disk = "mount -t tmpfs -o size=$SIZE disk \"$OUT\" && { \"$LDPLAYER\" experiment \"$FILE\" -o \"$OUT\"; status=$?; \
                cat \"$OUT/experiment.json\"; exit $status; }";
    let output = {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", disk])
            .env("SIZE", "7m")
            .env("OUT", place.path("out"));
        command.env("LDPLAYER", env!("CARGO_BIN_EXE_ldplayer")).env("FILE", place.path("experiment.toml"));
        command.output().unwrap()
    };
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.lines().last().unwrap().contains("the disk is full; finished runs are kept"), "{said}");
    let record = String::from_utf8_lossy(&output.stdout);
    let record: Value = serde_json::from_str(&record).unwrap();
    let states: Vec<&str> =
        record["runs"].as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert!(matches!(states[0], "done" | "disturbed") && states.contains(&"failed"), "{states:?}");
}

#[test]
fn a_dry_run_tells_the_plan_and_leaves_nothing() {
    let place = Place::new();
    let text = "repeats = 2\n[generate]\nspec = 'syn-3'\nqueries = 50\n[server.meta]\nkind = 'meta'\nzones = 'zones'\n[matrix]\ntransport = ['udp', 'tcp']\n";
    fs::write(place.path("experiment.toml"), text).unwrap();
    let output = place.run(&["--dry-run", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["estimate"]["queries"], 200);
    assert_eq!(plan["runs"][1]["cell"], "server=meta,transport=tcp");
    assert!(plan["estimate"]["seconds"].as_f64().unwrap() > 0.0);
    assert!(!place.path("out").exists());
}

#[test]
fn the_experiments_that_ship_can_be_planned() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = fs::read_dir(root.join("data/experiments")).unwrap().map(|file| file.unwrap().path());
    let files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|ending| ending == "toml")).collect();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        let output = command.current_dir(&root).arg("experiment").arg(&file).arg("--dry-run").output().unwrap();
        assert!(output.status.success(), "{}: {}", file.display(), stderr(&output));
    }
}

#[test]
fn a_warm_up_that_leaves_nothing_is_refused_before_anything_is_run() {
    let place = Place::new();
    place.write(&format!("warm_up = '150ms'\n{META}"));
    let output = place.run(&["--dry-run", "--json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["estimate"]["queries"], 1, "{plan}");
    place.write(&format!("warm_up = '2s'\n{META}"));
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("cell server=meta: after the warm-up of 2s: "), "{}", stderr(&output));
}

#[test]
fn very_many_runs_are_made_only_when_they_are_meant() {
    let place = Place::new();
    place.write(&format!("repeats = 1001\n{META}"));
    let output = place.command(&[]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("makes 1001 runs (1 cell x 1001 repeats): add --yes"), "{}", stderr(&output));
    assert!(!place.path("out").exists());
    assert_eq!(place.run(&["--dry-run"]).status.code(), Some(0));
}

#[test]
fn what_is_wrong_in_a_file_is_one_line_with_file_line_and_remedy() {
    let place = Place::new();
    place.write(&format!("transprt = 'tcp'\n{META}"));
    let output = place.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.ends_with("experiment.toml: line 3: unknown key `transprt`: did you mean `transport`?\n"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn the_servers_of_the_distribution_are_started_with_a_wire_signatures_and_tls() {
    let place = Place::new();
    // Over TLS where they speak it, through dnsdist where they do not; a packet takes 5 ms there and back.
    place.write(
        "rtt = '5ms'\nwarm_up = '50ms'\nexclude = [{ server = 'nsd', transport = 'udp' }, { server = 'bind', transport = 'udp' }]\n\
         [server.nsd]\nkind = 'nsd'\nzones = 'zones'\n[server.knot]\nkind = 'knot'\nzones = 'zones'\nfront = 'dnsdist'\n\
         [server.bind]\nkind = 'bind'\nzones = 'zones'\n[server.powerdns]\nkind = 'powerdns'\nzones = 'zones'\nfront = 'dnsdist'\n\
         [matrix]\ntransport = ['udp', 'dot']\nsign_algorithm = 'ed25519'\n[expect]\nall = 'answered = 100 %'\n",
    );
    let output = place.run(&["--json"]);
    was_made(&output);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = summary["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 6, "{summary}");
    for run in summary["runs"].as_array().unwrap() {
        let directory = run["directory"].as_str().unwrap_or_else(|| panic!("{run}"));
        let run = run_json(&place, directory);
        // One of the three warms up.
        assert_eq!(run["summary"]["queries"]["answered"], 2, "{directory}: {}", run["summary"]["queries"]);
        let p50 = run["summary"]["latency_ms"]["from_sent"]["p50"].as_f64().unwrap();
        assert!(p50 >= 5.0, "{directory}: {p50} ms");
    }
    let versions = summary["versions"].as_object().unwrap();
    let is_told = |name: &str| versions[name].as_str().unwrap().chars().any(|c| c.is_ascii_digit());
    assert!(["nsd", "knot", "knot-front", "bind", "powerdns"].into_iter().all(is_told), "{versions:?}");
}

/// NSD and dnsdist answer one query of each record: with several in one, the others of a client timed out.
#[test]
fn servers_over_tls_answer_queries_that_a_client_sends_together() {
    let place = Place::new();
    let line = |number: usize| format!("1.{}\t192.0.2.1\tns.example.\tA\n", number / 10);
    let trace = "time\tsrc\tqname\tqtype\n".to_owned() + &(0..50).map(line).collect::<String>();
    fs::write(place.path("trace.tsv"), trace).unwrap();
    place.write(
        "transport = 'dot'\n[server.nsd]\nkind = 'nsd'\nzones = 'zones'\n\
         [server.meta]\nkind = 'meta'\nzones = 'zones'\nfront = 'dnsdist'\n[expect]\nall = 'answered = 100 %'\n",
    );
    let output = place.run(&["--json"]);
    was_made(&output);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let passed = |cell: &Value| cell["server"]["passed"] == 1;
    assert!(summary["cells"].as_array().unwrap().iter().all(passed), "{}", summary["cells"]);
}

#[test]
fn resolvers_resolve_in_an_internet_of_the_zones() {
    let place = Place::new();
    // The root's name servers are where the resolver is told that they are, and so is all the Internet.
    let root = ". 60 SOA ns.example. h.example. 1 2 3 4 5\n. 60 NS ns.example.\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.53\n";
    fs::write(place.path("zones/root.zone"), root).unwrap();
    fs::write(place.path("zones/example.zone"), ZONE.replace("192.0.2.1", "192.0.2.53")).unwrap();
    fs::write(place.path("hints"), ". 60 NS ns.example.\nns.example. 60 A 192.0.2.53\n").unwrap();
    let trace =
        "time\tsrc\tqname\tqtype\tflags\n1\t192.0.2.1\tns.example.\tA\trd\n1.1\t192.0.2.2\tno.example.\tA\trd\n";
    fs::write(place.path("trace.tsv"), trace).unwrap();
    let server = |kind: &str| format!("[server.{kind}]\nkind = '{kind}'\nzones = 'zones'\nroot_hints = 'hints'\n");
    // The latter two are not in every distribution.
    let more = [("knot-resolver", Kind::KNOT_RESOLVER), ("pdns-recursor", Kind::PDNS_RECURSOR)];
    let more = more.into_iter().filter(|(_, kind)| kind.is_installed()).map(|(name, _)| name);
    let kinds: Vec<&str> = ["unbound"].into_iter().chain(more).collect();
    let servers: String = kinds.iter().map(|kind| server(kind)).collect();
    let asked: Vec<&str> = kinds.iter().copied().chain(["front"]).collect();
    // Two of them do not speak HTTPS.
    let silent = asked.iter().filter(|name| ["pdns-recursor", "front"].contains(*name));
    let silent: Vec<String> = silent.map(|name| format!("{{ server = '{name}', transport = 'doh2' }}")).collect();
    place.write(&format!(
        "exclude = [{}]\n{servers}[server.front]\nkind = 'dnsdist'\nbackend = 'unbound'\n\
         [matrix]\nserver = {asked:?}\ntransport = ['udp', 'doh2']\nupstream_rtt = '2ms'\n",
        silent.join(", ")
    ));
    let output = place.run(&[]);
    was_made(&output);
    let record = place.record();
    let runs = record["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * asked.len() - silent.len(), "{record}");
    for run in runs {
        let run = run_json(&place, run["directory"].as_str().unwrap_or_else(|| panic!("{run}")));
        let rcodes = &run["summary"]["rcodes"];
        assert_eq!((&rcodes["NOERROR"], &rcodes["NXDOMAIN"]), (&1.into(), &1.into()), "{}", run["summary"]);
    }
}

#[test]
fn a_server_that_runs_already_is_asked_where_it_is_with_a_generated_trace() {
    let place = Place::new();
    let address = common::free_address();
    let _server = Kind::NSD.serving(Vec::new()).start(&[address]).unwrap();
    let text = format!(
        "[generate]\nspec = 'syn-3'\nqueries = 20\nduration = '1s'\n[server.mine]\nkind = 'address'\naddress = '{address}'\n"
    );
    fs::write(place.path("experiment.toml"), format!("max_retries = 0\n{text}")).unwrap();
    // Whoever has this name is an experiment on this machine; it may be that of another test.
    let name = std::os::unix::net::SocketAddr::from_abstract_name(b"ldplayer-experiment").unwrap();
    let _other = UnixListener::bind_addr(&name);
    let output = place.run(&[]);
    was_made(&output);
    assert!(stderr(&output).contains("another experiment is running on this machine"), "{}", stderr(&output));
    let run = run_json(&place, "server=mine/1");
    assert_eq!(run["summary"]["queries"]["answered"], 20, "{}", run["summary"]["queries"]);
    assert_eq!(run["config"]["sources"], "ports");
    assert!(run["config"]["trace"][0].as_str().unwrap().contains("out/traces/"), "{}", run["config"]);
}

#[test]
fn two_templates_of_one_server_and_its_threads_are_cells() {
    let place = Place::new();
    let slow = "server:\n{% for at in listen %}  ip-address: {{ at.ip }}@{{ at.port }}\n{% endfor %}  username: \"\"\n  database: \"\"\n  \
                zonesdir: \"{{ work }}\"\n  pidfile: \"{{ work }}/pid\"\n  xfrdfile: \"{{ work }}/xfrd\"\n  \
                zonelistfile: \"{{ work }}/list\"\n  cookie-secret-file: \"{{ work }}/cookies\"\n  server-count: {{ threads }}\n\
                remote-control:\n  control-enable: no\n";
    fs::write(place.path("mine.conf"), format!("{slow}{{% for zone in zones %}}zone:\n  name: {{{{ zone.apex }}}}\n  zonefile: \"{{{{ zone.file }}}}\"\n{{% endfor %}}")).unwrap();
    place.write(
        "[server.ours]\nkind = 'nsd'\nzones = 'zones'\n[server.mine]\nkind = 'nsd'\nzones = 'zones'\nconfiguration = 'mine.conf'\n\
         [matrix]\nserver_threads = [1, 2]\n",
    );
    let output = place.run(&["-q"]);
    was_made(&output);
    assert!(output.stdout.is_empty());
    let told = |name: &str| fs::read_to_string(place.path("out").join(name)).unwrap();
    assert!(told("server=mine,server_threads=2/1.server/mine-configuration").contains("server-count: 2"));
    assert!(told("server=ours,server_threads=1/1.server/ours-configuration").contains("tcp-count: 10000"));
    assert!(
        place.runs().iter().all(|(_, _, state)| ["done", "disturbed"].contains(&state.as_str())),
        "{:?}",
        place.runs()
    );
}

#[test]
fn the_example_of_the_repository_is_one() {
    let example = data("experiments/servers.toml");
    let output =
        Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(["experiment", "--dry-run"]).arg(example).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("servers: 9 cells x 3 repeats = 27 runs"));
}
