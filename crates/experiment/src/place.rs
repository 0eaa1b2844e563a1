//! Sets up the place of a run: this host, a namespace, or the hosts of a testbed, with servers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::thread;

use ldplayer_emulate::stock::StockError;
use ldplayer_emulate::testbed::{INTERNET, Plan, RESOLVER, Testbed, TestbedError};
use ldplayer_net::cpu_quota::{CpuLimit, QuotaError};
use ldplayer_net::netns;
use ldplayer_net::rights::NetError;
use ldplayer_net::settings::has_ipv6;
use ldplayer_net::veth;
use ldplayer_run::{RunSpec, Server, cpu_limit};

use crate::stage::Stage;
use crate::started::{Needs, Serving, Started};

/// Why a run has no place or no servers.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error(transparent)]
    Net(#[from] NetError),
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    #[error("server.{name}: {source}")]
    Server { name: String, source: StockError },
    #[error("{0}")]
    Link(ldplayer_link::SpecError),
    #[error("server_cpu: {0}")]
    Quota(#[from] QuotaError),
    #[error("run thread: {0}")]
    Thread(#[from] io::Error),
}

/// The environment of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunEnvironment {
    /// The address of the server; `None` if the run's own keys give it.
    pub servers: Vec<SocketAddr>,
    /// The server's main process.
    pub watched: Option<u32>,
}

/// The result of a run, and the error of a server that died.
pub(crate) type PlaceResult<T> = Result<(T, Option<String>), PlaceError>;

/// Makes a run at its place, in `directory`. Servers, namespaces and wire are gone on return; server logs are kept in `logs`.
///
/// This process must have the right to make namespaces, where the stage needs one.
pub(crate) fn make<T: Send>(
    stage: &Stage,
    needs: &Needs,
    spec: &RunSpec,
    (directory, logs): (&Path, &Path),
    run: impl FnOnce(&RunEnvironment) -> T + Send,
) -> PlaceResult<T> {
    let place = Place { stage, needs, spec, directory, logs };
    match (&stage.link, stage.is_ours(), stage.resolves()) {
        (Some(_), false, _) if spec.start_server.is_some() => place.wired(run),
        (_, false, _) => aside(|| Ok((run(&RunEnvironment::default()), None))),
        (None, true, false) => place.alone(run),
        _ => place.wired(run),
    }
}

/// Runs work on a new thread, so that a namespace entered by it ends with it.
fn aside<T: Send>(work: impl FnOnce() -> PlaceResult<T> + Send) -> PlaceResult<T> {
    thread::scope(|scope| {
        let aside = scope.spawn(work);
        aside.join().unwrap_or_else(|_| Err(io::Error::other("panicked").into()))
    })
}

struct Place<'a> {
    stage: &'a Stage,
    needs: &'a Needs,
    spec: &'a RunSpec,
    directory: &'a Path,
    logs: &'a Path,
}

impl Place<'_> {
    fn serving(&self) -> Serving<'_> {
        let Stage { faults, answers, .. } = self.stage;
        let (faults, answers) = (faults.as_deref(), answers.as_deref());
        Serving { faults, answers, run: self.directory, seed: self.spec.seed }
    }

    /// On loopback, in a namespace in which every address is local.
    fn alone<T: Send>(&self, run: impl FnOnce(&RunEnvironment) -> T + Send) -> PlaceResult<T> {
        aside(|| {
            let (_namespace, addresses) = self.enter()?;
            self.with_servers(&addresses, |found| Ok(run(found)))
        })
    }

    /// A namespace, and the addresses of its servers. With a link for frames, these are documentation addresses: frames reach no
    /// loopback address of IPv6.
    fn enter(&self) -> Result<(netns::Testbed, [IpAddr; 2]), NetError> {
        if self.spec.needs_link() {
            let addresses =
                [Ipv4Addr::new(203, 0, 113, 53).into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53).into()];
            Ok((netns::Testbed::enter_with_link(veth::MTU)?, addresses))
        } else {
            Ok((netns::Testbed::enter()?, [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]))
        }
    }

    /// On the hosts of a testbed: clients, the server and, for resolvers, the Internet.
    fn wired<T: Send>(&self, run: impl FnOnce(&RunEnvironment) -> T + Send) -> PlaceResult<T> {
        let mut plan = Plan { seed: self.spec.seed, ..Plan::default() };
        if let Some(link) = &self.stage.link {
            plan.paths = link.paths().map_err(PlaceError::Link)?;
        }
        if self.stage.resolves() {
            let addresses = self.needs.zones.addresses.iter();
            plan.hosts[usize::from(INTERNET.0)].owns =
                addresses.filter_map(|address| address.to_string().parse().ok()).collect();
        }
        let testbed = Testbed::up(&plan)?;
        let made = if self.stage.resolves() {
            let ip = plan.hosts[usize::from(INTERNET.0)].addresses[0];
            testbed.run("internet", || {
                let failed = |source| PlaceError::Server { name: "internet".to_owned(), source };
                let internet = Started::start_internet(self.needs, ip, self.serving()).map_err(failed)?;
                let made = self.on_server(&testbed, &plan, run);
                internet.finish(self.logs);
                made
            })?
        } else {
            self.on_server(&testbed, &plan, run)
        };
        testbed.down()?;
        made
    }

    fn on_server<T: Send>(
        &self,
        testbed: &Testbed,
        plan: &Plan,
        run: impl FnOnce(&RunEnvironment) -> T + Send,
    ) -> PlaceResult<T> {
        let ips = &plan.hosts[usize::from(RESOLVER.0)].addresses;
        testbed.run("resolver", || self.with_servers(ips, |found| Ok(testbed.run("clients", || run(found))?)))?
    }

    /// Starts the servers on this thread's host, and ends them after the run.
    fn with_servers<T>(
        &self,
        ips: &[IpAddr],
        run: impl FnOnce(&RunEnvironment) -> Result<T, PlaceError>,
    ) -> PlaceResult<T> {
        let ips: Vec<IpAddr> = ips.iter().copied().filter(|ip| ip.is_ipv4() || has_ipv6()).collect();
        let (mut started, servers) = match (&self.stage.server, &self.spec.start_server) {
            (None, Some(command)) => (self.start_command(command)?, Vec::new()),
            (server, _) => {
                let name = server.as_ref().map_or_else(String::new, |server| server.name.clone());
                let failed = |source| PlaceError::Server { name, source };
                let limit = self.limit()?;
                let started = Started::start(self.stage, self.needs, &ips, self.serving(), limit).map_err(failed)?;
                (started, ips.iter().map(|ip| SocketAddr::new(*ip, 53)).collect())
            }
        };
        let made = run(&RunEnvironment { servers, watched: started.watched(self.stage) });
        let fallen = started.fallen();
        started.keep(self.logs);
        Ok((made?, fallen))
    }

    /// What the server that is asked may have of the processors.
    fn limit(&self) -> Result<Option<CpuLimit>, PlaceError> {
        Ok(cpu_limit(self.spec)?)
    }

    /// Starts the servers of the run's own command, which has their addresses.
    fn start_command(&self, command: &str) -> Result<Started, PlaceError> {
        let addresses = self.spec.server.iter().filter_map(|server| match server {
            Server::Address(address) => Some(*address),
            Server::Name { .. } | Server::Recorded => None,
        });
        Started::start_command(command, addresses, self.limit()?)
            .map_err(|source| PlaceError::Server { name: "start_server".to_owned(), source })
    }
}
