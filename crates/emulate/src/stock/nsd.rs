//! NSD, an authoritative server: with one server process for a thread, each a child of the main one.

use ldplayer_core::Transport::{Dot, Tcp, Udp};

use super::kind::{Description, Role, Setting};
use super::{Configured, Program, Zone};

pub(super) const NSD: Description = Description {
    name: "nsd",
    role: Role::Authoritative,
    program: Program { name: "nsd", package: "nsd", options: &["-d"], configured: Configured::ByOption("-c") },
    version: "-v",
    speaks: &[Udp, Tcp, Dot],
    settings: &[Setting::Threads, Setting::IdleTimeout],
    template: TEMPLATE,
    complaint,
    ..Description::NONE
};

const TEMPLATE: &str = r#"# NSD in its work directory, without rate limits, remote control or privileges.
server:
{%- for at in listen %}
  ip-address: {{ at.ip }}@{{ at.port }}
{%- endfor %}
{%- if tls %}
{%- for at in listen %}
  ip-address: {{ at.ip }}@{{ tls.port }}
{%- endfor %}
  tls-port: {{ tls.port }}
  tls-service-key: "{{ tls.key }}"
  tls-service-pem: "{{ tls.certificate }}"
{%- endif %}
  username: ""
  chroot: ""
  zonesdir: "{{ work }}"
  database: ""
  pidfile: "{{ work }}/nsd.pid"
  xfrdfile: "{{ work }}/xfrd.state"
  xfrdir: "{{ work }}"
  zonelistfile: "{{ work }}/zone.list"
  cookie-secret-file: "{{ work }}/cookies"
  server-count: {{ threads }}
  verbosity: 1
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
{%- if connections %}
  tcp-count: {{ connections }}
{%- endif %}
{%- if idle_timeout_ms %}
  tcp-timeout: {{ (idle_timeout_ms + 999) // 1000 }}
{%- endif %}
remote-control:
  control-enable: no
{%- for zone in zones %}
zone:
  name: "{{ zone.apex }}"
  zonefile: "{{ zone.file }}"
{%- endfor %}
"#;

fn complaint(log: &str, zones: &[Zone]) -> Option<String> {
    let mut errors = log.lines().filter(|line| line.contains(": error: "));
    // Other errors need not keep it from serving.
    let names_a_zone = |line: &str| {
        line.contains(" read with ") || zones.iter().any(|zone| line.contains(&*zone.file.to_string_lossy()))
    };
    errors.find(|line| names_a_zone(line)).map(str::to_owned)
}
