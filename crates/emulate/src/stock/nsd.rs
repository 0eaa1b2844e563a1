//! NSD, NLnet Labs' authoritative server.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::StockError;
use super::process::{self, Process};

/// A running NSD with one server process; dropping it ends it.
#[derive(Debug)]
pub struct Nsd {
    process: Process,
}

impl Nsd {
    /// Starts NSD with these zones (origin and zone file) on these addresses, and returns when all of them answer.
    ///
    /// It runs as the caller, without response rate limiting, and writes nothing outside of its scratch directory.
    ///
    /// # Errors
    /// When NSD is not installed, ends early (its log is in the error) or does not answer within a minute.
    pub fn start(zones: &[(&str, PathBuf)], listen: &[SocketAddr]) -> Result<Self, StockError> {
        let program = process::find("nsd", "nsd")?;
        let scratch = process::scratch()?;
        let file = scratch.path().join("nsd.conf");
        let text = configuration(scratch.path(), zones, listen)?;
        fs::write(&file, text)
            .map_err(|source| StockError::Scratch { directory: scratch.path().to_owned(), source })?;
        let mut process = Process::start("nsd", Command::new(program).arg("-d").arg("-c").arg(file), scratch)?;
        for &address in listen {
            process.wait_for(address)?;
        }
        Ok(Self { process })
    }

    /// The id of NSD's main process; the one that answers is a child of it.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}

/// The text of nsd.conf.
fn configuration(scratch: &Path, zones: &[(&str, PathBuf)], listen: &[SocketAddr]) -> Result<String, StockError> {
    let state = quotable(scratch)?;
    let mut text = String::from("server:\n");
    for address in listen {
        // Writing to a string cannot fail; so below.
        let _ = writeln!(text, "  ip-address: {}@{}", address.ip(), address.port());
    }
    for (option, value) in [
        ("username", "\"\"".to_owned()),
        ("chroot", "\"\"".to_owned()),
        ("zonesdir", format!("\"{state}\"")),
        ("database", "\"\"".to_owned()),
        ("pidfile", format!("\"{state}/nsd.pid\"")),
        ("xfrdfile", format!("\"{state}/xfrd.state\"")),
        ("xfrdir", format!("\"{state}\"")),
        ("zonelistfile", format!("\"{state}/zone.list\"")),
        ("cookie-secret-file", format!("\"{state}/cookies\"")),
        ("server-count", "1".to_owned()),
        ("verbosity", "1".to_owned()),
        ("rrl-ratelimit", "0".to_owned()),
        ("rrl-whitelist-ratelimit", "0".to_owned()),
        ("ip-freebind", "no".to_owned()),
    ] {
        let _ = writeln!(text, "  {option}: {value}");
    }
    text.push_str("remote-control:\n  control-enable: no\n");
    for (origin, file) in zones {
        let _ = write!(text, "zone:\n  name: \"{origin}\"\n  zonefile: \"{}\"\n", quotable(file)?);
    }
    Ok(text)
}

/// The path, if nsd.conf can hold it: it knows no escapes.
fn quotable(path: &Path) -> Result<&str, StockError> {
    path.to_str()
        .filter(|text| !text.contains(['"', '\\', '\n', '\r']))
        .ok_or_else(|| StockError::Path(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_names_zones_and_addresses() {
        let listen = ["127.0.0.1:5300".parse().unwrap(), "[::1]:5300".parse().unwrap()];
        let text = configuration(Path::new("scratch"), &[(".", PathBuf::from("root.zone"))], &listen).unwrap();
        for line in ["ip-address: 127.0.0.1@5300", "ip-address: ::1@5300", "name: \".\"", "zonefile: \"root.zone\""] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[test]
    fn a_path_cannot_add_options() {
        let zone = PathBuf::from("x\"\nserver: chroot: \"");
        let error = configuration(Path::new("scratch"), &[(".", zone)], &[]).unwrap_err();
        assert!(matches!(error, StockError::Path(_)));
    }
}
