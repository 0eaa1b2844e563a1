//! BIND as a resolver. It listens only on addresses of an interface: a local route, as in a testbed, is not enough for it.

use ldplayer_core::Transport::{Doh2, Dot, Tcp, Udp};

use super::bind::{limits, listening};
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

const TEMPLATE: &str = concat!(
    r#"// BIND as a resolver: open to all clients, with an empty cache.
"#,
    listening!(),
    r#"  recursion yes;
  allow-query { any; };
  allow-recursion { any; };
  allow-query-cache { any; };
  dnssec-validation {{ "yes" if trust_anchor else "no" }};
  empty-zones-enable no;
  qname-minimization {{ "relaxed" if qname_minimisation else "off" }};
"#,
    limits!(),
    r#"{%- if not ipv6 %}
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
"#
);
