//! A testbed: hosts in network namespaces, joined only by the wire.

mod alone;
mod inside;
mod process;
mod state;

use std::io::{self, BufWriter};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use ldplayer_core::Cidr;
use ldplayer_net::clock;
use ldplayer_net::interfaces;
use ldplayer_net::names::{Names, OwnNames};
use ldplayer_net::namespace::Namespace;
use ldplayer_net::programs;
use ldplayer_net::rights::{self, NetError};
use ldplayer_net::wiring::{Wiring, WiringError};
use serde::{Deserialize, Serialize};

use crate::serve::set::ZoneSet;
use crate::wire::{
    Counts, Forwarder, Host, HostId, MAX_HOSTS, MTU, Owners, Precision, ProxyKind, ProxySettings, Running, Settings,
    Tap, Wire, WirePath,
};

pub use alone::{Alone, AloneError, wait_and_end};
pub use state::{Claim, Down, HostState, State, StateError, Was, folder};

/// The client host in [`Plan::default`].
pub const CLIENTS: HostId = HostId(0);
/// The host of the resolver.
pub const RESOLVER: HostId = HostId(1);
/// The host of all authoritative servers.
pub const INTERNET: HostId = HostId(2);

/// Default address blocks of the Internet host: those for documentation and benchmarking (RFC 5737, 3849, 2544, 5180).
const INTERNET_OWNS: [&str; 6] =
    ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15", "2001:db8::/32", "2001:2::/48"];
/// The mark of processes in an unnamed testbed.
const MARK: &str = "ldplayer";
/// Write size of a capture in octets.
const CAPTURE_BUFFER: usize = 1 << 20;

/// Why a testbed cannot be made or used. Exit status 3, except for an unknown host.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Namespaces cannot be made.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A namespace cannot be wired.
    #[error("host {host}: {source}")]
    Wiring {
        /// The host.
        host: String,
        /// The error of the system.
        source: WiringError,
    },
    /// The capture cannot be written.
    #[error("{}: {source}; choose another file with --capture", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no such host.
    #[error("no host `{name}` in the testbed; its hosts are {hosts}")]
    UnknownHost {
        /// The name.
        name: String,
        /// The existing hosts.
        hosts: String,
    },
    /// There are too many hosts for a wire.
    #[error("too many hosts: {0}; a testbed has at most {MAX_HOSTS}")]
    TooManyHosts(usize),
    /// The wire does not run.
    #[error("the wire has stopped: {0}; take the testbed down and bring it up again")]
    Wire(io::Error),
}

/// The plan of a host.
#[derive(Clone, Debug)]
pub struct HostPlan {
    /// Its name.
    pub name: String,
    /// Addresses of its interface.
    pub addresses: Vec<IpAddr>,
    /// Whether it owns every address (AnyIP).
    pub any_ip: bool,
    /// Address blocks that it owns in addition.
    pub owns: Vec<Cidr>,
    /// Whether it owns each address that it sends from.
    pub learns: bool,
}

/// The plan of a testbed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The hosts, numbered from 0 by [`HostId`].
    pub hosts: Vec<HostPlan>,
    /// Links with delay and loss.
    pub paths: Vec<WirePath>,
    /// The paper's proxies.
    pub proxies: Option<ProxySettings>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The MTU in octets, at least 1280.
    pub mtu: u16,
    /// How much CPU time to spend on precise delays.
    pub precision: Precision,
    /// The core of the wire; any if `None`.
    pub core: Option<usize>,
    /// A capture of all delivered packets.
    pub capture: Option<PathBuf>,
}

impl Default for Plan {
    /// The hosts `clients`, `resolver` and `internet`, joined without delay. Clients own the addresses that they send from,
    /// the Internet those for documentation and benchmarking.
    fn default() -> Self {
        let host = |name: &str, number: u8, any_ip| HostPlan {
            name: name.to_owned(),
            addresses: vec![[10, 53, 0, number].into(), [0xfd53, 0, 0, 0, 0, 0, 0, u16::from(number)].into()],
            any_ip,
            owns: Vec::new(),
            learns: false,
        };
        let (mut clients, mut internet) = (host("clients", 1, true), host("internet", 3, true));
        clients.learns = true;
        internet.owns = INTERNET_OWNS.iter().filter_map(|block| block.parse().ok()).collect();
        Self {
            hosts: vec![clients, host("resolver", 2, false), internet],
            paths: Vec::new(),
            proxies: None,
            seed: 0,
            mtu: MTU,
            precision: Precision::default(),
            core: None,
            capture: None,
        }
    }
}

impl Plan {
    /// Hosts as by default, but that the Internet owns the addresses of the name servers of a set, and no others.
    pub fn of(set: &ZoneSet) -> Self {
        let mut plan = Self::default();
        let addresses = set.addresses();
        plan.hosts[usize::from(INTERNET.0)].owns =
            addresses.iter().filter_map(|address| address.to_string().parse().ok()).collect();
        plan
    }
}

/// A running testbed. Dropping it takes it down; processes started in it keep their namespace, but cannot reach anything.
#[derive(Debug)]
pub struct Testbed {
    hosts: Vec<(HostPlan, Namespace)>,
    running: Running,
    is_rootless: bool,
    names: Arc<OwnNames>,
}

/// The statistics of a testbed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Those of the wire.
    #[serde(flatten)]
    pub wire: Counts,
    /// Packets dropped by the kernel because the wire was too slow to read them, by host.
    pub unread: Vec<u64>,
    /// Packets in the finished capture.
    pub captured: Option<u64>,
}

/// Name resolution on the hosts: by the host [`RESOLVER`].
fn names<'a>(hosts: impl Iterator<Item = (&'a str, &'a [IpAddr])>, mark: String) -> Names {
    let (mut servers, mut named) = (Vec::new(), Vec::new());
    for (number, (name, addresses)) in hosts.enumerate() {
        if number == usize::from(RESOLVER.0) {
            servers = addresses.to_vec();
        }
        named.extend(addresses.iter().map(|&address| (address, name.to_owned())));
    }
    Names { servers, hosts: named, mark, kept: None }
}

impl Plan {
    /// The settings of the wire.
    fn settings(&self) -> Settings {
        let host = |plan: &HostPlan| {
            let own = plan.addresses.iter().filter_map(|address| address.to_string().parse().ok());
            Host { name: plan.name.clone(), owns: own.chain(plan.owns.iter().copied()).collect(), learns: plan.learns }
        };
        Settings {
            hosts: self.hosts.iter().map(host).collect(),
            paths: self.paths.clone(),
            proxies: self.proxies.clone(),
            seed: self.seed,
            mtu: self.mtu,
            ..Settings::default()
        }
    }

    /// Name resolution on the hosts.
    fn names(&self) -> Names {
        let hosts = self.hosts.iter().map(|host| (host.name.as_str(), host.addresses.as_slice()));
        names(hosts, MARK.to_owned())
    }

    fn tap(&self) -> Result<Option<Tap>, TestbedError> {
        let Some(path) = &self.capture else { return Ok(None) };
        let file = ldplayer_net::output::truncate(path)
            .map_err(|source| TestbedError::Capture { path: path.clone(), source })?;
        Ok(Some(Tap::new(BufWriter::with_capacity(CAPTURE_BUFFER, file), clock::realtime_offset_ns())))
    }

    /// Makes a host's namespace and device.
    fn host(&self, plan: &HostPlan) -> Result<(Namespace, Vec<ldplayer_net::tun::Tun>), TestbedError> {
        let namespace = Namespace::create()?;
        let wiring = Wiring { addresses: plan.addresses.clone(), any_ip: plan.any_ip, mtu: self.mtu, queues: 1 };
        let tuns = wiring.connect(&namespace);
        let tuns = tuns.map_err(|source| TestbedError::Wiring { host: plan.name.clone(), source })?;
        Ok((namespace, tuns))
    }
}

impl Testbed {
    /// Makes the hosts and starts the wire. If this process lacks the right to make namespaces, it first enters a user
    /// namespace, for which it must be single-threaded.
    ///
    /// # Errors
    /// The system refuses.
    pub fn up(plan: &Plan) -> Result<Self, TestbedError> {
        if plan.hosts.len() > MAX_HOSTS {
            return Err(TestbedError::TooManyHosts(plan.hosts.len()));
        }
        // Read while this process still sees the host's own files.
        let names = Arc::new(plan.names().prepare());
        let is_rootless = rights::ensure_rights()?;
        let (mut hosts, mut devices) = (Vec::new(), Vec::new());
        for host in &plan.hosts {
            let (namespace, tuns) = plan.host(host)?;
            hosts.push((host.clone(), namespace));
            devices.push(tuns);
        }
        let forwarder = Forwarder::new(Wire::new(&plan.settings()), devices, plan.precision, plan.tap()?);
        let running = forwarder.start(plan.core).map_err(TestbedError::Wire)?;
        Ok(Self { hosts, running, is_rootless, names })
    }

    /// Whether it was made without privileges, in a user namespace.
    pub const fn is_rootless(&self) -> bool {
        self.is_rootless
    }

    /// The namespace of a host.
    ///
    /// # Errors
    /// There is no host of that name.
    pub fn namespace(&self, name: &str) -> Result<&Namespace, TestbedError> {
        let host = self.hosts.iter().find(|(plan, _)| plan.name == name);
        host.map(|(_, namespace)| namespace).ok_or_else(|| {
            let names: Vec<&str> = self.hosts.iter().map(|(plan, _)| plan.name.as_str()).collect();
            TestbedError::UnknownHost { name: name.to_owned(), hosts: names.join(", ") }
        })
    }

    /// A command that will run on a host, where names are resolved only by the testbed's resolver.
    ///
    /// # Errors
    /// There is no host of that name.
    pub fn command(&self, host: &str, program: &str) -> Result<Command, TestbedError> {
        let mut command = Command::new(program);
        command.env("PATH", programs::search_path());
        self.namespace(host)?.start_in(&mut command).map_err(NetError::Namespace)?;
        self.names.start_with(&mut command);
        Ok(command)
    }

    /// Runs `work` on a thread on a host. Sockets opened by it stay on that host.
    ///
    /// # Errors
    /// There is no host of that name.
    pub fn run<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> Result<T, TestbedError> {
        Ok(self.namespace(host)?.run(work).map_err(NetError::Namespace)?)
    }

    /// Switches one of the paper's proxies on or off, between the hosts [`RESOLVER`] and [`INTERNET`], towards the latter's
    /// addresses unless the plan says otherwise.
    ///
    /// # Errors
    /// The testbed does not have these hosts.
    pub fn switch_proxy(&self, kind: ProxyKind, is_on: bool) -> Result<(), TestbedError> {
        let Some((internet, _)) = self.hosts.get(INTERNET.0 as usize) else {
            return self.namespace("internet").map(drop);
        };
        let peers = internet.addresses.clone();
        self.running.switch_proxy(ProxySettings { resolver: RESOLVER, server: INTERNET, peers, port: 53 }, kind, is_on);
        Ok(())
    }

    /// Changes the addresses that the hosts own to those in this plan, which must have the same hosts. Packets to removed addresses
    /// are leaks. The rest of the plan is ignored.
    ///
    /// # Errors
    /// The wire has stopped.
    pub fn replace_owners(&self, plan: &Plan) -> Result<(), TestbedError> {
        let is_replaced = self.running.replace_owners(Owners::of(&plan.settings().hosts));
        if is_replaced { Ok(()) } else { Err(TestbedError::Wire(io::ErrorKind::BrokenPipe.into())) }
    }

    /// The statistics so far.
    ///
    /// # Errors
    /// The wire has stopped.
    pub fn report(&self) -> Result<Report, TestbedError> {
        let gone = || TestbedError::Wire(io::ErrorKind::BrokenPipe.into());
        let wire = self.running.counts().ok_or_else(gone)?;
        Ok(Report { wire, unread: self.unread(), captured: None })
    }

    /// Takes the testbed down and returns its statistics.
    ///
    /// # Errors
    /// The error that stopped the wire or the capture early.
    pub fn down(self) -> Result<Report, TestbedError> {
        let unread = self.unread();
        let (wire, captured) = self.running.stop().map_err(TestbedError::Wire)?;
        Ok(Report { wire, unread, captured: Some(captured) })
    }

    fn unread(&self) -> Vec<u64> {
        self.hosts.iter().map(|(_, namespace)| namespace.run(interfaces::dropped_here).unwrap_or(0)).collect()
    }
}
