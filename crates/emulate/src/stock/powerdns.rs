//! PowerDNS Authoritative Server with its BIND backend.

use ldplayer_core::Transport::{Tcp, Udp};

use super::kind::{Description, Role, Setting};
use super::{Configured, Program};

pub(super) const POWERDNS: Description = Description {
    name: "powerdns",
    role: Role::Authoritative,
    program: Program {
        name: "pdns_server",
        package: "pdns-server pdns-backend-bind",
        options: &["--config-dir=.", "--daemon=no", "--guardian=no"],
        configured: Configured::ByName("pdns.conf"),
    },
    version: "--version",
    speaks: &[Udp, Tcp],
    settings: &[Setting::Threads, Setting::IdleTimeout],
    template: TEMPLATE,
    more_files: &[("zones.conf", ZONES)],
    ..Description::NONE
};

const TEMPLATE: &str = r#"# PowerDNS Authoritative Server with its BIND backend.
launch=bind
bind-config={{ work }}/zones.conf
bind-check-interval=0
local-address={% for at in listen %}{{ at.address }}{% if not loop.last %}, {% endif %}{% endfor %}
receiver-threads={{ threads }}
distributor-threads={{ threads }}
{%- if connections %}
max-tcp-connections={{ connections }}
{%- endif %}
{%- if idle_timeout_ms %}
tcp-idle-timeout={{ (idle_timeout_ms + 999) // 1000 }}
{%- endif %}
socket-dir={{ work }}
write-pid=no
disable-syslog=yes
log-timestamp=no
security-poll-suffix=
webserver=no
api=no
"#;

/// The file of the zones, for the backend.
const ZONES: &str = r#"{% for zone in zones %}zone "{{ zone.apex }}" { type master; file "{{ zone.file }}"; };
{% endfor %}"#;
