//! Faults: whatever is asked of a signed zone, each fault leaves a message, over UDP none that is longer than clients take.
#![no_main]

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use ldplayer_core::Message;
use ldplayer_emulate::serve::faults::{Asked, Fate, Faults, Maker};
use ldplayer_zone::{Scratch, Transport, Zone, load, respond};
use libfuzzer_sys::fuzz_target;

static ZONE: LazyLock<Zone> = LazyLock::new(|| {
    let text = include_bytes!("../../crates/zone/tests/zones/nsec.zone");
    let read = load::text_of(text, Path::new("zone"), Some(b"\0"), &mut |_| Err(std::io::ErrorKind::NotFound.into()));
    // The bundled zone is sound.
    Zone::from_records(&read.expect("records")).expect("a zone").0
});

/// The rules of all answers that a fault has, each alone.
static RULES: LazyLock<Vec<Arc<Faults>>> = LazyLock::new(|| {
    let answers = [
        "servfail",
        "truncated",
        "lame",
        "no-edns",
        "bad-version",
        "edns-ignored",
        "wrong-id",
        "wrong-question",
        "unsigned",
        "without-glue",
        "expired",
        "bogus",
        "without-options",
        "wrong-glue",
        "without-ds",
        "without-denial",
        "wrong-denial",
        "fewer-servers",
        "alias-loop",
        "alias-chain",
        "delegation-loop",
    ];
    // Answers are those of docs/faults.md.
    let rule = |text: String| Arc::new(Faults::parse(&format!("[[fault]]\n{text}\n")).expect("a rule"));
    let plain = answers.map(|answer| rule(format!("answer = '{answer}'")));
    let more = ["answer = 'many-servers'\ntarget = 'victim.test.'", "add = 'www.bank.test. 60 A 192.0.2.1'"];
    plain.into_iter().chain(more.map(|text| rule(text.to_owned()))).collect()
});

fuzz_target!(|query: &[u8]| {
    let Some(message) = Message::new(query) else { return };
    let Some(question) = message.question() else { return };
    let (mut scratch, mut right) = (Scratch::default(), Vec::new());
    let mut answer = |query: &[u8], out: &mut Vec<u8>| respond(&*ZONE, query, Transport::Udp, &mut scratch, out).sends;
    if !answer(query, &mut right) {
        return;
    }
    for rules in RULES.iter() {
        let (mut maker, mut out) = (Maker::new(Arc::clone(rules), 0, 0), right.clone());
        let asked = Asked {
            zone: Some(ZONE.apex()),
            name: question.name,
            qtype: question.qtype,
            local: Ipv4Addr::LOCALHOST.into(),
            peer: Ipv4Addr::LOCALHOST.into(),
            transport: ldplayer_core::Transport::Udp,
            edns: message.opt_offset().is_some(),
            length: out.len(),
            at_ns: 0,
        };
        let fate = maker.apply(asked, query, &mut out, &mut |query, out| {
            answer(query, out);
        });
        assert_eq!(fate, Fate::Sent { later_ns: 0 });
        assert!(Message::new(&out).is_some_and(|message| !message.is_cut()) && out.len() <= 1232, "{rules:?}: {out:?}");
    }
});
