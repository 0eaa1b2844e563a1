//! Zones made at random and signed in every way, served, and each answer validated by two resolvers that have nothing but the
//! root's trust anchor, unbound and BIND, and a part of them by `delv`, which asks the server itself.

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "this test needs a part of it")]
mod common;
mod delv;
#[path = "../../../zone/tests/random/mod.rs"]
mod random;
mod world;

use std::net::SocketAddr;
use std::path::Path;

use delv::DelvResult;
use ldplayer_core::message::{QueryParts, flag};
use ldplayer_emulate::serve::set::ZoneSet;
use ldplayer_emulate::serve::{Options, Server};
use ldplayer_emulate::stock::{Kind, StockServer, StockSettings};
use ldplayer_emulate::testbed::{Plan, Testbed};
use ldplayer_zone::rtype;
use random::Draw;
use world::{Question, World};

/// Where random choices begin; printed, and another one may be given in the environment.
const SEED: u64 = 15;
const SEED_VARIABLE: &str = "LDPLAYER_TEST_SEED";
/// Where unbound and BIND listen.
const LISTEN: [&str; 2] = ["10.53.0.2:53", "10.53.0.2:5353"];

fn unbound(world: &World) -> StockServer {
    // What it knows must not spare it a question; of DS records it denies those of names that an empty `*` stands for, without asking.
    let extra = "server:\n  aggressive-nsec: no\n  neg-cache-size: 0\n  harden-below-nxdomain: no\n  trust-anchor-signaling: no\n  val-log-level: 2\n";
    Kind::UNBOUND.with(StockSettings {
        root_hints: Some(world.hints()),
        trust_anchor: Some(world.anchor()),
        ipv6: false,
        extra: extra.to_owned(),
        ..StockSettings::default()
    })
}

fn bind(world: &World) -> StockServer {
    let listen: SocketAddr = LISTEN[1].parse().unwrap();
    let resolving = "recursion yes;\n  allow-recursion { any; };\n  synth-from-dnssec no;\n  servfail-ttl 0;";
    let text = Kind::BIND
        .head(Path::new("."), &[listen])
        .unwrap()
        .replace("recursion no;", resolving)
        .replace("dnssec-validation no;", "dnssec-validation yes;");
    let hints = world.hints();
    let zone = format!("zone \".\" {{ type hint; file \"{}\"; }};\n", hints.display());
    Kind::BIND.configured(text + &zone + &world.anchor_of_bind(), Vec::new())
}

/// Questions that `delv` is asked, which starts anew for each.
const DELVED: usize = 150;

/// A server of all zones at one address, which needs no namespace.
fn serve_everywhere(set: &Path) -> (Server, SocketAddr) {
    let address = common::free_v4();
    let options = Options { listen: vec![address], everywhere: true, workers: 1, ..Options::default() };
    (Server::start(ZoneSet::load(set).unwrap(), &options).unwrap(), address)
}

#[test]
fn delv_validates_what_is_served() {
    let seed = seed();
    println!("seed {seed}; another with {SEED_VARIABLE}=N");
    let world = World::draw(&mut Draw(seed));
    let questions = world.questions(&mut Draw(seed));
    let (_server, address) = serve_everywhere(&world.set());
    let anchor = world.anchor_file_of_bind();
    let found: Vec<_> = questions
        .iter()
        .step_by(questions.len() / DELVED)
        .map(|question| (question, delv::ask(address, &anchor, question)))
        .collect();
    let faults: Vec<_> = found.iter().filter_map(|(question, found)| found.fault(question)).collect();
    assert!(
        faults.is_empty(),
        "seed {seed}: {} faults, such as\n{}",
        faults.len(),
        faults[..faults.len().min(5)].join("\n")
    );
    let count = |wanted: fn(&DelvResult) -> bool| found.iter().filter(|(_, found)| wanted(found)).count();
    let secure = count(|found| matches!(found, DelvResult::Secure { .. }));
    let denied = count(|found| *found == DelvResult::Secure { is_denied: true });
    println!("{} questions, {secure} secure, {denied} of them NXDOMAIN", found.len());
    assert!(found.len() >= DELVED && secure > DELVED / 2 && denied > DELVED / 10);
}

#[test]
fn delv_refuses_what_was_changed_after_it_was_signed() {
    let world = World::draw(&mut Draw(SEED));
    let question = world.question_with_address();
    let asked = |set: &Path| {
        let (_server, address) = serve_everywhere(set);
        delv::ask(address, &world.anchor_file_of_bind(), &question)
    };
    assert_eq!(asked(&world.set()).fault(&question), None);
    world.change_address();
    assert!(asked(&world.set()).fault(&question).unwrap().starts_with("bogus"));
}

/// What a validator says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    rcode: u8,
    is_secure: bool,
}

fn ask(server: &str, question: &Question) -> Said {
    let (flags, edns) = (flag::RD, Some((4_096, true)));
    let mut octets = Vec::new();
    QueryParts { id: 1, flags, name: &question.name, qtype: question.qtype, qclass: 1, edns }.compose(&mut octets);
    let answer = common::ask_tcp(server.parse().unwrap(), &octets);
    Said { rcode: answer[3] & 0xf, is_secure: answer[3] & 0x20 != 0 }
}

/// What is wrong with what the validators say.
fn fault(question: &Question, said: [Said; 2]) -> Option<&'static str> {
    let [unbound, bind] = said;
    if is_of_unbound(question, said) {
        return None;
    }
    if said.iter().any(|said| said.rcode == 2) {
        return Some("bogus");
    }
    if unbound.rcode != bind.rcode {
        return Some("the validators differ");
    }
    if question.is_secure && !(unbound.is_secure && bind.is_secure) {
        return Some("not secure");
    }
    question.rcode.is_some_and(|wanted| wanted != unbound.rcode).then_some("another code")
}

/// What unbound refuses and BIND finds secure: it does not see that an NSEC record of a wildcard has a next name below a `*`, which
/// is empty then; and it denies names of DS and CNAME records that it finds when it is asked for them alone, perhaps by its cache.
fn is_of_unbound(question: &Question, [unbound, bind]: [Said; 2]) -> bool {
    let is_of_cache = matches!(question.qtype, rtype::DS | rtype::CNAME) && unbound.rcode == 3;
    bind == Said { rcode: 0, is_secure: true } && (is_of_cache || (question.is_of_empty_wildcard && unbound.rcode == 2))
}

fn seed() -> u64 {
    std::env::var(SEED_VARIABLE).map_or(SEED, |seed| seed.parse().unwrap())
}

#[test]
fn two_validators_find_nothing_bogus_in_zones_made_at_random() {
    let seed = seed();
    println!("seed {seed}; another with {SEED_VARIABLE}=N");
    let world = World::draw(&mut Draw(seed));
    let questions = world.questions(&mut Draw(seed));
    let testbed = Testbed::up(&Plan::default()).unwrap();
    let asked = || {
        let options = Options { workers: 1, ..Options::default() };
        let server = Server::start(ZoneSet::load(&world.set()).unwrap(), &options).unwrap();
        let said = testbed.run("resolver", || resolve(&testbed, &world, &questions)).unwrap();
        drop(server);
        said
    };
    let said = testbed.run("internet", asked).unwrap();
    let secure = said.iter().filter(|(said, _)| said[0].is_secure).count();
    let denied = said.iter().filter(|(said, _)| said[0].rcode == 3).count();
    println!("{} questions, {secure} secure, {denied} NXDOMAIN", said.len());
    // A resolver that validates nothing, and zones without wildcards or denials, would prove nothing.
    assert!(said.len() > 1_500 && secure > 700 && denied > 200);
    let is_excused = |said: &[Said; 2]| said[0].rcode != said[1].rcode;
    let excused = said.iter().filter(|(said, fault)| fault.is_none() && is_excused(said)).count();
    assert!(excused * 100 < said.len(), "{excused} answers that unbound alone finds wrong");
    let faults: Vec<&String> = said.iter().filter_map(|(_, fault)| fault.as_ref()).collect();
    assert!(faults.is_empty(), "seed {seed}: {} faults, such as\n{:#?}", faults.len(), &faults[..faults.len().min(20)]);
}

/// Starts the validators on this thread's host and has the clients ask both.
fn resolve(testbed: &Testbed, world: &World, questions: &[Question]) -> Vec<([Said; 2], Option<String>)> {
    let [unbound_at, bind_at] = LISTEN.map(|address| address.parse().unwrap());
    let started = (unbound(world).start(&[unbound_at]).unwrap(), bind(world).start(&[bind_at]).unwrap());
    let both = |question: &Question| {
        let said = LISTEN.map(|server| ask(server, question));
        (said, fault(question, said).map(|what| format!("{what}: {question}: {said:?}")))
    };
    let said = testbed.run("clients", || questions.iter().map(both).collect()).unwrap();
    drop(started);
    said
}

#[test]
fn a_validator_that_finds_a_name_bogus_fails_the_test() {
    let question = Question { name: vec![0], qtype: 1, rcode: Some(0), is_secure: true, is_of_empty_wildcard: false };
    let said = |rcode, is_secure| Said { rcode, is_secure };
    assert_eq!(fault(&question, [said(0, true); 2]), None);
    for (unbound, bind, wanted) in [
        (said(0, true), said(2, false), "bogus"),
        (said(0, true), said(3, true), "the validators differ"),
        (said(0, true), said(0, false), "not secure"),
        (said(3, true), said(3, true), "another code"),
    ] {
        assert_eq!(fault(&question, [unbound, bind]), Some(wanted));
    }
}
