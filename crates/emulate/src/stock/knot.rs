//! Knot DNS, an authoritative server. It cannot run without a control socket, which is in its work directory.

use ldplayer_core::Transport::{Tcp, Udp};

use super::kind::{Description, Role, Setting};
use super::{Configured, Program, Zone};

pub(super) const KNOT: Description = Description {
    name: "knot",
    role: Role::Authoritative,
    program: Program { name: "knotd", package: "knot", options: &[], configured: Configured::ByOption("-c") },
    version: "-V",
    speaks: &[Udp, Tcp],
    settings: &[Setting::Threads, Setting::IdleTimeout],
    template: TEMPLATE,
    complaint,
    ..Description::NONE
};

const TEMPLATE: &str = r#"# Knot DNS: its control socket and databases are in its work directory.
server:
  rundir: "{{ work }}"
  udp-workers: {{ threads }}
  tcp-workers: {{ threads }}
  background-workers: 1
{%- if connections %}
  tcp-max-clients: {{ connections }}
{%- endif %}
{%- if idle_timeout_ms %}
  tcp-idle-timeout: {{ (idle_timeout_ms + 999) // 1000 }}
{%- endif %}
{%- for at in listen %}
  listen: {{ at.ip }}@{{ at.port }}
{%- endfor %}
database:
  storage: "{{ work }}"
log:
  - target: stderr
    any: info
template:
  - id: default
    storage: "{{ work }}"
    zonefile-sync: -1
    zonefile-load: whole
    journal-content: none
{%- if zones %}
zone:
{%- for zone in zones %}
  - domain: "{{ zone.apex }}"
    file: "{{ zone.file }}"
{%- endfor %}
{%- endif %}
"#;

fn complaint(log: &str, _: &[Zone]) -> Option<String> {
    log.lines().find(|line| line.contains(" error: [")).map(str::to_owned)
}
