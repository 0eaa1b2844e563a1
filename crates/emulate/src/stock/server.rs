//! A stock server with its settings: renders its configuration, and starts it.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;

use ldplayer_core::name;
use ldplayer_core::time::Span;
use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Environment, UndefinedBehavior, Value, context};

use super::kind::{CONFIG, Kind};
use super::{Awaited, Configured, Launch, Output, Process, StockError, Zone, probe, process, quotable, quotable_path};

/// The port of DNS over HTTPS (RFC 8484 §4.1).
pub const HTTPS: u16 = 443;
/// RCODE of a server that cannot answer, for example while it loads the zone (RFC 1035, section 4.1.1).
const SERVFAIL: u8 = 2;
/// File name of the configuration in the work directory.
const CONFIGURATION: &str = "configuration";
/// File name of the log in the work directory.
const LOG: &str = "log";

/// A stock server: its zones and settings.
///
/// A started server runs as the caller, without rate limits or remote control, and writes nothing outside its work directory.
#[derive(Clone, Debug)]
pub struct StockServer {
    /// What it is.
    pub kind: Kind,
    /// The zones that it serves, and must answer for to be ready.
    pub zones: Vec<Zone>,
    /// What it is told.
    pub settings: StockSettings,
}

/// Settings of a server. It takes those that its kind has.
#[derive(Clone, Debug)]
pub struct StockSettings {
    /// Threads or processes.
    pub threads: u16,
    /// Cache size in octets; `None` for its own.
    pub cache: Option<u64>,
    /// Idle timeout of TCP connections; `None` for its own.
    pub idle_timeout: Option<Span>,
    /// Maximum number of TCP connections; `None` for its own.
    pub connections: Option<u32>,
    /// Root hints of a resolver, as a zone file with the root's NS records and their addresses; the built-in ones by default.
    pub root_hints: Option<PathBuf>,
    /// A file of trust anchors as DS or DNSKEY records; without it, a resolver validates nothing.
    pub trust_anchor: Option<PathBuf>,
    /// Whether a resolver minimises query names (RFC 9156).
    pub qname_minimisation: bool,
    /// Whether a resolver uses IPv6.
    pub ipv6: bool,
    /// Its addresses and its certificate for TLS.
    pub tls: Option<Tls>,
    /// The servers behind a proxy.
    pub backends: Vec<SocketAddr>,
    /// Another template: its name in errors, and its text.
    pub template: Option<(String, String)>,
    /// The command that starts a [`Kind::COMMAND`], a template as well.
    pub command: Option<String>,
    /// When it is ready, beyond what every server must do.
    pub ready: Option<Ready>,
    /// A configuration that is taken as it is.
    pub configuration: Option<String>,
    /// Additional configuration in its own language, which takes precedence.
    pub extra: String,
}

/// Where a server listens for TLS, and with what.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The addresses, with the port of DNS over TLS.
    pub listen: Vec<SocketAddr>,
    /// PEM file of the certificate.
    pub certificate: PathBuf,
    /// PEM file of its key.
    pub key: PathBuf,
}

/// What a server does when it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It answers a query for the SOA record of this name with NOERROR.
    Name(String),
    /// Its output has this text.
    Log(String),
}

/// How a text of the log is asked for.
const LOG_PREFIX: &str = "log:";

impl FromStr for Ready {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if let Some(text) = word.strip_prefix(LOG_PREFIX) {
            return Ok(Self::Log(text.trim().to_owned()));
        }
        let parsed = name::parse(word, &mut Vec::new());
        parsed.map(|()| Self::Name(word.to_owned())).map_err(|error| {
            format!("`{word}`: {error}; give a name whose SOA record the server has, such as example., or log:TEXT")
        })
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Log(text) => write!(f, "{LOG_PREFIX}{text}"),
        }
    }
}

ldplayer_core::serde_as_text!(Ready);

/// A list that templates can go through, and that is a text where it stands by itself.
#[derive(Debug)]
struct Shown {
    text: String,
    items: Vec<Value>,
}

impl Shown {
    fn value(text: String, items: Vec<Value>) -> Value {
        Value::from_object(Self { text, items })
    }
}

impl Object for Shown {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Default for StockSettings {
    /// One thread, QNAME minimisation and IPv6 on, validation off, and limits of the server's own.
    fn default() -> Self {
        Self {
            threads: 1,
            cache: None,
            idle_timeout: None,
            connections: None,
            root_hints: None,
            trust_anchor: None,
            qname_minimisation: true,
            ipv6: true,
            tls: None,
            backends: Vec::new(),
            template: None,
            command: None,
            ready: None,
            configuration: None,
            extra: String::new(),
        }
    }
}

impl Kind {
    /// The server with these settings and no zones.
    pub fn with(self, settings: StockSettings) -> StockServer {
        StockServer { kind: self, zones: Vec::new(), settings }
    }

    /// The server with these zones.
    pub fn serving(self, zones: Vec<Zone>) -> StockServer {
        StockServer { zones, ..self.with(StockSettings::default()) }
    }

    /// The server with a complete configuration, such as one with views. Relative paths in it are in the work directory. `zones` must be
    /// answered on queries from this host.
    pub fn configured(self, configuration: impl Into<String>, zones: Vec<Zone>) -> StockServer {
        let settings = StockSettings { configuration: Some(configuration.into()), ..StockSettings::default() };
        StockServer { zones, ..self.with(settings) }
    }

    /// The configuration for these addresses without a zone, to be completed; its paths are in `work`.
    ///
    /// # Errors
    /// It cannot hold the path.
    pub fn head(self, work: &Path, listen: &[SocketAddr]) -> Result<String, StockError> {
        self.serving(Vec::new()).configuration(work, listen)
    }

    /// Whether its program is installed.
    pub fn is_installed(self) -> bool {
        process::find(self.program().name, self.program().package).is_ok()
    }
}

/// Addresses in the form of each template; by themselves, they are what `text` says of each, with commas.
fn each(addresses: &[SocketAddr], text: impl Fn(&SocketAddr) -> String) -> Value {
    let one = |at: &SocketAddr| {
        context! { address => at.to_string(), ip => at.ip().to_string(), port => at.port(), is_v6 => at.is_ipv6() }
    };
    let text = addresses.iter().map(text).collect::<Vec<_>>().join(",");
    Shown::value(text, addresses.iter().map(one).collect())
}

impl Tls {
    fn values(&self) -> Result<Value, StockError> {
        let (certificate, key) = (quotable_path(&self.certificate)?, quotable_path(&self.key)?);
        let port = self.listen.first().map_or(0, SocketAddr::port);
        let bracketed = |at: &SocketAddr| if at.is_ipv6() { format!("[{}]", at.ip()) } else { at.ip().to_string() };
        let ips: Vec<String> = self.listen.iter().map(bracketed).collect();
        Ok(context! { certificate, key, port, https_port => HTTPS, ips })
    }
}

/// The DS records of a file of trust anchors, which has them as zone files do, as BIND wants them.
fn anchors(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let anchor = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| word.eq_ignore_ascii_case("DS"))?;
        let (numbers, digest) = words.get(at + 1..)?.split_at_checked(3)?;
        let (zone, numbers, digest) = (quotable(words.first()?).ok()?, numbers.join(" "), digest.concat());
        let is_plain = digest.bytes().all(|octet| octet.is_ascii_hexdigit());
        is_plain.then(|| context! { zone, numbers, digest })
    };
    text.lines().filter_map(anchor).collect()
}

impl StockServer {
    /// The text of its configuration.
    ///
    /// # Errors
    /// It cannot hold a path or name, a file is not readable, or the template is invalid.
    pub fn configuration(&self, work: &Path, listen: &[SocketAddr]) -> Result<String, StockError> {
        if let Some(text) = &self.settings.configuration {
            return Ok(text.clone());
        }
        let template = match &self.settings.template {
            Some((_, text)) => text,
            None => self.kind.0.template,
        };
        let text = self.render(template, &self.values(work, listen)?)?;
        let extra = &self.settings.extra;
        Ok(if extra.is_empty() { text + "\n" } else { format!("{text}\n{extra}\n") })
    }

    fn values(&self, work: &Path, listen: &[SocketAddr]) -> Result<Value, StockError> {
        let told = &self.settings;
        let readable = |file: &PathBuf| ensure_readable(file).and_then(|()| quotable_path(file));
        let file = |path: Option<&PathBuf>| path.map_or_else(|| Ok(String::new()), |path| quotable_path(path));
        let first = self.zones.first().and_then(|zone| std::path::absolute(&zone.file).ok());
        let directory = first.and_then(|file| file.parent().map(Path::to_owned));
        let zone = |zone: &Zone| {
            let (apex, file) = (quotable(&zone.apex)?, quotable_path(&zone.file)?);
            Ok(context! { apex, file })
        };
        Ok(context! {
            work => quotable(&work.display().to_string())?,
            dir => quotable(&work.display().to_string())?,
            config => quotable(&work.join(CONFIG).display().to_string())?,
            listen => each(listen, |at| at.ip().to_string()),
            port => listen.first().map_or(0, SocketAddr::port),
            has_v4 => listen.iter().any(SocketAddr::is_ipv4),
            has_v6 => listen.iter().any(SocketAddr::is_ipv6),
            certificate => file(told.tls.as_ref().map(|tls| &tls.certificate))?,
            key => file(told.tls.as_ref().map(|tls| &tls.key))?,
            tls => told.tls.as_ref().map(Tls::values).transpose()?,
            zones => Shown::value(file(directory.as_ref())?, self.zones.iter().map(zone).collect::<Result<_, StockError>>()?),
            backends => each(&told.backends, ToString::to_string),
            upstream => told.backends.first().map_or_else(String::new, ToString::to_string),
            threads => told.threads,
            cache => told.cache,
            idle_timeout_ms => told.idle_timeout.map(|span| span.ns() / 1_000_000),
            connections => told.connections,
            per_thread => usize::from(told.threads) * listen.len().max(1) * if told.tls.is_some() { 3 } else { 1 },
            root_hints => told.root_hints.as_ref().map(readable).transpose()?,
            trust_anchor => told.trust_anchor.as_ref().map(readable).transpose()?,
            anchors => told.trust_anchor.as_deref().map(anchors),
            qname_minimisation => told.qname_minimisation,
            ipv6 => told.ipv6,
        })
    }

    fn render(&self, template: &str, values: &Value) -> Result<String, StockError> {
        let mut environment = Environment::empty();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.render_str(template, values).map_err(|error| StockError::Template {
            name: self.settings.template.as_ref().map_or_else(|| self.kind.to_string(), |(name, _)| name.clone()),
            what: error.to_string(),
        })
    }

    /// Starts it on these addresses with a temporary work directory, and returns when all of them answer.
    ///
    /// The kernel kills it when the calling thread ends, so that thread must outlive the server's use.
    ///
    /// # Errors
    /// The program is not installed, an address is in use, a zone cannot be loaded, or the server exits or does not
    /// answer within a minute.
    pub fn start(&self, listen: &[SocketAddr]) -> Result<Process, StockError> {
        let scratch = scratch()?;
        let mut process = self.start_in(listen, scratch.path())?;
        process.keep(scratch);
        Ok(process)
    }

    /// Starts it in a given work directory, which stays, with configuration and log.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_in(&self, listen: &[SocketAddr], work: &Path) -> Result<Process, StockError> {
        self.start_with(listen, work, &Launch::default())
    }

    /// Starts it with another build of the program, or additional arguments.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(&self, listen: &[SocketAddr], work: &Path, launch: &Launch) -> Result<Process, StockError> {
        let program = self.kind.program();
        let path = match &launch.program {
            Some(path) => path.clone(),
            None => process::find(program.name, program.package)?,
        };
        self.zones.iter().try_for_each(|zone| ensure_readable(&zone.file))?;
        let apexes = self.zones.iter().map(wire_apex).collect::<Result<Vec<_>, _>>()?;
        listen.iter().try_for_each(|&address| probe::ensure_free(address))?;
        let work =
            std::path::absolute(work).map_err(|source| StockError::Scratch { directory: work.to_owned(), source })?;
        let mut command = Command::new(path);
        command.args(program.options).args(&launch.arguments).current_dir(&work);
        self.configure(&mut command, listen, &work)?;
        let log = Output::Log(work.join(LOG));
        let mut process = Process::start_within(program.name, &mut command, log, launch.limit.clone())?;
        for &address in listen {
            process.wait_for(address)?;
            process.wait_until(Awaited::Connection, address, || Ok(probe::accepts(address)))?;
        }
        if let Some(&address) = listen.first() {
            match &self.settings.ready {
                None => self.wait_for_zones(&mut process, address, &apexes)?,
                Some(ready) => wait_for_ready(&mut process, address, ready)?,
            }
        }
        Ok(process)
    }

    /// Writes its files, and gives it its arguments.
    fn configure(&self, command: &mut Command, listen: &[SocketAddr], work: &Path) -> Result<(), StockError> {
        let values = self.values(work, listen)?;
        let own = self.settings.command.as_deref();
        for argument in self.kind.0.arguments.iter().copied().chain(own) {
            command.arg(self.render(argument, &values)?);
        }
        let name = match self.kind.program().configured {
            Configured::ByName(name) => name,
            Configured::ByOption(option) => {
                command.arg(option).arg(work.join(CONFIGURATION));
                CONFIGURATION
            }
        };
        let mut files = vec![(name, self.configuration(work, listen)?)];
        for (name, template) in self.kind.0.more_files {
            files.push((name, self.render(template, &values)?));
        }
        let written =
            files.into_iter().try_for_each(|(name, text)| ldplayer_net::output::write(&work.join(name), text));
        written.map_err(|source| StockError::Scratch { directory: work.to_owned(), source })
    }

    /// The line of its log about a zone that cannot be loaded, if there is one.
    pub fn complaint(&self, log: &str) -> Option<String> {
        (self.kind.0.complaint)(log, &self.zones)
    }

    /// Queries the apex of each zone until it is answered, or the log says why it cannot be.
    fn wait_for_zones(&self, process: &mut Process, address: SocketAddr, apexes: &[Vec<u8>]) -> Result<(), StockError> {
        let log = process.log_file();
        let complaint = || {
            let log = log.as_ref().and_then(|file| fs::read(file).ok()).unwrap_or_default();
            self.complaint(&String::from_utf8_lossy(&log))
        };
        let cannot = |zone: &Zone, reason| StockError::Zone {
            program: self.kind.program().name.into(),
            apex: zone.apex.clone(),
            reason,
        };
        for (zone, apex) in self.zones.iter().zip(apexes) {
            process.wait_until(Awaited::Zones, address, || {
                match probe::rcode(address, apex).map_err(|source| StockError::Ask { address, source })? {
                    Some(0) => return Ok(true),
                    Some(SERVFAIL) | None => probe::pause(),
                    Some(rcode) => return Err(cannot(zone, format!("the server answers with RCODE {rcode}"))),
                }
                complaint().map_or(Ok(false), |reason| Err(cannot(zone, reason)))
            })?;
        }
        // Some servers serve the readable part of a damaged zone.
        let Some(zone) = self.zones.first() else { return Ok(()) };
        complaint().map_or(Ok(()), |reason| Err(cannot(zone, reason)))
    }
}

/// Waits for what the user says is the sign.
fn wait_for_ready(process: &mut Process, address: SocketAddr, ready: &Ready) -> Result<(), StockError> {
    let log = process.log_file();
    let apex = match ready {
        Ready::Name(name) => wire_apex(&Zone::new(name, ""))?,
        Ready::Log(_) => Vec::new(),
    };
    process.wait_until(Awaited::Ready, address, || {
        let is_ready = match ready {
            Ready::Name(_) => {
                let rcode = probe::rcode(address, &apex).map_err(|source| StockError::Ask { address, source })?;
                rcode == Some(0)
            }
            Ready::Log(text) => {
                let log = log.as_ref().and_then(|file| fs::read(file).ok()).unwrap_or_default();
                String::from_utf8_lossy(&log).contains(text)
            }
        };
        if !is_ready {
            probe::pause();
        }
        Ok(is_ready)
    })
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

#[cfg(test)]
mod tests;
