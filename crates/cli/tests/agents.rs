//! Replays on several hosts, as the command line has them: a lab on this host, and what is told where something lacks.

#[path = "common/responder.rs"]
mod responder;

use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use ldplayer_cluster::Embedded;
use responder::responder;
use serde_json::Value;

const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/l-root-20161006.pcap.xz");

fn ldplayer(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer")).env_remove("NATS_URL").args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Answers every query with itself, as a response.
fn server() -> String {
    responder(|_| Some(Duration::ZERO))
}

#[test]
fn a_lab_on_this_host_makes_one_run_directory_of_its_agents() {
    let (folder, server) = (tempfile::tempdir().unwrap(), server());
    let run = folder.path().join("run");
    let made = ldplayer(&[
        "replay",
        CAPTURE,
        "--server",
        &server,
        "--transport",
        "udp",
        "--speed",
        "30",
        "--stop",
        "30",
        "--precision",
        "low",
        "--query-timeout",
        "1s",
        "--workers",
        "1",
        "--nats",
        "embedded",
        "--agents",
        "2",
        "-o",
        run.to_str().unwrap(),
    ]);
    // Whether a busy machine was on time is the verdict's to say.
    assert!(matches!(made.status.code(), Some(0 | 1)), "{}", said(&made));
    let json: Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    let queries = &json["summary"]["queries"];
    assert_eq!(json["state"], "complete");
    assert_eq!(json["workers"], 2);
    assert_eq!(
        queries["sent"].as_u64().unwrap() + queries["not_sent"].as_u64().unwrap(),
        queries["trace"].as_u64().unwrap()
    );
    assert!(queries["answered"].as_u64().unwrap() > 1_000, "{queries}");
    for file in ["report.html", "agents/agent-1/run.json", "agents/agent-2/telemetry.parquet"] {
        assert!(run.join(file).exists(), "{file}");
    }
    // What an agent may have written is not opened in a browser.
    assert!(!run.join("agents/agent-2/report.html").exists());
}

#[test]
fn no_server_there_is_an_environment_that_lacks_it() {
    for arguments in [&["agents"][..], &["agent"], &["replay", CAPTURE, "--server", "127.0.0.1:5300", "--agents", "2"]]
    {
        let refused = ldplayer(&[arguments, &["--nats", "nats://user:secret@127.0.0.1:1"]].concat());
        let said = said(&refused);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains("no NATS server at nats://127.0.0.1:1") && !said.contains("secret"), "{said}");
    }
}

/// The documented command left the password in run.json and report.html, which all may read, and among the arguments.
#[test]
fn a_password_of_nats_is_in_no_file_and_no_argument() {
    let (folder, server) = (tempfile::tempdir().unwrap(), server());
    let nats = Embedded::start().unwrap();
    let url = nats.link().url.clone();
    let password = url.rsplit_once('@').unwrap().0.rsplit_once(':').unwrap().1.to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.args(["agent", "--name", "evil\u{1b}]0;pwn\u{7}", "--nats", &url]);
    let mut agent = command.stderr(Stdio::null()).spawn().unwrap();
    let trace = folder.path().join("queries");
    std::fs::write(&trace, "a.example A\nb.example A\n").unwrap();
    let replay = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.args(["replay", trace.to_str().unwrap(), "--server", &server, "--agents", "1"]);
        command.args(["--precision", "low", "-o"]).arg(folder.path().join(name)).env_remove("NATS_URL");
        command
    };
    let made = replay("told").args(["--nats", &url]).output().unwrap();
    let by_environment = replay("found").env("NATS_URL", &url).output().unwrap();
    let (plain, login) =
        (url.replace(&format!("ldplayer:{password}@"), ""), [("NATS_USER", "ldplayer"), ("NATS_PASSWORD", &password)]);
    let by_login = replay("login").env("NATS_URL", plain).envs(login).output().unwrap();
    let listed = said(&ldplayer(&["agents", "--nats", &url]));
    let arguments = std::fs::read(format!("/proc/{}/cmdline", agent.id())).unwrap();
    agent.kill().unwrap();
    agent.wait().unwrap();
    for output in [&made, &by_environment, &by_login] {
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", said(output));
        assert!(!said(output).contains(&password), "{}", said(output));
    }
    for name in ["told", "found", "login"] {
        for file in ["run.json", "report.html"] {
            let content = std::fs::read_to_string(folder.path().join(name).join(file)).unwrap();
            assert!(!content.contains(&password), "{name}/{file}");
        }
    }
    let json = std::fs::read_to_string(folder.path().join("told/run.json")).unwrap();
    assert!(json.contains("nats://***@127.0.0.1:"), "{json}");
    // The name of an agent is somebody else's.
    assert!(listed.contains("evil\\u{1b}]0;pwn\\u{7} ") && !listed.contains('\u{1b}'), "{listed:?}");
    for arguments in [&["replay", "queries", "--server", &url][..], &["replay", &url, "--server", &server]] {
        let refused = said(&ldplayer(arguments));
        assert!(refused.contains("/***@127.0.0.1:") && !refused.contains(&password), "{refused}");
    }
    let arguments = String::from_utf8_lossy(&arguments).into_owned();
    assert!(arguments.contains("nats://***") && !arguments.contains(&password), "{arguments}");
}

#[test]
fn agents_without_a_server_are_a_usage_error() {
    let refused = ldplayer(&["replay", CAPTURE, "--server", "127.0.0.1:5300", "--agents", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(said(&refused), "ldplayer: --agents: add --nats URL, or set NATS_URL\n");
}

#[test]
fn a_lab_watches_the_server_keeps_responses_and_compares_answers_as_one_host_does() {
    let (folder, server) = (tempfile::tempdir().unwrap(), server());
    let run = folder.path().join("run");
    // What answers is a thread of this test, of which the lab is a child.
    let mut server_process = Command::new("sleep").arg("600").spawn().unwrap();
    let watched = server_process.id().to_string();
    let plain = ["replay", CAPTURE, "--server", &server, "--transport", "udp", "--speed", "30", "--stop", "5"];
    let judged = ["--precision", "low", "--query-timeout", "1s", "--workers", "1", "-o", run.to_str().unwrap()];
    let agents = ["--nats", "embedded", "--agents", "2", "--local", "--upload"];
    let more = ["--watch-pid", &watched, "--keep-responses", "--compare-answers", "recorded"];
    let made = ldplayer(&[&plain[..], &judged, &agents, &more].concat());
    server_process.kill().unwrap();
    server_process.wait().unwrap();
    assert!(matches!(made.status.code(), Some(0 | 1)), "{}", said(&made));
    let json: Value = serde_json::from_slice(&std::fs::read(run.join("run.json")).unwrap()).unwrap();
    let summary = &json["summary"];
    assert_eq!(summary["telemetry"]["server"]["processes_peak"], 1, "{}", summary["telemetry"]);
    assert_eq!(summary["telemetry"]["client"]["processes_peak"], 2, "{}", summary["telemetry"]);
    assert_eq!(summary["responses"]["kept"], summary["queries"]["sent"]);
    let compared = &summary["answers_compared"];
    assert!(compared["compared"].as_u64().unwrap() > 100 && compared["again"]["asked"].as_u64().unwrap() > 100);
    for file in ["responses.parquet", "disagreements.parquet", "telemetry.parquet"] {
        assert!(run.join(file).exists(), "{file}");
    }
    let text = said(&ldplayer(&["report", run.to_str().unwrap()]));
    assert!(text.contains("answers ") && text.contains("used       server "), "{text}");
}

#[test]
fn a_server_that_the_run_starts_is_refused() {
    let refused = ldplayer(&[
        "replay",
        CAPTURE,
        "--server",
        "127.0.0.1:5300",
        "--start-server",
        "nsd -d",
        "--nats",
        "embedded",
        "--agents",
        "1",
        "-o",
        "/nonexistent/run",
    ]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(
        said(&refused).contains("--start-server: a server started by the run is reachable from one host"),
        "{}",
        said(&refused)
    );
}

#[test]
fn an_experiment_makes_its_runs_on_agents() {
    let (folder, server) = (tempfile::tempdir().unwrap(), server());
    let (file, output) = (folder.path().join("experiment.toml"), folder.path().join("out"));
    let text = format!(
        "trace = '{CAPTURE}'\nspeed = 30\nstop = '20s'\nprecision = 'low'\nquery_timeout = '1s'\nsources = 'ports'\nworkers = 1\nmax_retries = 0\n\
         repeats = 2\n[server.here]\nkind = 'address'\naddress = '{server}'\n[matrix]\ntransport = ['udp']\n"
    );
    std::fs::write(&file, text).unwrap();
    let words =
        ["experiment", file.to_str().unwrap(), "-o", output.to_str().unwrap(), "--nats", "embedded", "--agents", "2"];
    let made = ldplayer(&words);
    // Whether a busy machine was on time is the verdict's to say.
    assert!(matches!(made.status.code(), Some(0 | 1)), "{}", said(&made));
    let record: Value = serde_json::from_slice(&std::fs::read(output.join("experiment.json")).unwrap()).unwrap();
    let runs = record["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2, "{}", said(&made));
    for run in runs {
        let json = std::fs::read(output.join(run["directory"].as_str().unwrap()).join("run.json")).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((json["state"].as_str(), json["agents"].as_array().map(Vec::len)), (Some("complete"), Some(2)));
    }
}

#[test]
fn an_experiment_whose_servers_no_agent_reaches_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (file, zone) = (folder.path().join("experiment.toml"), folder.path().join("example.zone"));
    std::fs::write(
        &zone,
        "example. 60 SOA ns.example. h.example. 1 1 1 1 1\nexample. 60 NS ns.example.\nns.example. 60 A 192.0.2.1\n",
    )
    .unwrap();
    let text = format!(
        "trace = '{CAPTURE}'\n[server.ours]\nkind = 'meta'\nzones = '{}'\n[matrix]\ntransport = ['udp']\n",
        zone.display()
    );
    std::fs::write(&file, text).unwrap();
    let output = folder.path().join("out");
    let refused = ldplayer(&[
        "experiment",
        file.to_str().unwrap(),
        "-o",
        output.to_str().unwrap(),
        "--nats",
        "embedded",
        "--agents",
        "1",
    ]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("agents cannot reach the servers"), "{}", said(&refused));
}

#[test]
fn figures_of_all_agents_are_served_at_the_controller() {
    let (folder, server) = (tempfile::tempdir().unwrap(), server());
    // Free a moment ago: another program may have it by now, and then the run says so.
    let metrics = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let run = folder.path().join("run");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ldplayer"))
        .env_remove("NATS_URL")
        .args([
            "replay",
            CAPTURE,
            "--server",
            &server,
            "--transport",
            "udp",
            "--speed",
            "5",
            "--stop",
            "50",
            "--precision",
            "low",
        ])
        .args([
            "--query-timeout",
            "1s",
            "--workers",
            "1",
            "--nats",
            "embedded",
            "--agents",
            "2",
            "--metrics",
            &metrics,
            "--quiet",
            "-o",
        ])
        .arg(&run)
        .spawn()
        .unwrap();
    let page = (0..400).find_map(|_| {
        thread::sleep(std::time::Duration::from_millis(50));
        let page = page(&metrics).ok()?;
        let counted =
            page.lines().find_map(|line| line.strip_prefix("ldplayer_latency_seconds_count "))?.parse::<u64>().ok()?;
        (counted > 0).then_some(page)
    });
    let ended = child.wait().unwrap();
    let page = page.expect("no latencies were served while the run lasted");
    assert!(matches!(ended.code(), Some(0 | 1)), "{ended}");
    for agent in ["agent-1", "agent-2"] {
        let label = format!("agent=\"{agent}\"}}");
        assert!(
            page.lines().any(|line| line.starts_with("ldplayer_queries_sent_total") && line.contains(&label)),
            "{page}"
        );
    }
}

/// The page of figures.
fn page(address: &str) -> std::io::Result<String> {
    use std::io::{Read, Write};
    let mut client = std::net::TcpStream::connect(address)?;
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")?;
    let mut page = String::new();
    client.read_to_string(&mut page)?;
    Ok(page)
}
