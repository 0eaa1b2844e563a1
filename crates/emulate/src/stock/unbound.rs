//! Unbound, a resolver.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{Configured, Program, Stock, StockError, Zone, quoted_path};

/// Unbound with one thread, open to all clients, with an empty cache.
#[derive(Clone, Debug)]
pub struct Unbound {
    /// Root hints, as a zone file with the root's NS records and their addresses; the built-in ones by default.
    pub root_hints: Option<PathBuf>,
    /// A file of trust anchors as DS or DNSKEY records; without it, nothing is validated.
    pub trust_anchor: Option<PathBuf>,
    /// Whether it minimises query names (RFC 9156).
    pub qname_minimisation: bool,
    /// Whether it uses IPv6, both for queries and for listening.
    pub ipv6: bool,
    /// Additional configuration, such as `server:` clauses with other options, which takes precedence.
    pub extra: String,
}

impl Default for Unbound {
    /// Unbound's own defaults, but without validation.
    fn default() -> Self {
        Self { root_hints: None, trust_anchor: None, qname_minimisation: true, ipv6: true, extra: String::new() }
    }
}

impl Stock for Unbound {
    fn program(&self) -> Program {
        Program { name: "unbound", package: "unbound", options: &["-d", "-p"], configured: Configured::ByOption("-c") }
    }

    fn configuration(&self, work: &Path, listen: &[SocketAddr]) -> Result<String, StockError> {
        let mut text = String::from("server:\n");
        for address in listen {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  interface: {}@{}", address.ip(), address.port());
        }
        let _ = writeln!(text, "  directory: {}", quoted_path(work)?);
        let module = if self.trust_anchor.is_some() { "\"validator iterator\"" } else { "\"iterator\"" };
        for (option, value) in [
            ("chroot", "\"\""),
            ("username", "\"\""),
            ("pidfile", "\"\""),
            ("use-syslog", "no"),
            ("logfile", "\"\""),
            ("do-daemonize", "no"),
            ("num-threads", "1"),
            ("access-control", "0.0.0.0/0 allow"),
            ("access-control", "::0/0 allow"),
            // An emulated Internet may be on loopback.
            ("do-not-query-localhost", "no"),
            ("module-config", module),
            ("qname-minimisation", yes_or_no(self.qname_minimisation)),
            ("do-ip6", yes_or_no(self.ipv6)),
        ] {
            let _ = writeln!(text, "  {option}: {value}");
        }
        for (option, file) in [("root-hints", &self.root_hints), ("trust-anchor-file", &self.trust_anchor)] {
            if let Some(file) = file {
                super::ensure_readable(file)?;
                let _ = writeln!(text, "  {option}: {}", quoted_path(file)?);
            }
        }
        let _ = write!(text, "remote-control:\n  control-enable: no\n{}\n", self.extra);
        Ok(text)
    }

    fn zones(&self) -> &[Zone] {
        &[]
    }

    fn complaint(&self, _log: &str) -> Option<String> {
        None
    }
}

fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_trust_anchor_nothing_validates() {
        let text = |unbound: Unbound| unbound.configuration(Path::new("/work"), &[]).unwrap();
        assert!(text(Unbound::default()).contains("module-config: \"iterator\""));
        let anchored = text(Unbound { trust_anchor: Some("Cargo.toml".into()), ..Unbound::default() });
        assert!(anchored.contains("module-config: \"validator iterator\"") && anchored.contains("/Cargo.toml\""));
    }

    #[test]
    fn parameters_are_options() {
        let unbound = Unbound {
            qname_minimisation: false,
            ipv6: false,
            extra: "server:\n  verbosity: 3".to_owned(),
            ..Unbound::default()
        };
        let text = unbound.configuration(Path::new("/work"), &["127.0.0.1:53".parse().unwrap()]).unwrap();
        for line in ["qname-minimisation: no", "do-ip6: no", "verbosity: 3", "interface: 127.0.0.1@53"] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
