//! The effective configuration of a run, for `config` of run.json.

use std::collections::BTreeMap;

use ldplayer_core::policy::Key;
use ldplayer_core::{Policy, Transport};
use ldplayer_replay::Targets;
use ldplayer_results::{ClassConfig, ConnectionConfig, RunConfig, UsedPolicy};
use serde_json::Value;

use crate::classes;
use crate::keys::RunSpec;
use crate::resolve::Plan;

/// The options as resolved on this machine, with the trace's name and the command line from the caller.
pub fn config(spec: &RunSpec, plan: &Plan) -> RunConfig {
    let (settings, feed) = (&plan.settings, &plan.feed);
    let with_tls = |port: u16| settings.tls.as_ref().map(|_| port);
    let all = feed.plan.transport.map_or("as-recorded", Transport::as_str);
    RunConfig {
        rules: spec.rules.iter().map(|rules| rules.file.clone()).collect(),
        servers: servers(plan),
        timing: feed.plan.timing.to_string(),
        start_s: feed.plan.start as f64 / 1e9,
        stop_s: feed.plan.stop.map(|stop| stop as f64 / 1e9),
        transport: if feed.classes.is_empty() { all } else { "by-class" }.to_owned(),
        transport_shares: spec.transport_shares.clone(),
        classes: class_configs(plan),
        connections: connections(spec, settings.policy),
        tls_port: with_tls(settings.tls_port),
        doh_port: with_tls(settings.doh_port),
        sources: settings.sources.to_string(),
        path: settings.path.as_str().to_owned(),
        query_timeout_s: settings.query_timeout as f64 / 1e9,
        workers: settings.workers,
        cores: settings.cores.clone(),
        precision: settings.precision.as_str().to_owned(),
        max_lag_ms: settings.max_lag.map(|lag| lag as f64 / 1e6),
        max_outstanding: settings.fast.then_some(settings.window),
        ports: spec.capture_port.clone(),
        start_server: spec.start_server.clone(),
        compare_answers: spec.compare_answers.as_ref().map(ToString::to_string),
        compare_ignore: spec.compare_ignore.iter().map(ToString::to_string).collect(),
        keep_responses: spec.keep_responses,
        seed: settings.seed,
        changed: changed(spec),
        ..RunConfig::default()
    }
}

/// Keys that a report shows elsewhere: the queries, and the servers.
const NO_SETTINGS: [&str; 4] = ["version", "trace", "server", "class"];

/// The keys that are not the defaults; files of rules by their names.
fn changed(spec: &RunSpec) -> Option<BTreeMap<String, Value>> {
    let keys = |spec: &RunSpec| serde_json::to_value(spec).ok()?.as_object().cloned();
    let (own, default) = (keys(spec)?, keys(&RunSpec::default())?);
    let policy = spec.policy.over(Policy::default());
    let is_default = |key: &Key| key.value(&policy).to_string() == key.default();
    let is_told = |key: &str| !NO_SETTINGS.contains(&key) && !Key::find(key).is_some_and(is_default);
    let changed = own.into_iter().filter(|(key, value)| is_told(key) && default.get(key) != Some(value));
    let mut changed: BTreeMap<String, Value> = changed.collect();
    if let Some(rules) = changed.get_mut("rules") {
        *rules = spec.rules.iter().map(|rules| rules.file.display().to_string()).collect::<Vec<_>>().into();
    }
    Some(changed)
}

/// The servers as queried; `recorded`, with the mapping, if each query had its own.
fn servers(plan: &Plan) -> Vec<String> {
    match &plan.settings.targets {
        Targets::Fixed(servers) => servers.iter().map(ToString::to_string).collect(),
        Targets::Recorded(map) => {
            ["recorded".to_owned()].into_iter().chain(map.iter().map(ToString::to_string)).collect()
        }
    }
}

fn class_configs(plan: &Plan) -> Vec<ClassConfig> {
    let policies = classes::policies(plan.classes(), plan.settings.policy);
    let config = plan.classes().iter().zip(policies).map(|(class, policy)| ClassConfig {
        name: class.name.clone(),
        share_percent: class.share.part() * 100.0,
        transport: class.transport.map_or("as-recorded", Transport::as_str).to_owned(),
        policy: UsedPolicy::all(policy),
    });
    config.collect()
}

fn connections(spec: &RunSpec, policy: Policy) -> ConnectionConfig {
    ConnectionConfig {
        policy: UsedPolicy::all(policy),
        tls_ca: spec.tls_ca.clone(),
        tls_insecure: spec.tls_insecure,
        tls_name: spec.tls_name.clone(),
        doh_method: Some(spec.doh_method.as_str().to_owned()),
        doh_path: Some(spec.doh_path.clone()),
    }
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
