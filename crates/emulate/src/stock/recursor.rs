//! PowerDNS Recursor.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use super::{Configured, Program, Resolving, Stock, StockError, Zone, ensure_readable, quoted_path};

/// Its second file, for trust anchors.
const ANCHORS: &str = "anchors.lua";

/// PowerDNS Recursor with one thread that resolves, open to all clients, with an empty cache.
#[derive(Clone, Debug, Default)]
pub struct Recursor {
    /// The settings.
    pub told: Resolving,
}

impl Stock for Recursor {
    fn program(&self) -> Program {
        let configured = Configured::ByName("recursor.conf");
        let options = &["--config-dir=.", "--daemon=no"];
        Program { name: "pdns_recursor", package: "pdns-recursor", options, configured }
    }

    fn configuration(&self, _work: &Path, listen: &[SocketAddr]) -> Result<String, StockError> {
        let listen: Vec<String> = listen.iter().map(ToString::to_string).collect();
        let mut text = format!("local-address={}\n", listen.join(","));
        let validates = if self.told.trust_anchor.is_some() { "validate" } else { "process-no-validate" };
        for (option, value) in [
            ("dnssec", validates),
            ("qname-minimization", if self.told.qname_minimisation { "yes" } else { "no" }),
            ("query-local-address", if self.told.ipv6 { "0.0.0.0, ::" } else { "0.0.0.0" }),
            ("allow-from", "0.0.0.0/0, ::/0"),
            // An emulated Internet may have any address.
            ("dont-query", ""),
            ("threads", "1"),
            ("socket-dir", "."),
            ("write-pid", "no"),
            ("disable-syslog", "yes"),
            ("security-poll-suffix", ""),
        ] {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{option}={value}");
        }
        if let Some(hints) = &self.told.root_hints {
            let _ = writeln!(text, "hint-file={}", bare(hints)?);
        }
        if self.told.trust_anchor.is_some() {
            let _ = writeln!(text, "lua-config-file={ANCHORS}");
        }
        let _ = writeln!(text, "{}", self.told.extra);
        Ok(text)
    }

    fn more_files(&self) -> Result<Vec<(&'static str, String)>, StockError> {
        let Some(file) = &self.told.trust_anchor else { return Ok(Vec::new()) };
        ensure_readable(file)?;
        Ok(vec![(ANCHORS, format!("readTrustAnchorsFromFile({})\n", quoted_path(file)?))])
    }

    fn zones(&self) -> &[Zone] {
        &[]
    }

    fn complaint(&self, _log: &str) -> Option<String> {
        None
    }
}

/// The absolute path of a readable file, as an unquoted value.
fn bare(file: &Path) -> Result<String, StockError> {
    ensure_readable(file)?;
    Ok(quoted_path(file)?.trim_matches('"').to_owned())
}
