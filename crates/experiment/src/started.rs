//! The servers of a run: the one queried, its upstreams, and a TLS front; ended with the run.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ldplayer_core::Transport;
use ldplayer_emulate::stock::{
    Kind, Launch, Output, Process, Role, StockError, StockServer, StockSettings, Tls, shell,
};
use ldplayer_net::cpu_quota::CpuLimit;
use tempfile::TempDir;

use crate::certificate::Certificate;
use crate::servers::ServerTable;
use crate::stage::Stage;
use crate::zones::Ready;

/// The ports of DNS (RFC 1035 §4.2) and of DNS over TLS (RFC 7858 §3.1).
const DNS: u16 = 53;
const DOT: u16 = 853;
/// The port of a server behind a front.
const BEHIND: u16 = 5_300;
/// The plain DNS port of a TLS front, used only to find out whether it is up.
const ASIDE: u16 = 5_399;

/// What the servers of a run need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    /// The zones to serve, directly or in the emulated Internet.
    pub zones: Ready,
    /// The TLS certificate; `None` if no query goes over TLS.
    pub certificate: Option<Certificate>,
    /// This program.
    pub ldplayer: PathBuf,
}

/// What `ldplayer serve` does beyond answering from its zone files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serving<'a> {
    /// Faults: a file, or the name of one that comes along.
    pub faults: Option<&'a Path>,
    /// Which versions of record sets answers have.
    pub answers: Option<&'a str>,
    /// The directory of the run, which sets the clock of the recording that they are from.
    pub run: &'a Path,
    pub seed: u64,
}

impl Serving<'_> {
    fn give(&self, command: &mut Command) {
        if let Some(file) = self.faults {
            command.arg("--faults").arg(file);
        }
        if let Some(answers) = self.answers {
            command.args(["--answers", answers, "--seed", &self.seed.to_string(), "--clock"]).arg(self.run);
        }
    }
}

/// Running servers. Dropping this ends them.
pub(crate) struct Started {
    processes: Vec<(String, Process)>,
    scratch: TempDir,
    /// What servers that are started now run within.
    limit: Option<Arc<CpuLimit>>,
}

/// The name of what serves the zones to a resolver.
const THE_INTERNET: &str = "internet";
/// Endings of files that servers leave and that are kept, beside those without one.
const KEPT: [&str; 3] = ["conf", "lua", "json"];
/// The name of a command's server among the processes, and of its directory.
const STARTED: &str = "start_server";

/// The same port at each of these addresses.
fn at(ips: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    ips.iter().map(|ip| SocketAddr::new(*ip, port)).collect()
}

impl Started {
    /// Starts the servers of a stage at these addresses, and returns when all of them answer.
    ///
    /// The server that is asked, and its front, may use `limit` together; a proxy's backend has what it wants.
    pub fn start(
        stage: &Stage,
        needs: &Needs,
        ips: &[IpAddr],
        serving: Serving<'_>,
        limit: Option<CpuLimit>,
    ) -> Result<Self, StockError> {
        let mut started = Self { processes: Vec::new(), scratch: scratch()?, limit: None };
        let Some(server) = &stage.server else { return Ok(started) };
        if let Some(backend) = &stage.backend {
            started.add(backend, needs, &at(ips, BEHIND), None, &[], serving)?;
        }
        started.limit = limit.map(Arc::new);
        let tls = needs.certificate.as_ref().map(|made| (made, at(ips, DOT)));
        let own_tls = tls
            .clone()
            .filter(|_| Transport::ALL.into_iter().any(|one| one.is_encrypted() && server.speaks_itself(one)));
        let fronts = server.front.filter(|_| own_tls.is_none() && tls.is_some());
        started.add(server, needs, &at(ips, DNS), own_tls, &at(ips, BEHIND), serving)?;
        if let Some(front) = fronts {
            let table = ServerTable::of_front(front, server);
            started.add(&table, needs, &at(ips, ASIDE), tls, &at(ips, DNS), serving)?;
        }
        Ok(started)
    }

    /// Starts a command of the user's, and returns when it answers at these addresses. What it says is kept as the log of a server.
    pub fn start_command(
        command: &str,
        addresses: impl Iterator<Item = SocketAddr>,
        limit: Option<CpuLimit>,
    ) -> Result<Self, StockError> {
        let (limit, scratch) = (limit.map(Arc::new), scratch()?);
        let name = format!("`{command}`");
        let work = scratch.path().join(STARTED);
        fs::create_dir(&work).map_err(|source| StockError::Scratch { directory: work.clone(), source })?;
        let log = Output::Log(work.join("server.log"));
        let mut process = Process::start_within(name, &mut shell(command), log, limit.clone())?;
        addresses.into_iter().try_for_each(|address| process.wait_for(address))?;
        Ok(Self { processes: vec![(STARTED.to_owned(), process)], scratch, limit })
    }

    /// Serves the zones on all addresses of this host, chosen by the address queried.
    pub fn start_internet(needs: &Needs, ip: IpAddr, serving: Serving<'_>) -> Result<Self, StockError> {
        let scratch = scratch()?;
        let work = scratch.path().join(THE_INTERNET);
        fs::create_dir(&work).map_err(|source| StockError::Scratch { directory: work.clone(), source })?;
        let mut command = Command::new(&needs.ldplayer);
        command.arg("serve").arg(&needs.zones.directory).arg("--coverage").arg(work.join("coverage.json"));
        serving.give(&mut command);
        let mut process = Process::start("the Internet (ldplayer serve)", &mut command, Output::Log(work.join("log")))?;
        process.wait_for(SocketAddr::new(ip, DNS))?;
        Ok(Self { processes: vec![(THE_INTERNET.to_owned(), process)], scratch, limit: None })
    }

    /// Ends the servers, and keeps what they leave.
    pub fn finish(mut self, folder: &Path) {
        let names: Vec<String> = self.processes.drain(..).map(|(name, _ends)| name).collect();
        names.iter().for_each(|name| self.keep_of(name, folder));
    }

    fn add(
        &mut self,
        table: &ServerTable,
        needs: &Needs,
        listen: &[SocketAddr],
        tls: Option<(&Certificate, Vec<SocketAddr>)>,
        backends: &[SocketAddr],
        serving: Serving<'_>,
    ) -> Result<(), StockError> {
        let work = self.scratch.path().join(&table.name);
        fs::create_dir(&work).map_err(|source| StockError::Scratch { directory: work.clone(), source })?;
        let process = if table.kind == Kind::META {
            serve(table, needs, listen, (&work, serving), self.limit.clone())?
        } else {
            let is_authoritative = table.role() == Role::Authoritative;
            let zones = if is_authoritative { needs.zones.zones.clone() } else { Vec::new() };
            let server = StockServer { kind: table.kind, zones, settings: settings(table, listen, tls, backends) };
            let limit = self.limit.clone();
            let launch = Launch { program: table.program.clone(), limit, ..Launch::default() };
            server.start_with(listen, &work, &launch)?
        };
        self.processes.push((table.name.clone(), process));
        Ok(())
    }

    /// The main process of the server under test; behind a TLS front, the backend's.
    pub fn watched(&self, stage: &Stage) -> Option<u32> {
        let is_asked = |name: &str| stage.server.as_ref().is_none_or(|server| server.name == name);
        self.processes.iter().find(|(name, _)| is_asked(name)).map(|(_, process)| process.id())
    }

    /// The log of a server that has exited.
    pub fn fallen(&mut self) -> Option<String> {
        self.processes.iter_mut().find_map(|(name, process)| Some(format!("server.{name}: {}", process.fallen()?)))
    }

    /// Keeps configurations and logs in a folder for inspection.
    pub fn keep(&self, folder: &Path) {
        self.processes.iter().for_each(|(name, _)| self.keep_of(name, folder));
    }

    fn keep_of(&self, name: &str, folder: &Path) {
        let Ok(files) = fs::read_dir(self.scratch.path().join(name)) else { return };
        let is_text = |file: &Path| file.extension().is_none_or(|ending| KEPT.iter().any(|kept| ending == *kept));
        for file in files.flatten().map(|entry| entry.path()).filter(|file| file.is_file() && is_text(file)) {
            let to = folder.join(format!("{name}-{}", file.file_name().unwrap_or_default().to_string_lossy()));
            // They are not essential to the run.
            let _ = fs::create_dir_all(folder).and_then(|()| fs::copy(&file, to));
        }
    }
}

fn scratch() -> Result<TempDir, StockError> {
    let scratch = tempfile::Builder::new().prefix("ldplayer-").tempdir();
    scratch.map_err(|source| StockError::Scratch { directory: std::env::temp_dir(), source })
}

/// The settings of a server in its table.
fn settings(
    table: &ServerTable,
    listen: &[SocketAddr],
    tls: Option<(&Certificate, Vec<SocketAddr>)>,
    backends: &[SocketAddr],
) -> StockSettings {
    let file = |text: &String| {
        let name = table.configuration.as_ref().map(|file| file.display().to_string());
        (name.unwrap_or_else(|| format!("of the kind {}", table.kind_name())), text.clone())
    };
    StockSettings {
        threads: table.threads,
        cache: table.cache,
        idle_timeout: table.idle_timeout,
        connections: Some(table.connections),
        root_hints: table.root_hints.clone(),
        ipv6: listen.iter().any(SocketAddr::is_ipv6),
        tls: tls.map(|(made, listen)| Tls { listen, certificate: made.certificate.clone(), key: made.key.clone() }),
        backends: backends.to_vec(),
        template: table.template.as_ref().map(file),
        command: table.command.clone(),
        ready: table.ready.clone(),
        ..StockSettings::default()
    }
}

/// Starts `ldplayer serve` with all its zones as a separate process, so that its resource usage is measured separately.
fn serve(
    table: &ServerTable,
    needs: &Needs,
    listen: &[SocketAddr],
    (work, serving): (&Path, Serving<'_>),
    limit: Option<Arc<CpuLimit>>,
) -> Result<Process, StockError> {
    let mut command = Command::new(table.program.as_ref().unwrap_or(&needs.ldplayer));
    let addresses: Vec<String> = listen.iter().map(ToString::to_string).collect();
    command.arg("serve").arg(&needs.zones.directory).args(["--all-zones-everywhere", "--listen", &addresses.join(",")]);
    command.args(["--workers", &table.threads.to_string(), "--connections", &table.connections.to_string()]);
    if let Some(timeout) = table.idle_timeout {
        command.args(["--idle-timeout", &format!("{}ns", timeout.ns())]);
    }
    serving.give(&mut command);
    let log = Output::Log(work.join("log"));
    let mut process = Process::start_within("ldplayer serve", &mut command, log, limit)?;
    listen.iter().try_for_each(|&address| process.wait_for(address))?;
    Ok(process)
}
