//! The responder of the benches in each of its modes, and the asker when nobody answers.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// `x. A`, with ID 0 and RD.
const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01x\0\0\x01\0\x01";
/// Only a fault makes a test wait for so long.
const LONG: Duration = Duration::from_secs(30);

/// A running part of the benches; dropping it ends it.
struct Part {
    child: Child,
    address: SocketAddr,
}

impl Part {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer-bench"));
        let mut child =
            command.args(arguments).args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().parse().unwrap();
        Self { child, address }
    }

    fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.address).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn query(id: u16) -> Vec<u8> {
    [&id.to_be_bytes(), &QUERY[2..]].concat()
}

fn answer(socket: &UdpSocket) -> Vec<u8> {
    let mut octets = [0; 512];
    let length = socket.recv(&mut octets).unwrap();
    octets[..length].to_vec()
}

fn id(octets: &[u8]) -> u16 {
    u16::from_be_bytes([octets[0], octets[1]])
}

/// The answer to one query of a responder with these options.
fn answer_of(arguments: &[&str]) -> Vec<u8> {
    let echo = Part::start(&[&["echo"], arguments].concat());
    let client = echo.client();
    client.send(&query(7)).unwrap();
    answer(&client)
}

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ldplayer-bench")).args(arguments).output().unwrap()
}

#[test]
fn a_query_is_answered_with_itself() {
    let mut expected = query(7);
    expected[2] |= 0x80;
    assert_eq!(answer_of(&[]), expected);
}

#[test]
fn wrong_answers_are_wrong_in_the_way_asked_for() {
    assert_eq!(answer_of(&["--garbage"]), [0, 7, 0x81, 0, 0, 1, 0]);
    let mut expected = query(7);
    (expected[2], expected[13]) = (0x81, b'x' ^ 1);
    assert_eq!(answer_of(&["--wrong-question"]), expected);
}

#[test]
fn every_query_is_answered_twice() {
    let echo = Part::start(&["echo", "--twice"]);
    let client = echo.client();
    for number in [1, 2] {
        client.send(&query(number)).unwrap();
    }
    assert_eq!([0; 4].map(|_| id(&answer(&client))), [1, 1, 2, 2]);
}

#[test]
fn half_of_the_queries_stay_unanswered() {
    let echo = Part::start(&["echo", "--drop", "50"]);
    let client = echo.client();
    for number in 1..=150 {
        client.send(&query(number)).unwrap();
    }
    let answered: Vec<u16> = (0..51).map(|_| id(&answer(&client))).collect();
    assert_eq!(answered, (50..=99).chain([150]).collect::<Vec<u16>>());
}

#[test]
fn delayed_answers_come_late_and_in_order() {
    let delay = Duration::from_millis(50);
    let echo = Part::start(&["echo", "--delay", "50ms", "--twice"]);
    let client = echo.client();
    let sent: Vec<Instant> = (0..40)
        .map(|number| {
            let now = Instant::now();
            client.send(&query(number)).unwrap();
            now
        })
        .collect();
    for (number, sent) in sent.iter().enumerate() {
        assert_eq!([(); 2].map(|()| id(&answer(&client))), [number as u16; 2]);
        // The two clocks of stamp and delay are compared to within a millisecond for certain.
        assert!(sent.elapsed() >= delay - Duration::from_millis(1), "{:?}", sent.elapsed());
    }
}

#[test]
fn a_hole_takes_queries_and_says_nothing() {
    let hole = Part::start(&["hole"]);
    let client = hole.client();
    // Where nobody listens, the second send is told of the refusal of the first.
    for number in [1, 2] {
        client.send(&query(number)).unwrap();
    }
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.recv(&mut [0; 512]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn the_asker_counts_answers() {
    let echo = Part::start(&["echo", "--twice"]);
    for window in ["1", "1000"] {
        let output = bench(&["bare-ask", "--to", &echo.address.to_string(), "--window", window, "--count", "2000"]);
        assert!(output.status.success(), "{output:?}");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(said["answered"].as_u64() >= Some(2_000) && said["per_second"].as_f64() > Some(0.0), "{said}");
    }
}

#[test]
fn the_asker_ends_when_nobody_answers() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let cases = [(silent.local_addr().unwrap().to_string(), "no answer from"), (free, "nothing listens there")];
    for (to, word) in cases {
        let output = bench(&["bare-ask", "--to", &to, "--timeout", "300ms"]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(3), 1), "{stderr}");
        assert!(stderr.contains(word) && stderr.contains(&to), "{stderr}");
    }
}
