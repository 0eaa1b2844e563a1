//! The proof that one server answers like many: a stock resolver finds the same, and asks the same, at `serve`, at a server
//! process for each zone's addresses, and at BIND with views behind the paper's proxies.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "this test needs a part of it")]
mod common;
mod compare;
mod zones;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use compare::{Followed, differences, read};
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options, Server};
use ldplayer_emulate::stock::{Kind, StockSettings, Zone};
use ldplayer_emulate::testbed::{INTERNET, Plan, RESOLVER, Testbed};
use ldplayer_emulate::views;
use ldplayer_emulate::wire::ProxySettings;
use zones::{Question, Zones};

/// Where the resolver listens.
const LISTEN: &str = "10.53.0.2:53";
/// What makes unbound ask the same questions in the same order.
const UNBOUND: &str = "server:\n  target-fetch-policy: \"0 0 0 0 0\"\n  unknown-server-time-limit: 10000\n  \
                       trust-anchor-signaling: no\n";
/// Where BIND listens.
const BIND: [&str; 2] = ["10.53.0.3:53", "[fd53::3]:53"];
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who answers for the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Internet {
    /// A process of NSD for each set of addresses.
    Many,
    /// The meta-DNS-server.
    Serve,
    /// BIND with views, behind the proxies.
    Views,
}

struct Run<'a> {
    zones: &'a Zones,
    resolver: Kind,
    validates: bool,
    minimise: bool,
    questions: &'a [Question],
}

impl<'a> Run<'a> {
    /// A stock unbound that validates and minimises.
    const fn of_unbound(zones: &'a Zones, questions: &'a [Question]) -> Self {
        Self { zones, resolver: Kind::UNBOUND, validates: true, minimise: true, questions }
    }

    /// Resolves the questions from a cold cache and tells what was asked and answered.
    fn with(&self, internet: Internet) -> Vec<Followed> {
        let set = ZoneSet::load(&self.zones.set()).unwrap();
        let capture =
            self.zones.path(&format!("{internet:?}-{:?}-{}-{}.pcap", self.resolver, self.validates, self.minimise));
        let testbed = Testbed::up(&plan(&set, internet, capture.clone())).unwrap();
        let run = || {
            let servers = Servers::start(internet, &self.zones.set());
            testbed.run("resolver", || self.resolve(&testbed)).unwrap();
            drop(servers);
        };
        testbed.run("internet", run).unwrap();
        let report = testbed.down().unwrap();
        assert_eq!((report.wire.leaks, report.wire.dropped.unmapped), (Vec::new(), 0));
        let followed = read(&capture, &set);
        assert_eq!(followed.len(), self.questions.len());
        followed
    }

    /// Starts the resolver on this thread's host and asks it.
    fn resolve(&self, testbed: &Testbed) {
        let hints = self.zones.path("hints");
        std::fs::write(&hints, zones::HINTS).unwrap();
        let extra = if self.resolver == Kind::UNBOUND { UNBOUND } else { "" };
        let told = StockSettings {
            root_hints: Some(hints),
            trust_anchor: self.validates.then(|| self.zones.anchor()),
            qname_minimisation: self.minimise,
            extra: extra.to_owned(),
            ..StockSettings::default()
        };
        let started = self.resolver.with(told).start(&[LISTEN.parse().unwrap()]).unwrap();
        testbed.run("clients", || self.ask()).unwrap();
        drop(started);
    }

    fn ask(&self) {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.connect(LISTEN).unwrap();
        for ((name, qtype), id) in self.questions.iter().zip(1_u16..) {
            socket.send(&query(id, name, *qtype)).unwrap();
            let mut answer = [0; 4_096];
            let length = socket.recv(&mut answer).unwrap_or_else(|error| panic!("{name} {qtype}: {error}"));
            assert!(length > 12 && answer[..2] == id.to_be_bytes(), "{name} {qtype}");
        }
    }
}

/// A query with RD, EDNS and DO.
fn query(id: u16, name: &str, qtype: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    ldplayer_core::name::parse(name, &mut message).unwrap();
    message.extend_from_slice(&qtype.to_be_bytes());
    message.extend_from_slice(&[0, 1, 0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0]);
    message
}

/// A testbed whose Internet has the addresses of all name servers.
fn plan(set: &ZoneSet, internet: Internet, capture: PathBuf) -> Plan {
    let mut plan = Plan { capture: Some(capture), ..Plan::default() };
    let addresses = set.addresses();
    let host = &mut plan.hosts[usize::from(INTERNET.0)];
    if internet == Internet::Many {
        // NSD is asked whether it is ready on its own host, where only the addresses of the device are reached.
        host.addresses.extend(used(set));
    }
    host.owns = addresses.iter().map(|address| address.to_string().parse().unwrap()).collect();
    let peers = BIND.map(|address| address.parse::<SocketAddr>().unwrap().ip()).to_vec();
    plan.proxies = (internet == Internet::Views).then_some(ProxySettings {
        resolver: RESOLVER,
        server: INTERNET,
        peers,
        port: 53,
    });
    plan
}

/// Addresses that the resolver's hints or the zones name: of the published root servers, those two.
fn used(set: &ZoneSet) -> Vec<IpAddr> {
    let published = |address: &IpAddr| match address {
        IpAddr::V4(v4) => ldplayer_zone::hints::ROOT_V4.contains(v4),
        IpAddr::V6(v6) => ldplayer_zone::hints::ROOT_V6.contains(v6),
    };
    let in_hints = |address: &IpAddr| zones::HINTS.split_whitespace().any(|word| word.parse() == Ok(*address));
    set.addresses().into_iter().filter(|address| !published(address) || in_hints(address)).collect()
}

/// Servers on the Internet's host, ended when dropped.
struct Servers {
    _stock: Vec<ldplayer_emulate::stock::Process>,
    _meta: Option<Server>,
}

impl Servers {
    fn start(internet: Internet, directory: &Path) -> Self {
        let set = ZoneSet::load(directory).unwrap();
        match internet {
            Internet::Many => Self { _stock: many(&set), _meta: None },
            Internet::Serve => {
                let options = Options { workers: 1, ..Options::default() };
                Self { _stock: Vec::new(), _meta: Some(Server::start(set, &options).unwrap()) }
            }
            Internet::Views => {
                let listen = BIND.map(|address| address.parse().unwrap());
                let bind =
                    Kind::BIND.configured(views::configuration(&set, &listen, &HashMap::new()).unwrap(), Vec::new());
                Self { _stock: vec![bind.start(&listen).unwrap()], _meta: None }
            }
        }
    }
}

/// One NSD for each set of addresses with the zones that live there.
fn many(set: &ZoneSet) -> Vec<ldplayer_emulate::stock::Process> {
    let used = used(set);
    let start = |(addresses, numbers): (Vec<IpAddr>, &[u32])| {
        let own = numbers.iter().map(|&number| &set.zones()[number as usize]);
        let zones = own.map(|zone| Zone::new(ldplayer_core::name::Presentation(zone.apex()).to_string(), zone.file()));
        let listen: Vec<SocketAddr> =
            addresses.into_iter().filter(|ip| used.contains(ip)).map(|ip| SocketAddr::new(ip, 53)).collect();
        Kind::NSD.serving(zones.collect()).start(&listen).unwrap()
    };
    set.index().views().into_iter().filter(|(_, zones)| !zones.is_empty()).map(start).collect()
}

fn assert_same(reference: &[Followed], other: &[Followed]) {
    let found = differences(reference, other);
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n\n"));
}

#[test]
fn one_server_answers_like_many() {
    let (zones, questions) = (Zones::new(), zones::odd_questions());
    for minimise in [true, false] {
        let run = Run { minimise, ..Run::of_unbound(&zones, &questions) };
        let reference = run.with(Internet::Many);
        let exchanges: usize = reference.iter().map(|followed| followed.upstream.len()).sum();
        // A comparison of nothing would find no difference, either.
        assert!(exchanges > questions.len(), "{exchanges}");
        let secure = reference.iter().filter(|followed| followed.answer.starts_with("NOERROR ad")).count();
        assert!(secure > 15, "{secure} answers were validated");
        assert!(reference.iter().all(|followed| !followed.answer.starts_with("SERVFAIL")), "{reference:#?}");
        assert!(reference.iter().flat_map(|followed| &followed.upstream).any(|exchange| exchange.contains("over tcp")));
        assert_same(&reference, &run.with(Internet::Serve));
        // The figures of docs/hierarchy.md, for --nocapture.
        println!(
            "minimise {minimise}: {} questions, {exchanges} exchanges, {secure} answers validated",
            questions.len()
        );
    }
}

/// The one response to which BIND adds no addresses of the name servers in its authority section: it has them in another zone of the
/// view. NSD adds them, as we do.
const BARE_AT_BIND: &str = " soa over udp at the servers of . root-servers.net.\n";

#[test]
fn serve_and_bind_with_views_behind_the_proxies_resolve_alike() {
    let (zones, questions) = (Zones::new(), zones::many_questions());
    assert_eq!(questions.len(), 500);
    let run = Run::of_unbound(&zones, &questions);
    let serve = run.with(Internet::Serve);
    let exchanges: usize = serve.iter().map(|followed| followed.upstream.len()).sum();
    // Proofs of absence, once cached, answer for many names without a question.
    assert!(exchanges > 300, "{exchanges}");
    let views = run.with(Internet::Views);
    let [views, serve] = [views, serve].map(|run| compare::without_additional(run, BARE_AT_BIND));
    assert_same(&views, &serve);
    println!("{} questions, {exchanges} exchanges", questions.len());
}

/// What Knot Resolver 5.6 cannot validate wherever it asks: the first name of an unsigned zone whose parent, signed with NSEC3, is on
/// the same server and has a label of its own between.
const NOT_FOR_KNOT: &str = "host.www.x.zone.example.net aaaa";

#[test]
fn other_resolvers_find_what_unbound_finds() {
    let zones = Zones::new();
    // A client that does not go on over TCP has no answer of theirs that is longer than 1,232 octets.
    let questions: Vec<Question> =
        zones::odd_questions().into_iter().filter(|(name, _)| !name.starts_with("large")).collect();
    for validates in [true, false] {
        let at = |internet, resolver| Run { resolver, validates, ..Run::of_unbound(&zones, &questions) }.with(internet);
        let unbound = at(Internet::Serve, Kind::UNBOUND);
        for resolver in common::resolvers().into_iter().filter(|&kind| kind != Kind::UNBOUND) {
            let serve = at(Internet::Serve, resolver);
            assert_same_answers(&at(Internet::Many, resolver), &serve, "");
            let is_excused = validates && resolver == Kind::KNOT_RESOLVER;
            assert_same_answers(&unbound, &serve, if is_excused { NOT_FOR_KNOT } else { "" });
        }
    }
}

fn assert_same_answers(reference: &[Followed], other: &[Followed], but_for: &str) {
    let found = compare::different_answers(reference, other);
    let found: Vec<String> = found.into_iter().filter(|told| told.lines().next() != Some(but_for)).collect();
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}
