//! `ldplayer replay --start-server`: what is started is watched, and ended with all that it starts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use ldplayer_emulate::stock::Kind;

/// Where the server listens, in a namespace of its own.
const SERVER: &str = "127.0.0.1:5300";

/// The configuration of an NSD without zones, which refuses every query.
fn configuration(folder: &Path) -> PathBuf {
    let server: SocketAddr = SERVER.parse().unwrap();
    let file = folder.join("nsd.conf");
    std::fs::write(&file, Kind::NSD.serving(Vec::new()).configuration(folder, &[server]).unwrap()).unwrap();
    file
}

/// Replays two queries against what `command` starts.
fn replay(folder: &Path, command: &str) -> Output {
    let queries = folder.join("queries");
    std::fs::write(&queries, "example. A\nexample. NS\n").unwrap();
    Command::new(env!("CARGO_BIN_EXE_ldplayer"))
        .args(["replay", "--server", SERVER, "--start-server", command, "-o"])
        .args([folder.join("run"), queries])
        // Servers are found all the same.
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn it_is_watched_and_answers() {
    let folder = tempfile::tempdir().unwrap();
    let output = replay(folder.path(), &format!("nsd -d -c {}", configuration(folder.path()).display()));
    let run = folder.path().join("run");
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(run.join("run.json")).unwrap()).unwrap();
    assert_eq!(json["summary"]["queries"]["answered"], 2, "{}", stderr(&output));
    // Parquet's statistics name the greatest value of the column `side`.
    let telemetry = std::fs::read(run.join("telemetry.parquet")).unwrap();
    assert!(telemetry.windows(6).any(|octets| octets == b"server"), "no sample of the server");
}

/// Client and server filled the machine together, and what was found was the machine's limit.
#[test]
fn a_quota_holds_the_server_and_is_told_with_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let queries = folder.path().join("queries");
    std::fs::write(&queries, "example. A\n").unwrap();
    let command = format!("nsd -d -c {}", configuration(folder.path()).display());
    let started = Command::new(env!("CARGO_BIN_EXE_ldplayer"))
        .args([
            "replay",
            "--server",
            SERVER,
            "--start-server",
            &command,
            "--server-cpu",
            "10%",
            "--telemetry-interval",
            "100ms",
        ])
        .args(["--timing", "fast", "--for", "3s", "--clients", "20", "--max-outstanding", "20", "-o"])
        .args([folder.path().join("run"), queries])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let group = format!("ldplayer-{}-", started.id());
    let output = started.wait_with_output().unwrap();
    let said = stderr(&output);
    if said.contains("--server-cpu: ") {
        assert_eq!(output.status.code(), Some(3), "{said}");
        return eprintln!("NOT TESTED: {said}");
    }
    let text = std::fs::read_to_string(folder.path().join("run/run.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let used = json["summary"]["telemetry"]["server"]["cores_mean"].as_f64().unwrap();
    assert!((0.02..0.15).contains(&used), "{used}");
    assert_eq!(json["config"]["server_cpu"], "0.1");
    let wait =
        json["verdict"]["checks"].as_array().unwrap().iter().find(|check| check["name"] == "server_wait").unwrap();
    assert!(wait["value"] == "n/a" && wait["note"].as_str().unwrap().contains("quota"), "{wait}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(" within a quota of 0.1 cores"), "{said}");
    let left = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"].into_iter().filter_map(|tree| std::fs::read_dir(tree).ok());
    assert!(left.flatten().flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with(&group)));
}

#[test]
fn one_that_leaves_the_foreground_is_refused_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    // As a daemon does: a session of its own, and a parent that ends.
    let daemon = "sh -c 'setsid sh -c \"echo \\$\\$ > PID; exec sleep 1000\" & while ! [ -s PID ]; do :; done'";
    let output = replay(folder.path(), &daemon.replace("PID", pid.to_str().unwrap()));
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("ended (exit status: 0) before it was ready") && said.contains("foreground"), "{said}");
    let pid = std::fs::read_to_string(pid).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "left running: {stat}");
}

#[test]
fn one_that_cannot_start_is_told_on_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let output = replay(folder.path(), "no-such-server-at-all");
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    let line = said.lines().last().unwrap();
    assert!(line.starts_with("ldplayer: --start-server `no-such-server-at-all` ended (exit status: 127)"), "{said}");
}

/// Servers with dual-stack sockets log IPv4 clients so: they ask from their IPv4 addresses, and ask the IPv4 server.
#[test]
fn clients_logged_by_ipv4_mapped_addresses_ask_from_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let (run, binary) = (folder.path().join("run"), env!("CARGO_BIN_EXE_ldplayer"));
    std::fs::create_dir(folder.path().join("zones")).unwrap();
    std::fs::write(folder.path().join("zones/root.zone"), ". 60 IN SOA a. b. 1 2 3 4 5\n. 60 IN NS a.\n").unwrap();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/mapped-dual-stack.dnstap");
    let both = "127.0.0.1:5300,[::1]:5300";
    let serve = format!("{binary} serve {} --listen {both}", folder.path().join("zones").display());
    // The address of the one server is written as such a log would, too.
    let servers = ["--server", "[::ffff:127.0.0.1]:5300", "--server", "[::1]:5300", "--sources", "original"];
    let mut command = Command::new(binary);
    command.arg("replay").arg(trace).args(servers).args(["--start-server", &serve, "-o"]).arg(&run);
    let output = command.output().unwrap();
    let rows = Command::new(binary).arg("rows").arg(&run).args(["--columns", "client,server,status"]).output().unwrap();
    let rows = String::from_utf8_lossy(&rows.stdout).into_owned();
    let mut rows: Vec<&str> = rows.lines().skip(1).collect();
    rows.sort_unstable();
    let wanted = [
        "192.0.2.17\t127.0.0.1:5300\tanswered",
        "192.0.2.18\t127.0.0.1:5300\tanswered",
        "2001:db8::17\t[::1]:5300\tanswered",
    ];
    assert_eq!(rows, wanted, "{}", stderr(&output));
}
