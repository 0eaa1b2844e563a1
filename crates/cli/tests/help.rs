//! What `--help` says of each command: it fits a screen, and its examples do what they say when they are pasted.
//!
//! Examples run line by line as they stand, those of a command in a folder of their own in which the files exist that they name, in a
//! namespace with a server at the address that they ask. That the others are calls which the command takes is a test of `main.rs`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data");
const LDPLAYER: &str = env!("CARGO_BIN_EXE_ldplayer");

/// The most lines of a short help: a screen.
const SCREEN: usize = 50;

/// Examples with one of these need what is not in the folder, and what tests it.
const ELSEWHERE: [(&str, &str); 15] = [
    ("--nats", "agents on other hosts: tests/agents.rs"),
    ("testbed ", "a testbed: tests/testbed.rs"),
    ("ldplayer proxy", "a testbed: tests/testbed.rs"),
    ("ldplayer demo", "servers of its own: tests/demo.rs"),
    ("--start-server", "a configuration of NSD: tests/start_server.rs"),
    ("ldplayer ratio", "a server far away: tests/ratio.rs"),
    ("ldplayer serve", "it stays: tests/serve.rs"),
    ("--side clients", "a capture of a resolver's clients: tests/zones_of_clients.rs"),
    ("zones fetch", "the Internet: tests/zones_fetch.rs"),
    ("dot --tls-insecure", "a server with TLS: tests/transports.rs"),
    ("unix:", "software that sends dnstap: tests/dnstap.rs"),
    ("resolver.dnstap", "software that writes dnstap: tests/dnstap.rs"),
    ("tcpdump", "a network to capture on"),
    ("/usr/local", "a folder of the machine"),
    ("| jq", "jq; the JSON itself: tests/report.rs, tests/doctor.rs"),
];

/// What is shorter here than in the help, so that the test is.
const SHORTER: [(&str, &str); 6] = [
    ("--for 30s", "--for 1s"),
    ("--duration 30s", "--duration 1s"),
    ("--queries 1M", "--queries 1k"),
    ("--rate 20k", "--rate 500"),
    ("syn-3 -o", "syn-3 --duration 2s -o"),
    ("--idle-timeout 10s", "--idle-timeout 1s"),
];

/// Makes the files that examples name. $1 is the folder of the data.
const FILES: &str = r#"
set -e
export PATH="$2:$PATH"
printf 'time-scale = 0.0167\n[[rule]]\nsample = "5 %%"\n' >small.toml
ldplayer mutate "$1/l-root-20161006.pcap.xz" -o capture.pcap.xz --to pcap --rules small.toml
for name in a.pcap monday.pcap tuesday.pcap capture.pcap clients.pcap.xz upstream.pcap.xz; do cp capture.pcap.xz $name; done
gzip -c a.pcap >b.pcapng.gz
ldplayer convert capture.pcap.xz -o trace.parquet
cp trace.parquet monday.parquet
cp trace.parquet tuesday.parquet
ldplayer convert capture.pcap.xz -o names.txt
printf '[[rule]]\ndo = true\n' >what-if.toml
mkdir zones captures
cp a.pcap b.pcapng.gz captures/
printf '. 3600 SOA a.test. b.test. 1 2 3 4 5\n. 3600 NS a.test.\na.test. 3600 A 127.0.0.1\ncom. 3600 NS a.test.\n' >zones/root.zone
printf 'com. 3600 SOA a.test. b.test. 1 2 3 4 5\ncom. 3600 NS a.test.\n' >zones/com.zone
cp zones/root.zone root.zone
printf 'version = 1\nname = "servers"\ntrace = "trace.parquet"\nrepeats = 1\n[server.nsd]\nkind = "nsd"\nzones = "zones"\n[server.knot]\nkind = "knot"\nzones = "zones"\n' >servers.toml
printf '[gate]\nkeep = ["answered >= 0.9 x"]\n' >gate.toml
"#;

/// Serves what examples ask, and makes the runs that they look at.
const RUNS: &str = r#"
ldplayer serve zones/ --all-zones-everywhere --listen 127.0.0.1:5300 >served &
until [ -s served ] || ! kill -0 $!; do sleep 0.05; done
for run in first today old new nsd knot; do
    ldplayer replay names.txt --server 127.0.0.1:5300 --rate 500 --for 1s -o runs/$run >/dev/null || [ $? = 1 ] || exit 1
done
ldplayer experiment servers.toml -o runs/servers -q >/dev/null 2>&1 || [ $? -le 1 ] || [ $? = 4 ] || exit 1
"#;

fn help(command: &[String], flag: &str) -> String {
    let output = Command::new(LDPLAYER).args(command).arg(flag).output().unwrap();
    assert!(output.status.success(), "{command:?} {flag}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every command, each as its words.
fn commands() -> Vec<Vec<String>> {
    let (mut open, mut all) = (vec![Vec::new()], Vec::new());
    while let Some(command) = open.pop() {
        let text = help(&command, "-h");
        let listed = text.split("\nCommands:\n").nth(1).unwrap_or_default();
        let names =
            listed.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
        let below = names.filter(|name| *name != "help").map(|name| [&command[..], &[name.to_owned()]].concat());
        open.extend(below.collect::<Vec<_>>());
        all.push(command);
    }
    all
}

/// The examples of a command, each on one line.
fn examples(command: &[String]) -> Vec<String> {
    let text = help(command, "--help");
    let lines = text.lines().skip_while(|line| !line.starts_with("Example")).filter(|line| line.starts_with("  "));
    let joined = lines.map(str::trim).collect::<Vec<_>>().join("\n");
    let joined = joined.replace("\\\n", "").replace("|\n", "| ").replace("&&\n", "&& ");
    let calls = joined.lines().filter(|line| line.starts_with("ldplayer ")).map(str::to_owned);
    calls.map(|line| SHORTER.iter().fold(line, |line, (long, short)| line.replace(long, short))).collect()
}

/// What an example writes, which must not be there before.
fn output(example: &str) -> Option<&str> {
    example.split_whitespace().skip_while(|word| *word != "-o").nth(1).filter(|word| *word != "-")
}

fn is_run(example: &str) -> bool {
    !ELSEWHERE.iter().any(|(word, _)| example.contains(word))
}

#[test]
fn each_short_help_fits_a_screen() {
    let all = commands();
    assert!(all.len() > 25, "{all:?}");
    for command in all {
        let text = help(&command, "-h");
        assert!(text.lines().count() <= SCREEN, "{command:?}: {} lines\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{command:?} is too wide\n{text}");
    }
}

#[test]
fn examples_do_what_they_say_when_they_are_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let programs = Path::new(LDPLAYER).parent().unwrap().to_str().unwrap();
    let made = Command::new("bash").args(["-c", FILES, "files", DATA, programs]).current_dir(path).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (mut script, mut run) = (RUNS.to_owned(), Vec::new());
    for command in commands() {
        let mine: Vec<String> = examples(&command).into_iter().filter(|example| is_run(example)).collect();
        if mine.is_empty() {
            continue;
        }
        let place = command.join("-");
        script.push_str(&format!("mkdir -p all/{place} && cp -r *.* zones captures runs all/{place}/\n"));
        for example in mine {
            let number = run.len();
            fs::write(path.join(format!("{number}.sh")), format!("{example}\n")).unwrap();
            let output = output(&example).unwrap_or("none");
            script.push_str(&format!(
                "(cd all/{place} && HOME=$PWD && mkdir -p .local/share/bash-completion/completions .config/fish/completions && \
                 rm -rf {output} && bash -o pipefail ../../{number}.sh) >{number}.out 2>{number}.err </dev/null; status=$?; \
                 [ $status -ne 141 ] || status=0; echo $status >{number}.status # head may close the pipe early\n"
            ));
            run.push(example);
        }
    }
    assert!(run.len() > 30, "{run:#?}");
    fs::write(path.join("all.sh"), script + "kill %1\n").unwrap();
    let output = Command::new(LDPLAYER)
        .args(["testbed", "run", "--", "bash", "all.sh"])
        .current_dir(path)
        .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |number: usize, end: &str| fs::read_to_string(path.join(format!("{number}.{end}"))).unwrap();
    // A verdict or a gate may fail on a machine with other work on it, which says nothing of the line.
    let is_fine = |number: usize| ["0", "1", "4"].contains(&text(number, "status").trim());
    let wrong = run.iter().enumerate().filter(|&(number, _)| !is_fine(number));
    let wrong: Vec<String> = wrong
        .map(|(number, example)| format!("`{example}` ended with {}{}", text(number, "status"), text(number, "err")))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
