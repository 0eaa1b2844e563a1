//! dnsdist, a proxy in front of another server.

use ldplayer_core::Transport::{Dot, Tcp, Udp};

use super::kind::{Description, Role, Setting};
use super::{Configured, Program};

pub(super) const DNSDIST: Description = Description {
    name: "dnsdist",
    role: Role::Proxy,
    program: Program {
        name: "dnsdist",
        package: "dnsdist",
        options: &["--supervised", "--disable-syslog"],
        configured: Configured::ByOption("-C"),
    },
    version: "--version",
    speaks: &[Udp, Tcp, Dot],
    settings: &[Setting::IdleTimeout],
    template: TEMPLATE,
    ..Description::NONE
};

const TEMPLATE: &str = r#"-- dnsdist before another server: all queries go to it, none is cached.
setACL({'0.0.0.0/0', '::/0'})
setSecurityPollSuffix('')
{%- if idle_timeout_ms %}
setTCPRecvTimeout({{ (idle_timeout_ms + 999) // 1000 }})
{%- endif %}
{%- for at in listen %}
{{ "setLocal" if loop.first else "addLocal" }}('{{ at.address }}')
{%- endfor %}
{%- if tls %}
{%- for ip in tls.ips %}
addTLSLocal('{{ ip }}:{{ tls.port }}', "{{ tls.certificate }}", "{{ tls.key }}")
{%- endfor %}
{%- endif %}
{%- for at in backends %}
newServer({ address = '{{ at.address }}', useClientSubnet = false, healthCheckMode = 'up' })
{%- endfor %}
"#;
