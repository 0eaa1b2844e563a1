//! Words for the keys of `run.json`, in the order of the pages.

use std::collections::BTreeMap;

use ldplayer_core::Transport;

/// A key and what it is called.
type Named = (&'static str, &'static str);

const TRANSPORTS: [Named; 6] = [
    ("udp", "UDP"),
    ("tcp", "TCP"),
    ("dot", "DoT"),
    ("doh2", "DoH over HTTP/2"),
    ("doh3", "DoH over HTTP/3"),
    ("doq", "DoQ"),
];

/// Clients by their queries, then by how busy they are among all.
pub const CLIENTS: [Named; 6] = [
    ("1", "clients with 1 query"),
    ("2_to_10", "clients with 2 to 10 queries"),
    ("11_to_100", "clients with 11 to 100 queries"),
    ("over_100", "clients with more than 100 queries"),
    ("busiest_1_percent", "busiest 1 % of clients"),
    ("rest", "other clients"),
];

/// How a query came by its connection, from the costliest way to the cheapest.
pub const CONNECTIONS: [Named; 4] = [
    ("fresh", "new connection"),
    ("fresh_resumed", "new connection, session resumed"),
    ("fresh_early_data", "new connection, query as early data"),
    ("reused", "open connection"),
];

/// The parts of a query over a connection, in the order of time.
pub const PHASES: [Named; 4] = [
    ("connect", "connecting"),
    ("handshake", "TLS or QUIC handshake"),
    ("first_byte", "from sent to the first byte of the answer"),
    ("last_byte", "from its first byte to its last"),
];

const CHECKS: [Named; 10] = [
    ("accounting", "every query accounted for"),
    ("not_sent", "queries that were not sent"),
    ("completeness", "whole trace replayed"),
    ("receive_drops", "packets dropped by this host"),
    ("timing_quartiles", "quartiles of the timing error"),
    ("timing_p99", "99th percentile of the timing error"),
    ("rate", "query rate by second"),
    ("clock_skew", "clocks of the agents"),
    ("server_wait", "the server waited for a core"),
    ("client_wait", "workers waited for a core"),
];

const QUANTITIES: [Named; 21] = [
    ("answered", "answered"),
    ("nothing_answered", "nothing was answered"),
    ("timed_out", "timed out"),
    ("failed", "failed"),
    ("not_sent", "not sent"),
    ("truncated", "truncated answers"),
    ("match", "answers that match"),
    ("better", "answers better than expected"),
    ("worse", "answers worse than expected"),
    ("changed", "changed answers"),
    ("p50", "median latency"),
    ("p90", "90th percentile of latency"),
    ("p95", "95th percentile of latency"),
    ("p99", "99th percentile of latency"),
    ("p999", "99.9th percentile of latency"),
    ("max", "highest latency"),
    ("drift", "drift of the median latency"),
    ("cpu", "processor time of the server per query"),
    ("cores", "cores used by the server"),
    ("memory", "memory of the server (RSS)"),
    ("qps", "queries sent per second"),
];

/// Why a query failed, was not sent or was lost, and why a response belongs to none.
const REASONS: [Named; 25] = [
    ("flooded", "flooded by the server"),
    ("interrupted", "run interrupted"),
    ("no_reference", "no expected answer"),
    ("send_error", "send error"),
    ("refused", "port unreachable or connection refused"),
    ("reset", "connection reset or closed"),
    ("connect_failed", "no connection"),
    ("tls_failed", "no TLS or QUIC session"),
    ("no_server", "no server for it"),
    ("transport_not_available", "transport not available"),
    ("out_of_ids", "no query ID left"),
    ("no_source_address", "no source address or port left"),
    ("lag", "too late"),
    ("address_family", "address family of the server differs"),
    ("client_address", "no packet may come from the client's address"),
    ("nothing_to_follow", "no answer to the query that it follows"),
    ("too_many_waiting", "too many queries waited for answers"),
    ("question_mismatch", "other question"),
    ("unknown_id", "unknown query ID"),
    ("duplicate", "second answer to a query"),
    ("garbage", "no DNS message"),
    ("with_agent", "taken by the agent, sent or not"),
    ("left_in_stream", "taken by no agent"),
    ("due_before_takeover", "due before another agent took over"),
    ("not_read", "not read by an agent that came back"),
];

/// Who closed connections, and why.
pub const CLOSES: [Named; 6] = [
    ("client_idle", "client: idle"),
    ("client_last_query", "client: last query"),
    ("client_for_room", "client: for room"),
    ("server", "server: in order"),
    ("reset", "reset or error"),
    ("flooded", "client: flooded by the server"),
];

fn find<'a>(named: &[Named], key: &'a str) -> Option<&'a str> {
    named.iter().find(|(known, _)| *known == key).map(|&(_, words)| words)
}

/// What a transport is called.
pub fn transport(key: &str) -> &str {
    find(&TRANSPORTS, key).unwrap_or(key)
}

/// What clients of an activity are called.
pub fn clients(key: &str) -> String {
    find(&CLIENTS, key).map_or_else(|| plain(key), str::to_owned)
}

/// What a transport with its way to a connection is called.
pub fn over(of: Transport, connection: &str) -> String {
    format!("{}, {}", transport(of.as_str()), find(&CONNECTIONS, connection).unwrap_or(connection))
}

/// What a check of the replay is called.
pub fn check(name: &str) -> String {
    find(&CHECKS, name).map_or_else(|| plain(name), str::to_owned)
}

/// What a quantity that is expected of the server is called.
pub fn quantity(name: &str) -> String {
    if let Some(words) = find(&QUANTITIES, name) {
        return words.to_owned();
    }
    match name.split_once('(') {
        Some(("memory", _)) => "memory of the server (PSS)".to_owned(),
        Some((percentile, _)) => format!("{}, from when a query was due", quantity(percentile)),
        None => format!("answers {}", name.to_uppercase()),
    }
}

/// What a reason or a status is called.
pub fn reason(key: &str) -> String {
    find(&REASONS, key).map_or_else(|| plain(key), str::to_owned)
}

/// Who closed a connection, and why.
pub fn closed(key: &str) -> String {
    find(&CLOSES, key).map_or_else(|| plain(key), str::to_owned)
}

/// A key without a word of its own.
pub fn plain(key: &str) -> String {
    key.replace('_', " ")
}

/// Values in the order of `named`, each with its words; those that it does not have come last.
pub fn in_order<'a, T>(named: &'static [Named], values: &'a BTreeMap<String, T>) -> Vec<(String, &'a T)> {
    let known = named.iter().filter_map(|&(key, words)| Some((words.to_owned(), values.get(key)?)));
    let others = values.iter().filter(|(key, _)| find(named, key).is_none());
    known.chain(others.map(|(key, value)| (plain(key), value))).collect()
}

/// Values by transport, in the order of the transports.
pub fn by_transport<T>(values: &BTreeMap<String, T>) -> Vec<(String, &T)> {
    in_order(&TRANSPORTS, values)
}

/// A time of RFC 3339 to the second, for people; another text unchanged.
pub fn to_the_second(time: &str) -> String {
    match (time.get(..10), time.get(10..11), time.get(11..19), time.ends_with('Z')) {
        (Some(day), Some("T"), Some(second), true) => format!("{day} {second} UTC"),
        _ => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ldplayer_core::{Reason, Status};

    use super::*;
    use crate::expect::Expectation;

    #[test]
    fn keys_become_words_in_the_order_of_their_meaning() {
        let keys = ["over_100", "1", "11_to_100", "2_to_10", "odd_key"];
        let values: BTreeMap<String, usize> =
            keys.iter().enumerate().map(|(at, key)| ((*key).to_owned(), at)).collect();
        let told: Vec<(String, usize)> = in_order(&CLIENTS, &values).into_iter().map(|(key, &at)| (key, at)).collect();
        assert_eq!(told.iter().map(|(_, at)| *at).collect::<Vec<_>>(), [1, 3, 2, 0, 4]);
        assert_eq!((told[0].0.as_str(), told[4].0.as_str()), ("clients with 1 query", "odd key"));
        let transports = [("tcp".to_owned(), 1), ("dot".to_owned(), 2), ("udp".to_owned(), 3)].into();
        let names: Vec<String> = by_transport(&transports).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["UDP", "TCP", "DoT"]);
    }

    #[test]
    fn no_word_is_a_key() {
        let words =
            Reason::ALL.map(|key| reason(key.as_str())).into_iter().chain(Status::ALL.map(|key| reason(key.as_str())));
        let quantities = ["p99(intended) <= 1ms", "memory(pss) <= 1 MB", "nxdomain <= 1 %", "timed_out <= 1 %"];
        let names = quantities.map(|text| quantity(&text.parse::<Expectation>().unwrap().quantity.to_string()));
        assert_eq!(names[0], "99th percentile of latency, from when a query was due");
        assert_eq!((names[1].as_str(), names[2].as_str()), ("memory of the server (PSS)", "answers NXDOMAIN"));
        assert!(words.chain(names).all(|word| !word.contains('_')));
    }

    #[test]
    fn times_are_told_to_the_second() {
        assert_eq!(to_the_second("2025-11-24T16:00:00.500000000Z"), "2025-11-24 16:00:00 UTC");
        assert_eq!(to_the_second("2025-11-24T16:00:00Z"), "2025-11-24 16:00:00 UTC");
        assert_eq!((to_the_second(""), to_the_second("ä")), (String::new(), "ä".to_owned()));
    }
}
