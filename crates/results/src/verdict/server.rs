//! What a person would want to know of the server before anything else, whatever was expected of it.

use std::collections::BTreeMap;

use crate::model::{Check, Recorded, Summary};
use crate::numbers::{counts, grouped, queries as told};
use crate::warning::{Warning, WarningCode};

/// Share of unanswered queries that gives a warning.
const MANY_UNANSWERED: f64 = 0.1;
/// Share of error responses that gives a warning.
const MANY_ERRORS: f64 = 0.5;
/// Share of answered queries below which a server counts as silent: a few stray responses may come from the network, or from a server that
/// is shutting down.
const HARDLY_ANY: f64 = 0.01;
/// Response codes that are about the queried name, not about the server.
const ABOUT_NAMES: [&str; 2] = ["NOERROR", "NXDOMAIN"];
/// Least difference of two shares that gives a warning.
const DIFFERENT: f64 = 0.01;
/// Standard errors that a difference of shares must exceed besides: 99 of 100 that are none stay within.
const STANDARD_ERRORS: f64 = 2.58;

/// The doubts about the server.
pub fn doubts(summary: &Summary) -> Vec<Warning> {
    [unanswered(summary), errors(summary), other_rcodes(summary)].into_iter().flatten().collect()
}

/// The check that fails where nothing, or hardly anything, was answered: such a run is no success, whatever was expected.
pub fn nothing_answered(summary: &Summary) -> Option<Check> {
    let queries = &summary.queries;
    let is_so = queries.sent > 0 && (queries.answered as f64) < queries.sent as f64 * HARDLY_ANY;
    is_so.then(|| Check {
        name: "nothing_answered".to_owned(),
        limit: format!("{} %", HARDLY_ANY * 100.0),
        value: format!("{} of {}", grouped(queries.answered), told(queries.sent)),
        ok: false,
        note: Some(likely_cause(summary).to_owned()),
        harmless: false,
    })
}

/// Why nothing was answered, by the most frequent outcome.
fn likely_cause(summary: &Summary) -> &'static str {
    let queries = &summary.queries;
    let most = queries.failed_by_reason.iter().max_by_key(|&(_, count)| count);
    let refused = queries.failed_by_status.get("refused").copied().unwrap_or(0);
    match most {
        _ if queries.timed_out > queries.failed => {
            "nothing came back: the server does not run there, listens on another port or for another transport, or a filter drops packets"
        }
        _ if refused * 2 > queries.failed => "no server listens on this address and port for this transport",
        Some((reason, _)) => super::advice::of_failure(reason, summary.connections.opened > 0),
        None => "see what became of the queries",
    }
}

fn unanswered(summary: &Summary) -> Option<Warning> {
    let queries = &summary.queries;
    let without = queries.timed_out + queries.failed;
    if queries.sent == 0 || (without as f64) < queries.sent as f64 * MANY_UNANSWERED {
        return None;
    }
    let parts = format!("{} timed out, {} failed", grouped(queries.timed_out), grouped(queries.failed));
    Some(if queries.answered == 0 {
        let text = match queries.sent {
            1 => format!("the only query was not answered: {parts}"),
            sent => format!("none of the {} queries was answered: {parts}", grouped(sent)),
        };
        Warning::new(WarningCode::NoAnswers, text)
    } else {
        let percent = without as f64 * 100.0 / queries.sent as f64;
        let text = format!("{percent:.1} % of the {} queries were not answered: {parts}", grouped(queries.sent));
        Warning::new(WarningCode::ManyUnanswered, text)
    })
}

/// Errors that the trace has recorded too are expected.
fn errors(summary: &Summary) -> Option<Warning> {
    let errors: BTreeMap<String, u64> =
        summary.rcodes.iter().filter(|(name, _)| is_error(name)).map(|(name, &count)| (name.clone(), count)).collect();
    let share = share(errors.values().sum(), summary.queries.answered);
    let recorded = summary.recorded.as_ref().is_some_and(|recorded| different(summary, recorded).is_empty());
    (share > MANY_ERRORS && !recorded).then(|| {
        Warning::new(
            WarningCode::ErrorAnswers,
            format!("{:.1} % of the answers are errors: {}", share * 100.0, counts(&errors)),
        )
    })
}

fn is_error(rcode: &str) -> bool {
    !ABOUT_NAMES.contains(&rcode)
}

fn other_rcodes(summary: &Summary) -> Option<Warning> {
    let different = different(summary, summary.recorded.as_ref()?);
    (!different.is_empty()).then(|| {
        let listed = |(name, was, is): &(String, f64, f64)| {
            format!("{name} {:.1} % of the answers, recorded {:.1} %", is * 100.0, was * 100.0)
        };
        Warning::new(
            WarningCode::RcodesDiffer,
            format!(
                "other response codes than recorded: {}",
                different.iter().map(listed).collect::<Vec<_>>().join("; ")
            ),
        )
    })
}

/// Response codes whose share differs from the recorded one by more than chance makes likely: name, recorded share, share now.
fn different(summary: &Summary, recorded: &Recorded) -> Vec<(String, f64, f64)> {
    let (before, now) = (recorded.rcodes.values().sum(), summary.rcodes.values().sum());
    if before == 0 || now == 0 {
        return Vec::new();
    }
    let names = recorded.rcodes.keys().chain(summary.rcodes.keys().filter(|name| !recorded.rcodes.contains_key(*name)));
    let of = |codes: &BTreeMap<String, u64>, name: &str| codes.get(name).copied().unwrap_or(0);
    let shares = names.map(|name| (name, of(&recorded.rcodes, name), of(&summary.rcodes, name)));
    let shares = shares.filter(|&(_, was, is)| is_different((was, before), (is, now)));
    shares.map(|(name, was, is)| (name.clone(), share(was, before), share(is, now))).collect()
}

/// Whether two shares differ by more than a hundredth and by more than the counts that they are of explain.
fn is_different((was, before): (u64, u64), (is, now): (u64, u64)) -> bool {
    let difference = (share(was, before) - share(is, now)).abs();
    let pooled = share(was + is, before + now);
    let error = (pooled * (1.0 - pooled) * (1.0 / before as f64 + 1.0 / now as f64)).sqrt();
    difference >= DIFFERENT && difference > error * STANDARD_ERRORS
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Queries;
    use crate::warning::About;

    fn answered(rcodes: &[(&str, u64)], timed_out: u64) -> Summary {
        let answered = rcodes.iter().map(|&(_, count)| count).sum();
        Summary {
            queries: Queries { sent: answered + timed_out, answered, timed_out, ..Queries::default() },
            rcodes: rcodes.iter().map(|&(name, count)| (name.to_owned(), count)).collect(),
            ..Summary::default()
        }
    }

    fn recorded(rcodes: &[(&str, u64)]) -> Option<Recorded> {
        Some(Recorded {
            rcodes: rcodes.iter().map(|&(name, count)| (name.to_owned(), count)).collect(),
            ..Recorded::default()
        })
    }

    fn codes(summary: &Summary) -> Vec<String> {
        let doubts = doubts(summary);
        assert!(doubts.iter().all(|warning| warning.about == About::Server));
        doubts.into_iter().map(|warning| warning.code.to_string()).collect()
    }

    #[test]
    fn a_server_that_is_well_is_not_doubted() {
        assert_eq!(codes(&answered(&[("NOERROR", 600), ("NXDOMAIN", 350), ("SERVFAIL", 50)], 99)), [""; 0]);
        assert_eq!(codes(&Summary::default()), [""; 0]);
    }

    /// A run against an address where nothing listened ended with status 0.
    #[test]
    fn nothing_answered_fails_with_its_likely_cause() {
        let cause = |queries: Queries| {
            let check = nothing_answered(&Summary { queries, ..Summary::default() });
            check.map(|check| (check.value, check.note.unwrap()))
        };
        let sent =
            |answered, timed_out| Queries { sent: answered + timed_out, answered, timed_out, ..Queries::default() };
        let (value, note) = cause(sent(9, 991)).unwrap();
        assert!(value == "9 of 1,000 queries" && note.starts_with("nothing came back"), "{value}: {note}");
        assert_eq!((cause(sent(10, 990)), cause(sent(0, 0))), (None, None));
        let failed = |status: &str, reason: &str| {
            let by = |word: &str| [(word.to_owned(), 5)].into_iter().filter(|_| !word.is_empty()).collect();
            let queries = Queries { sent: 5, failed: 5, failed_by_status: by(status), ..Queries::default() };
            cause(Queries { failed_by_reason: by(reason), ..queries }).unwrap().1
        };
        assert!(failed("refused", "").starts_with("no server listens"));
        assert!(failed("connect_failed", "connection_refused").contains("start the server"));
        assert!(failed("tls_failed", "certificate_untrusted").contains("--tls-ca"));
    }

    #[test]
    fn a_tenth_unanswered_and_most_answers_errors_are_told() {
        assert_eq!(codes(&answered(&[("NOERROR", 9)], 1)), ["many_unanswered"]);
        assert_eq!(codes(&answered(&[], 3)), ["no_answers"]);
        assert_eq!(codes(&answered(&[("REFUSED", 40), ("SERVFAIL", 20), ("NOERROR", 50)], 0)), ["error_answers"]);
        let told = &doubts(&answered(&[("REFUSED", 1_000), ("NOTAUTH", 2)], 0))[0];
        assert_eq!(told.text, "100.0 % of the answers are errors: REFUSED 1,000, NOTAUTH 2");
    }

    #[test]
    fn response_codes_are_held_against_the_recorded_ones() {
        let now = answered(&[("NOERROR", 500), ("NXDOMAIN", 500)], 0);
        let told = |before: &[(&str, u64)]| {
            let summary = Summary { recorded: recorded(before), ..now.clone() };
            doubts(&summary).iter().map(|warning| format!("{} {}", warning.code, warning.text)).collect::<Vec<_>>()
        };
        assert!(told(&[("NOERROR", 505), ("NXDOMAIN", 495)]).is_empty(), "half of a percent is no difference");
        assert!(told(&[("NOERROR", 6), ("NXDOMAIN", 4)]).is_empty(), "ten answers cannot tell");
        let text = told(&[("NOERROR", 700), ("NXDOMAIN", 300)]).remove(0);
        let expected = "rcodes_differ other response codes than recorded: NOERROR 50.0 % of the answers, recorded 70.0 %; \
                        NXDOMAIN 50.0 % of the answers, recorded 30.0 %";
        assert_eq!(text, expected);
        assert!(told(&[("NOERROR", 500), ("NXDOMAIN", 480), ("SERVFAIL", 20)])[0].contains("SERVFAIL 0.0 %"));
    }

    #[test]
    fn errors_that_the_trace_has_too_are_no_doubt() {
        let refused = answered(&[("REFUSED", 1_000)], 0);
        assert_eq!(codes(&Summary { recorded: recorded(&[("REFUSED", 900)]), ..refused.clone() }), [""; 0]);
        let other = Summary { recorded: recorded(&[("NOERROR", 900)]), ..refused };
        assert_eq!(codes(&other), ["error_answers", "rcodes_differ"]);
    }
}
