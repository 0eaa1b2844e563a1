//! What was run and where: `config` and `environment` of `run.json`.

use std::collections::BTreeMap;

use ldplayer_core::Transport;
use ldplayer_core::policy::{Key, Scope};
use ldplayer_core::time::Span;
use ldplayer_net::machine::Facts;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The configuration of a run as it was resolved on its machine, and at its end as far as it was used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunConfig {
    /// The program and its arguments.
    pub command_line: Vec<String>,
    /// Keys of the specification that are not the defaults, with their values, but for trace and servers; `null` in runs of versions that
    /// did not say.
    pub changed: Option<BTreeMap<String, Value>>,
    /// Every key of a specification, with its value in the run; `null` where it had none.
    #[serde(flatten, deserialize_with = "read_keys")]
    pub keys: BTreeMap<String, Value>,
}

/// The machine of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// What it is.
    #[serde(flatten)]
    pub machine: Facts,
    /// Whether its cores were kept from sleeping during the run.
    pub cpu_dma_latency: String,
}

impl RunConfig {
    /// With this value of a key.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.keys.insert(key.to_owned(), value.into());
        self
    }

    /// The values of a key as text: one for each item of a list, none for `null`.
    pub fn words(&self, key: &str) -> Vec<String> {
        match self.keys.get(key) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => items.iter().map(word).collect(),
            Some(value) => vec![word(value)],
        }
    }

    /// The value of a key as text; empty for `null`.
    pub fn word(&self, key: &str) -> String {
        self.words(key).join(", ")
    }

    /// How long an answer was waited for, in nanoseconds.
    pub(crate) fn query_timeout_ns(&self) -> i64 {
        self.word("query_timeout").parse().map_or(0, Span::ns)
    }

    /// Drops the settings of transports that no query used: nobody resumed a session in a run over UDP.
    pub(crate) fn keep_used(&mut self, sent_by_transport: &BTreeMap<String, u64>) {
        let sent = sent_by_transport.iter().filter(|&(_, &sent)| sent > 0);
        let used: Vec<Transport> = sent.filter_map(|(name, _)| name.parse().ok()).collect();
        self.keys.iter_mut().filter(|(key, _)| !is_for(key, &used)).for_each(|(_, value)| *value = Value::Null);
        let classes = self.keys.get_mut("class").and_then(Value::as_array_mut).into_iter().flatten();
        for class in classes.filter_map(Value::as_object_mut) {
            let own = class.get("transport").and_then(Value::as_str).and_then(|name| name.parse().ok());
            let used = own.map_or_else(|| used.clone(), |transport| vec![transport]);
            class.iter_mut().filter(|(key, _)| !is_for(key, &used)).for_each(|(_, value)| *value = Value::Null);
        }
    }
}

/// Whether a key means something for one of these transports, or for all.
fn is_for(key: &str, used: &[Transport]) -> bool {
    encrypted(key).is_none_or(|scope| used.iter().any(|transport| scope.includes(*transport)))
}

/// The encrypted transports that a key is for; `None` where it is for others, too. Names of keys of TLS and HTTPS that are not of the
/// connection policy begin with `tls_` and `doh_`.
fn encrypted(key: &str) -> Option<Scope> {
    match Key::find(key) {
        Some(key) => Some(key.scope).filter(|scope| !scope.includes(Transport::Udp) && !scope.includes(Transport::Tcp)),
        None if key.starts_with("tls_") => Some(Scope::Encrypted),
        None if key.starts_with("doh_") => Some(Scope::Https),
        None => None,
    }
}

/// A value as text.
pub fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // What is whole is read as such: a speed of 10, not of 10.0.
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(String::new, |number| number.to_string())
        }
        Value::Null => "—".to_owned(),
        other => other.to_string(),
    }
}

/// Names of keys in runs of versions up to 0.2, which also had units in names and the connection policy in a table.
const EARLIER: [(&str, &str); 3] = [("servers", "server"), ("ports", "capture_port"), ("classes", "class")];

fn read_keys<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Value>, D::Error> {
    let mut keys = BTreeMap::<String, Value>::deserialize(deserializer)?;
    if let Some(Value::Object(policy)) = keys.remove("connections") {
        keys.extend(policy);
    }
    Ok(keys.into_iter().map(|(name, value)| renamed(name, value)).collect())
}

fn renamed(name: String, value: Value) -> (String, Value) {
    if let Some((_, now)) = EARLIER.iter().find(|(earlier, _)| *earlier == name) {
        return ((*now).to_owned(), value);
    }
    let unit = ["ms", "s"].into_iter().find_map(|unit| Some((name.strip_suffix(unit)?.strip_suffix('_')?, unit)));
    match (unit, &value) {
        (Some(("start", _)), Value::Number(number)) if number.as_f64() == Some(0.0) => {
            ("start".to_owned(), Value::Null)
        }
        (Some((name, unit)), Value::Number(_)) => (name.to_owned(), format!("{}{unit}", word(&value)).into()),
        (Some((name, _)), Value::Null) => (name.to_owned(), value),
        _ => (name, value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_configuration_of_an_earlier_version_is_read_with_the_keys_of_now() {
        let earlier = json!({
            "command_line": ["ldplayer"], "servers": ["192.0.2.1:53"], "timing": "fast", "start_s": 0.0, "stop_s": null,
            "query_timeout_s": 2.5, "max_lag_ms": 500.0, "connections": {"idle_timeout_s": 20.0, "resumption": null},
            "tls_port": null, "changed": {"timing": "fast"},
        });
        let read: RunConfig = serde_json::from_value(earlier).unwrap();
        let now = json!({
            "command_line": ["ldplayer"], "server": ["192.0.2.1:53"], "timing": "fast", "start": null, "stop": null,
            "query_timeout": "2.5s", "max_lag": "500ms", "idle_timeout": "20s", "resumption": null, "tls_port": null,
            "changed": {"timing": "fast"},
        });
        assert_eq!(serde_json::to_value(&read).unwrap(), now);
        assert_eq!(read.query_timeout_ns(), 2_500_000_000);
        assert_eq!(serde_json::from_value::<RunConfig>(now).unwrap(), read);
    }

    #[test]
    fn settings_of_transports_that_no_query_used_are_dropped() {
        let class = |name: &str| json!({"name": name, "transport": name, "resumption": true, "pipeline": 3});
        let config = ["tls_ca", "doh_path", "resumption", "tls_version", "nagle"]
            .iter()
            .fold(RunConfig::default(), |config, key| config.with(key, "given"))
            .with("class", vec![class("udp"), class("dot")]);
        let left = |sent: &[&str]| {
            let mut config = config.clone();
            config.keep_used(&sent.iter().map(|name| ((*name).to_owned(), 1)).collect());
            let given = config.keys.iter().filter(|(_, value)| *value == "given").map(|(key, _)| key.clone());
            (given.collect::<Vec<_>>().join(" "), config.keys["class"].clone())
        };
        assert_eq!(left(&["udp", "dot"]).0, "nagle resumption tls_ca tls_version");
        assert_eq!(left(&["doh3"]).0, "doh_path nagle resumption tls_ca");
        assert_eq!(left(&["udp"]).0, "nagle");
        let classes = left(&["udp", "dot"]).1;
        assert_eq!((&classes[0]["resumption"], &classes[0]["pipeline"]), (&Value::Null, &json!(3)));
        assert_eq!(classes[1]["resumption"], true);
    }
}
