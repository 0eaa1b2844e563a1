//! The effective configuration of a run, for `config` of run.json.

use std::collections::BTreeMap;

use ldplayer_core::Policy;
use ldplayer_core::policy::{self, Key};
use ldplayer_replay::Targets;
use ldplayer_results::RunConfig;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::classes;
use crate::keys::{KEYS, RunSpec};
use crate::resolve::Plan;
use crate::words::Server;

/// Every key with its value on this machine, with the trace's name and the command line from the caller.
pub fn config(spec: &RunSpec, plan: &Plan, command_line: Vec<String>, trace: Vec<String>) -> RunConfig {
    let resolved = RunSpec { trace, ..resolved(spec, plan) };
    let keys = KEYS.iter().map(|key| (key.name().to_owned(), key.value(&resolved).unwrap_or_default()));
    let mut config = RunConfig { command_line, changed: changed(spec), keys: keys.collect() };
    config.keys.extend(keys_of(plan.settings.policy));
    config.keys.extend(spec.rules.first().map(|_| ("rules".to_owned(), names_of_rules(spec))));
    let without_effect = if plan.settings.fast { "max_lag" } else { "max_outstanding" };
    let config = config.with(without_effect, Value::Null).with("class", classes(plan));
    if plan.classes().is_empty() { config } else { config.with("transport", "by-class") }
}

/// The specification that gives the same run on this machine, and leaves nothing to it.
fn resolved(spec: &RunSpec, plan: &Plan) -> RunSpec {
    let settings = &plan.settings;
    let with_tls = |port: u16| settings.tls.as_ref().map(|_| port);
    RunSpec {
        server: match &settings.targets {
            Targets::Fixed(servers) => servers.iter().copied().map(Server::Address).collect(),
            Targets::Recorded(_) => vec![Server::Recorded],
        },
        timing: spec.timing(),
        rate: None,
        speed: None,
        sources: Some(settings.sources.clone()),
        path: settings.path.choice(),
        tls_port: with_tls(settings.tls_port),
        doh_port: with_tls(settings.doh_port),
        workers: u16::try_from(settings.workers).ok(),
        ..spec.clone()
    }
}

fn names_of_rules(spec: &RunSpec) -> Value {
    spec.rules.iter().map(|rules| rules.file.display().to_string()).collect()
}

/// Each class with every key of its connection policy.
fn classes(plan: &Plan) -> Vec<Value> {
    let policies = classes::policies(plan.classes(), plan.settings.policy);
    let class = plan.classes().iter().zip(policies).map(|(class, policy)| {
        let mut keys = object(class);
        keys.entry("transport").or_insert_with(|| "as-recorded".into());
        keys.extend(keys_of(policy));
        Value::Object(keys)
    });
    class.collect()
}

/// Every key of a connection policy.
fn keys_of(policy: Policy) -> impl Iterator<Item = (String, Value)> {
    // Its values are texts, numbers, true and false.
    policy::KEYS
        .iter()
        .map(move |key| (key.name.to_owned(), serde_json::to_value(key.value(&policy)).unwrap_or_default()))
}

/// The keys of a table.
fn object(table: &impl Serialize) -> Map<String, Value> {
    // Tables of a specification have string keys only, which is all that could fail.
    serde_json::to_value(table).ok().and_then(|value| value.as_object().cloned()).unwrap_or_default()
}

/// Keys that a report shows elsewhere: the queries, and the servers.
const NO_SETTINGS: [&str; 4] = ["version", "trace", "server", "class"];

/// The keys that are not the defaults; files of rules by their names.
fn changed(spec: &RunSpec) -> Option<BTreeMap<String, Value>> {
    let (own, default) = (object(spec), object(&RunSpec::default()));
    let used = spec.policy.over(Policy::default());
    let is_default = |key: &Key| key.value(&used).to_string() == key.default();
    let is_told = |key: &str| !NO_SETTINGS.contains(&key) && !Key::find(key).is_some_and(is_default);
    let changed = own.into_iter().filter(|(key, value)| is_told(key) && default.get(key) != Some(value));
    let mut changed: BTreeMap<String, Value> = changed.collect();
    if let Some(rules) = changed.get_mut("rules") {
        *rules = names_of_rules(spec);
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use ldplayer_core::PolicyOverrides;
    use ldplayer_net::pace::Precision;

    use super::*;

    #[test]
    fn what_is_not_the_default_is_told_and_what_is_given_as_the_default_is_not() {
        let policy = PolicyOverrides {
            idle_timeout: Some(Policy::default().idle_timeout),
            resumption: Some(false),
            ..PolicyOverrides::default()
        };
        let spec = RunSpec {
            trace: vec!["trace.pcap".to_owned()],
            speed: Some(crate::words::Speed(10.0)),
            precision: Precision::High,
            policy,
            ..RunSpec::default()
        };
        let changed = changed(&spec).unwrap();
        assert_eq!(changed.keys().collect::<Vec<_>>(), ["precision", "resumption", "speed"]);
        assert_eq!((&changed["precision"], &changed["speed"]), (&Value::from("high"), &Value::from(10.0)));
        assert!(super::changed(&RunSpec::default()).unwrap().is_empty());
    }
}
