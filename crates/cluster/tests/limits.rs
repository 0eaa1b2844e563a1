//! What a stranger who has the password of the NATS server gets of an agent: nothing that its user has not allowed, and it goes on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_cluster::message::{Ask, Say, Stage};
use ldplayer_cluster::{Agent, Bus, Embedded, Limits, subjects};
use serde_json::{Value, json};

const WITHIN: Duration = Duration::from_secs(5);

/// An agent with these limits, and what a stranger says to it.
fn with_agent(limits: Limits, act: impl FnOnce(&Stranger)) {
    let (server, stop) = (Embedded::start().unwrap(), AtomicBool::new(false));
    let scratch = tempfile::tempdir().unwrap();
    let bus = Bus::connect(server.link(), "a").unwrap();
    let agent = Agent::register(bus, "a", &[], scratch.path().to_owned(), limits).unwrap();
    let stranger = Stranger { own: subjects::agent(&agent.hello().id), bus: Bus::connect(server.link(), "x").unwrap() };
    thread::scope(|scope| {
        scope.spawn(|| agent.run(&stop));
        act(&stranger);
        stop.store(true, Ordering::Relaxed);
    });
}

struct Stranger {
    bus: Bus,
    own: String,
}

impl Stranger {
    fn ask(&self, subject: &str, ask: &Value) -> Say {
        self.bus.ask(subject, ask, ("the agent", "request"), WITHIN).unwrap()
    }

    /// Why the agent does not do what is asked of it.
    fn refusal(&self, ask: &Value) -> String {
        match self.ask(&self.own, ask) {
            Say::No { reason } => reason,
            other => panic!("{ask}: {other:?}"),
        }
    }

    fn is_answered(&self) -> bool {
        matches!(self.ask(subjects::AGENTS, &serde_json::to_value(Ask::Who).unwrap()), Say::Hello(_))
    }

    /// Why a part failed.
    fn failure(&self, run: u64, seat: u32) -> String {
        let begun = Instant::now();
        while begun.elapsed() < 4 * WITHIN {
            let progress = json!({"ask": "progress", "run": run, "seat": seat, "latencies": false});
            match self.ask(&self.own, &progress) {
                Say::Progress(progress) => match progress.stage {
                    Stage::Failed { reason } => return reason,
                    _ => thread::sleep(Duration::from_millis(20)),
                },
                other => panic!("{other:?}"),
            }
        }
        panic!("the part did not fail");
    }
}

fn part(run: u64, spec: &Value) -> Value {
    json!({"ask": "prepare", "run": run, "name": "x", "seat": 0, "shard": 0, "shards": 1, "first_ns": 0, "spec": spec,
        "source": "own_trace", "trace": [], "ahead_ns": 1, "from_ns": null})
}

fn feed(run: u64, spec: &Value) -> Value {
    json!({"ask": "feed", "run": run, "name": "x", "seat": 1, "feeder": 1, "feeders": 2, "agents": ["a"], "spec": spec})
}

#[test]
fn an_agent_reads_no_files_and_sends_no_load_that_its_user_has_not_allowed() {
    with_agent(Limits::default(), |stranger| {
        for (key, value) in [
            ("trace", json!(["/etc/hostname"])),
            ("rules", json!(["/etc/hostname"])),
            ("transport_shares", json!("/etc/hostname")),
            ("rtt", json!("/etc/hostname.csv")),
            ("start_server", json!("touch /x")),
        ] {
            let mut spec = json!({"version": 1, "trace": ["-"], "server": ["127.0.0.1:5399"]});
            spec[key] = value;
            for ask in [part(1, &spec), feed(2, &spec)] {
                let reason = stranger.refusal(&ask);
                assert!(reason.contains("reads no traces") || reason.contains("is not for agents"), "{key}: {reason}");
            }
        }
        assert!(stranger.is_answered());
    });
}

#[test]
fn permission_for_a_target_does_not_come_with_the_request() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("names.txt"), "example. A\n").unwrap();
    with_agent(Limits::new(Vec::new(), Some(folder.path())).unwrap(), |stranger| {
        let spec =
            json!({"version": 1, "trace": ["names.txt"], "server": ["203.0.113.9:53"], "allow_target": ["0.0.0.0/0"]});
        assert!(matches!(stranger.ask(&stranger.own, &part(1, &spec)), Say::Done));
        let reason = stranger.failure(1, 0);
        assert!(reason.contains("203.0.113.9") && reason.contains("--allow-target"), "{reason}");
    });
}

#[test]
fn an_agent_survives_every_message() {
    with_agent(Limits::new(Vec::new(), Some(Path::new("/"))).unwrap(), |stranger| {
        let spec = json!({"version": 1, "trace": ["/etc/hostname"], "server": ["127.0.0.1:5399"]});
        let mut asks = vec![
            json!(null),
            json!([]),
            json!({"ask": "nothing"}),
            json!({"ask": "start", "run": 1, "seat": 0, "at_ns": i64::MAX, "wall_ns": i64::MIN}),
            json!({"ask": "give_up", "run": 2, "seat": 1, "shard": u32::MAX}),
            json!({"ask": "release", "run": u64::MAX, "keep": true}),
            feed(2, &spec),
            json!({"ask": "give_up", "run": 2, "seat": 1, "shard": u32::MAX}),
        ];
        for key in ["shards", "shard", "seat", "first_ns", "ahead_ns", "from_ns"] {
            for value in [json!(0), json!(-1), json!(u32::MAX), json!(i64::MAX), json!(i64::MIN), json!("x")] {
                let mut ask = part(3, &spec);
                ask[key] = value;
                asks.push(ask);
            }
        }
        for ask in &asks {
            for subject in [subjects::AGENTS, &stranger.own] {
                stranger.ask(subject, ask);
            }
        }
        assert!(stranger.is_answered());
        stranger.ask(&stranger.own, &json!({"ask": "release", "run": 3, "keep": false}));
    });
}

#[test]
fn a_request_about_a_run_to_all_agents_at_once_is_refused() {
    with_agent(Limits::default(), |stranger| {
        let said = stranger.ask(subjects::AGENTS, &json!({"ask": "release", "run": 1, "keep": false}));
        assert!(matches!(said, Say::No { .. }), "{said:?}");
    });
}
