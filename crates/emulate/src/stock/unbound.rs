//! Unbound, a resolver.

use ldplayer_core::Transport::{Doh2, Dot, Tcp, Udp};

use super::kind::{Description, Role, Setting};
use super::{Configured, Program};

pub(super) const UNBOUND: Description = Description {
    name: "unbound",
    role: Role::Resolver,
    program: Program {
        name: "unbound",
        package: "unbound",
        options: &["-d", "-p"],
        configured: Configured::ByOption("-c"),
    },
    version: "-V",
    speaks: &[Udp, Tcp, Dot, Doh2],
    settings: &[Setting::Threads, Setting::Cache, Setting::IdleTimeout],
    template: TEMPLATE,
    ..Description::NONE
};

const TEMPLATE: &str = r#"# Unbound: open to all clients, with an empty cache.
server:
{%- for at in listen %}
  interface: {{ at.ip }}@{{ at.port }}
{%- if tls %}
  interface: {{ at.ip }}@{{ tls.port }}
  interface: {{ at.ip }}@{{ tls.https_port }}
{%- endif %}
{%- endfor %}
{%- if tls %}
  tls-port: {{ tls.port }}
  https-port: {{ tls.https_port }}
  tls-service-key: "{{ tls.key }}"
  tls-service-pem: "{{ tls.certificate }}"
{%- endif %}
  directory: "{{ work }}"
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  logfile: ""
  do-daemonize: no
  num-threads: {{ threads }}
{%- if connections %}
  # Of each thread and address.
  incoming-num-tcp: {{ (connections + per_thread - 1) // per_thread }}
{%- endif %}
{%- if cache %}
  msg-cache-size: {{ cache }}
  rrset-cache-size: {{ cache * 2 }}
{%- endif %}
{%- if idle_timeout_ms %}
  tcp-idle-timeout: {{ idle_timeout_ms }}
{%- endif %}
  access-control: 0.0.0.0/0 allow
  access-control: ::0/0 allow
  do-not-query-localhost: no
  module-config: "{{ "validator iterator" if trust_anchor else "iterator" }}"
  qname-minimisation: {{ "yes" if qname_minimisation else "no" }}
  do-ip6: {{ "yes" if ipv6 else "no" }}
{%- if root_hints %}
  root-hints: "{{ root_hints }}"
{%- endif %}
{%- if trust_anchor %}
  trust-anchor-file: "{{ trust_anchor }}"
{%- endif %}
remote-control:
  control-enable: no
"#;
