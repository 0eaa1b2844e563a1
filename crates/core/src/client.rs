//! Models of clients: what a stub resolver does when no answer comes, or a bad one.
//!
//! A model is a row of [`STUBS`], or one of these with other settings. It is data without state: [`Stub::turn`] says whom a client asks in
//! which turn and how long it waits, [`Stub::reaction`] what it does upon a response.

use std::fmt;
use std::str::FromStr;

use crate::time::{NS_PER_S, Span};

/// How a client behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientModel {
    /// It sends what was recorded, once.
    #[default]
    Open,
    /// It asks until it has an answer, or gives up.
    Stub(Stub),
}

/// A stub resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub {
    /// How often it goes through its list of servers.
    pub attempts: u8,
    /// How long it waits for an answer, in nanoseconds; [`Self::growth`] says what becomes of it.
    pub timeout: i64,
    /// How the wait grows.
    pub growth: Growth,
    /// Whom it asks.
    pub order: Order,
    /// Whether each lookup of a client begins with another server.
    pub rotate: bool,
    /// Response codes upon which it asks another server at once; the bit of each code. One that asks all servers asks the same one again.
    pub retry_on: u16,
    /// Response codes that it passes over, as if nothing had come.
    pub ignore: u16,
    /// Whether it takes an answer to an earlier attempt.
    pub late: bool,
    /// Whether the rest of a lookup leaves out servers that failed in it, where there are others. It asks those that were silent again.
    pub skip_failed: bool,
    /// Whether all attempts of a lookup over UDP have the same query ID.
    pub keep_id: bool,
    /// Whether it asks again over TCP after a truncated answer.
    pub tcp: bool,
    /// Response codes to a query with EDNS upon which it asks the server at once without it (RFC 6891 section 7); the bit of each code.
    pub edns_fallback: u16,
    /// Those of them upon which it first asks once more as it did.
    pub edns_again: u16,
    /// After so many attempts in a row that a server did not answer, it asks that without EDNS, and after as many more over TCP; 0 where it
    /// never does.
    pub downgrade: u8,
    /// The ports that the attempts of a lookup over UDP come from.
    pub ports: Ports,
    /// Whether it looks up A and AAAA of a name together. A server that answers only one of them is asked again in turn, then from one port for
    /// each; then the client takes the one. Where neither is answered, both go to the next server.
    pub pairs: bool,
}

/// When an attempt over UDP has another port than one before it in the lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Never.
    One,
    /// At another server.
    ByServer,
    /// At another server, and after a failure.
    UntilFailure,
    /// Each time that it goes over to another server.
    ByChange,
    /// Always.
    ByAttempt,
}

/// How long a stub waits in each turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Always the timeout.
    Same,
    /// Twice as long each time that it has been through its servers.
    Double,
    /// The timeout in equal parts for all attempts.
    Split,
    /// The timeout for the first server; for the next ones twice as long each, divided by the number of servers, in whole seconds.
    Glibc,
    /// The same, but not in whole seconds.
    Android,
    /// 1, 1, 2, 4 and 2 times the timeout.
    Windows,
    /// The timeout for a server that has not answered yet, then what RFC 6298 makes of its round trips, in 50 ms to two minutes; twice as
    /// long after each silence.
    RoundTrips,
}

/// Whom a stub asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One server after the other.
    OneByOne,
    /// All at once, again and again.
    All,
    /// One after the other, and all at once from the fourth time on.
    ThenAll,
    /// The one that the client stays with from lookup to lookup: it goes over to the next one when that is silent, and for a failure to as
    /// many as it has.
    Current,
    /// The one whose answer the client took last. It asks all servers in its first lookup, after [`TEST_LOOKUPS`] or [`TEST_NS`], when it
    /// asks again, and after a failure. It takes the first SERVFAIL of all of them, and other failures where all have failed.
    LastGood,
    /// One of the quickest, by chance: those whose timeout is at most [`BAND_NS`] longer than the shortest one; each of them
    /// [`Stub::attempts`] times. A query with EDNS is sent once more to the same server where that was silent for less than
    /// [`SMALLER_BELOW_NS`]: a shorter answer may come.
    Quickest,
}

/// What a stub does in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The place of the server in the list; `None` for all of them.
    pub server: Option<usize>,
    /// How long it waits for an answer before the next turn, in nanoseconds.
    pub wait: i64,
}

/// What a stub does upon a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It takes it.
    Accept,
    /// It goes on to its next turn.
    Next,
    /// It asks this server again.
    Again,
    /// It asks this server again without EDNS.
    WithoutEdns,
    /// It goes on waiting.
    Ignore,
}

/// A format error (RFC 1035 section 4.1.1).
pub const FORMERR: u16 = 1;
/// A server that failed (RFC 1035 section 4.1.1).
pub const FAILURE: u16 = 2;
/// After so many lookups, or so long in nanoseconds, a client with [`Order::LastGood`] asks all its servers again.
pub const TEST_LOOKUPS: u16 = 51;
/// See [`TEST_LOOKUPS`].
pub const TEST_NS: i64 = 20 * NS_PER_S;
/// How much longer than the shortest one the timeout of a server may be that [`Order::Quickest`] asks, in nanoseconds.
pub const BAND_NS: i64 = 400_000_000;
/// See [`Order::Quickest`].
pub const SMALLER_BELOW_NS: i64 = 5 * NS_PER_S;
/// How often in a turn one that asks all servers asks the same one again after a failure.
pub const RESENDS: u8 = 2;
/// Limits of the settings.
const MOST_ATTEMPTS: u8 = 32;
/// Turns of a client that tells by the server when to give up.
const MOST_TURNS: usize = u8::MAX as usize;
const LONGEST: i64 = 3_600 * NS_PER_S;

const NO_FORMAT: u16 = 1 << FORMERR;
const SERVFAIL: u16 = 1 << 2;
const NOTIMP: u16 = 1 << 4;
const REFUSED: u16 = 1 << 5;
/// All but NOERROR and NXDOMAIN.
const NOT_USABLE: u16 = !(1 | 1 << 3);

/// Between the ports after two failures: more than the servers that a client is likely to have.
const FAILURES_APART: u8 = 5;

/// Whether a response with this code is of use to whoever asked: NOERROR or NXDOMAIN.
pub const fn is_usable(rcode: u16) -> bool {
    rcode == 0 || rcode == 3
}

/// What is asked once more after a second: what other settings stand on.
const CUSTOM: Stub = Stub {
    attempts: 2,
    timeout: NS_PER_S,
    growth: Growth::Same,
    order: Order::OneByOne,
    rotate: false,
    retry_on: SERVFAIL | NOTIMP | REFUSED,
    ignore: 0,
    late: false,
    skip_failed: false,
    keep_id: false,
    tcp: true,
    edns_fallback: 0,
    edns_again: 0,
    downgrade: 0,
    ports: Ports::One,
    pairs: false,
};

/// The C library of GNU: `RES_TIMEOUT` and `RES_DFLRETRY` of resolv.h, resolv.conf(5).
const GLIBC: Stub = Stub {
    attempts: 2,
    timeout: 5 * NS_PER_S,
    growth: Growth::Glibc,
    late: true,
    keep_id: true,
    ports: Ports::UntilFailure,
    pairs: true,
    ..CUSTOM
};

/// The models by their names; docs/clients.md has the source of each.
pub const STUBS: [(&str, Stub); 10] = [
    ("custom", CUSTOM),
    ("glibc", GLIBC),
    ("android", Stub { growth: Growth::Android, late: false, pairs: false, ..GLIBC }),
    (
        "musl",
        Stub {
            attempts: 2,
            timeout: 5 * NS_PER_S,
            growth: Growth::Split,
            order: Order::All,
            retry_on: SERVFAIL,
            ignore: NOT_USABLE & !SERVFAIL,
            late: true,
            keep_id: true,
            ..CUSTOM
        },
    ),
    ("go", Stub { attempts: 2, timeout: 5 * NS_PER_S, retry_on: NOT_USABLE, ports: Ports::ByAttempt, ..CUSTOM }),
    (
        "c-ares",
        Stub {
            attempts: 4,
            timeout: 5 * NS_PER_S,
            growth: Growth::Double,
            late: true,
            skip_failed: true,
            keep_id: true,
            edns_fallback: NO_FORMAT,
            ports: Ports::ByServer,
            ..CUSTOM
        },
    ),
    (
        "windows",
        Stub {
            attempts: 5,
            timeout: NS_PER_S,
            growth: Growth::Windows,
            order: Order::ThenAll,
            retry_on: 0,
            late: true,
            ..CUSTOM
        },
    ),
    (
        "systemd-resolved",
        Stub {
            attempts: 24,
            timeout: 5 * NS_PER_S,
            order: Order::Current,
            retry_on: NO_FORMAT | SERVFAIL | NOTIMP | REFUSED,
            late: true,
            keep_id: true,
            edns_fallback: NO_FORMAT | SERVFAIL | NOTIMP,
            edns_again: SERVFAIL,
            downgrade: 3,
            ports: Ports::ByChange,
            ..CUSTOM
        },
    ),
    (
        "dnsmasq",
        Stub {
            attempts: 2,
            timeout: 5 * NS_PER_S,
            order: Order::LastGood,
            retry_on: SERVFAIL | REFUSED,
            late: true,
            keep_id: true,
            ..CUSTOM
        },
    ),
    (
        "unbound-forwarder",
        Stub {
            attempts: 5,
            timeout: 376_000_000,
            growth: Growth::RoundTrips,
            order: Order::Quickest,
            retry_on: NOT_USABLE,
            edns_fallback: NO_FORMAT | NOTIMP,
            ports: Ports::ByAttempt,
            ..CUSTOM
        },
    ),
];

impl Stub {
    /// What it does in a turn, counted from 0, with so many servers; `None` once it has given up.
    pub fn turn(&self, turn: usize, servers: usize) -> Option<Turn> {
        let servers = servers.max(1);
        let attempts = usize::from(self.attempts);
        let (round, place, has_more) = match self.order {
            Order::OneByOne => (turn / servers, turn % servers, turn < attempts.saturating_mul(servers)),
            Order::All | Order::ThenAll => (turn, turn % servers, turn < attempts),
            Order::Current | Order::LastGood => (turn, 0, turn < attempts),
            Order::Quickest => (turn, 0, turn < MOST_TURNS),
        };
        let alone = match self.order {
            Order::OneByOne | Order::Current | Order::Quickest => usize::MAX,
            Order::All => 0,
            Order::ThenAll => 3,
            Order::LastGood => 1,
        };
        let is_for_all = servers > 1 && turn >= alone;
        has_more.then(|| Turn { server: (!is_for_all).then_some(place), wait: self.wait(round, place, servers) })
    }

    fn wait(&self, round: usize, place: usize, servers: usize) -> i64 {
        let times = |by: u32| self.timeout.saturating_mul(1_i64.checked_shl(by).unwrap_or(i64::MAX).max(1));
        let wait = match self.growth {
            Growth::Same | Growth::RoundTrips => self.timeout,
            Growth::Double => times(round as u32),
            Growth::Split => self.timeout / i64::from(self.attempts.max(1)),
            Growth::Glibc | Growth::Android if place == 0 => self.timeout,
            Growth::Glibc => (times(place as u32) / NS_PER_S / servers as i64).max(1) * NS_PER_S,
            Growth::Android => (times(place as u32) / servers as i64).max(NS_PER_S),
            Growth::Windows => self.timeout.saturating_mul([1, 1, 2, 4].get(round).copied().unwrap_or(2)),
        };
        wait.clamp(1, LONGEST)
    }

    /// What it does upon a response with this code.
    pub fn reaction(&self, rcode: u16) -> Reaction {
        if self.goes_on_after(rcode) {
            if matches!(self.order, Order::All) { Reaction::Again } else { Reaction::Next }
        } else if has(self.ignore, rcode) {
            Reaction::Ignore
        } else {
            Reaction::Accept
        }
    }

    /// What it does upon a response with this code to a query with EDNS.
    pub fn reaction_with_edns(&self, rcode: u16) -> Reaction {
        if has(self.edns_fallback, rcode) { Reaction::WithoutEdns } else { self.reaction(rcode) }
    }

    /// Whether it goes on after a response with this code.
    pub const fn goes_on_after(&self, rcode: u16) -> bool {
        has(self.retry_on, rcode)
    }

    /// Whether it asks a server once more as it did, before it leaves EDNS out.
    pub const fn insists(&self, rcode: u16) -> bool {
        has(self.edns_again, rcode)
    }

    /// Which port an attempt has, among those of its lookup, after so many attempts, failures and changes of the server before.
    pub const fn port(&self, server: u8, number: u8, failures: u8, changes: u8) -> u8 {
        match self.ports {
            Ports::One => 0,
            Ports::ByServer => server,
            Ports::UntilFailure => server.wrapping_add(failures.wrapping_mul(FAILURES_APART)),
            Ports::ByChange => changes,
            Ports::ByAttempt => number,
        }
    }
}

/// Whether a code is among these.
const fn has(codes: u16, rcode: u16) -> bool {
    rcode < 16 && codes >> rcode & 1 == 1
}

/// A text that is no model of a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {what}")]
pub struct BadClient {
    text: String,
    what: String,
}

/// The settings of a stub as they are written: name, how it is read, how it is shown.
type Setting = (&'static str, fn(&mut Stub, &str) -> Option<()>, fn(&Stub) -> String);

const SETTINGS: [Setting; 16] = [
    (
        "attempts",
        |stub, word| set(&mut stub.attempts, word.parse().ok().filter(|count| (1..=MOST_ATTEMPTS).contains(count))),
        |stub| stub.attempts.to_string(),
    ),
    (
        "timeout",
        |stub, word| set(&mut stub.timeout, word.parse().ok().map(Span::ns).filter(|ns| (1..=LONGEST).contains(ns))),
        |stub| Span::from_ns(stub.timeout).to_string(),
    ),
    ("growth", |stub, word| set(&mut stub.growth, value(&GROWTHS, word)), |stub| word_of(&GROWTHS, stub.growth)),
    ("order", |stub, word| set(&mut stub.order, value(&ORDERS, word)), |stub| word_of(&ORDERS, stub.order)),
    ("rotate", |stub, word| set(&mut stub.rotate, switch(word)), |stub| on_off(stub.rotate)),
    ("retry-on", |stub, word| set(&mut stub.retry_on, codes(word)), |stub| words_of(stub.retry_on)),
    ("ignore", |stub, word| set(&mut stub.ignore, codes(word)), |stub| words_of(stub.ignore)),
    ("late", |stub, word| set(&mut stub.late, switch(word)), |stub| on_off(stub.late)),
    ("skip-failed", |stub, word| set(&mut stub.skip_failed, switch(word)), |stub| on_off(stub.skip_failed)),
    ("keep-id", |stub, word| set(&mut stub.keep_id, switch(word)), |stub| on_off(stub.keep_id)),
    ("tcp", |stub, word| set(&mut stub.tcp, switch(word)), |stub| on_off(stub.tcp)),
    (
        "edns-fallback",
        |stub, word| {
            let all = switch(word).map(|is_on| if is_on { NO_FORMAT } else { 0 });
            set(&mut stub.edns_fallback, all.or_else(|| codes(word)))
        },
        |stub| words_of(stub.edns_fallback),
    ),
    ("edns-again", |stub, word| set(&mut stub.edns_again, codes(word)), |stub| words_of(stub.edns_again)),
    (
        "downgrade",
        |stub, word| set(&mut stub.downgrade, word.parse().ok().filter(|count| *count <= MOST_ATTEMPTS)),
        |stub| stub.downgrade.to_string(),
    ),
    ("ports", |stub, word| set(&mut stub.ports, value(&PORTS, word)), |stub| word_of(&PORTS, stub.ports)),
    ("pairs", |stub, word| set(&mut stub.pairs, switch(word)), |stub| on_off(stub.pairs)),
];

const GROWTHS: [(&str, Growth); 7] = [
    ("same", Growth::Same),
    ("double", Growth::Double),
    ("split", Growth::Split),
    ("glibc", Growth::Glibc),
    ("android", Growth::Android),
    ("windows", Growth::Windows),
    ("round-trips", Growth::RoundTrips),
];
const ORDERS: [(&str, Order); 6] = [
    ("one-by-one", Order::OneByOne),
    ("all", Order::All),
    ("then-all", Order::ThenAll),
    ("current", Order::Current),
    ("last-good", Order::LastGood),
    ("quickest", Order::Quickest),
];
const PORTS: [(&str, Ports); 5] = [
    ("one", Ports::One),
    ("by-server", Ports::ByServer),
    ("until-failure", Ports::UntilFailure),
    ("by-change", Ports::ByChange),
    ("by-attempt", Ports::ByAttempt),
];
/// Codes by their names (RFC 1035 §4.1.1).
const CODES: [(&str, u16); 4] =
    [("formerr", NO_FORMAT), ("servfail", SERVFAIL), ("notimp", NOTIMP), ("refused", REFUSED)];
/// All codes but NOERROR and NXDOMAIN.
const ANY: &str = "any";
const NONE: &str = "none";

fn set<T>(field: &mut T, value: Option<T>) -> Option<()> {
    *field = value?;
    Some(())
}

fn value<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
}

fn word_of<T: Copy + PartialEq>(table: &[(&str, T)], value: T) -> String {
    table.iter().find(|(_, known)| *known == value).map_or_else(String::new, |(name, _)| (*name).to_owned())
}

fn switch(word: &str) -> Option<bool> {
    value(&[("on", true), ("off", false)], word)
}

fn on_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// `servfail+refused`, `any` or `none`; a code with a minus is left out: `any-servfail`.
fn codes(word: &str) -> Option<u16> {
    let (all, without) = word.split_once('-').map_or((word, None), |(all, without)| (all, Some(without)));
    let one = |word: &str| match word {
        ANY => Some(NOT_USABLE),
        NONE => Some(0),
        _ => value(&CODES, word),
    };
    let join = |words: &str| words.split('+').try_fold(0, |sum, word| Some(sum | one(word)?));
    Some(join(all)? & !without.map_or(Some(0), join)?)
}

fn words_of(codes: u16) -> String {
    let named = |codes: u16| {
        let names: Vec<&str> = CODES.iter().filter(|(_, code)| codes & code != 0).map(|(name, _)| *name).collect();
        names.join("+")
    };
    let is_named = codes & !CODES.iter().fold(0, |sum, (_, code)| sum | code) == 0;
    match (codes, NOT_USABLE & !codes) {
        (0, _) => NONE.to_owned(),
        (_, 0) => ANY.to_owned(),
        _ if is_named => named(codes),
        (_, without) => format!("{ANY}-{}", named(without)),
    }
}

impl FromStr for ClientModel {
    type Err = BadClient;

    fn from_str(text: &str) -> Result<Self, BadClient> {
        let bad = |what: String| BadClient { text: text.to_owned(), what };
        if text == OPEN {
            return Ok(Self::Open);
        }
        let (name, settings) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let mut stub = value(&STUBS, name).ok_or_else(|| bad(format!("no such client: use {}", known())))?;
        for setting in settings.into_iter().flat_map(|settings| settings.split(',')) {
            let (key, word) = setting.split_once('=').ok_or_else(|| bad(format!("`{setting}` is not KEY=VALUE")))?;
            let (_, read, _) = SETTINGS.iter().find(|(known, ..)| *known == key).ok_or_else(|| {
                bad(format!("no setting `{key}`: there are {}", SETTINGS.map(|(key, ..)| key).join(", ")))
            })?;
            read(&mut stub, word)
                .ok_or_else(|| bad(format!("`{word}` is no value of `{key}` (see docs/clients.md)")))?;
        }
        Ok(Self::Stub(stub))
    }
}

/// What [`ClientModel::Open`] is called.
const OPEN: &str = "open";

/// The names of all models.
pub fn known() -> String {
    let names: Vec<&str> = std::iter::once(OPEN).chain(STUBS.iter().map(|(name, _)| *name)).collect();
    names.join(", ")
}

/// As it is read back.
impl fmt::Display for ClientModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Stub(stub) = self else { return f.write_str(OPEN) };
        if let Some((name, _)) = STUBS.iter().find(|(_, known)| known == stub) {
            return f.write_str(name);
        }
        f.write_str(STUBS[0].0)?;
        let differing = SETTINGS.iter().filter(|(.., show)| show(stub) != show(&CUSTOM));
        for (at, (key, _, show)) in differing.enumerate() {
            write!(f, "{}{key}={}", if at == 0 { ':' } else { ',' }, show(stub))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = NS_PER_S;

    fn stub(text: &str) -> Stub {
        match text.parse() {
            Ok(ClientModel::Stub(stub)) => stub,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Server and wait in seconds of each turn; `*` for all servers.
    fn turns(text: &str, servers: usize) -> String {
        let stub = stub(text);
        let all = (0..).map_while(|turn| stub.turn(turn, servers));
        let shown = all.map(|turn| {
            let server = turn.server.map_or("*".to_owned(), |server| server.to_string());
            format!("{server}:{}", turn.wait as f64 / S as f64)
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn models_wait_and_go_on_as_their_sources_say() {
        assert_eq!(turns("glibc", 1), "0:5 0:5");
        assert_eq!(turns("glibc", 2), "0:5 1:5 0:5 1:5");
        assert_eq!(turns("glibc", 3), "0:5 1:3 2:6 0:5 1:3 2:6");
        assert_eq!(turns("android:attempts=1", 4), "0:5 1:2.5 2:5 3:10");
        assert_eq!(turns("musl", 2), "*:2.5 *:2.5");
        assert_eq!(turns("musl", 1), "0:2.5 0:2.5");
        assert_eq!(turns("go", 2), "0:5 1:5 0:5 1:5");
        assert_eq!(turns("c-ares", 1), "0:5 0:10 0:20 0:40");
        assert_eq!(turns("windows", 1), "0:1 0:1 0:2 0:4 0:2");
        assert_eq!(turns("windows", 2), "0:1 1:1 0:2 *:4 *:2");
        assert_eq!(turns("systemd-resolved:attempts=3", 2), "0:5 0:5 0:5", "from the server that it stays with");
        assert_eq!((turns("dnsmasq", 2), turns("dnsmasq", 1)), ("0:5 *:5".to_owned(), "0:5 0:5".to_owned()));
        assert_eq!(turns("unbound-forwarder", 2).split(' ').next(), Some("0:0.376"));
        assert_eq!(turns("custom:attempts=3,timeout=400ms,growth=double", 1), "0:0.4 0:0.8 0:1.6");
    }

    #[test]
    fn ports_change_as_those_of_the_real_resolvers() {
        // Server, attempt, failures before it; each of them is at another server than the one before.
        let lookup = [(0, 0, 0), (1, 1, 0), (2, 2, 1), (0, 3, 1), (1, 4, 1), (2, 5, 2)];
        let port = |text: &str, (server, number, failures)| stub(text).port(server, number, failures, number);
        let ports = |text: &str| lookup.map(|attempt| port(text, attempt));
        assert_eq!(ports("musl"), [0; 6]);
        assert_eq!(ports("c-ares"), [0, 1, 2, 0, 1, 2]);
        assert_eq!(ports("glibc"), [0, 1, 7, 5, 6, 12]);
        assert_eq!(ports("go"), [0, 1, 2, 3, 4, 5]);
        assert_eq!(ports("systemd-resolved"), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn codes_are_answers_or_reasons_to_go_on() {
        let reactions = |text: &str| [0, 2, 3, 5, 9].map(|rcode| stub(text).reaction(rcode));
        use Reaction::{Accept, Again, Ignore, Next, WithoutEdns};
        assert_eq!(reactions("glibc"), [Accept, Next, Accept, Next, Accept]);
        assert_eq!(reactions("musl"), [Accept, Again, Accept, Ignore, Ignore]);
        assert_eq!(reactions("go"), [Accept, Next, Accept, Next, Next]);
        assert_eq!(reactions("windows"), [Accept; 5]);
        let with_edns = |text: &str| [1, 2].map(|rcode| stub(text).reaction_with_edns(rcode));
        assert_eq!(with_edns("glibc"), [Accept, Next]);
        assert_eq!(with_edns("c-ares"), [WithoutEdns, Next]);
        assert_eq!(with_edns("systemd-resolved"), [WithoutEdns; 2]);
        assert_eq!(with_edns("custom:edns-fallback=on"), [WithoutEdns, Next]);
        assert_eq!([1, 2].map(|rcode| stub("systemd-resolved").insists(rcode)), [false, true]);
        assert_eq!((with_edns("windows"), stub("glibc").reaction(1)), ([Accept, Accept], Accept));
        assert_eq!([0, 1, 2, 3, 5].map(is_usable), [true, false, false, true, false]);
    }

    #[test]
    fn models_are_read_back_from_what_they_say() {
        for (name, _) in STUBS {
            assert_eq!(name.parse::<ClientModel>().unwrap().to_string(), name);
        }
        let said =
            |text: &str| text.parse::<ClientModel>().map_or_else(|error| error.to_string(), |model| model.to_string());
        assert_eq!(said("open"), "open");
        assert_eq!(said("custom:attempts=3,timeout=400ms"), "custom:attempts=3,timeout=400ms");
        let slow = said("musl:timeout=10s");
        assert_eq!(
            slow,
            "custom:timeout=10s,growth=split,order=all,retry-on=servfail,ignore=any-servfail,late=on,keep-id=on"
        );
        assert_eq!(slow.parse::<ClientModel>(), "musl:timeout=10s".parse());
        assert!(said("bind").contains("no such client: use open, custom, glibc, android"), "{}", said("bind"));
        assert!(said("glibc:tries=3").contains("no setting `tries`"));
        assert!(said("glibc:attempts=0").contains("no value of `attempts`"));
        assert!(said("glibc:attempts").contains("is not KEY=VALUE"));
    }

    #[test]
    fn no_settings_let_a_wait_overflow_or_a_client_ask_forever() {
        let long = stub("custom:attempts=32,timeout=3600,growth=double");
        assert_eq!(long.turn(31, 1).unwrap().wait, LONGEST);
        assert_eq!(long.turn(32, 1), None);
        assert!(stub("custom:attempts=32,timeout=1ns,growth=split").turn(0, 1).unwrap().wait >= 1);
    }
}
