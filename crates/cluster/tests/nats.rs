//! Against a real nats-server: agents are found, clocks compared, and queries come once and in order.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ldplayer_cluster::{
    Agent, Bus, ClusterError, Distributor, Embedded, Limits, Link, ShardFeed, Turn, agents, offset,
};
use ldplayer_core::{Expected, Query, RunTime, Transport};
use ldplayer_emulate::stock::{Output, Process};
use ldplayer_net::programs;
use ldplayer_replay::Feed;

/// Room of a stream in octets.
const ROOM: i64 = 64 << 20;
const SECOND: i64 = 1_000_000_000;

fn queries(count: u64, clients: u32) -> Vec<Query> {
    let query = |index| Query {
        index,
        due: RunTime(index as i64 * 1_000),
        client: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + (index as u32).wrapping_mul(2_654_435_761) % clients)),
        client_port: 1_024,
        server: "192.0.2.1:53".parse().unwrap(),
        transport: Transport::Udp,
        class: None,
        expected: Expected::Nothing,
        dependency: None,
        wire: format!("{index:>40}").into_bytes().into(),
    };
    (0..count).map(query).collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|agent| format!("a{agent}")).collect()
}

/// All that an agent reads.
fn read(bus: &Bus, run: u64, shard: u32) -> Result<Vec<Query>, String> {
    let (mut feed, mut all) = (ShardFeed::open(bus, run, shard, SECOND), Vec::new());
    while feed.next(&mut all).map_err(|error| error.to_string())? {}
    Ok(all)
}

#[test]
fn agents_are_found_and_their_clocks_compared() {
    let server = Embedded::start().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for name in ["b", "a", "c"] {
            let bus = Bus::connect(server.link(), name).unwrap();
            let agent = Agent::register(bus, name, &[], std::env::temp_dir(), Limits::default()).unwrap();
            scope.spawn(|| agent.run(&stop));
        }
        let bus = Bus::connect(server.link(), "controller").unwrap();
        let found = agents(&bus, Duration::from_secs(20), 3).unwrap();
        assert_eq!(found.iter().map(|hello| hello.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        // Both clocks are that of this host: the true difference is none, and must be within the error.
        for agent in &found {
            let offset = offset(&bus, agent).unwrap();
            assert!(offset.offset.abs() <= offset.error, "{offset:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn every_query_comes_once_and_in_order_to_the_agent_of_its_client() {
    const AGENTS: usize = 4;
    let server = Embedded::start().unwrap();
    let all = queries(200_000, 3_000);
    let bus = Bus::connect(server.link(), "controller").unwrap();
    let mut distributor = Distributor::open(&bus, 7, &names(AGENTS), (ROOM, 1), Turn::ALL).unwrap();
    let read: Vec<Vec<Query>> = thread::scope(|scope| {
        let link = server.link();
        let readers: Vec<_> = (0..AGENTS as u32)
            .map(|shard| scope.spawn(move || read(&Bus::connect(link, "agent").unwrap(), 7, shard).unwrap()))
            .collect();
        all.chunks(1_000).for_each(|part| distributor.give(&bus, part).unwrap());
        let told: Vec<u64> = distributor.finish(&bus).unwrap().iter().map(|hand| hand.queries).collect();
        let read: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        assert_eq!(told, read.iter().map(|rows| rows.len() as u64).collect::<Vec<_>>());
        read
    });
    let mut owner = HashMap::new();
    for (agent, rows) in read.iter().enumerate() {
        assert!(rows.is_sorted_by_key(|row| row.index), "agent {agent} got queries out of order");
        assert!(rows.iter().all(|row| *owner.entry(row.client).or_insert(agent) == agent), "a client has two agents");
    }
    let mut together: Vec<Query> = read.into_iter().flatten().collect();
    together.sort_by_key(|row| row.index);
    assert!(together == all, "what came is not what was sent");
}

#[test]
fn a_slow_agent_holds_back_its_own_shard_alone() {
    let server = Embedded::start().unwrap();
    let bus = Bus::connect(server.link(), "controller").unwrap();
    let all = queries(40_000, 3_000);
    // Room for a few batches: that of agent 0 is full long before the end, and nobody reads it.
    let mut distributor = Distributor::open(&bus, 8, &names(2), (1 << 20, 1), Turn::ALL).unwrap();
    let link = server.link();
    thread::scope(|scope| {
        let quick = scope.spawn(move || read(&Bus::connect(link, "quick").unwrap(), 8, 1).unwrap());
        all.chunks(1_000).for_each(|part| distributor.give(&bus, part).unwrap());
        let finish =
            scope.spawn(|| distributor.finish(&bus).unwrap().iter().map(|hand| hand.queries).collect::<Vec<_>>());
        let slow = scope.spawn(move || read(&Bus::connect(link, "slow").unwrap(), 8, 0).unwrap());
        let read = [slow.join().unwrap().len() as u64, quick.join().unwrap().len() as u64];
        assert_eq!(finish.join().unwrap(), read);
        assert_eq!(read.iter().sum::<u64>(), all.len() as u64);
    });
}

#[test]
fn a_run_of_two_controllers_is_refused_to_the_second() {
    let server = Embedded::start().unwrap();
    let bus = Bus::connect(server.link(), "controller").unwrap();
    let _first = Distributor::open(&bus, 9, &names(1), (ROOM, 1), Turn::ALL).unwrap();
    let other = Bus::connect(server.link(), "another").unwrap();
    let refused = Distributor::open(&other, 9, &names(1), (ROOM, 1), Turn::ALL).err().unwrap().to_string();
    assert!(refused.contains("stream ldplayer-0000000000000009-0") && refused.contains("already in use"), "{refused}");
}

#[test]
fn who_is_not_let_in_is_told_so() {
    let server = Embedded::start().unwrap();
    let (start, end) = (server.link().url.find("ldplayer:").unwrap(), server.link().url.find('@').unwrap());
    let wrong = format!("{}ldplayer:wrong{}", &server.link().url[..start], &server.link().url[end..]);
    let refused = Bus::connect(&Link { url: wrong, ..Link::default() }, "x").unwrap_err();
    assert!(matches!(refused, ClusterError::Refused { .. }), "{refused}");
    assert!(!refused.to_string().contains("wrong@"), "{refused}");
}

#[test]
fn a_server_without_jetstream_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(programs::find("nats-server").unwrap());
    command.args(["-a", "127.0.0.1", "-p", "-1"]);
    let (_server, address) = started(folder.path(), &mut command);
    let without = Bus::connect(&Link { url: format!("nats://{address}"), ..Link::default() }, "x").unwrap_err();
    assert!(matches!(without, ClusterError::NoJetStream { .. }), "{without}");
    assert!(without.to_string().ends_with("start it with -js"), "{without}");
}

/// A server with this configuration in this folder, and its address.
fn configured(folder: &std::path::Path, configuration: &str) -> (Process, String) {
    let file = folder.join("nats.conf");
    let store = folder.join("store");
    let text = format!(
        "listen: \"127.0.0.1:-1\"\nauthorization {{ user: me, password: secret }}\n{}",
        configuration.replace("STORE", &store.display().to_string())
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(programs::find("nats-server").unwrap());
    command.arg("-c").arg(&file);
    started(folder, &mut command)
}

/// A server, and its address as it writes it into this folder.
fn started(folder: &std::path::Path, command: &mut Command) -> (Process, String) {
    command.arg("--ports_file_dir").arg(folder);
    let server = Process::start("nats-server", command, Output::Log(folder.join("log"))).unwrap();
    let file = folder.join(format!("nats-server_{}.ports", server.id()));
    let address = (0..500).find_map(|_| {
        thread::sleep(Duration::from_millis(10));
        let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
        ports["nats"][0].as_str()?.rsplit_once("//").map(|(_, address)| address.to_owned())
    });
    (server, address.unwrap())
}

#[test]
fn streams_are_smaller_on_a_server_short_of_storage_and_one_without_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let text = "jetstream { store_dir: \"STORE\", max_file_store: 300MB }\n";
    let (_server, address) = configured(folder.path(), text);
    let bus = Bus::connect(&Link { url: format!("nats://me:secret@{address}"), ..Link::default() }, "x").unwrap();
    // Four of 64 MiB fit, and four of the default of 1 GiB do not.
    let mut first = Distributor::open(&bus, 11, &names(4), (1 << 30, 1), Turn::ALL).unwrap();
    let all = queries(1_000, 50);
    first.give(&bus, &all).unwrap();
    first.finish(&bus).unwrap();
    let read: usize = (0..4).map(|shard| read(&bus, 11, shard).unwrap().len()).sum();
    assert_eq!(read, all.len());
    // What is left holds two of 16 MiB; of three, none may stay.
    let refused = Distributor::open(&bus, 12, &names(3), (1 << 30, 1), Turn::ALL).err().unwrap();
    assert!(matches!(refused, ClusterError::Full { .. }), "{refused}");
    assert!(refused.to_string().contains("raise max_file_store"), "{refused}");
    Distributor::open(&bus, 13, &names(2), (1 << 30, 1), Turn::ALL).unwrap();
}

/// Three servers that are a cluster, on addresses of this process alone, with so much storage each; and their URL.
fn cluster(folder: &std::path::Path, storage: &str) -> (Vec<Process>, String) {
    let [.., high, low] = std::process::id().to_be_bytes();
    let routes: Vec<String> = (1..=3).map(|at| format!("nats://127.{high}.{low}.{at}:6222")).collect();
    let one = |at: usize| {
        let folder = folder.join(at.to_string());
        std::fs::create_dir(&folder).unwrap();
        let text = format!(
            "server_name: n{at}\njetstream {{ store_dir: \"STORE\", max_file_store: {storage} }}\n\
             cluster {{ name: c, listen: \"127.{high}.{low}.{at}:6222\", routes: [{}] }}\n",
            routes.join(", ")
        );
        configured(&folder, &text)
    };
    let (servers, addresses): (Vec<_>, Vec<_>) = (1..=3).map(one).unzip();
    let urls: Vec<String> = addresses.iter().map(|address| format!("nats://me:secret@{address}")).collect();
    (servers, urls.join(","))
}

#[test]
fn streams_are_smaller_on_a_cluster_short_of_storage_and_one_without_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (servers, url) = cluster(folder.path(), "300MB");
    let bus = Bus::connect(&Link { url, ..Link::default() }, "x").unwrap();
    // Four of 64 MiB fit each server, and none of the default of 1 GiB does.
    let mut first = Distributor::open(&bus, 21, &names(4), (1 << 30, 3), Turn::ALL).unwrap();
    let all = queries(1_000, 50);
    first.give(&bus, &all).unwrap();
    first.finish(&bus).unwrap();
    let read: usize = (0..4).map(|shard| read(&bus, 21, shard).unwrap().len()).sum();
    assert_eq!(read, all.len());
    drop((bus, servers));
    // What a server has left is known to the others after a while only: here not even the first of 16 MiB fits.
    let folder = tempfile::tempdir().unwrap();
    let (_servers, url) = cluster(folder.path(), "10MB");
    let bus = Bus::connect(&Link { url, ..Link::default() }, "x").unwrap();
    let refused = Distributor::open(&bus, 22, &names(3), (1 << 30, 3), Turn::ALL).err().unwrap();
    assert!(matches!(refused, ClusterError::Full { .. }), "{refused}");
}

/// A certificate of its own authority for 127.0.0.1, as openssl makes it: the paths of certificate and key.
fn certificate(folder: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (certificate, key) = (folder.join("server.pem"), folder.join("server.key"));
    let made = Command::new(programs::find("openssl").unwrap())
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args([
            "-subj",
            "/CN=nats",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

#[test]
fn a_server_with_tls_is_trusted_by_the_authority_that_is_told_and_by_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path());
    let text = format!(
        "jetstream {{ store_dir: \"STORE\" }}\ntls {{ cert_file: \"{}\", key_file: \"{}\" }}\n",
        certificate.display(),
        key.display()
    );
    let (_server, address) = configured(folder.path(), &text);
    let port = address.rsplit_once(':').unwrap().1;
    let link = Link { url: format!("tls://me:secret@127.0.0.1:{port}"), ..Link::default() };
    let bus = Bus::connect(&Link { ca: Some(certificate), ..link.clone() }, "x").unwrap();
    assert!(bus.url().starts_with("tls://127.0.0.1:"), "{}", bus.url());
    let stranger = Bus::connect(&link, "x").unwrap_err();
    assert!(matches!(stranger, ClusterError::Connect { .. }), "{stranger}");
}

#[test]
fn nobody_there_is_told_with_what_to_do() {
    let nobody = Bus::connect(&Link { url: "nats://127.0.0.1:1".into(), ..Link::default() }, "x").unwrap_err();
    let text = nobody.to_string();
    assert!(text.contains("no NATS server at nats://127.0.0.1:1") && text.contains("--nats embedded"), "{text}");
}

/// A shard whose clients ask late, or an agent that takes over in the midst of a run, has queries before the start is told: else nobody would tell it.
#[test]
fn an_agent_whose_first_query_is_far_ahead_has_it_before_the_start() {
    let server = Embedded::start().unwrap();
    let bus = Bus::connect(server.link(), "controller").unwrap();
    let late: Vec<Query> = queries(300, 50)
        .into_iter()
        .map(|query| Query { due: RunTime((100 + query.index as i64) * SECOND), ..query })
        .collect();
    let mut distributor = Distributor::open(&bus, 10, &names(1), (ROOM, 1), Turn::ALL).unwrap();
    distributor.give(&bus, &late).unwrap();
    distributor.finish(&bus).unwrap();
    let first = |mut feed: ShardFeed| {
        let mut read = Vec::new();
        assert!(feed.next(&mut read).unwrap());
        read[0].due.0 / SECOND
    };
    assert_eq!(first(ShardFeed::open(&bus, 10, 0, SECOND)), 100);
    // Another one takes over from the 250th second on; what the first one had is gone with it.
    assert_eq!(first(ShardFeed::take_over(&bus, 10, 0, SECOND, 250 * SECOND)), 250);
}
