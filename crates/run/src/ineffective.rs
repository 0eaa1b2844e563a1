//! The keys of a specification that change nothing in its run, as far as the specification alone tells.

use ldplayer_core::policy::Scope;
use ldplayer_core::{PolicyOverrides, Transport};
use ldplayer_workload::Timing;

use crate::keys::KEYS;
use crate::keys::RunSpec;
use crate::words::TransportChoice;

/// A key that is given and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ineffective {
    /// The key, as an option; of a class, with its name.
    pub option: String,
    /// Why, as the end of a sentence.
    pub why: String,
}

/// All of them in one line, by what they have no effect for; `None` if there are none.
pub fn in_words(found: &[Ineffective]) -> Option<String> {
    let mut reasons: Vec<&str> = found.iter().map(|option| option.why.as_str()).collect();
    reasons.dedup();
    let of = |why: &&str| {
        let options: Vec<&str> =
            found.iter().filter(|option| option.why == *why).map(|option| option.option.as_str()).collect();
        format!("{} ({why})", options.join(", "))
    };
    (!found.is_empty())
        .then(|| format!("no effect in this run: {}", reasons.iter().map(of).collect::<Vec<_>>().join("; ")))
}

/// The given keys that change nothing. Where transports are the recorded ones, any may occur.
pub fn ineffective(spec: &RunSpec) -> Vec<Ineffective> {
    let found = match used(spec) {
        Some(used) => of_transports(spec, &used),
        None => Vec::new(),
    };
    let mut all: Vec<Ineffective> = found.into_iter().chain(of_timing(spec)).chain(of_comparison(spec)).collect();
    // By reason, and otherwise as they came.
    all.sort_by(|one, other| one.why.cmp(&other.why));
    all
}

/// The transports of the run with the policies that it has besides, and the names of their classes; `None` where they are recorded ones.
fn used(spec: &RunSpec) -> Option<Vec<(Transport, String, PolicyOverrides)>> {
    let all = |transport| vec![(transport, String::new(), PolicyOverrides::default())];
    match &spec.transport {
        _ if spec.transport_shares.is_some() => None,
        TransportChoice::All(transport) => Some(all(*transport)),
        TransportChoice::Shares(classes) if spec.class.is_empty() => of_classes(classes),
        _ if !spec.class.is_empty() => of_classes(&spec.class),
        TransportChoice::AsRecorded | TransportChoice::Shares(_) => None,
    }
}

fn of_classes(classes: &[ldplayer_workload::ClientClass]) -> Option<Vec<(Transport, String, PolicyOverrides)>> {
    classes.iter().map(|class| Some((class.transport?, class.name.clone(), class.policy))).collect()
}

fn of_transports(spec: &RunSpec, used: &[(Transport, String, PolicyOverrides)]) -> Vec<Ineffective> {
    let is_used = |scope: Scope| {
        let falls_back = scope.includes(Transport::Tcp)
            && used.iter().any(|(_, _, policy)| policy.tc_fallback.or(spec.policy.tc_fallback) == Some(true));
        falls_back || used.iter().any(|(transport, _, _)| scope.includes(*transport))
    };
    let unused = |option: String, scope: Scope| Ineffective { option, why: format!("no query goes over {scope}") };
    let keys = KEYS.iter().filter(|key| key.is_given(spec));
    let keys = keys.filter_map(|key| Some((format!("--{}", key.option()), key.facts.scope?)));
    let policy = spec.policy.given().map(|(key, _)| (format!("--{}", key.option()), key.scope));
    let of_all = keys.chain(policy).filter(|&(_, scope)| !is_used(scope)).map(|(option, scope)| unused(option, scope));
    let of_classes = used.iter().flat_map(|(transport, name, policy)| {
        let beside = policy.given().filter(|(key, _)| !key.scope.includes(*transport));
        beside.map(move |(key, _)| unused(format!("{} of the class {name}", key.option()), key.scope))
    });
    of_all.chain(of_classes).collect()
}

fn of_timing(spec: &RunSpec) -> Option<Ineffective> {
    let default = RunSpec::default();
    let told = |option: &str, why: &str| Some(Ineffective { option: option.to_owned(), why: why.to_owned() });
    match spec.timing() {
        Timing::Fast if spec.max_lag != default.max_lag => {
            told("--max-lag", "queries have no times with --timing fast, and are never late")
        }
        Timing::Fast => None,
        _ if spec.max_outstanding != default.max_outstanding => {
            told("--max-outstanding", "queries are sent at their times; only --timing fast waits for answers")
        }
        _ => None,
    }
}

fn of_comparison(spec: &RunSpec) -> Option<Ineffective> {
    (!spec.compare_ignore.is_empty() && spec.compare_answers.is_none()).then(|| Ineffective {
        option: "--compare-ignore".to_owned(),
        why: "no answers are compared without --compare-answers".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let spec = RunSpec::parse(&format!("trace = 'a'\nserver = '127.0.0.1'\n{text}")).unwrap();
        ineffective(&spec).into_iter().map(|found| format!("{}: {}", found.option, found.why)).collect()
    }

    #[test]
    fn options_of_transports_that_the_run_has_not_are_told() {
        assert_eq!(
            told("transport = 'udp'\nidle_timeout = 3\ntls_insecure = true\ndoh_path = '/x'"),
            [
                "--doh-path: no query goes over DNS over HTTPS",
                "--idle-timeout: no query goes over a connection",
                "--tls-insecure: no query goes over an encrypted transport",
            ]
        );
        assert_eq!(told("transport = 'doq'\nnagle = true\nstamp_sends = true").len(), 2);
        assert_eq!(told("transport = 'udp=50,dot=50'\ndoh_method = 'get'").len(), 1);
        let classes = "[[class]]\nname = 'a'\nshare = '50 %'\ntransport = 'udp'\npipeline = 3\n[[class]]\nname = 'b'\nshare = '50 %'\ntransport = 'tcp'";
        assert_eq!(told(classes), ["pipeline of the class a: no query goes over a connection"]);
    }

    #[test]
    fn they_are_one_line_by_reason() {
        let found = |text: &str| in_words(&ineffective(&RunSpec::parse(&format!("trace = 'a'\n{text}")).unwrap()));
        let said = "no effect in this run: --tls-insecure, --tls-port (no query goes over an encrypted transport)";
        assert_eq!(found("transport = 'udp'\ntls_insecure = true\ntls_port = 5"), Some(said.to_owned()));
        assert_eq!(found(""), None);
    }

    #[test]
    fn options_that_may_have_an_effect_are_not() {
        for text in [
            "idle_timeout = 3\ntls_insecure = true\ndoh_path = '/x'",
            "transport = 'dot'\nidle_timeout = 3\nnagle = true\ntls_version = '1.2'\npadding = 'off'",
            "transport = 'doh3'\ntls_insecure = true\ndoh_path = '/x'",
            "transport = 'udp'\ntc_fallback = true\nidle_timeout = 3\nnagle = true\ncount_segments = true",
            "transport = 'udp=50,tcp=50'\nstamp_sends = true\npipeline = 2",
            "timing = 'fast'\nmax_outstanding = 10",
            "rate = 5\nmax_lag = 10",
            "compare_answers = 'recorded'\ncompare_ignore = 'ra'",
        ] {
            assert_eq!(told(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn options_of_another_timing_and_of_comparisons_are_told() {
        assert!(told("timing = 'fast'\nmax_lag = 10")[0].starts_with("--max-lag: "));
        assert!(told("max_outstanding = 10")[0].starts_with("--max-outstanding: "));
        assert!(told("compare_ignore = 'ra'")[0].starts_with("--compare-ignore: "));
    }
}
