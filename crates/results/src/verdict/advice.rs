//! Doubts about a replay, each with what to do about it: only reasons that occurred, with their own numbers.

use std::collections::BTreeMap;

use crate::analysis::{Analysis, Delayed, UdpAnswers};
use crate::model::{Connections, Queries, Summary};
use crate::numbers::{counted, counts_in_words, grouped, queries as told};
use crate::warning::{Warning, WarningCode};
use crate::words;

/// Lateness in microseconds from which a run is said to have fallen behind.
const BEHIND_US: f64 = 100_000.0;
/// Timeout share that triggers a warning.
const MANY_TIMEOUTS: f64 = 0.01;
/// Timeout share from which on the doubts about the server say it.
const SAID_OF_THE_SERVER: f64 = 0.1;
/// Share of the queries over UDP that a rate limit must have touched, in either way, to be thought of.
const LIMITED: f64 = 0.01;
/// Sources of strays that are named.
const NAMED_SOURCES: usize = 3;
/// What to do about a query that was not sent, by the reason in its row.
const NOT_SENT: [(&str, &str); 12] = [
    ("no_server", "the trace does not say which server these queries went to: give one with --server"),
    (
        "transport_not_available",
        "give --transport udp or tcp, or say whom to trust over TLS: --tls-ca FILE or --tls-insecure",
    ),
    // Whoever ends a run knows why.
    ("interrupted", ""),
    ("send_error", "see the warning send_refused for what the kernel said"),
    ("out_of_ids", "lower the rate or --query-timeout, or let clients have more addresses: --sources pool:CIDR"),
    (
        "no_source_address",
        "raise the limit of open files (ulimit -n), widen net.ipv4.ip_local_port_range or give more --sources",
    ),
    ("bad_message", "leave out what is no DNS query, or too long for its transport, with --rules"),
    ("lag", "lower the rate or --speed, use more --workers, or raise --max-lag"),
    (
        "nothing_to_follow",
        "see why the queries had no answer from which these follow, or have clients go on with --client open",
    ),
    ("too_many_waiting", "use more --workers, a shorter --query-timeout, or --dependencies chain"),
    ("address_family", "give --server once more, with an address of the other family"),
    (
        "client_address",
        "no packet on the link may come from the addresses of these clients (multicast, broadcast; with --interface loopback): give \
         them others with --sources pool:CIDR",
    ),
];

/// What to do about a query that failed, by the reason in its row.
const FAILED: [(&str, &str); 20] = [
    (
        "connect_timeout",
        "see that nothing filters the port and the server's backlog is not full, or raise --connect-timeout",
    ),
    ("connection_refused", "start the server, or give the port that it listens on for this transport"),
    ("unreachable", "add a route to the server"),
    (
        "closed_by_server",
        "the server closes connections in use: see its limits of connections, queries and idle time, or stay below them with \
         --queries-per-connection and --idle-timeout",
    ),
    ("reset_by_server", "see the server's log and its limits of connections and queries"),
    ("handshake_failed", "see the server's log; an old one may need --tls-version 1.2"),
    ("handshake_timeout", "the server is busy with handshakes: lower the rate, or raise --handshake-timeout"),
    ("certificate_time", "renew the server's certificate, or trust it all the same with --tls-insecure"),
    ("certificate_name", "give the name in the server's certificate with --tls-name"),
    (
        "certificate_untrusted",
        "give the CA of the server's certificate with --tls-ca FILE, or trust any with --tls-insecure",
    ),
    ("alpn", "the server speaks another protocol on this port: see --tls-port and --doh-port"),
    ("http_status", "see the path that the server answers on, and give it with --doh-path"),
    ("stream_reset", "see the server's log and its limit of streams"),
    ("protocol_error", "see the server's log; it broke the protocol of the connection"),
    ("flooded", "see what listens there: it sends without end what answers no query"),
    ("garbage", "see what listens there: what it sends is no DNS message"),
    ("question_mismatch", "see what listens there: it answers another question"),
    ("send_error", "see the warning send_refused for what the kernel said"),
    ("bad_message", "leave out what is no DNS query, or too long for its transport, with --rules"),
    ("out_of_ids", "lower the rate or --query-timeout"),
];

/// What to do about a handshake that was not through in time, or whose connection ended, where none ever was: such a server is not busy.
const NO_HANDSHAKE: &str = "no handshake was ever completed: see that the server speaks this transport on this port (--tls-port, --doh-port), and \
     that nothing filters it";

/// What to do about queries that failed for a reason. `came_up` says whether any connection did, with its handshake.
pub fn of_failure(reason: &str, came_up: bool) -> &'static str {
    match FAILED.iter().find(|(known, _)| *known == reason) {
        Some(("handshake_timeout" | "closed_by_server" | "reset_by_server", _)) if !came_up => NO_HANDSHAKE,
        Some((_, remedy)) => remedy,
        None => "see docs/run-directory.md",
    }
}

/// What to do about failures that have no reason in their row, by status.
const FAILED_WITHOUT_REASON: [(&str, &str); 4] = [
    ("refused", "start the server, or give the port that it listens on"),
    ("reset", "see the server's log"),
    ("connect_failed", "see that the server listens on this address, port and transport"),
    ("tls_failed", "see the server's log"),
];

/// What to do about a response that belongs to no query, by the reason in its row.
const STRAY: [(&str, &str); 4] = [
    ("unknown_id", "the server answers later than --query-timeout and its memory, or something else sends there"),
    ("duplicate", "the server or the network sends responses twice"),
    ("question_mismatch", "the server alters the question"),
    ("garbage", "something there sends what is no DNS message"),
];

/// The doubts about the replay.
pub fn doubts(summary: &Summary, analysis: &Analysis) -> Vec<Warning> {
    let queries = &summary.queries;
    [
        behind(summary),
        timeouts(queries),
        rate_limit(&analysis.udp),
        failures(summary),
        strays(queries, &analysis.stray_sources),
        flooded(&summary.connections),
        late(queries),
        unsent(queries),
        receive_drops(summary),
        analysis.delayed.map(delayed_ack),
        unreadable(analysis),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The remedies of the observed faults, each with its reason and count; faults that the user asked for have none.
fn remedies(occurred: &BTreeMap<String, u64>, table: &[(&str, &str)]) -> String {
    let mut order: Vec<(&String, &u64)> = occurred.iter().collect();
    order.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    let known = |reason: &str| table.iter().find(|(known, _)| *known == reason).map(|&(_, remedy)| remedy);
    let line = |(reason, count): (&String, &u64)| {
        let remedy = known(reason).unwrap_or("see docs/run-directory.md");
        (!remedy.is_empty()).then(|| format!("{reason} ({}): {remedy}", grouped(*count)))
    };
    order.into_iter().filter_map(line).collect::<Vec<_>>().join("; ")
}

fn behind(summary: &Summary) -> Option<Warning> {
    let worst = summary.timing.error_us.filter(|error| error.max > BEHIND_US)?;
    Some(Warning::new(
        WarningCode::FellBehind,
        format!("queries were up to {:.0} ms late (p99 {:.1} ms)", worst.max / 1e3, worst.p99 / 1e3),
    ))
}

fn timeouts(queries: &Queries) -> Option<Warning> {
    let share = queries.timed_out as f64 / queries.sent.max(1) as f64;
    (share > MANY_TIMEOUTS && share < SAID_OF_THE_SERVER).then(|| {
        Warning::new(
            WarningCode::ManyTimeouts,
            format!("{:.1} % of the queries were not answered in time ({})", share * 100.0, grouped(queries.timed_out)),
        )
    })
}

/// A server that limits its responses drops some and sends others without data, so that real clients come back over TCP.
fn rate_limit(udp: &UdpAnswers) -> Option<Warning> {
    let share = |part: u64| part as f64 / udp.sent.max(1) as f64;
    let (dropped, truncated) = (share(udp.timed_out), share(udp.bare_truncated));
    (dropped >= LIMITED && truncated >= LIMITED).then(|| {
        Warning::new(WarningCode::RateLimited, format!(
                "over UDP {:.1} % of the queries got no answer and {:.1} % a truncated one without data, as from a server \
                 with response rate limiting (RRL)",
                dropped * 100.0,
                truncated * 100.0
            ))
    })
}

fn failures(summary: &Summary) -> Option<Warning> {
    let queries = &summary.queries;
    let table = FAILED.map(|(reason, _)| (reason, of_failure(reason, summary.connections.opened > 0)));
    (queries.failed > 0).then(|| {
        let with_reason: u64 = queries.failed_by_reason.values().sum();
        let by_status = remedies(&queries.failed_by_status, &FAILED_WITHOUT_REASON);
        let mut remedy = vec![remedies(&queries.failed_by_reason, &table)];
        if with_reason < queries.failed {
            remedy.push(by_status);
        }
        remedy.retain(|part| !part.is_empty());
        Warning::with_remedy(
            WarningCode::FailedQueries,
            format!("{} failed: {}", told(queries.failed), counts_in_words(&queries.failed_by_status, words::reason)),
            remedy.join("; "),
        )
    })
}

fn strays(queries: &Queries, sources: &[(String, u64)]) -> Option<Warning> {
    (queries.stray > 0).then(|| {
        let named = sources.iter().take(NAMED_SOURCES).map(|(source, count)| format!("{source} {}", grouped(*count)));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match sources.len().saturating_sub(NAMED_SOURCES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let stray = counted(queries.stray, "response belongs", "responses belong");
        let (they, reasons) =
            (if queries.stray == 1 { "it" } else { "they" }, counts_in_words(&queries.stray_by_reason, words::reason));
        let unlisted = match queries.stray_unlisted.values().sum::<u64>() {
            0 => String::new(),
            many => format!("; {} of them are counted and have no row", grouped(many)),
        };
        Warning::with_remedy(
            WarningCode::StrayResponses,
            format!("{stray} to no outstanding query: {reasons}; {they} came from {named}{more}{unlisted}"),
            remedies(&queries.stray_by_reason, &STRAY),
        )
    })
}

fn late(queries: &Queries) -> Option<Warning> {
    (queries.late > 0).then(|| {
        Warning::new(
            WarningCode::LateResponses,
            format!(
                "{} after the query timeout, and counted as timed out",
                counted(queries.late, "response came", "responses came")
            ),
        )
    })
}

fn unsent(queries: &Queries) -> Option<Warning> {
    (queries.not_sent > 0).then(|| {
        Warning::with_remedy(
            WarningCode::NotSent,
            format!(
                "{} not sent: {}",
                counted(queries.not_sent, "query was", "queries were"),
                counts_in_words(&queries.not_sent_by_reason, words::reason)
            ),
            remedies(&queries.not_sent_by_reason, &NOT_SENT),
        )
    })
}

fn flooded(connections: &Connections) -> Option<Warning> {
    let &count = connections.closed.get("flooded")?;
    Some(Warning::with_remedy(
        WarningCode::Flooded,
        format!(
            "{} closed since the server sent too much that answers no query",
            counted(count, "connection was", "connections were")
        ),
        of_failure("flooded", true),
    ))
}

fn receive_drops(summary: &Summary) -> Option<Warning> {
    let drops = summary.responses.receive_drops.filter(|&drops| drops > 0)?;
    let text = format!("the kernel dropped {} to this run, for lack of buffer", counted(drops, "packet", "packets"));
    Some(Warning::new(WarningCode::KernelDrops, text))
}

/// What is known is the step; a resolver's server that is 40 ms away makes one as well.
fn delayed_ack(delayed: Delayed) -> Warning {
    Warning::new(
        WarningCode::DelayedAck,
        format!(
            "{:.1} % of the answers over {} came 40 ms after the others, and hardly any a little sooner or later: a delayed acknowledgement takes \
             that long",
            delayed.share * 100.0,
            delayed.transport
        ),
    )
}

fn unreadable(analysis: &Analysis) -> Option<Warning> {
    (analysis.unreadable > 0).then(|| {
        Warning::new(
            WarningCode::RowsUnreadable,
            format!("{} row files are damaged; their rows are missing below", analysis.unreadable),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Connections;
    use ldplayer_core::{Reason, Status};

    fn one(reason: &str, count: u64) -> BTreeMap<String, u64> {
        [(reason.to_owned(), count)].into()
    }

    fn of_run(queries: Queries, opened: u64) -> String {
        let connections = Connections { opened, ..Connections::default() };
        failures(&Summary { queries, connections, ..Summary::default() }).unwrap().remedy
    }

    /// The remedy of a run with connections in which `reason` is all that occurred.
    fn of_failure(status: &str, reason: &str) -> String {
        let queries = Queries {
            failed: 7,
            failed_by_status: one(status, 7),
            failed_by_reason: one(reason, 7),
            ..Queries::default()
        };
        of_run(queries, 1)
    }

    /// A port where nothing speaks TLS was told as a busy server.
    #[test]
    fn a_server_that_never_completed_a_handshake_is_not_busy() {
        let of = |reason, opened| {
            of_run(Queries { failed: 7, failed_by_reason: one(reason, 7), ..Queries::default() }, opened)
        };
        let failed = |opened| of("handshake_timeout", opened);
        for reason in ["reset_by_server", "closed_by_server"] {
            assert!(of(reason, 0).contains("no handshake was ever completed"), "{reason}");
        }
        assert!(failed(1).contains("busy with handshakes"), "{}", failed(1));
        assert!(!failed(0).contains("busy") && failed(0).contains("no handshake was ever completed"), "{}", failed(0));
    }

    #[test]
    fn each_reason_has_its_own_remedy_and_number() {
        let words = |table: &[(&'static str, &'static str)]| table.iter().map(|&(word, _)| word).collect::<Vec<_>>();
        for reason in words(&NOT_SENT).into_iter().filter(|reason| *reason != "interrupted") {
            let queries = Queries { not_sent: 1_234, not_sent_by_reason: one(reason, 1_234), ..Queries::default() };
            let remedy = unsent(&queries).unwrap().remedy;
            let (_, wanted) = NOT_SENT.iter().find(|(word, _)| *word == reason).unwrap();
            assert_eq!(remedy, format!("{reason} (1,234): {wanted}"));
        }
        for (reason, wanted) in FAILED {
            assert_eq!(of_failure("reset", reason), format!("{reason} (7): {wanted}"));
        }
        for (reason, wanted) in STRAY {
            let queries = Queries { stray: 2, stray_by_reason: one(reason, 2), ..Queries::default() };
            assert_eq!(strays(&queries, &[]).unwrap().remedy, format!("{reason} (2): {wanted}"));
        }
    }

    /// Every word of the tables is one of the rows, and every reason of the rows is in a table.
    #[test]
    fn the_tables_are_of_the_reasons_that_there_are() {
        let all: Vec<&str> = Reason::ALL.map(Reason::as_str).to_vec();
        let told: Vec<&str> = NOT_SENT.iter().chain(&FAILED).chain(&STRAY).map(|&(word, _)| word).collect();
        assert!(told.iter().all(|word| all.contains(word)), "{told:?}");
        let without: Vec<&&str> = all.iter().filter(|word| !told.contains(word)).collect();
        assert!(without.is_empty(), "no remedy for {without:?}");
        let failed: Vec<&str> =
            Status::ALL.into_iter().filter(|status| status.is_failed()).map(Status::as_str).collect();
        assert_eq!(FAILED_WITHOUT_REASON.map(|(word, _)| word).to_vec(), failed);
    }

    #[test]
    fn an_untrusted_certificate_is_told_with_the_options_that_help() {
        let remedy = of_failure("tls_failed", "certificate_untrusted");
        assert!(remedy.contains("--tls-ca FILE") && remedy.contains("--tls-insecure"), "{remedy}");
        assert!(!remedy.contains("--server") && !remedy.contains("ulimit"), "{remedy}");
    }

    #[test]
    fn a_refusal_has_no_reason_and_a_remedy_all_the_same() {
        let queries = Queries { failed: 3, failed_by_status: one("refused", 3), ..Queries::default() };
        assert_eq!(of_run(queries, 0), format!("refused (3): {}", FAILED_WITHOUT_REASON[0].1));
    }

    #[test]
    fn strays_are_told_with_where_they_came_from() {
        let sources = ["a:53", "b:53", "c:53", "d:53", "e:53"].map(|source| (source.to_owned(), 1_000));
        let queries = Queries { stray: 5_000, stray_by_reason: one("unknown_id", 5_000), ..Queries::default() };
        let text = strays(&queries, &sources).unwrap().text;
        assert!(text.ends_with("they came from a:53 1,000, b:53 1,000, c:53 1,000 and 2 more"), "{text}");
        let many = Queries { stray: 9_000, stray_unlisted: one("unknown_id", 4_000), ..queries };
        let text = strays(&many, &sources).unwrap().text;
        assert!(text.ends_with(" and 2 more; 4,000 of them are counted and have no row"), "{text}");
    }

    #[test]
    fn connections_closed_for_a_flood_are_told() {
        let connections = Connections { closed: one("flooded", 1), ..Connections::default() };
        let warning = flooded(&connections).unwrap();
        let text = "1 connection was closed since the server sent too much that answers no query";
        assert_eq!((warning.code.as_str(), warning.text.as_str()), ("flooded", text));
        assert!(flooded(&Connections::default()).is_none());
    }

    #[test]
    fn a_rate_limit_is_thought_of_only_where_it_drops_and_truncates() {
        let is_told =
            |timed_out, bare_truncated| rate_limit(&UdpAnswers { sent: 1_000, timed_out, bare_truncated }).is_some();
        assert!(is_told(250, 250) && is_told(10, 10));
        assert!(!is_told(250, 0) && !is_told(0, 250) && !is_told(9, 500));
        assert!(rate_limit(&UdpAnswers::default()).is_none());
    }

    #[test]
    fn an_interrupted_run_is_not_advised_against() {
        let mut queries = Queries { not_sent: 5, not_sent_by_reason: one("interrupted", 5), ..Queries::default() };
        assert_eq!(unsent(&queries).unwrap().remedy, "");
        queries.not_sent_by_reason.insert("lag".to_owned(), 3);
        assert!(unsent(&queries).unwrap().remedy.starts_with("lag (3): "));
    }

    #[test]
    fn timeouts_are_told_once() {
        let told = |timed_out| {
            let queries = Queries { sent: 1_000, answered: 1_000 - timed_out, timed_out, ..Queries::default() };
            timeouts(&queries).is_some()
        };
        assert_eq!([5, 50, 100, 500].map(told), [false, true, false, false]);
    }
}
