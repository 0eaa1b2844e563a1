//! TLS settings of a run: trust and ports; and connection statistics for the summary.

use std::net::SocketAddr;
use std::path::Path;

use ldplayer_core::Transport;
use ldplayer_replay::{ConnectionCounts, DohSettings, HTTPS_PORT, TlsSettings, TlsTrust};
use ldplayer_results::Connections;

use crate::error::RunError;
use crate::keys::RunSpec;

/// The port of DNS over TLS (RFC 7858 §3.1) and of DNS over QUIC (RFC 9250 §4.1.1).
const DOT_PORT: u16 = 853;
/// Where systems keep trusted certificates.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// TLS settings, if queries may go over TLS: `all` of them, or recorded ones if trust was configured.
pub fn settings(spec: &RunSpec, all: Option<Transport>) -> Result<Option<TlsSettings>, RunError> {
    let says_whom_to_trust = spec.tls_ca.is_some() || spec.tls_insecure;
    let is_wanted = all.map_or(says_whom_to_trust, Transport::is_encrypted);
    if !is_wanted {
        return Ok(None);
    }
    let name = spec.tls_name.as_deref().map(TlsSettings::parse_name).transpose();
    Ok(Some(TlsSettings {
        trust: trust(spec)?,
        name: name.map_err(|error| RunError::Spec(format!("--tls-name: {error}")))?,
        resumption: true,
    }))
}

fn trust(spec: &RunSpec) -> Result<TlsTrust, RunError> {
    if spec.tls_insecure {
        return Ok(TlsTrust::Anybody);
    }
    let system = || SYSTEM_ROOTS.iter().map(Path::new).find(|file| file.is_file());
    let Some(file) = spec.tls_ca.as_deref().or_else(system) else {
        let error = "--transport: this system has no trusted CA certificates; give --tls-ca FILE or --tls-insecure";
        return Err(RunError::environment(error));
    };
    TlsTrust::from_file(file).map_err(|error| RunError::Spec(format!("--tls-ca {error}")))
}

/// The port for `transport`, if `all` queries use the same one.
pub fn port(spec: &RunSpec, transport: Transport, all: Option<Transport>, servers: &[SocketAddr]) -> u16 {
    let own = spec.doh_port.filter(|_| transport.is_https());
    let given = servers.iter().map(SocketAddr::port);
    let is_meant = all.is_some_and(|all| all.is_encrypted() && all.is_https() == transport.is_https());
    let of_server = || given.filter(|&port| is_meant && port != 53).max();
    let usual = if transport.is_https() { HTTPS_PORT } else { DOT_PORT };
    own.or(spec.tls_port).or_else(of_server).unwrap_or(usual)
}

/// Settings of DNS over HTTPS.
pub fn doh(spec: &RunSpec) -> Result<DohSettings, RunError> {
    DohSettings::new(spec.doh_method, &spec.doh_path).map_err(|error| RunError::Spec(format!("--doh-path: {error}")))
}

/// The engine's connection counters in the form of the summary.
pub fn summary(counts: &ConnectionCounts) -> Connections {
    let closed = [
        ("client_idle", counts.closed_idle),
        ("client_last_query", counts.closed_spent),
        ("client_for_room", counts.closed_for_room),
        ("server", counts.closed_by_server),
        ("reset", counts.reset),
        ("flooded", counts.flooded),
    ];
    let closed = closed.into_iter().filter(|&(_, count)| count > 0);
    Connections {
        opened: counts.opened,
        failed: counts.failed,
        resumed: counts.resumed,
        peak_open: counts.peak_open,
        open_at_end: counts.open,
        closed: closed.map(|(name, count)| (name.to_owned(), count)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_s_accounts_are_all_in_the_summary() {
        let counts = ConnectionCounts { opened: 9, closed_idle: 2, closed_by_server: 3, open: 4, ..Default::default() };
        let summary = summary(&counts);
        assert_eq!(summary.opened, summary.open_at_end + summary.closed.values().sum::<u64>());
        assert_eq!(summary.closed.keys().collect::<Vec<_>>(), ["client_idle", "server"]);
    }

    #[test]
    fn the_port_of_tls_is_the_one_meant() {
        let spec = |tls_port| RunSpec { tls_insecure: true, tls_port, ..RunSpec::default() };
        let servers = |server: &str| [server.parse().unwrap()];
        for (transport, usual) in
            [(Transport::Dot, 853), (Transport::Doq, 853), (Transport::Doh2, 443), (Transport::Doh3, 443)]
        {
            let port = |given, all, server: &str| port(&spec(given), transport, all, &servers(server));
            assert_eq!(port(None, Some(transport), "127.0.0.1:53"), usual);
            assert_eq!(port(None, Some(transport), "127.0.0.1:5300"), 5300);
            assert_eq!(port(None, None, "127.0.0.1:5300"), usual);
            assert_eq!(port(Some(8853), None, "127.0.0.1:5300"), 8853);
        }
        let both = RunSpec { doh_port: Some(8443), ..spec(Some(8853)) };
        let port = |transport| port(&both, transport, None, &servers("127.0.0.1:53"));
        assert_eq!([Transport::Doh3, Transport::Doh2, Transport::Dot].map(port), [8443, 8443, 8853]);
    }

    #[test]
    fn tls_is_used_where_queries_may_go_over_it() {
        let insecure = RunSpec { tls_insecure: true, ..RunSpec::default() };
        let is_used = |all| settings(&insecure, all).ok().map(|tls| tls.is_some());
        assert_eq!(
            [None, Some(Transport::Tcp), Some(Transport::Dot)].map(is_used),
            [Some(true), Some(false), Some(true)]
        );
        assert!(settings(&RunSpec::default(), None).is_ok_and(|tls| tls.is_none()));
    }
}
