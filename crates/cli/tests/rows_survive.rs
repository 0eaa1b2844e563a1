//! A replay that is killed at any moment leaves all rows but those of the last five seconds, to `report` and to DuckDB.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// What is promised to be lost at most.
const LOST: Duration = Duration::from_secs(5);
/// Queries per second of the replay.
const RATE: usize = 2_000;

fn ldplayer(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.args(arguments);
    command
}

/// Answers every query, and calls for an end when so many have come. Gives the times at which they came.
fn responder(socket: UdpSocket, enough: usize, is_enough: Arc<AtomicBool>) -> JoinHandle<Vec<Instant>> {
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    thread::spawn(move || {
        let (mut message, mut times) = ([0; 4_096], Vec::new());
        while !is_enough.load(Ordering::Relaxed) {
            let Ok((length, client)) = socket.recv_from(&mut message) else { continue };
            times.push(Instant::now());
            message[2] |= 0x80;
            // A client that is gone needs no answer.
            let _ = socket.send_to(&message[..length], client);
            is_enough.store(times.len() >= enough, Ordering::Relaxed);
        }
        times
    })
}

/// A replay at an even rate, ended by SIGKILL when the server has so many queries. Returns how many of them came more than
/// five seconds before.
fn kill_a_replay(trace: &Path, run: &Path, queries: usize) -> usize {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server: SocketAddr = socket.local_addr().unwrap();
    let is_enough = Arc::new(AtomicBool::new(false));
    let responder = responder(socket, queries, Arc::clone(&is_enough));
    let (server, rate) = (server.to_string(), format!("rate:{RATE}"));
    let mut replay =
        ldplayer(&["replay", "--server", &server, "--timing", &rate, "--workers", "2", "--precision", "low"]);
    let mut replay: Child =
        replay.arg(trace).arg("-o").arg(run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let times = responder.join().unwrap();
    let killed = Instant::now();
    replay.kill().unwrap();
    assert!(!replay.wait().unwrap().success(), "it was killed, and did not end by itself");
    times.into_iter().filter(|&time| killed - time > LOST).count()
}

/// A Python with DuckDB, made in the build folder if it is not there.
fn python() -> PathBuf {
    let place = Path::new(env!("CARGO_BIN_EXE_ldplayer")).ancestors().nth(2).unwrap().join("tools/python");
    let output = Command::new(format!("{ROOT}/scripts/python.sh")).arg(&place).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "scripts/python.sh, which needs python3 with venv and PyPI: {said}");
    place.join("bin/python")
}

/// Rows and different queries of a run, as DuckDB counts them.
fn rows_by_duckdb(run: &Path) -> (usize, usize) {
    let query =
        format!("select count(*), count(distinct \"index\") from read_parquet('{}/queries/*.parquet')", run.display());
    let code = "import duckdb, sys; print(*duckdb.execute(sys.argv[1]).fetchall()[0])";
    let output = Command::new(python()).args(["-c", code, &query]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let (rows, queries) = said.trim().split_once(' ').unwrap();
    (rows.parse().unwrap(), queries.parse().unwrap())
}

#[test]
fn a_replay_that_is_killed_keeps_all_rows_but_those_of_the_last_five_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.parquet");
    let made = ldplayer(&["generate", "syn-4", "--queries", "100k", "-o", trace.to_str().unwrap()]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Another moment within the two seconds between saves in each run of this test.
    let odd = std::process::id() as usize % (2 * RATE);
    for (name, seconds) in [("first", 6), ("second", 8)] {
        let run = folder.path().join(name);
        let promised = kill_a_replay(&trace, &run, seconds * RATE + odd);
        assert!(promised > 0, "the run lasted long enough to promise something");
        let report = ldplayer(&["report", "--json", run.to_str().unwrap()]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
        let answered = report.pointer("/queries/answered").or(report.pointer("/summary/queries/answered"));
        let answered = answered.and_then(serde_json::Value::as_u64).unwrap() as usize;
        assert!(answered >= promised, "{answered} rows, of {promised} promised");
        let warnings = report.get("warnings").or(report.pointer("/summary/warnings")).unwrap().to_string();
        assert!(warnings.contains("rows_missing") && warnings.contains("shard-001"), "{warnings}");
        let (rows, queries) = rows_by_duckdb(&run);
        assert_eq!((rows, queries), (answered, answered), "each row once");
    }
}

/// The next row may come in a minute; the one that is there is not kept waiting for it.
#[test]
fn a_row_is_saved_although_no_other_follows() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, run) = (folder.path().join("trace.tsv"), folder.path().join("run"));
    let lines = ["time\tsrc\tqname\tqtype", "0.0\t192.0.2.1\texample.\tA", "100.0\t192.0.2.1\texample.\tNS", ""];
    std::fs::write(&trace, lines.join("\n")).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let server = socket.local_addr().unwrap().to_string();
    let mut replay = ldplayer(&["replay", "--server", &server, "--precision", "low"]);
    let mut replay: Child = replay.arg(&trace).arg("-o").arg(&run).stdout(Stdio::null()).spawn().unwrap();
    let saved = run.join("queries/shard-000-000000.parquet");
    let (mut message, mut answered) = ([0; 4_096], None::<Instant>);
    let begun = Instant::now();
    while !saved.exists() && answered.unwrap_or(begun).elapsed() < 4 * LOST {
        let Ok((length, client)) = socket.recv_from(&mut message) else { continue };
        message[2] |= 0x80;
        socket.send_to(&message[..length], client).unwrap();
        answered = Some(Instant::now());
    }
    replay.kill().unwrap();
    replay.wait().unwrap();
    assert!(saved.exists(), "the row of the answer is on the disk while the run goes on");
    assert_eq!(rows_by_duckdb(&run), (1, 1));
}
