//! The `[server.NAME]` tables of an experiment: what is started, or where it is.

use std::path::PathBuf;

use ldplayer_core::Transport;
use ldplayer_core::time::Span;
use ldplayer_run::Server;
use ldplayer_workload::spec::{BadSpec, Item};
use serde::{Deserialize, Serialize};

use crate::kind::{Kind, Role, Told};

/// Threads of a server at most.
const MAX_THREADS: u64 = 256;
/// TCP connections that a started server takes unless its table says otherwise: no server's default is to limit a run.
const CONNECTIONS: u32 = 10_000;
/// How long what ends TLS before a server keeps idle connections, where the server's table does not say.
const FRONT_IDLE_NS: i64 = 30_000_000_000;
/// Keys of a server's table.
const KEYS: [&str; 13] = [
    "kind",
    "zones",
    "address",
    "backend",
    "front",
    "program",
    "configuration",
    "speaks",
    "threads",
    "cache",
    "idle_timeout",
    "connections",
    "root_hints",
];

/// A server of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerTable {
    /// Its name in the experiment.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Where it is, for [`Kind::Address`].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub address: Vec<Server>,
    /// Zones that it serves, or that the Internet serves in which it resolves: a directory, or a zone file, which may be xz.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zones: Option<PathBuf>,
    /// The server that a proxy asks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub backend: Option<String>,
    /// What ends TLS before it, where it speaks none: dnsdist.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub front: Option<Kind>,
    /// Another build of the program.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<PathBuf>,
    /// The template of its configuration in place of ours: a file, whose text is read into the plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub configuration: Option<PathBuf>,
    /// What that file says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub template: Option<String>,
    /// What it speaks, where that is more than our configuration makes of Debian's release.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub speaks: Option<Vec<Transport>>,
    /// Its threads or processes.
    pub threads: u16,
    /// Octets of its cache.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<u64>,
    /// How long it keeps an idle TCP connection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub idle_timeout: Option<Span>,
    /// TCP connections that it takes at most.
    pub connections: u32,
    /// Root hints of a resolver; without, those that it has built in.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub root_hints: Option<PathBuf>,
}

impl ServerTable {
    /// Reads the table of the server `item.key`; `place` makes paths of texts.
    pub(crate) fn read(item: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<Self, BadSpec> {
        let table = item.table()?;
        let Some(kind) = table.get("kind") else {
            let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            return Err(item.bad(format!("no kind: add kind = \"...\", one of {}", known.join(", "))));
        };
        let mut server = Self::new(item.key, kind.parsed(str::parse)?);
        for given in table.items(&KEYS)? {
            server.give(&given, place)?;
        }
        server.ensure_whole(item)?;
        Ok(server)
    }

    fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            address: Vec::new(),
            zones: None,
            backend: None,
            front: None,
            program: None,
            configuration: None,
            template: None,
            speaks: None,
            threads: 1,
            cache: None,
            idle_timeout: None,
            connections: CONNECTIONS,
            root_hints: None,
        }
    }

    /// What ends TLS before a server. It keeps idle connections for as long as the server is told to: dnsdist by itself closes
    /// them after two seconds, which would be measured in place of the server.
    pub(crate) fn of_front(kind: Kind, server: &Self) -> Self {
        let idle_timeout = server.idle_timeout.or(Some(Span::from_ns(FRONT_IDLE_NS)));
        Self { idle_timeout, ..Self::new(&format!("{}-front", server.name), kind) }
    }

    fn give(&mut self, given: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<(), BadSpec> {
        let path = || given.text().map(place);
        match given.key {
            "zones" => self.zones = Some(path()?),
            "address" => self.address = each(given, |item| item.parsed(str::parse))?,
            "backend" => self.backend = Some(given.text()?.to_owned()),
            "front" => self.front = Some(front(given)?),
            "program" => self.program = Some(path()?),
            "configuration" => self.set_template(given, path()?)?,
            "speaks" => self.speaks = Some(each(given, |item| item.parsed(str::parse))?),
            "threads" => self.set_threads(given)?,
            "cache" => self.set_cache(given)?,
            "idle_timeout" => self.set_idle_timeout(given)?,
            "connections" => self.connections = given.integer(1..=1_000_000)? as u32,
            "root_hints" => self.root_hints = Some(path()?),
            _ => {}
        }
        Ok(())
    }

    fn set_template(&mut self, given: &Item<'_>, file: PathBuf) -> Result<(), BadSpec> {
        if self.kind.template().is_empty() {
            return Err(given.bad(format!("kind {} has no configuration", self.kind)));
        }
        let text = std::fs::read_to_string(&file);
        self.template = Some(text.map_err(|error| given.bad(format!("{}: {error}", file.display())))?);
        self.configuration = Some(file);
        Ok(())
    }

    /// Takes `threads`, in its table or as a key of the matrix.
    pub(crate) fn set_threads(&mut self, given: &Item<'_>) -> Result<(), BadSpec> {
        self.ensure_can_be_told(Told::Threads, given)?;
        self.threads = given.integer(1..=MAX_THREADS)? as u16;
        Ok(())
    }

    /// Takes `cache`.
    pub(crate) fn set_cache(&mut self, given: &Item<'_>) -> Result<(), BadSpec> {
        self.ensure_can_be_told(Told::Cache, given)?;
        self.cache = Some(given.parsed(octets)?);
        Ok(())
    }

    /// Takes `idle_timeout`.
    pub(crate) fn set_idle_timeout(&mut self, given: &Item<'_>) -> Result<(), BadSpec> {
        self.ensure_can_be_told(Told::IdleTimeout, given)?;
        self.idle_timeout = Some(given.parsed(str::parse)?);
        Ok(())
    }

    /// With a template of the user's own, what it does with what it is told is the user's business.
    fn ensure_can_be_told(&self, what: Told, given: &Item<'_>) -> Result<(), BadSpec> {
        if self.kind.can_be_told(what) || (self.template.is_some() && !self.kind.template().is_empty()) {
            return Ok(());
        }
        Err(given.bad(format!("server.{}: kind {} cannot be told its {}", self.name, self.kind, what.key())))
    }

    fn ensure_whole(&self, item: &Item<'_>) -> Result<(), BadSpec> {
        let role = self.kind.role();
        let missing = match role {
            Role::Foreign if self.address.is_empty() => Some("an address: address = \"192.0.2.1:53\", or a list"),
            Role::Proxy if self.backend.is_none() => Some("a backend: backend = \"NAME\" of another server"),
            _ => None,
        };
        if let Some(missing) = missing {
            return Err(item.bad(format!("kind {} needs {missing}", self.kind)));
        }
        let excess = [
            ("address", !self.address.is_empty() && role != Role::Foreign),
            ("backend", self.backend.is_some() && role != Role::Proxy),
            ("zones", self.zones.is_some() && matches!(role, Role::Foreign | Role::Proxy)),
            ("program", self.program.is_some() && role == Role::Foreign),
            ("front", self.front.is_some() && matches!(role, Role::Foreign | Role::Proxy)),
            ("root_hints", self.root_hints.is_some() && role != Role::Resolver),
        ];
        match excess.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(item.bad(format!("`{key}` means nothing to kind {}", self.kind))),
            None => Ok(()),
        }
    }

    /// Whether it can be asked over this transport, with what stands before it.
    pub fn can_speak(&self, transport: Transport) -> bool {
        self.speaks_itself(transport)
            || self.front.is_some_and(|front| transport.is_encrypted() && front.speaks().contains(&transport))
    }

    /// Whether it can be asked over this transport without anything before it.
    pub fn speaks_itself(&self, transport: Transport) -> bool {
        self.speaks.as_deref().unwrap_or_else(|| self.kind.speaks()).contains(&transport)
    }
}

/// Each element of a list, or the only one by itself.
fn each<T>(item: &Item<'_>, read: impl Fn(&Item<'_>) -> Result<T, BadSpec>) -> Result<Vec<T>, BadSpec> {
    if item.is_list() { item.list()?.iter().map(read).collect() } else { Ok(vec![read(item)?]) }
}

fn front(given: &Item<'_>) -> Result<Kind, BadSpec> {
    match given.parsed(str::parse)? {
        Kind::Dnsdist => Ok(Kind::Dnsdist),
        other => Err(given.bad(format!("{other} cannot stand before a server; dnsdist can"))),
    }
}

/// Octets as a number, or with a unit: `100M`, `1G`, `512k`.
fn octets(word: &str) -> Result<u64, String> {
    let units = [("k", 1_u64 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    let unit = units.iter().find_map(|(unit, size)| Some((word.strip_suffix(unit)?, *size)));
    let (number, size) = unit.unwrap_or((word, 1));
    let octets = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(size));
    octets.filter(|octets| *octets > 0).ok_or_else(|| format!("`{word}` is no size such as 512k, 100M or 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_workload::spec::read;

    fn server(text: &str) -> Result<ServerTable, String> {
        let found = read(text, |root| {
            let servers = root.get("server").expect("a table").entries()?;
            ServerTable::read(&servers[0], &|path| PathBuf::from(path))
        });
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_says_what_is_started() {
        let nsd =
            server("[server.new]\nkind = 'nsd'\nzones = 'z'\nprogram = '/opt/nsd'\nthreads = 2\nidle_timeout = 30");
        let nsd = nsd.unwrap();
        assert_eq!((nsd.name.as_str(), nsd.kind, nsd.threads, nsd.connections), ("new", Kind::Nsd, 2, 10_000));
        assert_eq!(nsd.idle_timeout.map(Span::ns), Some(30_000_000_000));
        assert!(nsd.can_speak(Transport::Dot) && !nsd.can_speak(Transport::Doq));
        let knot = server("[server.k]\nkind = 'knot'\nfront = 'dnsdist'").unwrap();
        assert!(knot.can_speak(Transport::Dot) && !knot.speaks_itself(Transport::Dot));
        let newer = server("[server.k]\nkind = 'knot'\nspeaks = ['udp', 'tcp', 'dot']").unwrap();
        assert!(newer.speaks_itself(Transport::Dot));
    }

    #[test]
    fn errors_name_the_line_and_what_to_write() {
        let refusal = |text: &str| server(text).unwrap_err();
        assert!(refusal("[server.a]\nzones = 'z'").starts_with("line 1: `a`: no kind"));
        assert_eq!(
            refusal("[server.a]\nkind = 'nsdd'"),
            "line 2: `kind`: `nsdd` is no kind of server: did you mean `nsd`?"
        );
        assert_eq!(
            refusal("[server.a]\nkind = 'nsd'\nthread = 1"),
            "line 3: unknown key `thread`: did you mean `threads`?"
        );
        assert!(refusal("[server.a]\nkind = 'address'").contains("needs an address"));
        assert!(refusal("[server.a]\nkind = 'nsd'\naddress = '::1'").contains("means nothing to kind nsd"));
        assert!(refusal("[server.a]\nkind = 'nsd'\ncache = '1M'").contains("cannot be told its cache"));
        assert!(refusal("[server.a]\nkind = 'unbound'\ncache = 'much'").contains("512k"));
        assert!(refusal("[server.a]\nkind = 'meta'\nfront = 'nsd'").contains("dnsdist can"));
        assert!(refusal("[server.a]\nkind = 'nsd'\nconfiguration = 'no/such'").contains("no/such: No such file"));
    }
}
