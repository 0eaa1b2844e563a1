//! The effective configuration of a run, for `config` of run.json.

use ldplayer_core::{Policy, Transport};
use ldplayer_replay::Targets;
use ldplayer_results::{ClassConfig, ConnectionConfig, RunConfig, UsedPolicy};

use crate::classes;
use crate::resolve::Plan;
use crate::spec::RunSpec;

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
        ..RunConfig::default()
    }
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
