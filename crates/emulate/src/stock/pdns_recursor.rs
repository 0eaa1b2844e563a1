//! PowerDNS Recursor.

use ldplayer_core::Transport::{Tcp, Udp};

use super::kind::{Description, Role, Setting};
use super::{Configured, Program};

pub(super) const PDNS_RECURSOR: Description = Description {
    name: "pdns-recursor",
    role: Role::Resolver,
    program: Program {
        name: "pdns_recursor",
        package: "pdns-recursor",
        options: &["--config-dir=.", "--daemon=no"],
        configured: Configured::ByName("recursor.conf"),
    },
    version: "--version",
    speaks: &[Udp, Tcp],
    settings: &[Setting::Threads, Setting::IdleTimeout],
    template: TEMPLATE,
    alias: "powerdns-recursor",
    more_files: &[("anchors.lua", ANCHORS)],
    ..Description::NONE
};

const TEMPLATE: &str = r#"# PowerDNS Recursor: open to all clients, with an empty cache.
local-address={% for at in listen %}{{ at.address }}{% if not loop.last %},{% endif %}{% endfor %}
dnssec={{ "validate" if trust_anchor else "process-no-validate" }}
qname-minimization={{ "yes" if qname_minimisation else "no" }}
query-local-address={{ "0.0.0.0, ::" if ipv6 else "0.0.0.0" }}
allow-from=0.0.0.0/0, ::/0
dont-query=
threads={{ threads }}
{%- if connections %}
max-tcp-clients={{ connections }}
max-tcp-per-client=0
{%- endif %}
{%- if idle_timeout_ms %}
client-tcp-timeout={{ (idle_timeout_ms + 999) // 1000 }}
{%- endif %}
{%- if root_hints %}
hint-file={{ root_hints }}
{%- endif %}
{%- if trust_anchor %}
lua-config-file=anchors.lua
{%- endif %}
socket-dir={{ work }}
write-pid=no
disable-syslog=yes
security-poll-suffix=
"#;

/// The file of its trust anchors.
const ANCHORS: &str = r#"{% if trust_anchor %}readTrustAnchorsFromFile("{{ trust_anchor }}"){% endif %}
"#;
