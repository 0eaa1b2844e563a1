//! BIND as a resolver. It listens only on addresses of an interface: a local route, as in a testbed, is not enough for it.

use ldplayer_core::Transport::{Doh2, Dot, Tcp, Udp};

use super::kind::{Description, Role, Setting};
use super::{Configured, Program};

pub(super) const BIND_RESOLVER: Description = Description {
    name: "bind-resolver",
    role: Role::Resolver,
    program: Program { name: "named", package: "bind9", options: &["-g"], configured: Configured::ByOption("-c") },
    version: "-v",
    speaks: &[Udp, Tcp, Dot, Doh2],
    settings: &[Setting::Threads, Setting::Cache, Setting::IdleTimeout],
    template: TEMPLATE,
    arguments: &["-n", "{{ threads }}"],
    ..Description::NONE
};

const TEMPLATE: &str = r#"// BIND as a resolver: open to all clients, with an empty cache.
{%- if tls %}
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
  recursion yes;
  allow-query { any; };
  allow-recursion { any; };
  allow-query-cache { any; };
  dnssec-validation {{ "yes" if trust_anchor else "no" }};
  empty-zones-enable no;
  qname-minimization {{ "relaxed" if qname_minimisation else "off" }};
{%- if connections %}
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
{%- if not ipv6 %}
server ::/0 { bogus yes; };
{%- endif %}
{%- if root_hints %}
zone "." { type hint; file "{{ root_hints }}"; };
{%- endif %}
{%- if trust_anchor %}
trust-anchors {
{%- for anchor in anchors %}
  "{{ anchor.zone }}" static-ds {{ anchor.numbers }} "{{ anchor.digest }}";
{%- endfor %}
};
{%- endif %}
"#;
