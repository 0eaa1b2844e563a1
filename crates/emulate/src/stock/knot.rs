//! Knot DNS, an authoritative server.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use super::{Configured, Program, Stock, StockError, Zone, quoted, quoted_path};

/// Knot DNS with one worker each for UDP and TCP.
///
/// It cannot run without a control socket, which is in its work directory.
#[derive(Clone, Debug, Default)]
pub struct Knot {
    /// The zones.
    pub zones: Vec<Zone>,
}

impl Stock for Knot {
    fn program(&self) -> Program {
        Program { name: "knotd", package: "knot", options: &[], configured: Configured::ByOption("-c") }
    }

    fn configuration(&self, work: &Path, listen: &[SocketAddr]) -> Result<String, StockError> {
        let work = quoted_path(work)?;
        let mut text =
            format!("server:\n  rundir: {work}\n  udp-workers: 1\n  tcp-workers: 1\n  background-workers: 1\n");
        for address in listen {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  listen: {}@{}", address.ip(), address.port());
        }
        let _ = write!(
            text,
            "database:\n  storage: {work}\n\
             log:\n  - target: stderr\n    any: info\n\
             template:\n  - id: default\n    storage: {work}\n    zonefile-sync: -1\n    zonefile-load: whole\n    \
             journal-content: none\n"
        );
        if !self.zones.is_empty() {
            text.push_str("zone:\n");
        }
        for zone in &self.zones {
            let (apex, file) = (quoted(&zone.apex)?, quoted_path(&zone.file)?);
            let _ = write!(text, "  - domain: {apex}\n    file: {file}\n");
        }
        Ok(text)
    }

    fn zones(&self) -> &[Zone] {
        &self.zones
    }

    fn complaint(&self, log: &str) -> Option<String> {
        log.lines().find(|line| line.contains(" error: [")).map(str::to_owned)
    }
}
