//! Stock servers: each with a generated configuration in a work directory, ended when dropped.

mod bind;
mod error;
mod knot;
mod knot_resolver;
mod nsd;
pub mod probe;
mod process;
mod recursor;
mod resolver;
mod unbound;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use bind::Bind;
pub use error::{Awaited, StockError};
pub use knot::Knot;
pub use knot_resolver::KnotResolver;
use ldplayer_core::name;
pub use nsd::Nsd;
pub use process::{Output, Process, find};
pub use recursor::Recursor;
pub use resolver::{ResolverKind, Resolving, UnknownResolver};
pub use unbound::Unbound;

/// RCODE of a server that cannot answer, for example while it loads the zone (RFC 1035, section 4.1.1).
const SERVFAIL: u8 = 2;
/// File name of the configuration in the work directory.
const CONFIGURATION: &str = "configuration";
/// File name of the log in the work directory.
const LOG: &str = "log";

/// A zone to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its apex, as in a zone file: `.`, `example.com.`
    pub apex: String,
    /// Its zone file.
    pub file: PathBuf,
}

impl Zone {
    /// A zone with its apex and file.
    pub fn new(apex: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self { apex: apex.into(), file: file.into() }
    }
}

/// The program of a stock server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Debian's package with it.
    pub package: &'static str,
    /// Options that keep it in the foreground, with the log on stderr.
    pub options: &'static [&'static str],
    /// How it gets its configuration.
    pub configured: Configured,
}

/// Deviations from the default way to start a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Another build of the program.
    pub program: Option<PathBuf>,
    /// Additional arguments.
    pub arguments: Vec<String>,
}

/// How a program gets its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Configured {
    /// By this option, followed by the path of the file.
    ByOption(&'static str),
    /// By this file name in the work directory, where the options make the program look.
    ByName(&'static str),
}

/// The description of a stock server: its zones and its configuration.
///
/// A started server runs as the caller with one worker, without rate limits or remote control, and writes nothing outside
/// its work directory.
pub trait Stock {
    /// The program to run.
    fn program(&self) -> Program;

    /// The text of its configuration.
    ///
    /// # Errors
    /// It cannot hold a path or name.
    fn configuration(&self, work: &Path, listen: &[SocketAddr]) -> Result<String, StockError>;

    /// Additional files, by their names in the work directory.
    ///
    /// # Errors
    /// As [`configuration`](Self::configuration).
    fn more_files(&self) -> Result<Vec<(&'static str, String)>, StockError> {
        Ok(Vec::new())
    }

    /// The zones that it must answer for to be ready; none for a resolver.
    fn zones(&self) -> &[Zone];

    /// The log line about a zone that cannot be loaded, if there is one.
    fn complaint(&self, log: &str) -> Option<String>;

    /// Starts it on these addresses with a temporary work directory, and returns when all of them answer.
    ///
    /// The kernel kills it when the calling thread ends, so that thread must outlive the server's use.
    ///
    /// # Errors
    /// The program is not installed, an address is in use, a zone cannot be loaded, or the server exits or does not
    /// answer within a minute.
    fn start(&self, listen: &[SocketAddr]) -> Result<Process, StockError> {
        let scratch = scratch()?;
        let mut process = self.start_in(listen, scratch.path())?;
        process.keep(scratch);
        Ok(process)
    }

    /// Starts it in a given work directory, which stays, with configuration and log.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    fn start_in(&self, listen: &[SocketAddr], work: &Path) -> Result<Process, StockError> {
        self.start_with(listen, work, &Launch::default())
    }

    /// Starts it with another build of the program, or additional arguments.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    fn start_with(&self, listen: &[SocketAddr], work: &Path, launch: &Launch) -> Result<Process, StockError> {
        let program = self.program();
        let path = match &launch.program {
            Some(path) => path.clone(),
            None => process::find(program.name, program.package)?,
        };
        self.zones().iter().try_for_each(|zone| ensure_readable(&zone.file))?;
        let apexes = self.zones().iter().map(wire_apex).collect::<Result<Vec<_>, _>>()?;
        listen.iter().try_for_each(|&address| probe::ensure_free(address))?;
        let failed = |source| StockError::Scratch { directory: work.to_owned(), source };
        let work = std::path::absolute(work).map_err(failed)?;
        let mut command = Command::new(path);
        command.args(program.options).args(&launch.arguments).current_dir(&work);
        let name = match program.configured {
            Configured::ByName(name) => name,
            Configured::ByOption(option) => {
                command.arg(option).arg(work.join(CONFIGURATION));
                CONFIGURATION
            }
        };
        let mut own = std::iter::once((name, self.configuration(&work, listen)?)).chain(self.more_files()?);
        own.try_for_each(|(name, text)| ldplayer_net::output::write(&work.join(name), text)).map_err(failed)?;
        let mut process = Process::start(program.name, &mut command, Output::Log(work.join(LOG)))?;
        for &address in listen {
            process.wait_for(address)?;
            process.wait_until(Awaited::Connection, address, || Ok(probe::accepts(address)))?;
        }
        if let Some(&address) = listen.first() {
            wait_for_zones(self, &mut process, address, &apexes)?;
        }
        Ok(process)
    }
}

/// Queries the apex of each zone until it is answered, or the log says why it cannot be.
fn wait_for_zones<S: Stock + ?Sized>(
    stock: &S,
    process: &mut Process,
    address: SocketAddr,
    apexes: &[Vec<u8>],
) -> Result<(), StockError> {
    let log = process.log_file();
    let complaint = || {
        let log = log.as_ref().and_then(|file| fs::read(file).ok()).unwrap_or_default();
        stock.complaint(&String::from_utf8_lossy(&log))
    };
    for (zone, apex) in stock.zones().iter().zip(apexes) {
        let cannot =
            |reason| StockError::Zone { program: stock.program().name.into(), apex: zone.apex.clone(), reason };
        process.wait_until(Awaited::Zones, address, || {
            match probe::rcode(address, apex).map_err(|source| StockError::Ask { address, source })? {
                Some(0) => return Ok(true),
                Some(SERVFAIL) | None => probe::pause(),
                Some(rcode) => return Err(cannot(format!("the server answers with RCODE {rcode}"))),
            }
            complaint().map_or(Ok(false), |reason| Err(cannot(reason)))
        })?;
    }
    // Some servers serve the readable part of a damaged zone.
    let Some(zone) = stock.zones().first() else { return Ok(()) };
    let program = || stock.program().name.into();
    complaint().map_or(Ok(()), |reason| Err(StockError::Zone { program: program(), apex: zone.apex.clone(), reason }))
}

/// A new work directory.
fn scratch() -> Result<tempfile::TempDir, StockError> {
    let made = tempfile::Builder::new().prefix("ldplayer-").tempdir();
    made.map_err(|source| StockError::Scratch { directory: std::env::temp_dir(), source })
}

fn ensure_readable(file: &Path) -> Result<(), StockError> {
    let failed = |source| StockError::File { file: file.to_owned(), source };
    fs::File::open(file).map(drop).map_err(failed)
}

fn wire_apex(zone: &Zone) -> Result<Vec<u8>, StockError> {
    let mut wire = Vec::new();
    let parsed = name::parse(&zone.apex, &mut wire);
    parsed.map(|()| wire).map_err(|source| StockError::Apex { apex: zone.apex.clone(), source })
}

/// The absolute path of a file in quotes: the server's working directory is a different one.
pub(crate) fn quoted_path(path: &Path) -> Result<String, StockError> {
    let absolute = std::path::absolute(path).map_err(|source| StockError::File { file: path.to_owned(), source })?;
    quoted(absolute.to_str().ok_or_else(|| StockError::Unquotable(path.display().to_string()))?)
}

/// The text in quotes, if it needs no escapes: not all configuration languages have them.
pub(crate) fn quoted(text: &str) -> Result<String, StockError> {
    if text.contains(['"', '\\', '\n', '\r']) {
        return Err(StockError::Unquotable(text.to_owned()));
    }
    Ok(format!("\"{text}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(zones: Vec<Zone>) -> [Box<dyn Stock>; 3] {
        [Box::new(Nsd { zones: zones.clone() }), Box::new(Knot { zones: zones.clone() }), Box::new(Bind::new(zones))]
    }

    #[test]
    fn configurations_name_zones_and_addresses() {
        let listen = ["127.0.0.1:5300".parse().unwrap(), "[::1]:5301".parse().unwrap()];
        let of_server = [
            ["ip-address: 127.0.0.1@5300", "ip-address: ::1@5301"],
            ["listen: 127.0.0.1@5300", "listen: ::1@5301"],
            ["listen-on port 5300 { 127.0.0.1; };", "listen-on-v6 port 5301 { ::1; };"],
        ];
        for (stock, addresses) in all(vec![Zone::new("example.", "/zones/example.zone")]).iter().zip(of_server) {
            let text = stock.configuration(Path::new("/work"), &listen).unwrap();
            for wanted in addresses.into_iter().chain(["\"example.\"", "\"/zones/example.zone\""]) {
                assert!(text.contains(wanted), "{wanted} is not in {text}");
            }
        }
    }

    #[test]
    fn neither_a_path_nor_a_name_can_add_options() {
        for zone in [Zone::new(".", "x\"\nserver: chroot: \""), Zone::new("a\"; file \"b", "x")] {
            for stock in all(vec![zone]) {
                let error = stock.configuration(Path::new("/work"), &[]).unwrap_err();
                assert!(matches!(error, StockError::Unquotable(_)), "{error}");
            }
        }
    }

    #[test]
    fn a_zone_that_is_not_there_or_none_is_told_before_anything_starts() {
        let missing = Nsd { zones: vec![Zone::new(".", "no/such.zone")] }.start(&[]).unwrap_err().to_string();
        assert!(missing.starts_with("no/such.zone: No such file"), "{missing}");
        let name = Nsd { zones: vec![Zone::new("a..b", "Cargo.toml")] }.start(&[]).unwrap_err().to_string();
        assert!(name.starts_with("zone \"a..b\": "), "{name}");
    }
}
