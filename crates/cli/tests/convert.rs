//! `ldplayer convert` and `ldplayer inspect` as a user meets them: files in, files out, one line of error, exit status.

use std::fs;
use std::io::Write;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const TSV: &str = "\
time\tsrc\tsrc_port\tdst\tdst_port\ttransport\tqname\tqtype\tqclass\tflags\tedns
1475762100.000000001\t192.0.2.1\t1024\t198.51.100.53\t53\tudp\twww.example.\tA\tIN\trd\t1232,do
1475762100.500000000\t2001:db8::1\t1025\t2001:db8::53\t53\tudp\t\\.a\\032b.example.\tTYPE65280\tCH\trd,cd\t-
1475762101.000000000\t192.0.2.1\t1026\t198.51.100.53\t53\ttcp\t.\tNS\tIN\t-\t4096
";

fn ldplayer(directory: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.current_dir(directory).args(args).stdin(Stdio::null()).output().unwrap()
}

fn succeed(directory: &Path, args: &[&str]) -> String {
    let output = ldplayer(directory, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The one line of a failure with exit status 2.
fn refuse(directory: &Path, args: &[&str]) -> String {
    let output = ldplayer(directory, args);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    let line = stderr(&output);
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    line
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn directory_with(name: &str, content: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(name), content).unwrap();
    let path = directory.path().to_owned();
    (directory, path)
}

#[test]
fn tsv_survives_parquet_octet_by_octet() {
    let (_directory, path) = directory_with("a.tsv", TSV);
    succeed(&path, &["convert", "a.tsv", "-o", "a.parquet"]);
    succeed(&path, &["convert", "a.parquet", "-o", "b.tsv"]);
    assert_eq!(fs::read_to_string(path.join("b.tsv")).unwrap(), TSV);
    assert_eq!(succeed(&path, &["convert", "a.parquet", "-o", "-"]), TSV);
}

#[test]
fn several_inputs_are_merged_by_time() {
    let (_directory, path) = directory_with("a.tsv", TSV);
    fs::write(path.join("b.txt"), "b.example AAAA\n; comment\nc.example MX\n").unwrap();
    succeed(&path, &["convert", "a.tsv", "b.txt", "-o", "all.parquet"]);
    succeed(&path, &["convert", "all.parquet", "-o", "all.txt"]);
    let names = fs::read_to_string(path.join("all.txt")).unwrap();
    // The row of class CH is left out: a list has no classes.
    let wanted = "b.example. AAAA\nc.example. MX\nwww.example. A\n. NS\n";
    assert_eq!(names, wanted);
}

#[test]
fn an_existing_file_is_kept_without_force() {
    let (_directory, path) = directory_with("a.tsv", TSV);
    fs::write(path.join("b.txt"), "mine").unwrap();
    let line = refuse(&path, &["convert", "a.tsv", "-o", "b.txt"]);
    assert!(line.contains("b.txt: already exists") && line.contains("--force"), "{line}");
    assert_eq!(fs::read_to_string(path.join("b.txt")).unwrap(), "mine");
    succeed(&path, &["convert", "a.tsv", "-o", "b.txt", "--force"]);
    assert!(fs::read_to_string(path.join("b.txt")).unwrap().starts_with("www.example. A\n"));
}

#[test]
fn a_trace_can_be_written_over_itself() {
    let (_directory, path) = directory_with("a.tsv", TSV);
    succeed(&path, &["convert", "a.tsv", "-o", "a.tsv", "--force"]);
    assert_eq!(fs::read_to_string(path.join("a.tsv")).unwrap(), TSV);
}

#[test]
fn bad_inputs_get_one_line_and_leave_nothing_behind() {
    let cases: [(&str, &[u8], &str); 5] = [
        ("empty.tsv", b"", "the file is empty"),
        ("prose.pcap", b"Dear reader, this is no capture.\n", "not a capture, trace or query file"),
        ("binary", b"\x7fELF\x02\x01\x01\0\0\0", "not a capture, trace or query file"),
        ("header.tsv", b"time\tsrc\tqname\tqtype\n", "no DNS transaction"),
        ("cut.parquet", b"PAR1....", "damaged Parquet file"),
    ];
    for (name, content, said) in cases {
        let (_directory, path) = directory_with(name, content);
        for args in [&["inspect", name][..], &["convert", name, "-o", "out.parquet"]] {
            let line = refuse(&path, args);
            assert!(line.contains(name) && line.contains(said), "{line}");
        }
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "{name}: something was left behind");
    }
}

#[test]
fn outputs_that_cannot_be_are_refused() {
    let (_directory, path) = directory_with("a.tsv", TSV);
    let missing = refuse(&path, &["convert", "a.tsv", "-o", "nowhere/a.parquet"]);
    assert!(missing.contains("nowhere/a.parquet") && missing.contains("No such file"), "{missing}");
    assert!(refuse(&path, &["convert", "a.tsv", "-o", "a.xls"]).contains("unknown output format"));
    assert!(refuse(&path, &["convert", "a.tsv", "-o", ".", "--to", "tsv"]).contains("is a directory"));
    assert!(refuse(&path, &["convert", "missing.tsv", "-o", "a.pcap"]).contains("missing.tsv"));
    for format in ["tsv", "parquet", "pcap", "dnsperf"] {
        let line = refuse(&path, &["convert", "a.tsv", "-o", "/dev/full", "--to", format]);
        assert!(line.contains("/dev/full: the disk is full"), "{line}");
    }
}

#[test]
fn what_a_format_cannot_hold_is_said() {
    let row = "1\t192.0.2.1\tdot\ta.example.\tA\n2\t192.0.2.1\tudp\ta.example.\tA\nx\t192.0.2.1\tudp\ta.example.\tA\n";
    let (_directory, path) = directory_with("a.tsv", format!("time\tsrc\ttransport\tqname\tqtype\n{row}"));
    let output = ldplayer(&path, &["convert", "a.tsv", "-o", "a.pcap"]);
    assert!(output.status.success());
    let said = stderr(&output);
    assert!(said.contains("1 transaction written as pcap"), "{said}");
    assert!(said.contains("left out: encrypted_transport 1"), "{said}");
    assert!(said.contains("damaged: bad_time 1, first in a.tsv, packet or line 4"), "{said}");
}

#[test]
fn inspect_prints_the_figures() {
    let (_directory, path) = directory_with("a.tsv", TSV);
    let json: serde_json::Value = serde_json::from_str(&succeed(&path, &["inspect", "--json", "a.tsv"])).unwrap();
    assert_eq!((&json["transactions"], &json["unanswered"]), (&3.into(), &3.into()));
    assert_eq!((&json["clients"], &json["servers"]), (&2.into(), &2.into()));
    assert_eq!(json["first"], "2016-10-06T13:55:00.000000001Z");
    assert_eq!(json["transports"], serde_json::json!({"udp": 2, "tcp": 1}));
    assert_eq!(json["qtypes"], serde_json::json!({"A": 1, "NS": 1, "TYPE65280": 1}));
    assert_eq!((&json["edns"], &json["do"], &json["qps_peak"]), (&2.into(), &1.into(), &3.into()));
    let text = succeed(&path, &["inspect", "a.tsv"]);
    assert!(text.contains("transactions  3, unanswered 3, unasked 0"), "{text}");
}

#[test]
fn help_has_an_example() {
    let directory = tempfile::tempdir().unwrap();
    for command in ["inspect", "convert"] {
        let help = succeed(directory.path(), &[command, "--help"]);
        assert!(help.contains(&format!("Examples:\n  ldplayer {command} ")), "{help}");
    }
}

/// A pipe that nothing comes through, before its format is known and after.
#[test]
fn an_interrupt_ends_a_conversion_whose_input_is_silent() {
    for head in ["", "time\tsrc\tqname\tqtype\n0\t192.0.2.1\ta.\tA\n"] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["convert", "-", "-o", "out.parquet"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.current_dir(folder.path()).args(arguments).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(head.as_bytes()).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        // It takes signals from the moment on that it reads, which empties the pipe.
        while rustix::io::ioctl_fionread(&input).unwrap() > 0 || !is_catching(child.id()) {
            std::thread::yield_now();
        }
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "half a trace is left");
        drop(input);
    }
}

/// Whether a process catches SIGINT (proc_pid_status(5)).
fn is_catching(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim).unwrap_or_default();
    u64::from_str_radix(caught, 16).unwrap_or(0) & 0b10 != 0
}

/// The questions that dnsperf asks of a list, as octets of the question section, in order.
fn asked_by_dnsperf(list: &Path, count: usize) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    let mut dnsperf = Command::new("dnsperf");
    dnsperf.args(["-s", "127.0.0.1", "-p", &port, "-n", "1", "-q", "1", "-d"]).arg(list);
    let mut dnsperf = dnsperf.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut buffer = [0; 4_096];
    let asked = (0..count).map(|_| {
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        let question = buffer[12..length].to_vec();
        buffer[2] |= 0x80;
        socket.send_to(&buffer[..length], from).unwrap();
        question
    });
    let asked = asked.collect();
    dnsperf.wait().unwrap();
    asked
}

/// `NSAP-PTR` was written without its hyphen, and `TA` is read as `TALINK` by dnsperf: both asked for another type.
#[test]
fn a_list_is_read_back_by_dnsperf_as_the_same_questions() {
    let types = (0..300).chain([23, 32_768, 32_769, 65_280, 65_535]).map(|qtype: u16| (qtype, b"\x01a\0".to_vec()));
    let octets = (0..=255).map(|octet: u8| (1, [&[3, b'a', octet, b'z', 3], &b"org\0"[..]].concat()));
    let first = (b'!'..=b'~').map(|octet| (1, [&[2, octet, b'z', 3], &b"org\0"[..]].concat()));
    let long = [(1, [&[63; 64][..], &[63; 64], &[63; 64], &[61; 62], &[0]].concat()), (2, vec![0])];
    let questions = types.chain(octets).chain(first).chain(long).map(|(qtype, name)| {
        let [high, low] = qtype.to_be_bytes();
        [&name[..], &[high, low, 0, 1]].concat()
    });
    let questions: Vec<Vec<u8>> = questions.collect();
    let header = [0_u8, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let messages = questions.iter().map(|question| [&header[..], question].concat());
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("all.pcap"), capture(messages)).unwrap();
    let said = stderr(&ldplayer(directory.path(), &["convert", "all.pcap", "-o", "all.txt"]));
    // dnsperf takes `\010` for the octet 7.
    assert!(said.contains("left out: octets_in_name 162"), "{said}");
    let is_printable = |question: &Vec<u8>| !matches!(question[..], [3, b'a', octet, ..] if !octet.is_ascii_graphic());
    let questions: Vec<Vec<u8>> = questions.into_iter().filter(is_printable).collect();
    let asked = asked_by_dnsperf(&directory.path().join("all.txt"), questions.len());
    let others: Vec<_> = questions.iter().zip(&asked).filter(|(question, asked)| question != asked).collect();
    assert!(others.is_empty(), "{others:?}");
    succeed(directory.path(), &["convert", "all.txt", "-o", "back.pcap"]);
    succeed(directory.path(), &["convert", "back.pcap", "-o", "again.txt"]);
    let [list, again] = ["all.txt", "again.txt"].map(|name| fs::read_to_string(directory.path().join(name)).unwrap());
    let others: Vec<_> = list.lines().zip(again.lines()).filter(|(line, again)| line != again).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!([list.lines().count(), again.lines().count()], [questions.len(); 2]);
}

/// A capture of queries over UDP, raw IP.
fn capture(messages: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut octets: Vec<u8> = Vec::new();
    [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 65_535, 101].iter().for_each(|word| octets.extend(word.to_be_bytes()));
    for (micros, message) in (0..).zip(messages) {
        let (udp, ip) = (8 + message.len() as u16, 28 + message.len() as u16);
        [1_700_000_000, micros, ip.into(), ip.into()].iter().for_each(|word: &u32| octets.extend(word.to_be_bytes()));
        octets.extend([0x45, 0]);
        [ip, 0, 0].iter().for_each(|word| octets.extend(word.to_be_bytes()));
        octets.extend([64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 53]);
        [4_000, 53, udp, 0].iter().for_each(|word: &u16| octets.extend(word.to_be_bytes()));
        octets.extend(message);
    }
    octets
}
