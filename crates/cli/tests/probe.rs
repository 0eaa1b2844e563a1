//! The question that `ldplayer replay` asks each server before a run: its messages, and that the run does not count it.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A server that gives everything this response code, and counts what it is asked, as long as the test lives.
fn responder(rcode: u8) -> (SocketAddr, Arc<AtomicU64>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (socket.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut message) {
            count.fetch_add(1, Ordering::Relaxed);
            (message[2], message[3]) = (message[2] | 0x80, rcode);
            // A client that has gone needs no answer.
            let _ = socket.send_to(&message[..length], client);
        }
    });
    (address, asked)
}

/// A run of three queries: what became of it, and its run.json.
fn replay(servers: &[SocketAddr], more: &[&str]) -> (Output, Value) {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("names.txt");
    fs::write(&list, "a.example A\nb.example AAAA\nc.example TXT\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.arg("replay").arg(&list).arg("-o").arg(folder.path().join("run")).stdin(Stdio::null());
    for server in servers {
        command.args(["--server", &server.to_string()]);
    }
    let options =
        ["--rate", "100", "--clients", "1", "--workers", "1", "--query-timeout", "300ms", "--progress", "off"];
    let output = command.args(options).args(more).output().unwrap();
    let json = read(&folder.path().join("run/run.json"));
    (output, json)
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// An address that nobody listens on: that of a socket that is closed again.
fn nobody() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_server_that_answers_is_asked_once_more_and_nothing_is_said() {
    for (more, questions) in [(&[][..], 4), (&["--no-probe"], 3), (&["--quiet"], 3)] {
        let (server, asked) = responder(0);
        let (output, json) = replay(&[server], more);
        // A busy machine may be late, which `--quiet` says in one line.
        assert!(!err(&output).contains("127.0.0.1"), "{more:?}: {}", err(&output));
        assert_eq!(asked.load(Ordering::Relaxed), questions, "{more:?}");
        let queries = &json["summary"]["queries"];
        assert_eq!((&queries["trace"], &queries["sent"], &queries["answered"]), (&3.into(), &3.into(), &3.into()));
        assert_eq!(queries["stray"], 0, "{queries}");
    }
}

#[test]
fn a_port_that_nobody_listens_on_is_said_before_the_run_and_fails_it() {
    let server = nobody();
    for (transport, name) in [("udp", "UDP"), ("tcp", "TCP"), ("dot", "DoT")] {
        let (output, json) = replay(&[server], &["--transport", transport, "--tls-insecure"]);
        let said = err(&output);
        let line = format!("ldplayer: {server} over {name}: nothing listens there\n");
        assert!(said.ends_with(&line) && said.matches(&*line).count() == 1, "{said}");
        assert_eq!((output.status.code(), &json["summary"]["queries"]["sent"]), (Some(1), &3.into()), "{said}");
    }
}

#[test]
fn a_server_that_refuses_is_said() {
    let (server, _) = responder(5);
    let (output, json) = replay(&[server], &[]);
    let said = err(&output);
    let line = format!("ldplayer: {server} over UDP: it answers the first query with REFUSED");
    assert!(said.starts_with(&line) && said.lines().count() == 1, "{said}");
    assert_eq!(json["summary"]["rcodes"]["REFUSED"], 3, "it is none of the run");
}

/// It reads what it is sent, and answers nothing or closes: a server of DNS over TCP does either with a handshake.
#[test]
fn a_port_where_nothing_speaks_tls_is_said() {
    for closes in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut kept = Vec::new();
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 64]);
                kept.extend((!closes).then_some(stream));
            }
        });
        let (output, _) = replay(&[server], &["--transport", "dot", "--tls-insecure"]);
        let said = err(&output);
        assert!(
            said.contains(&format!("{server} over DoT: no handshake: nothing there speaks TLS")),
            "{closes}: {said}"
        );
        assert!(!said.contains("busy"), "{said}");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!told.contains("busy"), "{told}");
        // The query's own timeout of a server that is silent comes before that of the handshake.
        assert!(!closes || told.contains("no handshake was ever completed"), "{told}");
    }
}

/// Its run directory is written all the same, and says that it was interrupted.
#[test]
fn an_interrupt_ends_the_waiting_for_an_answer_and_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let (list, run) = (folder.path().join("names.txt"), folder.path().join("run"));
    fs::write(&list, "a.example A\n").unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
    command.arg("replay").arg(&list).args(["--server", &server, "--query-timeout", "60s", "-o"]).arg(&run);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    silent.recv_from(&mut [0; 512]).unwrap();
    let began = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", err(&output));
    assert!(!err(&output).contains("no answer"), "{}", err(&output));
    assert_eq!(read(&run.join("run.json"))["state"], "interrupted");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn each_server_is_asked_over_each_transport() {
    let (first, second) = (nobody(), nobody());
    let (output, _) = replay(&[first, second], &["--transport", "udp=50,tcp=50"]);
    let said = err(&output);
    for server in [first, second] {
        for transport in ["UDP", "TCP"] {
            assert!(said.contains(&format!("{server} over {transport}: nothing listens there\n")), "{said}");
        }
    }
    assert_eq!(said.lines().count(), 4, "{said}");
}
