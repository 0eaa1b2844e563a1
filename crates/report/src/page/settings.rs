//! The settings of a run: those that are not the default, and all keys of `run.json`.

use ldplayer_core::policy::{Key, ValueKind};
use serde::Serialize;
use serde_json::Value;

use ldplayer_results::{RunReport, word};

/// The settings of a run.
#[derive(Serialize)]
pub struct Settings {
    /// Whether it is known which are the defaults.
    known: bool,
    /// Options that are not the defaults, as they are given on the command line.
    changed: Vec<String>,
    command_line: String,
    config: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    limits: Vec<(String, String)>,
}

impl Settings {
    /// Of a run.
    pub fn new(report: &RunReport) -> Self {
        Self {
            known: report.config.changed.is_some(),
            changed: changed(report),
            command_line: report.config.command_line.join(" "),
            config: lines(&report.config).into_iter().filter(|(key, _)| !key.starts_with("changed")).collect(),
            environment: lines(&report.environment),
            limits: lines(&report.limits),
        }
    }
}

/// The options that are not the defaults.
pub fn changed(report: &RunReport) -> Vec<String> {
    let options = |(key, value): (&String, &Value)| match value {
        // Given once each, since it has spaces.
        Value::Array(items) if key == "expect" => items.iter().map(|item| option(key, item)).collect(),
        value => vec![option(key, value)],
    };
    report.config.changed.iter().flatten().flat_map(options).collect()
}

/// A setting as an option of the command line.
pub fn option(key: &str, value: &Value) -> String {
    let name = key.replace('_', "-");
    let is_switch = Key::find(key).is_some_and(|key| matches!(key.kind, ValueKind::Switch));
    match value {
        Value::Bool(on) if is_switch => format!("--{name} {}", if *on { "on" } else { "off" }),
        Value::Bool(true) => format!("--{name}"),
        value => match told(value) {
            text if text.contains(' ') => format!("--{name} '{text}'"),
            text => format!("--{name} {text}"),
        },
    }
}

/// A value without its option.
pub fn told(value: &Value) -> String {
    match value {
        Value::Bool(on) => (if *on { "on" } else { "off" }).to_owned(),
        Value::Array(items) => items.iter().map(word).collect::<Vec<_>>().join(","),
        value => word(value),
    }
}

/// A part of `run.json` as lines of dotted key and value.
pub fn lines(part: &impl Serialize) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    // The types of the report have string keys only, which is all that could fail.
    flatten("", &serde_json::to_value(part).unwrap_or_default(), &mut lines);
    lines
}

fn flatten(path: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    use Value::{Array, Bool, Null, Number, Object, String};
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Object(map) => map.iter().for_each(|(key, value)| flatten(&below(key), value, lines)),
        Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            items.iter().enumerate().for_each(|(at, item)| flatten(&below(&at.to_string()), item, lines));
        }
        Array(items) => lines.push((path.to_owned(), items.iter().map(word).collect::<Vec<_>>().join(" "))),
        Null if path.is_empty() => {}
        String(_) | Null | Bool(_) | Number(_) => lines.push((path.to_owned(), word(value))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_told_as_the_options_that_set_them() {
        let given = |key: &str, value: Value| option(key, &value);
        assert_eq!(given("idle_timeout", json!("5s")), "--idle-timeout 5s");
        assert_eq!(
            (given("resumption", json!(false)), given("nagle", json!(true))),
            ("--resumption off".to_owned(), "--nagle on".to_owned())
        );
        assert_eq!(given("keep_responses", json!(true)), "--keep-responses");
        assert_eq!(given("port", json!([53, 5353])), "--port 53,5353");
        assert_eq!(given("expect", json!("p99 <= 20ms")), "--expect 'p99 <= 20ms'");
        assert_eq!(given("speed", json!(10.0)), "--speed 10");
    }
}
