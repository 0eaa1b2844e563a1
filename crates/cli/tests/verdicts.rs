//! What a run says of a replay and of a server, through the real command line, against servers that fail in one way each.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// A server on loopback that answers the n-th query as it is told to, until the test ends.
struct Server {
    address: String,
    /// One for each query that came.
    asked: Receiver<()>,
}

/// Answers with a response code, or not at all.
fn server(rcode: impl Fn(usize) -> Option<u8> + Send + 'static) -> Server {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let (tell, asked) = channel();
    std::thread::spawn(move || {
        let mut octets = [0; 1_500];
        // Whoever made the server is gone when nobody hears of its queries any more.
        for count in 0.. {
            let (length, client) = socket.recv_from(&mut octets).unwrap();
            if tell.send(()).is_err() {
                break;
            }
            if let Some(rcode) = rcode(count) {
                (octets[2], octets[3]) = (octets[2] | 0x80, rcode);
                socket.send_to(&octets[..length], client).unwrap();
            }
        }
    });
    Server { address, asked }
}

/// A trace of so many queries, so many a second.
fn trace(folder: &Path, queries: u32, rate: u32) -> PathBuf {
    let mut text = "time\tsrc\tqname\tqtype\n".to_owned();
    for at in 0..queries {
        let us = u64::from(at) * 1_000_000 / u64::from(rate);
        writeln!(text, "{}.{:06}\t192.0.2.{}\tq{at}.example.\tA", us / 1_000_000, us % 1_000_000, at % 50 + 1).unwrap();
    }
    let path = folder.join("trace.tsv");
    std::fs::write(&path, text).unwrap();
    path
}

fn command(folder: &TempDir, trace: &Path, server: &Server, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.arg("replay").arg(trace).args(["--server", &server.address, "--sources", "ports", "--force", "-o"]);
    command.arg(folder.path().join("run")).args(options);
    command
}

/// Replays 400 queries as fast as can be, so that nothing but the server can fail; output and `run.json`.
fn fast(rcode: impl Fn(usize) -> Option<u8> + Send + 'static, options: &[&str]) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 400, 400);
    let options = [&["--timing", "fast", "--max-outstanding", "50"], options].concat();
    let output = command(&folder, &trace, &server(rcode), &options).output().unwrap();
    let run = run_json(&folder);
    (output, run)
}

fn run_json(folder: &TempDir) -> Value {
    serde_json::from_slice(&std::fs::read(folder.path().join("run/run.json")).unwrap_or_default()).unwrap_or_default()
}

#[test]
fn a_server_that_refuses_everything_is_seen_at_first_sight() {
    let (output, run) = fast(|_| Some(5), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    // The replay was faithful, and nothing was expected of the server.
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!((&run["verdict"]["ok"], &run["verdict"]["server"]["ok"]), (&true.into(), &Value::Null));
    let warning = &run["warnings"][0];
    assert_eq!((&warning["code"], &warning["about"]), (&"error_answers".into(), &"server".into()));
    assert!(warning["text"].as_str().unwrap().contains("REFUSED 400"), "{warning}");
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word} in {text}"));
    assert!(at("\nserver     not judged") < at("\nwarning    ") && at("[error_answers]\n") < at("\nqueries "));
}

#[test]
fn a_server_that_answers_a_tenth_is_seen_at_first_sight() {
    let (output, run) = fast(|count| count.is_multiple_of(10).then_some(0), &["--query-timeout", "300ms"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(run["warnings"][0]["code"], "many_unanswered");
    assert_eq!(run["summary"]["queries"]["answered"], 40);
}

/// Real traffic with its responses, of which most are NXDOMAIN, against a server that knows every name.
#[test]
fn other_response_codes_than_recorded_are_told_with_both_shares() {
    let folder = tempfile::tempdir().unwrap();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/l-root-20161006.pcap.xz");
    let options = ["--timing", "fast", "--max-outstanding", "50", "--stop", "5s", "--transport", "udp"];
    let output = command(&folder, &trace, &server(|_| Some(0)), &options).output().unwrap();
    let run = run_json(&folder);
    let recorded = &run["summary"]["recorded"]["rcodes"];
    assert!(recorded["NXDOMAIN"].as_u64() > recorded["NOERROR"].as_u64(), "{recorded}");
    let said = String::from_utf8(output.stdout).unwrap();
    let warning =
        said.lines().find(|line| line.starts_with("warning    ") && line.ends_with("[rcodes_differ]")).unwrap();
    assert!(warning.contains("NXDOMAIN 0.0 % of the answers, recorded "), "{warning}");
    assert!(warning.contains("NOERROR 100.0 % of the answers, recorded "), "{warning}");
}

#[test]
fn expectations_decide_the_verdict_of_the_server_and_the_exit_status() {
    let met = ["--expect", "refused = 100 %", "--expect", "answered >= 99 %"];
    let (output, run) = fast(|_| Some(5), &met);
    assert_eq!((output.status.code(), &run["verdict"]["server"]["ok"]), (Some(0), &true.into()));
    let (output, run) = fast(|_| Some(5), &[&met[..], &["--expect", "noerror >= 1 %"]].concat());
    assert_eq!((output.status.code(), &run["verdict"]["server"]["ok"]), (Some(1), &false.into()));
    assert_eq!(run["verdict"]["ok"], true, "the replay is none of the server's");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nserver     FAILED: answers NOERROR 0.00 % (0 of 400) (limit >= 1 %)"), "{text}");
    assert_eq!(run["expect"][2], "noerror >= 1 %");
    // Nothing was compared, so nothing can be confirmed.
    let (output, run) = fast(|_| Some(0), &["--expect", "match >= 99.9 %"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(run["verdict"]["server"]["checks"][0]["note"].as_str().unwrap().contains("compared"), "{run}");
}

#[test]
fn an_expectation_that_is_none_is_bad_usage() {
    let (output, _) = fast(|_| Some(0), &["--expect", "anwsered >= 99 %"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("column 1: `anwsered` is no quantity; did you mean `answered`?"), "{said}");
}

/// The rate of 200 queries a second was told as 2: it was taken over the hundred seconds of the trace.
#[test]
fn an_interrupted_run_has_the_rate_at_which_it_sent() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 20_000, 200);
    let server = server(|_| Some(0));
    let mut child = command(&folder, &trace, &server, &["--precision", "low"]).stdout(Stdio::null()).spawn().unwrap();
    for _ in 0..200 {
        server.asked.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    child.wait().unwrap();
    let run = run_json(&folder);
    assert_eq!(run["state"], "interrupted");
    let rate = run["summary"]["rate"]["qps_mean"].as_f64().unwrap();
    assert!(rate > 50.0, "{rate} queries a second");
}

/// A run of less than a second had the rate of a whole one.
#[test]
fn a_fast_run_has_the_rate_at_which_it_sent() {
    let (_, run) = fast(|_| Some(0), &[]);
    let (rate, elapsed) = (&run["summary"]["rate"]["qps_mean"], &run["summary"]["elapsed_s"]);
    assert!(rate.as_f64().unwrap() * elapsed.as_f64().unwrap() >= 400.0, "{rate} queries a second, {elapsed} s");
}

/// The figures that Prometheus is given are those of the run so far.
#[test]
fn figures_are_served_while_a_run_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 20_000, 200);
    let server = server(|_| Some(0));
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let options = ["--precision", "low", "--metrics", &address];
    let mut child = command(&folder, &trace, &server, &options).stdout(Stdio::null()).spawn().unwrap();
    server.asked.recv_timeout(Duration::from_secs(60)).unwrap();
    let page = || {
        let mut client = TcpStream::connect(&address).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut page = String::new();
        client.read_to_string(&mut page).unwrap();
        page
    };
    let figure = |page: &str, name: &str| {
        let of = |line: &str| line.strip_prefix(name)?.rsplit(' ').next()?.parse::<f64>().ok();
        page.lines().filter_map(of).sum::<f64>()
    };
    // The accounts are shown some times a second.
    let answered = |page: &String| figure(page, "ldplayer_queries_answered_total{");
    let page = std::iter::repeat_with(page).take(1_000).find(|page| answered(page) > 0.0).unwrap();
    assert!(answered(&page) <= figure(&page, "ldplayer_queries_sent_total{"));
    assert!(page.contains("# TYPE ldplayer_latency_seconds histogram"), "{page}");
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    child.wait().unwrap();
    assert!(TcpStream::connect(&address).is_err(), "it ends with the run");
}

/// An option that a remedy names is one that there is.
#[test]
fn remedies_name_options_that_exist() {
    let help = Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(["replay", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let sources = [
        include_str!("../../results/src/verdict/advice.rs"),
        include_str!("../../results/src/verdict/server.rs"),
        include_str!("../../results/src/warning.rs"),
        include_str!("../../report/src/text.rs"),
    ];
    let is_word = |c: char| c.is_ascii_lowercase() || c == '-' || c.is_ascii_digit();
    let mut named = 0;
    let texts = sources.iter().filter_map(|source| source.split("#[cfg(test)]").next());
    for word in texts.flat_map(|text| text.split("--").skip(1)) {
        let option = word.split(|c| !is_word(c)).next().unwrap();
        if !option.is_empty() {
            named += 1;
            assert!(help.contains(&format!("--{option} ")) || help.contains(&format!("--{option}\n")), "--{option}");
        }
    }
    assert!(named > 20, "{named} options are named");
}
