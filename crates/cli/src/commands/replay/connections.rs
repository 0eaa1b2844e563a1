//! The options of connections: as typed, as meant, and as told in `run.json`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ldplayer_core::{Policy, Transport};
use ldplayer_replay::{BadPath, ConnectionCounts, DohMethod, DohSettings, HTTPS_PORT, TlsSettings, TlsTrust};
use ldplayer_results::{ConnectionConfig, Connections, UsedPolicy};

use super::policy::PolicyArgs;
use crate::failure::Failure;

/// The port of DNS over TLS (RFC 7858 §3.1) and of DNS over QUIC (RFC 9250 §4.1.1).
const DOT_PORT: u16 = 853;
/// Where systems keep the certificates that they trust.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How clients use connections.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Connections")]
pub struct ConnectionArgs {
    /// The connection policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Trust servers whose certificate leads to one in this PEM file [default: those that the system trusts]
    #[arg(long, value_name = "FILE", conflicts_with = "tls_insecure")]
    pub tls_ca: Option<PathBuf>,
    /// Trust any server, without a look at its certificate
    #[arg(long)]
    pub tls_insecure: bool,
    /// Name that the server is asked for and its certificate must have [default: the address asked]
    #[arg(long, value_name = "NAME")]
    pub tls_name: Option<String>,
    /// Port of the servers for DNS over TLS, QUIC and HTTPS [default: that of --server with --transport dot, doq, doh2 or doh3,
    /// unless it is 53; else 853, and 443 over HTTPS]
    #[arg(long, value_name = "PORT")]
    pub tls_port: Option<u16>,
    /// Port of the servers for DNS over HTTPS, where it is another one than --tls-port
    #[arg(long, value_name = "PORT")]
    pub doh_port: Option<u16>,
    /// How queries are put into HTTPS requests: as their body (post) or in their target (get)
    #[arg(long, value_name = "post|get", default_value = "post", value_parser = parse_method)]
    pub doh_method: DohMethod,
    /// Path of HTTPS requests
    #[arg(long, value_name = "PATH", default_value = DohSettings::PATH, value_parser = parse_path)]
    pub doh_path: String,
}

impl ConnectionArgs {
    /// The policy meant.
    pub fn policy(&self) -> Policy {
        self.policy.0.over(Policy::default()).bounded()
    }

    /// How TLS is used, where queries may go over it: `all` of them do, or those recorded so where it was said whom to trust.
    pub fn tls(&self, all: Option<Transport>) -> Result<Option<TlsSettings>, Failure> {
        let says_whom_to_trust = self.tls_ca.is_some() || self.tls_insecure;
        let is_wanted = all.map_or(says_whom_to_trust, Transport::is_encrypted);
        if !is_wanted {
            return Ok(None);
        }
        let name = self.tls_name.as_deref().map(TlsSettings::parse_name).transpose();
        Ok(Some(TlsSettings {
            trust: self.trust()?,
            name: name.map_err(|error| anyhow::anyhow!("--tls-name: {error}"))?,
            resumption: true,
        }))
    }

    fn trust(&self) -> Result<TlsTrust, Failure> {
        if self.tls_insecure {
            return Ok(TlsTrust::Anybody);
        }
        let system = || SYSTEM_ROOTS.iter().map(Path::new).find(|file| file.is_file());
        let Some(file) = self.tls_ca.as_deref().or_else(system) else {
            let error = "--transport: this system keeps no trusted certificates; give --tls-ca FILE or --tls-insecure";
            return Err(Failure::environment(anyhow::anyhow!(error)));
        };
        TlsTrust::from_file(file).map_err(|error| Failure::from(anyhow::anyhow!("--tls-ca {error}")))
    }

    /// The port asked over `transport`, where `all` queries go over one.
    pub fn port(&self, transport: Transport, all: Option<Transport>, servers: &[SocketAddr]) -> u16 {
        let own = self.doh_port.filter(|_| transport.is_https());
        let given = servers.iter().map(SocketAddr::port);
        let is_meant = all.is_some_and(|all| all.is_encrypted() && all.is_https() == transport.is_https());
        let of_server = || given.filter(|&port| is_meant && port != 53).max();
        let usual = if transport.is_https() { HTTPS_PORT } else { DOT_PORT };
        own.or(self.tls_port).or_else(of_server).unwrap_or(usual)
    }

    /// How queries go over HTTPS.
    pub fn doh(&self) -> Result<DohSettings, Failure> {
        DohSettings::new(self.doh_method, &self.doh_path).map_err(|error| anyhow::anyhow!("--doh-path: {error}").into())
    }

    /// The policy for `run.json`.
    pub fn config(&self) -> ConnectionConfig {
        ConnectionConfig {
            policy: UsedPolicy::all(self.policy()),
            tls_ca: self.tls_ca.clone(),
            tls_insecure: self.tls_insecure,
            tls_name: self.tls_name.clone(),
            doh_method: Some(self.doh_method.as_str().to_owned()),
            doh_path: Some(self.doh_path.clone()),
        }
    }
}

/// The engine's accounts of connections as the summary has them.
pub fn summary(counts: &ConnectionCounts) -> Connections {
    let closed = [
        ("client_idle", counts.closed_idle),
        ("client_last_query", counts.closed_spent),
        ("client_for_room", counts.closed_for_room),
        ("server", counts.closed_by_server),
        ("reset", counts.reset),
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

fn parse_method(word: &str) -> Result<DohMethod, String> {
    match word {
        "post" => Ok(DohMethod::Post),
        "get" => Ok(DohMethod::Get),
        _ => Err("use post or get".to_owned()),
    }
}

fn parse_path(word: &str) -> Result<String, BadPath> {
    DohSettings::new(DohMethod::Post, word).map(|settings| settings.path().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::policy::KEYS;

    #[test]
    fn the_engine_s_accounts_are_all_in_the_summary() {
        let counts = ConnectionCounts { opened: 9, closed_idle: 2, closed_by_server: 3, open: 4, ..Default::default() };
        let summary = summary(&counts);
        assert_eq!(summary.opened, summary.open_at_end + summary.closed.values().sum::<u64>());
        assert_eq!(summary.closed.keys().collect::<Vec<_>>(), ["client_idle", "server"]);
    }

    #[test]
    fn the_port_of_tls_is_the_one_meant() {
        let args = |port: Option<u16>| {
            let words = ["x", "--tls-insecure"].into_iter().map(str::to_owned);
            let port = port.map(|port| ["--tls-port".to_owned(), port.to_string()]);
            let typed = <Typed as clap::Parser>::parse_from(words.chain(port.into_iter().flatten()));
            typed.connections
        };
        let servers = |server: &str| [server.parse().unwrap()];
        let dot = Some(Transport::Dot);
        for (transport, usual) in
            [(Transport::Dot, 853), (Transport::Doq, 853), (Transport::Doh2, 443), (Transport::Doh3, 443)]
        {
            let port = |given, all, server: &str| args(given).port(transport, all, &servers(server));
            assert_eq!(port(None, Some(transport), "127.0.0.1:53"), usual);
            assert_eq!(port(None, Some(transport), "127.0.0.1:5300"), 5300);
            assert_eq!(port(None, None, "127.0.0.1:5300"), usual);
            assert_eq!(port(Some(8853), None, "127.0.0.1:5300"), 8853);
        }
        let both = ConnectionArgs { doh_port: Some(8443), ..args(Some(8853)) };
        assert_eq!(both.port(Transport::Doh3, None, &servers("127.0.0.1:53")), 8443);
        assert_eq!(both.port(Transport::Doh2, None, &servers("127.0.0.1:53")), 8443);
        assert_eq!(both.port(Transport::Dot, None, &servers("127.0.0.1:53")), 8853);
        let is_used = |all| args(None).tls(all).ok().map(|tls| tls.is_some());
        assert_eq!((is_used(None), is_used(Some(Transport::Tcp)), is_used(dot)), (Some(true), Some(false), Some(true)));
    }

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        connections: ConnectionArgs,
    }

    #[test]
    fn every_key_of_the_policy_is_an_option() {
        let typed = <Typed as clap::Parser>::parse_from(
            "x --nagle on --tc-fallback on --resumption off --padding 468".split(' '),
        );
        let expected = Policy { nagle: true, tc_fallback: true, resumption: false, padding: 468, ..Policy::default() };
        assert_eq!(typed.connections.policy(), expected);
        let refusal = |words: &str| match <Typed as clap::Parser>::try_parse_from(words.split(' ')) {
            Ok(_) => panic!("{words} was taken"),
            Err(error) => error.to_string(),
        };
        assert!(refusal("x --nagle yes").contains("on or off"));
        assert!(refusal("x --pipeline 0").contains("from 1 to 32768"));
        let mut command = <Typed as clap::CommandFactory>::command();
        let help = command.render_long_help().to_string();
        for key in KEYS {
            assert!(help.contains(&format!("--{} <{}>", key.option(), key.kind.placeholder())), "{}", key.name);
        }
    }
}
