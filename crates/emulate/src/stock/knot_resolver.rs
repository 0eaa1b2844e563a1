//! Knot Resolver (release 5, configured in Lua).

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use super::{Configured, Program, Resolving, Stock, StockError, Zone, ensure_readable, quoted_path};

/// Knot Resolver as one process, open to all clients, with an empty cache in its work directory.
#[derive(Clone, Debug, Default)]
pub struct KnotResolver {
    /// The settings.
    pub told: Resolving,
}

impl KnotResolver {
    fn anchors(&self) -> Result<String, StockError> {
        let Some(file) = &self.told.trust_anchor else { return Ok("trust_anchors.remove('.')\n".to_owned()) };
        // Read-only, since it would otherwise keep the state of RFC 5011 beside it.
        Ok(format!("trust_anchors.remove('.')\ntrust_anchors.add_file({}, true)\n", readable(file)?))
    }
}

impl Stock for KnotResolver {
    fn program(&self) -> Program {
        let configured = Configured::ByOption("-c");
        Program { name: "kresd", package: "knot-resolver", options: &["-n"], configured }
    }

    fn configuration(&self, _work: &Path, listen: &[SocketAddr]) -> Result<String, StockError> {
        let mut text = String::from("log_target('stderr')\ncache.open(100 * MB, 'lmdb://.')\n");
        for address in listen {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "net.listen('{}', {}, {{ kind = 'dns' }})", address.ip(), address.port());
        }
        let _ = writeln!(text, "net.ipv6 = {}", self.told.ipv6);
        let _ = writeln!(text, "option('NO_MINIMIZE', {})", !self.told.qname_minimisation);
        // An emulated Internet may be on loopback.
        text.push_str("option('ALLOW_LOCAL', true)\n");
        if let Some(hints) = &self.told.root_hints {
            let _ = writeln!(text, "modules = {{ 'hints > iterate' }}\nhints.root_file({})", readable(hints)?);
        }
        let _ = writeln!(text, "{}{}", self.anchors()?, self.told.extra);
        Ok(text)
    }

    fn zones(&self) -> &[Zone] {
        &[]
    }

    fn complaint(&self, _log: &str) -> Option<String> {
        None
    }
}

/// The quoted path of a readable file.
fn readable(file: &Path) -> Result<String, StockError> {
    ensure_readable(file)?;
    quoted_path(file)
}
