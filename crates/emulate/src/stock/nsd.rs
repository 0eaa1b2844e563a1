//! NSD, an authoritative server.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use super::{Configured, Program, Stock, StockError, Zone, quoted, quoted_path};

/// NSD with one server process, which is a child of the main one.
#[derive(Clone, Debug, Default)]
pub struct Nsd {
    /// The zones.
    pub zones: Vec<Zone>,
}

impl Stock for Nsd {
    fn program(&self) -> Program {
        Program { name: "nsd", package: "nsd", options: &["-d"], configured: Configured::ByOption("-c") }
    }

    fn configuration(&self, work: &Path, listen: &[SocketAddr]) -> Result<String, StockError> {
        let mut text = String::from("server:\n");
        for address in listen {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  ip-address: {}@{}", address.ip(), address.port());
        }
        for (option, value) in [
            ("username", "\"\"".to_owned()),
            ("chroot", "\"\"".to_owned()),
            ("zonesdir", quoted_path(work)?),
            ("database", "\"\"".to_owned()),
            ("pidfile", quoted_path(&work.join("nsd.pid"))?),
            ("xfrdfile", quoted_path(&work.join("xfrd.state"))?),
            ("xfrdir", quoted_path(work)?),
            ("zonelistfile", quoted_path(&work.join("zone.list"))?),
            ("cookie-secret-file", quoted_path(&work.join("cookies"))?),
            ("server-count", "1".to_owned()),
            ("verbosity", "1".to_owned()),
            ("rrl-ratelimit", "0".to_owned()),
            ("rrl-whitelist-ratelimit", "0".to_owned()),
            ("ip-freebind", "no".to_owned()),
        ] {
            let _ = writeln!(text, "  {option}: {value}");
        }
        text.push_str("remote-control:\n  control-enable: no\n");
        for zone in &self.zones {
            let (apex, file) = (quoted(&zone.apex)?, quoted_path(&zone.file)?);
            let _ = write!(text, "zone:\n  name: {apex}\n  zonefile: {file}\n");
        }
        Ok(text)
    }

    fn zones(&self) -> &[Zone] {
        &self.zones
    }

    fn complaint(&self, log: &str) -> Option<String> {
        let mut errors = log.lines().filter(|line| line.contains(": error: "));
        // Other errors need not keep it from serving.
        let names_a_zone = |line: &str| {
            line.contains(" read with ") || self.zones.iter().any(|zone| line.contains(&*zone.file.to_string_lossy()))
        };
        errors.find(|line| names_a_zone(line)).map(str::to_owned)
    }
}
