//! A replay of an input of which a part cannot be read says so: through the real command line, against a real server.

mod common;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{data, free_address};
use ldplayer_emulate::stock::Kind;
use serde_json::Value;

const QUERIES: usize = 400;

fn ldplayer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).args(arguments).output().unwrap()
}

/// Replays inputs as fast as can be; exit status, and the check `completeness`.
fn replay(folder: &Path, inputs: &[&Path], server: &str) -> (Option<i32>, Value) {
    let run = folder.join("run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.arg("replay").args(inputs).args([
        "--server",
        server,
        "--sources",
        "pool:127.0.0.0/8",
        "--transport",
        "udp",
    ]);
    command.args(["--timing", "fast", "--max-outstanding", "50", "--force", "-o"]).arg(&run);
    let output = command.output().unwrap();
    let json = std::fs::read(run.join("run.json")).unwrap_or_default();
    let run: Value = serde_json::from_slice(&json)
        .unwrap_or_else(|_| panic!("{inputs:?}: {}", String::from_utf8_lossy(&output.stderr)));
    let checks = run["verdict"]["checks"].as_array().unwrap();
    (output.status.code(), checks.iter().find(|check| check["name"] == "completeness").unwrap().clone())
}

/// The same queries in a format, written by `convert`.
fn converted(folder: &Path, trace: &Path, ending: &str) -> Vec<u8> {
    let path = folder.join(format!("whole.{ending}"));
    let output = ldplayer(&["convert", trace.to_str().unwrap(), "-o", path.to_str().unwrap(), "--force"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(path).unwrap()
}

fn tsv() -> String {
    let line = |at: usize| format!("{}.{:03}\t192.0.2.{}\tq{at}.example.\tA\n", at / 200, at % 200 * 5, at % 50 + 1);
    "time\tsrc\tqname\tqtype\n".to_owned() + &(0..QUERIES).map(line).collect::<String>()
}

fn xz(octets: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    std::io::Read::read_to_end(&mut liblzma::read::XzEncoder::new(octets, 1), &mut packed).unwrap();
    packed
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut octets = Vec::new();
    let packed = std::fs::File::open(path).unwrap();
    std::io::Read::read_to_end(&mut liblzma::read::XzDecoder::new(packed), &mut octets).unwrap();
    octets
}

fn overwritten(mut octets: Vec<u8>, at: usize, by: &[u8]) -> Vec<u8> {
    octets[at..at + by.len()].copy_from_slice(by);
    octets
}

fn cut(octets: &[u8], lacking: usize) -> Vec<u8> {
    octets[..octets.len() - lacking].to_vec()
}

/// Damaged inputs, each with the reasons of which one must be named.
fn damaged(folder: &Path, trace: &Path) -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    let (pcap, tsv) = (converted(folder, trace, "pcap"), tsv());
    let parquet = overwritten(converted(folder, trace, "parquet"), 100, &[0xff; 60]);
    let real = data("l-root-20161006.pcap.xz");
    let cdns = unpacked(&data("clients-20160629.cdns.xz"));
    let dnstap = std::fs::read(data("../crates/trace/tests/data/compactor-test.dnstap")).unwrap();
    let real_octets = std::fs::read(&real).unwrap();
    let middle = real_octets.len() / 2;
    let flipped = [real_octets[middle] ^ 0x10];
    vec![
        ("an xz file that was cut", cut(&real_octets, middle), &["unreadable_rest"]),
        ("an xz file with a flipped bit", overwritten(real_octets, middle, &flipped), &["unreadable_rest"]),
        ("a pcap that was cut", cut(&pcap, 9), &["truncated_capture"]),
        ("a pcap with a bad record", overwritten(pcap.clone(), 24 + 8, &[0xff; 8]), &["bad_record"]),
        ("a cut pcap as xz", xz(&cut(&pcap, 9)), &["truncated_capture"]),
        ("a Parquet file with a bad row group", parquet, &["damaged_row_group"]),
        ("a C-DNS file that was cut", cut(&cdns, 500), &["truncated_capture"]),
        ("a dnstap file that was cut", cut(&dnstap, 30), &["truncated_capture"]),
        ("a TSV file with an unreadable line", tsv.replacen("192.0.2.7\t", "192.0.2\t", 1).into(), &["bad_address"]),
        ("dnsperf queries with an unreadable line", "a. A\nb. NS\n..c A\nd. A\n".into(), &["bad_name"]),
        ("LDplayer text with an unreadable line", LDPLAYER_TEXT.into(), &["bad_address"]),
    ]
}

const LDPLAYER_TEXT: &str = "1.0 192.0.2.1 a. IN A udp\n1.1 192.0.2 b. IN A udp\n1.2 192.0.2.1 c. IN A udp\n";

#[test]
fn a_run_over_a_damaged_input_is_not_complete() {
    let folder = tempfile::tempdir().unwrap();
    let server = free_address();
    let _nsd = Kind::NSD.serving(Vec::new()).start(&[server]).unwrap();
    let (server, whole) = (server.to_string(), folder.path().join("whole.tsv"));
    std::fs::write(&whole, tsv()).unwrap();
    let (status, check) = replay(folder.path(), &[&whole], &server);
    assert_eq!((status, &check["value"]), (Some(0), &"whole trace".into()));
    for (name, octets, reasons) in damaged(folder.path(), &whole) {
        let input: PathBuf = folder.path().join("damaged");
        std::fs::write(&input, octets).unwrap();
        // The whole one beside it has queries to send even where nothing is left of the other.
        let (status, check) = replay(folder.path(), &[&input, &whole], &server);
        assert_eq!((status, &check["ok"]), (Some(1), &false.into()), "{name}: {check}");
        let value = check["value"].as_str().unwrap();
        assert!(reasons.iter().any(|reason| value.contains(reason)), "{name}: {value}");
        assert!(value.contains("first at packet or line") && value.contains("/damaged"), "{name}: {value}");
        assert!(value.contains("% of it not read") || value.contains("is unknown"), "{name}: {value}");
    }
}

/// A megabyte of gzip may be a terabyte of queries: `--max-input` ends what reads it, and what was replayed until then is kept.
#[test]
fn an_input_above_max_input_is_an_error_whatever_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let (input, run) = (folder.path().join("expands.xz"), folder.path().join("run"));
    std::fs::write(&input, xz(&b"a.example A\n".repeat(200_000))).unwrap();
    let (input, run) = (input.to_str().unwrap(), run.to_str().unwrap());
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    let out = folder.path().join("out.parquet");
    let commands: [&[&str]; 3] = [
        &["inspect", input],
        &["convert", input, "-o", out.to_str().unwrap()],
        &[
            "replay",
            input,
            "--server",
            &address,
            "--timing",
            "fast",
            "--no-probe",
            "--query-timeout",
            "100ms",
            "-o",
            run,
        ],
    ];
    for command in commands {
        let output = ldplayer(&[command, &["--max-input", "1MB"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("expands.xz: there is more than the 1 MB of --max-input; give a larger"), "{said}");
    }
    assert!(!out.exists());
    let run: Value = serde_json::from_slice(&std::fs::read(Path::new(run).join("run.json")).unwrap()).unwrap();
    assert!(run["summary"]["queries"]["sent"].as_u64().is_some_and(|sent| sent > 0), "{}", run["summary"]["queries"]);
    assert_eq!(ldplayer(&["inspect", input, "--max-input", "10MB"]).status.code(), Some(0));
}
