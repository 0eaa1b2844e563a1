//! Clients that react beside the real resolvers that they are models of: both ask servers that drop, refuse, fail and truncate on purpose, and
//! their packets are compared.

#[path = "common/built_server.rs"]
mod built_server;
#[path = "common/waiting.rs"]
mod waiting;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use built_server::built_server;
use ldplayer_net::namespace::Namespace;
use ldplayer_net::netlink::Netlink;
use serde_json::Value;

/// Intervals of a model and of what it is a model of differ by no more than this, or by the precision of [`Place`].
const CLOSE: Duration = Duration::from_millis(5);
/// A host that is busy delays either: so often both are tried.
const TRIES: usize = 6;
/// How long a server waits at most for a query before it looks whether to stop.
const LOOKS_WHETHER_TO_STOP: Duration = Duration::from_millis(20);
/// What is asked.
const NAME: &str = "www.example.";

/// The name of each lookup: a forwarder waits for the answer to the same question.
fn name(lookup: usize) -> String {
    if lookup == 0 { NAME.to_owned() } else { format!("w{lookup}.example.") }
}

/// What a server does with every query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// Nobody listens: its host says so by ICMP.
    Closed,
    Silent,
    Answers,
    Fails,
    Refuses,
    /// Fails by FORMERR where a query has EDNS, and answers others.
    LacksEdns,
    /// Over UDP; it answers over TCP.
    Truncates,
    /// Answers queries for A only.
    OnlyA,
    OnlyAaaa,
    /// Fails for A, and answers queries for AAAA.
    FailsA,
    FailsAaaa,
}

/// AAAA (RFC 3596).
const AAAA: u8 = 28;

/// A query as a server saw it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    at: Instant,
    server: usize,
    over_tcp: bool,
    is_aaaa: bool,
    id: [u8; 2],
    port: u16,
}

/// Servers at 127.0.0.1, 127.0.0.2 and so on, at port 53 of a namespace.
struct Servers {
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Servers {
    /// Each takes so much longer for an answer over UDP than the one before it.
    fn start(namespace: &Namespace, all: &[Server], later: Duration) -> Self {
        let mut servers = Self { seen: Arc::default(), stop: Arc::default(), threads: Vec::new() };
        for (number, &server) in all.iter().enumerate().filter(|(_, server)| **server != Server::Closed) {
            let address = (format!("127.0.0.{}", number + 1), 53);
            let bind = || (UdpSocket::bind(address.clone()).unwrap(), TcpListener::bind(address.clone()).unwrap());
            let (udp, tcp) = namespace.run(bind).unwrap();
            udp.set_read_timeout(Some(LOOKS_WHETHER_TO_STOP)).unwrap();
            // It bounds accepting, too.
            socket2::SockRef::from(&tcp).set_read_timeout(Some(LOOKS_WHETHER_TO_STOP)).unwrap();
            let seen = Arc::clone(&servers.seen);
            let note = move |over_tcp, query: &[u8], port| {
                let (id, is_aaaa) = ([query[0], query[1]], is_for_aaaa(query));
                let seen_now = Seen { at: Instant::now(), server: number, over_tcp, is_aaaa, id, port };
                seen.lock().unwrap().push(seen_now);
            };
            let note_tcp = note.clone();
            servers.keep_doing(move || serve_udp(&udp, server, later * number as u32, &note));
            servers.keep_doing(move || serve_tcp(&tcp, &note_tcp));
        }
        servers
    }

    /// Each socket has its own thread, so that none waits for another and all are seen when they come.
    fn keep_doing(&mut self, serve_one: impl Fn() + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                serve_one();
            }
        }));
    }

    fn end(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn serve_udp(socket: &UdpSocket, server: Server, takes: Duration, note: &impl Fn(bool, &[u8], u16)) {
    let mut message = [0; 512];
    let Ok((length, client)) = socket.recv_from(&mut message) else { return };
    note(false, &message[..length], client.port());
    if let Some(answer) = answer(&message[..length], server) {
        thread::sleep(takes);
        socket.send_to(&answer, client).unwrap();
    }
}

fn serve_tcp(listener: &TcpListener, note: &impl Fn(bool, &[u8], u16)) {
    let Ok((mut stream, client)) = listener.accept() else { return };
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut length = [0; 2];
    // A probe of the server closes its connection again.
    if stream.read_exact(&mut length).is_err() {
        return;
    }
    let mut query = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut query).unwrap();
    note(true, &query, client.port());
    let answer = answer(&query, Server::Answers).unwrap();
    stream.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat()).unwrap();
}

/// Where the question ends.
fn question_end(query: &[u8]) -> usize {
    query[12..].iter().position(|&octet| octet == 0).unwrap() + 12 + 5
}

fn is_for_aaaa(query: &[u8]) -> bool {
    query[question_end(query) - 3] == AAAA
}

/// The question with an address, or what else a server says.
fn answer(query: &[u8], server: Server) -> Option<Vec<u8>> {
    let (question, is_aaaa) = (question_end(query), is_for_aaaa(query));
    let mut answer = query[..question].to_vec();
    (answer[2], answer[3]) = (0x81, 0x80);
    answer[6..12].fill(0);
    match server {
        Server::Silent | Server::Closed => return None,
        Server::OnlyA if is_aaaa => return None,
        Server::OnlyAaaa if !is_aaaa => return None,
        Server::Fails => answer[3] |= 2,
        Server::FailsA if !is_aaaa => answer[3] |= 2,
        Server::FailsAaaa if is_aaaa => answer[3] |= 2,
        Server::Refuses => answer[3] |= 5,
        Server::Truncates => answer[2] |= 2,
        Server::LacksEdns if query[11] > 0 => answer[3] |= 1,
        _ => {
            answer[7] = 1;
            let (qtype, address) = if is_aaaa { (AAAA, &[0x20; 16][..]) } else { (1, &[192, 0, 2, 80][..]) };
            answer.extend([0xc0, 12, 0, qtype, 0, 1, 0, 0, 0, 60, 0, address.len() as u8]);
            answer.extend(address);
        }
    }
    if query[11] > 0 && server != Server::LacksEdns {
        answer[11] = 1;
        answer.extend(OPT);
    }
    Some(answer)
}

/// What a server with EDNS has in its answers to queries with it (RFC 6891 section 6.1.1).
const OPT: [u8; 11] = [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0];

/// Namespaces with loopback for the program and for its model, and a folder with what both read.
struct Place {
    namespace: Namespace,
    beside: Namespace,
    folder: tempfile::TempDir,
    /// When the lookups of the program begin, in seconds.
    lookups: Vec<f64>,
    /// Whether the program asks with EDNS, whatever it is asked with.
    has_edns: bool,
    /// Whether each lookup is for A and for AAAA.
    is_for_both: bool,
    /// So often it is tried whether the program does the same as its model.
    tries: usize,
    /// Times differ by one part in so many.
    precision: u32,
    /// So much longer each server takes than the one before it: where that matters, whose answer comes first is no chance.
    later: Duration,
}

impl Place {
    fn new() -> Self {
        let with_loopback = || {
            let namespace = Namespace::create().unwrap();
            namespace.run(|| Netlink::open().unwrap().loopback_up().unwrap()).unwrap();
            namespace
        };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("nsswitch.conf"), "hosts: dns\n").unwrap();
        Self {
            namespace: with_loopback(),
            beside: with_loopback(),
            folder,
            lookups: vec![0.0],
            has_edns: false,
            is_for_both: false,
            tries: TRIES,
            precision: 100,
            later: Duration::ZERO,
        }
    }

    /// A place with a script in place of a compiled program.
    fn with_script(script: &str) -> Self {
        let place = Self::new();
        let file = place.folder.path().join("lookup");
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        place
    }

    /// Runs the program `lookup` in the namespace, which has a resolv.conf with so many servers, each given a second, twice; with EDNS or not.
    fn resolve(&self, servers: usize, edns: bool) -> Output {
        let lines: String = (1..=servers).map(|number| format!("nameserver 127.0.0.{number}\n")).collect();
        let edns = if edns { "edns0" } else { "" };
        let text = format!("{lines}options timeout:1 attempts:2 {edns}\n");
        fs::write(self.folder.path().join("resolv.conf"), text).unwrap();
        let script = "mount --bind resolv.conf /etc/resolv.conf && mount --bind nsswitch.conf /etc/nsswitch.conf && exec ./lookup";
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "sh", "-c", script]).current_dir(self.folder.path()).stdin(Stdio::null());
        self.namespace.start_in(&mut unshare).unwrap();
        unshare.output().unwrap()
    }

    /// What a client of this model makes of the same name.
    fn replay(&self, model: &str, servers: usize, edns: bool) -> Value {
        let edns = if edns { "1200" } else { "-" };
        let types = if self.is_for_both { &["A", "AAAA"][..] } else { &["A"] };
        let lines = self.lookups.iter().enumerate().flat_map(|(number, at)| {
            types.iter().map(move |qtype| format!("{at}\t192.0.2.1\t{}\t{qtype}\t{edns}\n", name(number)))
        });
        let lines: String = lines.collect();
        let trace = format!("time\tsrc\tqname\tqtype\tedns\n{lines}");
        fs::write(self.folder.path().join("trace.tsv"), trace).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ldplayer"));
        command.args(["replay", "trace.tsv", "--client", model, "--no-probe", "--force", "-o", "run"]);
        for number in 1..=servers {
            command.args(["--server", &format!("127.0.0.{number}")]);
        }
        self.beside.start_in(command.current_dir(self.folder.path())).unwrap();
        let output = command.output().unwrap();
        let json = fs::read(self.folder.path().join("run/run.json"));
        let json = json.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        serde_json::from_slice(&json).unwrap()
    }
}

/// Server, transport, whether it is for AAAA, milliseconds since the first query, and port of each.
fn shown(seen: &[Seen]) -> Vec<(usize, bool, bool, u128, u16)> {
    let Some(first) = seen.first() else { return Vec::new() };
    let since = |seen: &Seen| (seen.at - first.at).as_millis();
    seen.iter().map(|seen| (seen.server, seen.over_tcp, seen.is_aaaa, since(seen), seen.port)).collect()
}

/// Whether both sent the same to the same servers at about the same times. What is sent at one moment has no order.
fn are_alike(real: &[Seen], model: &[Seen], place: &Place) -> bool {
    let close = |a: &Seen, b: &Seen| {
        let (a, b) = (a.at - real[0].at, b.at - model[0].at);
        a.abs_diff(b) <= CLOSE.max(a / place.precision)
    };
    let (real_order, model_order) = (by_moment(real), by_moment(model));
    let mut pairs = real_order.iter().zip(&model_order);
    let what = |seen: &Seen| (seen.server, seen.over_tcp, seen.is_aaaa);
    let is_same = |a: &Seen, b: &Seen| what(a) == what(b) && close(a, b);
    let of_each = |seen: &[Seen]| -> Vec<_> {
        by_lookup(seen, &place.lookups).iter().map(|lookup| (ids(lookup), ports(lookup))).collect()
    };
    real.len() == model.len() && of_each(&real_order) == of_each(&model_order) && pairs.all(|(a, b)| is_same(a, b))
}

/// The queries in the order of the moments at which they were sent, and within a moment of the servers. A moment ends where nothing is sent for
/// 25 ms.
fn by_moment(seen: &[Seen]) -> Vec<Seen> {
    let mut order = seen.to_vec();
    order.sort_by_key(|seen| seen.at);
    let is_one_moment = |a: &Seen, b: &Seen| b.at - a.at < Duration::from_millis(25);
    for moment in order.chunk_by_mut(is_one_moment) {
        moment.sort_by_key(|seen| (seen.server, seen.over_tcp, seen.is_aaaa));
    }
    order
}

/// The same with the servers in the opposite order.
fn with_servers_exchanged(seen: &[Seen], servers: usize) -> Vec<Seen> {
    seen.iter().map(|seen| Seen { server: servers - 1 - seen.server, ..seen.clone() }).collect()
}

/// The queries of each lookup, which begin at these seconds and end before the next one does.
fn by_lookup(seen: &[Seen], lookups: &[f64]) -> Vec<Vec<Seen>> {
    let mut parts = vec![Vec::new(); lookups.len()];
    let Some(first) = seen.iter().map(|seen| seen.at).min() else { return parts };
    for one in seen {
        let second = (one.at - first).as_secs_f64() + 0.5;
        let number = lookups.iter().filter(|begin| **begin <= second).count();
        parts[number - 1].push(one.clone());
    }
    parts
}

/// For each query over UDP, the first query that had the same port.
fn ports(seen: &[Seen]) -> Vec<Option<usize>> {
    let over_udp: Vec<u16> = seen.iter().filter(|seen| !seen.over_tcp).map(|seen| seen.port).collect();
    over_udp.iter().map(|port| over_udp.iter().position(|earlier| earlier == port)).collect()
}

/// Whether all queries over UDP for one type have one ID.
fn ids(seen: &[Seen]) -> bool {
    [false, true].iter().all(|is_aaaa| {
        let mut over_udp = seen.iter().filter(|seen| !seen.over_tcp && seen.is_aaaa == *is_aaaa).map(|seen| seen.id);
        let first = over_udp.next();
        over_udp.all(|id| Some(id) == first)
    })
}

/// What the program and a client of the model ask such servers, each those in its namespace, at the same time; and how either ended.
fn asked(place: &Place, model: &str, servers: &[Server], edns: bool) -> ((Output, Vec<Seen>), (Value, Vec<Seen>)) {
    thread::scope(|scope| {
        let real = scope.spawn(|| {
            let running = Servers::start(&place.namespace, servers, place.later);
            (place.resolve(servers.len(), edns), running.end())
        });
        let running = Servers::start(&place.beside, servers, place.later);
        let of_model = (place.replay(model, servers.len(), edns), running.end());
        (real.join().unwrap(), of_model)
    })
}

/// Lets the program of the folder and a client of the model look up the same.
fn compare(place: &Place, model: &str, servers: &[Server]) {
    let mut tried = Vec::new();
    let edns = place.has_edns || servers.contains(&Server::LacksEdns);
    let is_forwarder = place.lookups.len() > 1;
    let are_equal = servers.windows(2).all(|pair| pair[0] == pair[1]);
    for _ in 0..place.tries {
        let ((output, real), (run, of_model)) = asked(place, model, servers, edns);
        assert!(!real.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let (lookups, unsent) = (&run["summary"]["lookups"], &run["summary"]["queries"]["not_sent"]);
        // The program says how many of its lookups failed. That for AAAA may not have been sent, since it waited for that for A.
        let unanswered = lookups["failed"].as_u64().zip(unsent.as_u64()).map(|(failed, unsent)| failed + unsent);
        let failed = [output.status.code().map(|code| code as u64), unanswered];
        // Which of two servers answers a forwarder first is chance.
        assert!(is_forwarder || failed[0] == failed[1], "{model} {servers:?}: {failed:?}, {lookups}");
        let is_like = |model: &[Seen]| are_alike(&real, model, place);
        let mirrored = || is_like(&with_servers_exchanged(&of_model, servers.len()));
        if failed[0] == failed[1] && (is_like(&of_model) || is_forwarder && are_equal && mirrored()) {
            return;
        }
        tried.push((failed, shown(&real), shown(&of_model)));
    }
    panic!("{model} before {servers:?}: (lookups that failed, real, model) {tried:?}");
}

fn behaves_as(model: &str, place: &Place) {
    use Server::{Answers, Closed, Fails, Refuses, Silent};
    for servers in [
        &[Silent][..],
        &[Silent, Answers],
        &[Silent, Silent],
        &[Fails],
        &[Fails, Answers],
        &[Refuses, Answers],
        &[Closed, Silent],
        &[Silent, Fails, Silent],
    ] {
        compare(place, model, servers);
    }
    gives_up_as(model, place);
}

/// Whether both wait before a server whose port is closed, or neither does. Who has a socket for each server is told that by ICMP.
fn gives_up_as(model: &str, place: &Place) {
    let began = Instant::now();
    place.resolve(1, false);
    let real_waits = began.elapsed() > Duration::from_millis(500);
    let run = place.replay(model, 1, false);
    let model_waits = run["summary"]["elapsed_s"].as_f64().is_some_and(|seconds| seconds > 0.5);
    assert_eq!(real_waits, model_waits, "{model}");
}

/// Compiles a program that asks its C library for the addresses of the name, without AI_ADDRCONFIG: there is only loopback.
fn compiled_by(compiler: &str) -> Place {
    let source = format!(
        "#include <netdb.h>\n#include <sys/socket.h>\nint main(void) {{ struct addrinfo hints = {{ .ai_family = AF_INET, \
         .ai_socktype = SOCK_DGRAM }}, *found; return getaddrinfo(\"{NAME}\", 0, &hints, &found) != 0; }}\n"
    );
    compiled(compiler, &source, &[])
}

/// Compiles a program with these libraries.
fn compiled(compiler: &str, source: &str, libraries: &[&str]) -> Place {
    let place = Place::new();
    fs::write(place.folder.path().join("lookup.c"), source).unwrap();
    let mut command = Command::new(compiler);
    let output = command.args(["-o", "lookup", "lookup.c"]).args(libraries).current_dir(place.folder.path()).output();
    let output = output.unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place
}

fn glibc_is_its_model() {
    let place = compiled_by("cc");
    behaves_as("glibc:timeout=1s", &place);
    use Server::{Answers, LacksEdns, Truncates};
    for servers in [&[Truncates][..], &[LacksEdns], &[LacksEdns, Answers]] {
        compare(&place, "glibc:timeout=1s", servers);
    }
}

/// Asks for both families so often, every five seconds, and ends with the number of answers that it lacks.
const BOTH: &str = r#"
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
int main(void) {
  struct timeval begun, now;
  int lacking = 0;
  gettimeofday(&begun, NULL);
  for (int number = 0; number < LOOKUPS; number++) {
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM }, *found = NULL;
    char name[32];
    gettimeofday(&now, NULL);
    long wait = number * 5000000L - ((now.tv_sec - begun.tv_sec) * 1000000L + now.tv_usec - begun.tv_usec);
    if (wait > 0) usleep(wait);
    snprintf(name, sizeof name, number ? "w%d.example." : "www.example.", number);
    int has_a = 0, has_aaaa = 0;
    if (getaddrinfo(name, 0, &hints, &found) != 0) found = NULL;
    for (struct addrinfo *one = found; one; one = one->ai_next) *(one->ai_family == AF_INET ? &has_a : &has_aaaa) = 1;
    lacking += 2 - has_a - has_aaaa;
  }
  return lacking;
}
"#;

/// What it has learnt of a server in the first lookup shows in the second.
fn glibc_looks_up_a_and_aaaa_together() {
    use Server::{Answers, Closed, Fails, FailsA, FailsAaaa, OnlyA, OnlyAaaa, Silent};
    let place = |lookups: &[f64]| {
        let count = format!("-DLOOKUPS={}", lookups.len());
        Place { lookups: lookups.to_vec(), is_for_both: true, ..compiled("cc", BOTH, &[&count]) }
    };
    let twice = place(&[0.0, 5.0]);
    for servers in [&[OnlyA][..], &[OnlyAaaa]] {
        compare(&twice, "glibc:timeout=1s", servers);
    }
    let once = place(&[0.0]);
    for servers in [
        &[FailsAaaa][..],
        &[FailsA, Answers],
        &[OnlyA, Answers],
        &[Silent, Answers],
        &[Fails, Answers],
        &[Closed, Answers],
    ] {
        compare(&once, "glibc:timeout=1s", servers);
    }
}

/// Asking again over TCP is not tried: it came with 1.2.4, which few distributions have.
fn musl_is_its_model() {
    let place = Place { later: Duration::from_millis(10), ..compiled_by("musl-gcc") };
    behaves_as("musl:timeout=1s", &place);
}

/// Asks by c-ares, a second and twice for each server.
const ARES: &str = r#"
#include <ares.h>
#include <netdb.h>
#include <stddef.h>
#include <sys/select.h>
static int failed = 1;
static void found(void *argument, int status, int timeouts, struct hostent *host) { failed = status != ARES_SUCCESS; }
int main(void) {
  ares_channel channel;
  struct ares_options options = { .flags = FLAGS, .timeout = 1000, .tries = 2 };
  ares_library_init(ARES_LIB_INIT_ALL);
  if (ares_init_options(&channel, &options, ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES)) return 2;
  ares_gethostbyname(channel, "www.example.", AF_INET, found, NULL);
  for (;;) {
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    int most = ares_fds(channel, &in, &out);
    if (most == 0) return failed;
    struct timeval time, *wait = ares_timeout(channel, NULL, &time);
    select(most, &in, &out, NULL, wait);
    ares_process(channel, &in, &out);
  }
}
"#;

/// The model is that of releases up to 1.18: later ones learn how long to wait.
fn ares_is_its_model() {
    let version = "#include <ares.h>\nint main(void) { return ARES_VERSION_MAJOR > 1 || ARES_VERSION_MINOR > 18; }\n";
    let newer = compiled("cc", version, &[]);
    if !Command::new(newer.folder.path().join("lookup")).status().unwrap().success() {
        eprintln!("c-ares here is later than 1.18, of which there is no model: not compared");
        return;
    }
    let model = "c-ares:timeout=1s,attempts=2";
    let place = compiled("cc", ARES, &["-DFLAGS=0", "-lcares"]);
    behaves_as(model, &place);
    compare(&place, model, &[Server::Truncates]);
    let with_edns = compiled("cc", ARES, &["-DFLAGS=ARES_FLAG_EDNS", "-lcares"]);
    compare(&with_edns, model, &[Server::LacksEdns]);
    compare(&with_edns, model, &[Server::Fails, Server::LacksEdns]);
}

fn go_is_its_model() {
    let place = Place::new();
    let source = format!(
        "package main\nimport (\"context\"; \"net\"; \"os\")\nfunc main() {{ resolver := net.Resolver{{PreferGo: true}}\n\
         if _, err := resolver.LookupIP(context.Background(), \"ip4\", \"{NAME}\"); err != nil {{ os.Exit(1) }} }}\n"
    );
    fs::write(place.folder.path().join("lookup.go"), source).unwrap();
    let path = format!("{}:/usr/local/go/bin", std::env::var("PATH").unwrap_or_default());
    let mut go = Command::new("go");
    go.args(["build", "-o", "lookup", "lookup.go"]).current_dir(place.folder.path());
    go.env("PATH", path).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod").env("GO111MODULE", "off");
    let output = go.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    behaves_as("go:timeout=1s", &place);
    compare(&place, "go:timeout=1s", &[Server::Truncates]);
}

/// Starts a forwarder, asks it by dig with these options at these seconds, and ends with the number of lookups that failed.
fn script(start: &str, forwarder: &str, dig: &str, lookups: &[f64]) -> String {
    let mut text = format!(
        "#!/bin/bash\nPATH=$PATH:/usr/sbin:/lib/systemd\nservers=$(grep -o '127.*' /etc/resolv.conf)\n\
         grep -q edns0 /etc/resolv.conf && edns=+edns || edns=+noedns\n{start}\nfailed=0\nlookups=()\n\
         ask() {{ sleep $1; dig @{forwarder} $edns +nocookie {dig} +short $2 A | grep -q '^192'; }}\n"
    );
    for (number, at) in lookups.iter().enumerate() {
        text += &format!("ask {at} {} & lookups+=($!)\n", name(number));
    }
    text + "for lookup in ${lookups[@]}; do wait $lookup || failed=$((failed + 1)); done\nkill $daemon\nexit $failed\n"
}

/// A place with a forwarder that is started anew each time.
fn forwarder(start: &str, address: &str, dig: &str, lookups: &[f64]) -> Place {
    Place { lookups: lookups.to_vec(), ..Place::with_script(&script(start, address, dig, lookups)) }
}

fn dnsmasq_is_its_model() {
    let start = "options=\"--no-daemon --conf-file=/dev/null --no-resolv --no-hosts --cache-size=0 --user=root --pid-file=\"\n\
                 for server in $servers; do options+=\" --server=$server\"; done\n\
                 dnsmasq $options --listen-address=127.0.1.1 --bind-interfaces & daemon=$!\n\
                 until dig @127.0.1.1 +tries=1 +time=1 version.bind CH TXT >/dev/null; do sleep 0.1; done";
    use Server::{Answers, Fails, Refuses, Silent, Truncates};
    let lookups = [0.0, 7.0];
    // It takes what is asked again from another port within two seconds for the question of another client.
    let place =
        Place { later: Duration::from_millis(10), ..forwarder(start, "127.0.1.1", "+tries=2 +time=3", &lookups) };
    for servers in [
        &[Silent][..],
        &[Silent, Answers],
        &[Answers, Silent],
        &[Fails, Answers],
        &[Fails, Silent],
        &[Fails],
        &[Fails, Fails],
        &[Refuses, Answers],
        &[Refuses, Silent],
        &[Refuses, Refuses, Answers],
        &[Truncates],
    ] {
        compare(&place, "dnsmasq:timeout=3s", servers);
    }
    gives_up_as("dnsmasq:timeout=3s", &forwarder(start, "127.0.1.1", "+tries=1 +time=3", &[0.0]));
}

/// Starts systemd-resolved in a root of its own, as far as it needs one: it wants a link with an address, the folder /run, and a user.
const RESOLVED: &str = r#"
if ! ip link show d0 >/dev/null 2>&1; then
    ip link add d0 type veth peer name d1
    ip address add 198.51.100.1/24 dev d0
    ip link set d0 up
    ip link set d1 up
    ip route add default dev d0
fi
mount -t tmpfs none /run
mkdir -p /run/systemd/netif/links systemd /etc/systemd
printf '[Resolve]\nDNS=%s\nFallbackDNS=\nCache=no\nDNSSEC=no\nLLMNR=no\nMulticastDNS=no\n' "$(echo $servers)" >systemd/resolved.conf
mount --bind systemd /etc/systemd
for table in passwd:x:990:990::/:/usr/sbin/nologin group:x:990:; do
    { cat /etc/${table%%:*}; echo systemd-resolve:${table#*:}; } >${table%%:*}
    mount --bind ${table%%:*} /etc/${table%%:*}
done
LD_LIBRARY_PATH=${RESOLVED%/*} "$RESOLVED" 2>/dev/null & daemon=$!
until dig @127.0.0.53 +tries=1 +time=1 localhost A >/dev/null; do sleep 0.1; done"#;

/// It lets timers be 250 ms late, so that several end at once.
fn with_slow_timers(place: Place) -> Place {
    Place { precision: 20, ..place }
}

/// The model is that of release 252.
fn resolved_is_its_model() {
    use Server::{Answers, Closed, Fails, LacksEdns, Refuses, Silent, Truncates};
    let Some(resolved) = built_server("systemd-resolved") else { return };
    if !resolved.with_file_name("libsystemd-shared-252.so").exists() {
        eprintln!("systemd-resolved here is not that of release 252: not compared");
        return;
    }
    let start = format!("RESOLVED={}{RESOLVED}", resolved.display());
    let asking = |seconds: u32, lookups: &[f64]| {
        let dig = format!("+tries=1 +time={seconds}");
        Place { has_edns: true, ..forwarder(&start, "127.0.0.53", &dig, lookups) }
    };
    let place = asking(6, &[0.0, 1.0]);
    for servers in [
        &[Fails][..],
        &[Fails, Answers],
        &[Refuses, Answers],
        &[Closed, Answers],
        &[Truncates],
        &[LacksEdns],
        &[LacksEdns, Answers],
    ] {
        compare(&place, "systemd-resolved", servers);
    }
    // It asks without EDNS after fifteen seconds, and over TCP after thirty.
    compare(&with_slow_timers(asking(33, &[0.0])), "systemd-resolved", &[Silent]);
    compare(&with_slow_timers(asking(6, &[0.0, 7.0])), "systemd-resolved", &[Silent, Answers]);
}

/// Which of several servers it asks first is chance. Without `discard-timeout` it answers whoever has waited for more than 1.9 s, too.
fn unbound_as_a_forwarder_is_its_model() {
    use Server::{Answers, Closed, Fails, LacksEdns, Refuses, Silent, Truncates};
    let start = "cat >unbound.conf <<END\n\
                 server:\n interface: 127.0.1.1\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n directory: \"$PWD\"\n pidfile: \"\"\n\
                 use-syslog: no\n do-not-query-localhost: no\n module-config: iterator\n cache-max-ttl: 0\n\
                 $(unbound-checkconf -o discard-timeout >/dev/null 2>&1 && echo ' discard-timeout: 0')\n\
                 forward-zone:\n name: .\n$(for server in $servers; do echo \" forward-addr: $server\"; done)\n\
                 END\n\
                 unbound -d -c unbound.conf 2>/dev/null & daemon=$!\n\
                 until dig @127.0.1.1 +tries=1 +time=1 version.bind CH TXT >/dev/null; do sleep 0.1; done";
    let asking = |seconds: u32, lookups: &[f64]| {
        let dig = format!("+tries=1 +time={seconds}");
        Place { has_edns: true, ..forwarder(start, "127.0.1.1", &dig, lookups) }
    };
    let place = asking(6, &[0.0, 1.0]);
    for servers in [&[Fails][..], &[Refuses], &[Truncates], &[LacksEdns]] {
        compare(&place, "unbound-forwarder", servers);
    }
    let once = asking(20, &[0.0]);
    compare(&once, "unbound-forwarder", &[Silent]);
    compare(&once, "unbound-forwarder", &[Closed, Answers]);
    compare(&Place { tries: 24, ..once }, "unbound-forwarder", &[Silent, Answers]);
    gives_up_as("unbound-forwarder:attempts=2", &asking(2, &[0.0]));
}

fn main() -> ExitCode {
    waiting::run(waiting::tests![
        glibc_is_its_model,
        glibc_looks_up_a_and_aaaa_together,
        musl_is_its_model,
        ares_is_its_model,
        go_is_its_model,
        dnsmasq_is_its_model,
        resolved_is_its_model,
        unbound_as_a_forwarder_is_its_model,
    ])
}
