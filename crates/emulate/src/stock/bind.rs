//! BIND as an authoritative server. It listens only on addresses of an interface: a local route, as in a testbed, is not enough for it.

use ldplayer_core::Transport::{Doh2, Dot, Tcp, Udp};

use super::kind::{Description, Role, Setting};
use super::{Configured, Program, Zone};

pub(super) const BIND: Description = Description {
    name: "bind",
    role: Role::Authoritative,
    program: Program { name: "named", package: "bind9", options: &["-g"], configured: Configured::ByOption("-c") },
    version: "-v",
    speaks: &[Udp, Tcp, Dot, Doh2],
    settings: &[Setting::Threads, Setting::Cache, Setting::IdleTimeout],
    template: TEMPLATE,
    arguments: &["-n", "{{ threads }}"],
    complaint,
    ..Description::NONE
};

/// What BIND listens on, at the start of its options.
macro_rules! listening {
    () => {
        r#"{%- if tls %}
tls experiment { cert-file "{{ tls.certificate }}"; key-file "{{ tls.key }}"; };
{%- endif %}
options {
  directory "{{ work }}";
  // Without one of them, BIND listens on every address of that family.
{%- if not has_v4 %}
  listen-on { none; };
{%- endif %}
{%- if not has_v6 %}
  listen-on-v6 { none; };
{%- endif %}
{%- for at in listen %}
  {{ "listen-on-v6" if at.is_v6 else "listen-on" }} port {{ at.port }} { {{ at.ip }}; };
{%- if tls %}
  {{ "listen-on-v6" if at.is_v6 else "listen-on" }} port {{ tls.port }} tls experiment { {{ at.ip }}; };
  {{ "listen-on-v6" if at.is_v6 else "listen-on" }} port {{ tls.https_port }} tls experiment http default { {{ at.ip }}; };
{%- endif %}
{%- endfor %}
  pid-file none;
  session-keyfile none;
"#
    };
}

/// Its limits, at the end of its options.
macro_rules! limits {
    () => {
        r#"{%- if connections %}
  tcp-clients {{ connections }};
{%- if tls %}
  http-listener-clients {{ connections }};
{%- endif %}
{%- endif %}
{%- if cache %}
  max-cache-size {{ cache }};
{%- endif %}
{%- if idle_timeout_ms %}
  tcp-idle-timeout {{ (idle_timeout_ms + 99) // 100 }};
{%- endif %}
};
controls { };
"#
    };
}

pub(super) use {limits, listening};

const TEMPLATE: &str = concat!(
    r#"// BIND as an authoritative server: without control channel, notifies or recursion.
"#,
    listening!(),
    r#"  recursion no;
  allow-query { any; };
  notify no;
  dnssec-validation no;
  empty-zones-enable no;
"#,
    limits!(),
    r#"{%- for zone in zones %}
zone "{{ zone.apex }}" { type primary; file "{{ zone.file }}"; };
{%- endfor %}
"#
);

/// Log texts which show that a zone is not served.
const REFUSALS: [&str; 2] = [" failed: ", "not loaded due to errors"];
/// The start of the preceding log line, which has file and line; alone it may be a mere warning.
const DETAILS: [&str; 2] = ["dns_rdata_fromtext: ", "dns_master_load: "];

fn complaint(log: &str, _: &[Zone]) -> Option<String> {
    let has = |line: &str, texts: &[&str]| texts.iter().any(|text| line.contains(text));
    let is_refusal = |line: &str| line.contains(" zone ") && has(line, &REFUSALS);
    let mut detail = None;
    for line in log.lines() {
        if is_refusal(line) {
            return Some(detail.map_or(line.to_owned(), |detail| format!("{detail} | {line}")));
        }
        detail = has(line, &DETAILS).then_some(line);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_no_complaint() {
        let warning =
            "1 dns_master_load: a.zone:2: no TTL specified; using SOA MINTTL instead\n2 zone a/IN: loaded serial 1\n";
        assert_eq!(complaint(warning, &[]), None);
        let refusal = "1 dns_rdata_fromtext: b.zone:3: near 'x': bad dotted quad\n2 zone b/IN: loading from master file b.zone failed: bad dotted quad\n";
        let told = complaint(&(warning.to_owned() + refusal), &[]).unwrap();
        assert!(told.contains("b.zone:3: near 'x'") && told.contains("zone b/IN"), "{told}");
    }
}
