//! Knot Resolver (release 5, configured in Lua), as one process.

use ldplayer_core::Transport::{Doh2, Dot, Tcp, Udp};

use super::kind::{Description, Role, Setting};
use super::{Configured, Program};

pub(super) const KNOT_RESOLVER: Description = Description {
    name: "knot-resolver",
    role: Role::Resolver,
    program: Program {
        name: "kresd",
        package: "knot-resolver",
        options: &["-n"],
        configured: Configured::ByOption("-c"),
    },
    version: "-V",
    speaks: &[Udp, Tcp, Dot, Doh2],
    settings: &[Setting::Cache],
    template: TEMPLATE,
    ..Description::NONE
};

const TEMPLATE: &str = r#"-- Knot Resolver (release 5): open to all clients, with an empty cache.
log_target('stderr')
cache.open({{ cache or 104857600 }}, 'lmdb://.')
{%- for at in listen %}
net.listen('{{ at.ip }}', {{ at.port }}, { kind = 'dns' })
{%- if tls %}
net.listen('{{ at.ip }}', {{ tls.port }}, { kind = 'tls' })
net.listen('{{ at.ip }}', {{ tls.https_port }}, { kind = 'doh2' })
{%- endif %}
{%- endfor %}
{%- if tls %}
net.tls("{{ tls.certificate }}", "{{ tls.key }}")
{%- endif %}
net.ipv6 = {{ "true" if ipv6 else "false" }}
option('NO_MINIMIZE', {{ "false" if qname_minimisation else "true" }})
-- An emulated Internet may have any address.
option('ALLOW_LOCAL', true)
{%- if root_hints %}
modules = { 'hints > iterate' }
hints.root_file("{{ root_hints }}")
{%- endif %}
trust_anchors.remove('.')
{%- if trust_anchor %}
-- Read-only: it would keep the state of RFC 5011 beside the file.
trust_anchors.add_file("{{ trust_anchor }}", true)
{%- endif %}
"#;
