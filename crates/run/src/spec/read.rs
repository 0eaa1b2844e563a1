//! Specifications as TOML: errors with their line, and output that reads back.

use ldplayer_core::nearest::suggest;

use super::RunSpec;
use crate::keys;

/// An error of a specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadSpec {
    /// The line, from 1.
    pub line: usize,
    /// The error, with a remedy.
    pub what: String,
}

impl RunSpec {
    /// Reads a specification in TOML.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn parse(text: &str) -> Result<Self, BadSpec> {
        toml::from_str(text).map_err(|error| explain(text, &error))
    }

    /// The specification in TOML.
    pub fn to_toml(&self) -> String {
        // All keys are strings, and all values are valid TOML.
        toml::to_string(self).unwrap_or_default()
    }

    /// All keys of a specification.
    pub fn keys() -> Vec<String> {
        keys::names()
    }
}

fn explain(text: &str, error: &toml::de::Error) -> BadSpec {
    let message = &one_line(error.message());
    let unknown = message.strip_prefix("unknown key `").and_then(|rest| rest.split('`').next());
    if let Some(key) = unknown {
        let known = RunSpec::keys();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return BadSpec { line: line_of_key(text, key), what: format!("unknown key `{key}`{}", suggest(key, &known)) };
    }
    let named = message.strip_prefix('`').and_then(|rest| rest.split('`').next());
    let line = error.span().map_or(0, |span| line_at(text, span.start));
    BadSpec { line: named.map_or(line, |key| line_of_key(text, key)).max(1), what: message.clone() }
}

/// The message on one line: the library's may have several, with quotes.
fn one_line(message: &str) -> String {
    message.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(": ")
}

fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&octet| octet == b'\n').count()
}

/// The line of a key; the first if it is not set.
fn line_of_key(text: &str, key: &str) -> usize {
    let gives = |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
    text.lines().position(gives).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::Transport;
    use ldplayer_workload::{RulesFile, Timing, read_classes};

    use crate::words::TransportChoice;

    fn full() -> RunSpec {
        let mut spec = RunSpec::parse(
            "version = 1\ntrace = 'a.pcap'\nserver = ['127.0.0.1:5300', '::1']\nmap = '198.41.0.4=127.0.0.1:5300'\nrules = 'do.toml'\n\
             timing = 'rate:20000'\nstart = 1.5\nstop = '20s'\nloop = 'forever'\nfor = '90s'\nclients = 7\ntransport = 'dot'\nsources = 'pool:127.0.1.0/24,::2/128'\npath = 'packets'\ninterface = 'eth0.5'\nnext_hop = '192.0.2.1'\n\
             query_timeout = '2s'\nworkers = 2\ncores = [0, 1]\nprecision = 'high'\nmax_lag = 20\nmax_outstanding = 5\n\
             allow_target = '192.0.2.0/24'\nseed = 7\ncapture_port = [53, 5353]\nrole = ['client', 'auth']\nwatch_pid = 9\ntelemetry_interval = '100ms'\nexpect = 'answered >= 99 %'\n\
             compare_answers = 'recorded'\ncompare_ignore = ['ad', 'type == SOA']\nkeep_responses = true\ndrop_duplicates = true\ntext_format = 'dnsperf'\nmax_input = '9 GB'\n\
             tls_ca = 'ca.pem'\ntls_name = 'ns1.example'\ntls_port = 8853\ndoh_method = 'get'\ndoh_path = '/q'\n\
             idle_timeout = '0s'\npipeline = 3\nnagle = true\ntls_version = '1.2'\npadding = 'off'\n",
        )
        .unwrap();
        spec.class = read_classes(
            "[[class]]\nname='a'\nshare='33.33 %'\npipeline=2\n[[class]]\nname='b'\nshare=0.6667\ntransport='tcp'",
        )
        .unwrap();
        spec
    }

    #[test]
    fn a_specification_is_read_back_from_toml_and_json() {
        let spec = full();
        assert_eq!(
            (spec.timing, spec.transport.clone()),
            (Timing::Rate(20_000.0), TransportChoice::All(Transport::Dot))
        );
        assert_eq!((spec.policy.idle_timeout, spec.policy.pipeline, spec.policy.padding), (Some(0), Some(3), Some(0)));
        assert_eq!(RunSpec::parse(&spec.to_toml()).unwrap(), spec, "{}", spec.to_toml());
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<RunSpec>(&json).unwrap(), spec, "{json}");
        let read = RulesFile { file: "do.toml".into(), text: Some("[[rule]]\n".into()) };
        let spec = RunSpec { rules: vec![read], ..spec };
        assert_eq!(RunSpec::parse(&spec.to_toml()).unwrap(), spec, "{}", spec.to_toml());
    }

    #[test]
    fn a_default_specification_is_an_empty_one() {
        assert_eq!(RunSpec::parse("").unwrap(), RunSpec::default());
        assert_eq!(RunSpec::parse(&RunSpec::default().to_toml()).unwrap(), RunSpec::default());
    }

    #[test]
    fn errors_name_the_line_and_the_nearest_key() {
        let refusal = |text: &str| RunSpec::parse(text).unwrap_err().to_string();
        assert_eq!(
            refusal("trace = 'a'\ntransprt = 'tcp'"),
            "line 2: unknown key `transprt`: did you mean `transport`?"
        );
        assert_eq!(refusal("\nidle_timout = 3"), "line 2: unknown key `idle_timout`: did you mean `idle_timeout`?");
        assert!(refusal("\n\npipeline = 0").starts_with("line 3: `pipeline`: `0` is not a whole number from 1"));
        assert!(refusal("version = 2").contains("version 2 is not supported, only version 1"));
        assert!(refusal("transport = 'sctp'").contains("sctp"));
        assert!(refusal("trace = 'a'\nseed = 'x'").starts_with("line "));
        assert!(refusal("trace = ").starts_with("line 1: "));
        for text in ["trace = 'a", "server = \"a\\nb\"", "\"a\\nb\" = 1", "pipeline = \"1\\n2\""] {
            assert!(!refusal(text).contains('\n'), "{text}: {}", refusal(text));
        }
    }
}
