//! The lines of the pages for the first day do what the pages say: of each, the blocks of kind `sh` are run, line by line.
//!
//! Lines run as they stand, in a namespace in which every address is local, so that 192.0.2.53 is a server and no packet leaves.
//! A TOML block that begins with `# NAME.toml` is a file of that name. A line that ends with `&` stays until the page is through.
//! A line ends with status 0, or with one that stands behind it as `# exit status 0 or 4`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ldplayer_emulate::stock::{Kind, Zone, find};
use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Certificates of the engine's tests.
const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../replay/tests/data");

/// The server that the pages speak of, over UDP and TCP, and over TLS.
const SERVER: &str = "192.0.2.53:53";
const TLS_PORT: u16 = 853;

/// What is shorter here than on the pages, so that the test is.
const SHORTER: [(&str, &str); 6] = [
    ("--speed 10", "--speed 40"),
    ("--rate 20k", "--rate 500"),
    ("--for 60s", "--for 1s"),
    ("--for 24h", "--for 2s"),
    ("repeats = 5", "repeats = 1"),
    ("max_time = \"10min\"", "max_time = \"8s\""),
];

/// Checks of the replay that fail on a machine with other work on it, which says nothing of the line.
const OF_THE_MACHINE: [&str; 7] =
    ["timing_quartiles", "timing_p99", "rate", "server_wait", "client_wait", "receive_drops", "not_sent"];

/// A line of a page.
struct Line {
    text: String,
    /// The exit statuses that the page says.
    statuses: Vec<i32>,
}

impl Line {
    fn new(text: &str) -> Self {
        let said = text.split_once("# exit status ").map_or("0", |(_, said)| said);
        let statuses = said.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok());
        Self { text: text.to_owned(), statuses: statuses.collect() }
    }

    /// The command of a line that stays.
    fn staying(&self) -> Option<&str> {
        self.text.strip_suffix(" &")
    }

    /// The run directory that it made, by the last line that it printed.
    fn run(&self, printed: &str) -> Option<PathBuf> {
        let is_replay = ["ldplayer replay", "ldplayer demo"].iter().any(|command| self.text.starts_with(command));
        let page = printed.trim_end().rsplit_once("report: file://").filter(|_| is_replay)?.1;
        page.strip_suffix("/report.html").map(PathBuf::from)
    }
}

/// A page: what is to be run, and the files that it shows.
struct Page {
    lines: Vec<Line>,
    files: Vec<(String, String)>,
}

impl Page {
    fn read(name: &str) -> Self {
        let mut text = fs::read_to_string(format!("{ROOT}/docs/{name}")).unwrap();
        for (long, short) in SHORTER {
            text = text.replace(long, short);
        }
        let mut page = Self { lines: Vec::new(), files: Vec::new() };
        for block in text.split("```").skip(1).step_by(2) {
            let (kind, block) = block.split_once('\n').unwrap();
            let file = block.strip_prefix("# ").and_then(|rest| rest.split_once('\n'));
            match (kind, file) {
                ("sh", _) => {
                    page.lines.extend(block.replace("\\\n", " ").lines().filter(|line| !line.is_empty()).map(Line::new))
                }
                ("toml", Some((file, _))) if file.ends_with(".toml") => {
                    page.files.push((file.to_owned(), block.to_owned()))
                }
                _ => {}
            }
        }
        assert!(!page.lines.is_empty(), "{name} has no lines to run");
        page
    }

    /// A script that runs all lines, and leaves what each of them printed and its status behind.
    fn script(&self, folder: &Path) -> String {
        let mut script = String::new();
        for (number, line) in self.lines.iter().enumerate() {
            let file = folder.join(format!("{number}.sh"));
            let command = line.staying().map_or_else(|| line.text.clone(), |command| format!("exec {command}"));
            fs::write(file, command + "\n").unwrap();
            let run = format!("bash {number}.sh >{number}.out 2>{number}.err </dev/null");
            // What stays says on stdout that it is ready.
            let wait = format!("until [ -s {number}.out ] || ! kill -0 $!; do sleep 0.05; done; [ -s {number}.out ]");
            let all = if line.staying().is_some() { format!("{run} & staying+=\" $!\"; {wait}") } else { run };
            script.push_str(&format!("{all}; echo $? >{number}.status\n"));
        }
        script + "[ -z \"$staying\" ] || kill $staying\n"
    }
}

/// A folder in which the names that the pages use exist.
fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::os::unix::fs::symlink(format!("{ROOT}/data"), path.join("data")).unwrap();
    fs::copy(format!("{CERTIFICATES}/ca.pem"), path.join("ca.pem")).unwrap();
    fs::create_dir(path.join("zones")).unwrap();
    let zone = Command::new("xz").arg("-dc").arg(format!("{ROOT}/data/root-2016100801.zone.xz")).output().unwrap();
    fs::write(path.join("zones/root.zone"), zone.stdout).unwrap();
    for build in ["old", "new"] {
        let folder = path.join("builds").join(build).join("sbin");
        fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(find("nsd", "nsd").unwrap(), folder.join("nsd")).unwrap();
    }
    // One client in twenty, in a second instead of a minute.
    fs::write(path.join("small.toml"), "time-scale = 0.0167\n[[rule]]\nsample = \"5 %\"\n").unwrap();
    ldplayer(path, &["mutate", "data/l-root-20161006.pcap.xz", "-o", "yesterday.pcap", "--rules", "small.toml"]);
    ldplayer(path, &["convert", "yesterday.pcap", "-o", "queries.txt"]);
    folder
}

fn ldplayer(folder: &Path, arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The configuration of the server of the pages.
fn configuration(folder: &Path) -> PathBuf {
    let work = folder.join("nsd");
    fs::create_dir(&work).unwrap();
    let server = SERVER.parse().unwrap();
    let nsd = Kind::NSD.serving(vec![Zone::new(".", folder.join("zones/root.zone"))]);
    let tls = format!(
        "server:\n  tcp-count: 2000\n  ip-address: 192.0.2.53@{TLS_PORT}\n  tls-port: {TLS_PORT}\n  \
         tls-service-key: \"{CERTIFICATES}/server.key\"\n  tls-service-pem: \"{CERTIFICATES}/server.pem\"\n",
    );
    let file = work.join("nsd.conf");
    fs::write(&file, nsd.configuration(&work, &[server]).unwrap() + &tls).unwrap();
    file
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))).unwrap()
}

/// Whether a run failed by nothing but what this machine could not do.
fn is_machine(run: &Value) -> bool {
    let failed = |check: &&Value| check["ok"] == false;
    let checks = run["verdict"]["checks"].as_array().unwrap().iter();
    let of_the_machine = |check: &Value| OF_THE_MACHINE.contains(&check["name"].as_str().unwrap());
    run["verdict"]["server"]["ok"] != false && checks.filter(failed).all(of_the_machine)
}

/// What is wrong with how a line ended; nothing where all is well.
fn complaint(folder: &Path, number: usize, line: &Line) -> Option<String> {
    let text = |end: &str| fs::read_to_string(folder.join(format!("{number}.{end}"))).unwrap_or_default();
    let status: i32 = text("status").trim().parse().unwrap_or(-1);
    let run = line.run(&text("out")).map(|run| json(&run.join("run.json")));
    let answered = |run: &Value| run["summary"]["queries"]["answered"].as_u64().unwrap_or(0);
    let fine = line.statuses.contains(&status) || status == 1 && run.as_ref().is_some_and(is_machine);
    let asked = run.as_ref().is_none_or(|run| answered(run) > 0);
    let said = || format!("`{}` ended with {status}\n{}{}", line.text, text("out"), text("err"));
    (!fine || !asked).then(said)
}

/// Runs the lines of a page.
fn runs(name: &str) {
    let page = Page::read(name);
    let folder = scratch();
    let path = folder.path();
    for (file, text) in &page.files {
        fs::write(path.join(file), text).unwrap();
    }
    fs::write(path.join("page.sh"), page.script(path)).unwrap();
    let server = format!("nsd -d -c {}", configuration(path).display());
    let programs = Path::new(env!("CARGO_BIN_EXE_ldplayer")).parent().unwrap().display();
    let output = Command::new(env!("CARGO_BIN_EXE_ldplayer"))
        .args(["testbed", "run", "--start-server", &server, "--wait-for", SERVER, "--", "bash", "page.sh"])
        .current_dir(path)
        .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let complaints = page.lines.iter().enumerate().filter_map(|(number, line)| complaint(path, number, line));
    let complaints: Vec<String> = complaints.collect();
    assert!(complaints.is_empty(), "docs/{name}:\n{}", complaints.join("\n"));
}

#[test]
fn the_first_ten_minutes() {
    runs("start.md");
}

#[test]
fn recipes() {
    runs("recipes.md");
}

#[test]
fn from_dnsperf() {
    runs("from-dnsperf.md");
}

#[test]
fn from_shotgun() {
    runs("from-shotgun.md");
}

#[test]
fn from_tcpreplay() {
    runs("from-tcpreplay.md");
}

#[test]
fn from_flamethrower() {
    runs("from-flamethrower.md");
}
