//! The `[server.NAME]` tables of an experiment.

use std::path::PathBuf;

use ldplayer_core::Transport;
use ldplayer_core::time::Span;
use ldplayer_emulate::stock::{Kind, Ready, Role, Setting};
use ldplayer_run::Server;
use ldplayer_workload::spec::{BadSpec, Item, read};
use serde::{Deserialize, Serialize};

use crate::ready_made;
use crate::values::each;

/// Maximum number of threads of a server.
const MAX_THREADS: u64 = 256;
/// Default maximum of TCP connections of a started server, so that no server's own default limits a run.
const CONNECTIONS: u32 = 10_000;
/// Default idle timeout of a TLS front.
const FRONT_IDLE_NS: i64 = 30_000_000_000;
/// Keys of a server's table.
const KEYS: [&str; 19] = [
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
    "command",
    "config",
    "role",
    "transports",
    "ready",
    "version",
];
/// Keys of [`Kind::COMMAND`] alone; the first two say which settings it has.
const OF_COMMANDS: [&str; 6] = ["command", "config", "role", "transports", "ready", "version"];

/// A server of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerTable {
    /// Its name in the experiment.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its addresses, for [`Kind::ADDRESS`].
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub address: Vec<Server>,
    /// The zones that it serves, or that the emulated Internet serves to it: a directory, or a zone file, possibly compressed with xz.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub zones: Option<PathBuf>,
    /// The backend of a proxy.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub backend: Option<String>,
    /// The TLS front of a server without TLS: dnsdist.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub front: Option<Kind>,
    /// Another build of the program.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub program: Option<PathBuf>,
    /// A configuration template that replaces the built-in one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub configuration: Option<PathBuf>,
    /// The text of that file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub template: Option<String>,
    /// The transports that it supports beyond those of Debian's package with our configuration.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub speaks: Option<Vec<Transport>>,
    /// Threads or processes.
    pub threads: u16,
    /// Cache size in octets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache: Option<u64>,
    /// Idle timeout of TCP connections.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub idle_timeout: Option<Span>,
    /// Maximum number of TCP connections.
    pub connections: u32,
    /// Root hints of a resolver; the built-in ones by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub root_hints: Option<PathBuf>,
    /// The ready-made server that it is, such as `coredns`; a [`Kind::COMMAND`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ready_made: Option<String>,
    /// The template of the command that starts a [`Kind::COMMAND`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<String>,
    /// Its role, if it differs from its kind's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<Role>,
    /// When it is ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ready: Option<Ready>,
    /// The command that prints its version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
}

impl ServerTable {
    /// Reads the table of the server `item.key`; `place` resolves paths.
    pub(crate) fn read(item: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<Self, BadSpec> {
        let table = item.table()?;
        let Some(kind) = table.get("kind") else {
            let known = Kind::ALL.iter().map(|kind| kind.name()).chain(ready_made::names());
            let known: Vec<&str> = known.collect();
            return Err(item.bad(format!("no kind: add kind = \"...\" with one of {}", known.join(", "))));
        };
        let mut server = match ready_made::find(kind.text()?) {
            Some(text) => Self::ready_made(item.key, kind.text()?, text).map_err(|error| kind.bad(error))?,
            None => Self::new(item.key, kind.parsed(str::parse)?),
        };
        server.give_all(&table.items(&KEYS)?, place)?;
        server.ensure_whole(item)?;
        Ok(server)
    }

    /// A server of a file that comes with the program.
    fn ready_made(name: &str, kind: &str, text: &str) -> Result<Self, BadSpec> {
        let mut server = Self { ready_made: Some(kind.to_owned()), ..Self::new(name, Kind::COMMAND) };
        read(text, |root| server.give_all(&root.items(&KEYS)?, &|path| path.into()))?;
        Ok(server)
    }

    /// Takes keys; what a command mentions decides which settings it has, and goes first.
    fn give_all(&mut self, items: &[Item<'_>], place: &dyn Fn(&str) -> PathBuf) -> Result<(), BadSpec> {
        let (first, others): (Vec<_>, Vec<_>) = items.iter().partition(|item| OF_COMMANDS.contains(&item.key));
        first.into_iter().chain(others).try_for_each(|item| self.give(item, place))
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.role.unwrap_or_else(|| self.kind.role())
    }

    /// The name of its kind, or of its ready-made server.
    pub fn kind_name(&self) -> &str {
        self.ready_made.as_deref().unwrap_or_else(|| self.kind.name())
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
            ready_made: None,
            command: None,
            role: None,
            ready: None,
            version: None,
        }
    }

    /// The TLS front of a server. It has the same idle timeout as the server: by default dnsdist closes connections after two seconds, which
    /// would be measured instead of the server.
    pub(crate) fn of_front(kind: Kind, server: &Self) -> Self {
        let idle_timeout = server.idle_timeout.or(Some(Span::from_ns(FRONT_IDLE_NS)));
        Self { idle_timeout, ..Self::new(&format!("{}-front", server.name), kind) }
    }

    fn give(&mut self, given: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<(), BadSpec> {
        let path = || given.text().map(place);
        if OF_COMMANDS.contains(&given.key) {
            return self.give_command(given, place);
        }
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

    fn give_command(&mut self, given: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<(), BadSpec> {
        if self.kind != Kind::COMMAND {
            return Err(given.bad(format!("does not apply to kind {}, only to kind command", self.kind)));
        }
        match given.key {
            "command" => self.command = Some(given.text()?.to_owned()),
            "config" => self.set_config(given, place)?,
            "role" => self.role = Some(given.parsed(str::parse)?),
            "transports" => self.speaks = Some(each(given, |item| item.parsed(str::parse))?),
            "ready" => self.ready = Some(given.parsed(str::parse)?),
            _ => self.version = Some(given.text()?.to_owned()),
        }
        Ok(())
    }

    /// The configuration of a command: a text of several lines, or a file.
    fn set_config(&mut self, given: &Item<'_>, place: &dyn Fn(&str) -> PathBuf) -> Result<(), BadSpec> {
        let text = given.text()?;
        if text.contains('\n') {
            self.template = Some(text.to_owned());
            return Ok(());
        }
        let file = place(text);
        let read = std::fs::read_to_string(&file);
        self.template = Some(read.map_err(|error| given.bad(format!("{}: {error}", file.display())))?);
        self.configuration = Some(file);
        Ok(())
    }

    fn set_template(&mut self, given: &Item<'_>, file: PathBuf) -> Result<(), BadSpec> {
        if !self.kind.has_template() {
            return Err(given.bad(format!("kind {} does not use a configuration file", self.kind)));
        }
        let text = std::fs::read_to_string(&file);
        self.template = Some(text.map_err(|error| given.bad(format!("{}: {error}", file.display())))?);
        self.configuration = Some(file);
        Ok(())
    }

    /// Sets `threads`, from the table or the matrix.
    pub(crate) fn set_threads(&mut self, given: &Item<'_>) -> Result<(), BadSpec> {
        self.ensure_can_be_told(Setting::Threads, given)?;
        self.threads = given.integer(1..=MAX_THREADS)? as u16;
        Ok(())
    }

    /// Sets `cache`.
    pub(crate) fn set_cache(&mut self, given: &Item<'_>) -> Result<(), BadSpec> {
        self.ensure_can_be_told(Setting::Cache, given)?;
        self.cache = Some(given.parsed(octets)?);
        Ok(())
    }

    /// Sets `idle_timeout`.
    pub(crate) fn set_idle_timeout(&mut self, given: &Item<'_>) -> Result<(), BadSpec> {
        self.ensure_can_be_told(Setting::IdleTimeout, given)?;
        self.idle_timeout = Some(given.parsed(str::parse)?);
        Ok(())
    }

    /// A template of the user's may use any setting.
    fn ensure_can_be_told(&self, what: Setting, given: &Item<'_>) -> Result<(), BadSpec> {
        let texts = || self.command.iter().chain(&self.template);
        let is_mentioned = || self.kind == Kind::COMMAND && texts().any(|text| mentions(text, what.key()));
        if self.kind.can_be_told(what) || (self.template.is_some() && self.kind.has_template()) || is_mentioned() {
            return Ok(());
        }
        Err(given.bad(format!("server.{}: kind {} has no setting for {}", self.name, self.kind_name(), what.key())))
    }

    fn ensure_whole(&self, item: &Item<'_>) -> Result<(), BadSpec> {
        let role = self.role();
        let missing = match role {
            Role::Foreign if self.address.is_empty() => {
                Some("an address, such as address = \"192.0.2.1:53\", or a list of them")
            }
            Role::Proxy if self.backend.is_none() => {
                Some("a backend, such as backend = \"NAME\" with the name of another server")
            }
            _ if self.kind == Kind::COMMAND && self.command.is_none() => {
                Some("a command, such as command = \"server -c {{ config }}\"")
            }
            _ => None,
        };
        if let Some(missing) = missing {
            return Err(item.bad(format!("kind {} needs {missing}", self.kind_name())));
        }
        let excess = [
            ("address", !self.address.is_empty() && role != Role::Foreign),
            ("backend", self.backend.is_some() && role != Role::Proxy),
            ("zones", self.zones.is_some() && matches!(role, Role::Foreign | Role::Proxy)),
            ("program", self.program.is_some() && (role == Role::Foreign || self.kind == Kind::COMMAND)),
            ("front", self.front.is_some() && matches!(role, Role::Foreign | Role::Proxy)),
            ("root_hints", self.root_hints.is_some() && role != Role::Resolver),
        ];
        match excess.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(item.bad(format!("`{key}` does not apply to kind {}", self.kind_name()))),
            None => Ok(()),
        }
    }

    /// Whether it can be queried over this transport, possibly through its front.
    pub fn can_speak(&self, transport: Transport) -> bool {
        self.speaks_itself(transport)
            || self.front.is_some_and(|front| transport.is_encrypted() && front.speaks().contains(&transport))
    }

    /// Whether it supports this transport without a front.
    pub fn speaks_itself(&self, transport: Transport) -> bool {
        self.speaks.as_deref().unwrap_or_else(|| self.kind.speaks()).contains(&transport)
    }
}

/// Whether an expression or a statement of a template has the variable of a setting; plain text, such as `cache-size`, does not count.
fn mentions(template: &str, variable: &str) -> bool {
    let inside = ["{{", "{%"].into_iter().flat_map(|begin| template.split(begin).skip(1));
    inside.filter_map(|rest| rest.split("}}").next()?.split("%}").next()).any(|code| code.contains(variable))
}

fn front(given: &Item<'_>) -> Result<Kind, BadSpec> {
    let kind: Kind = given.parsed(str::parse)?;
    if kind == Kind::DNSDIST { Ok(kind) } else { Err(given.bad(format!("{kind} cannot be a front; use dnsdist"))) }
}

/// A size in octets, with an optional unit: `100M`, `1G`, `512k`.
fn octets(word: &str) -> Result<u64, String> {
    let units = [("k", 1_u64 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    let unit = units.iter().find_map(|(unit, size)| Some((word.strip_suffix(unit)?, *size)));
    let (number, size) = unit.unwrap_or((word, 1));
    let octets = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(size));
    octets.filter(|octets| *octets > 0).ok_or_else(|| format!("`{word}` is not a size such as 512k, 100M or 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((nsd.name.as_str(), nsd.kind, nsd.threads, nsd.connections), ("new", Kind::NSD, 2, 10_000));
        assert_eq!(nsd.idle_timeout.map(Span::ns), Some(30_000_000_000));
        assert!(nsd.can_speak(Transport::Dot) && !nsd.can_speak(Transport::Doq));
        let knot = server("[server.k]\nkind = 'knot'\nfront = 'dnsdist'").unwrap();
        assert!(knot.can_speak(Transport::Dot) && !knot.speaks_itself(Transport::Dot));
        let newer = server("[server.k]\nkind = 'knot'\nspeaks = ['udp', 'tcp', 'dot']").unwrap();
        assert!(newer.speaks_itself(Transport::Dot));
    }

    #[test]
    fn a_command_is_any_server() {
        let text = "[server.own]\nthreads = 2\nkind = 'command'\ncommand = 'server -c {{ config }}'\nrole = 'proxy'\nbackend = 'b'\n\
            config = '''\nworkers {{ threads }}\n'''\ntransports = ['udp', 'dot']\nready = 'log: up'\nversion = 'server -v'";
        let own = server(text).unwrap();
        assert_eq!(
            (own.role(), own.threads, own.template.as_deref()),
            (Role::Proxy, 2, Some("workers {{ threads }}\n"))
        );
        assert!(own.speaks_itself(Transport::Dot) && !own.speaks_itself(Transport::Tcp));
        let refusal = |text: &str| server(&format!("[server.a]\n{text}")).unwrap_err();
        assert!(refusal("kind = 'command'").contains("needs a command"));
        assert!(refusal("kind = 'nsd'\ncommand = 'x'").contains("does not apply to kind nsd"));
        assert!(refusal("kind = 'command'\ncommand = 'x'\nthreads = 2").contains("has no setting for threads"));
        assert!(
            refusal("kind = 'dnsmasq'\nbackend = 'b'\ncache = '1M'").contains("kind dnsmasq has no setting for cache")
        );
        assert!(refusal("kind = 'coredns'\nprogram = '/x'").contains("`program` does not apply to kind coredns"));
        assert!(server("[server.a]\nkind = 'coredns'\nthreads = 2").is_ok());
        assert!(refusal("kind = 'command'\ncommand = 'x'\nrole = 'foreign'").contains("use authoritative, resolver"));
    }

    #[test]
    fn every_ready_made_server_is_whole_but_for_what_the_user_says() {
        for kind in ready_made::names() {
            let made = server(&format!("[server.a]\nkind = '{kind}'\nbackend = 'b'"));
            let made = made.or_else(|_| server(&format!("[server.a]\nkind = '{kind}'"))).unwrap();
            assert_eq!((made.kind, made.kind_name()), (Kind::COMMAND, kind));
            assert!(made.version.is_some(), "{kind}");
        }
    }

    #[test]
    fn errors_name_the_line_and_what_to_write() {
        let refusal = |text: &str| server(text).unwrap_err();
        assert!(refusal("[server.a]\nzones = 'z'").starts_with("line 1: `a`: no kind"));
        assert_eq!(
            refusal("[server.a]\nkind = 'nsdd'"),
            "line 2: `kind`: unknown kind of server `nsdd`: did you mean `nsd`?"
        );
        assert_eq!(
            refusal("[server.a]\nkind = 'nsd'\nthread = 1"),
            "line 3: unknown key `thread`: did you mean `threads`?"
        );
        assert!(refusal("[server.a]\nkind = 'address'").contains("needs an address"));
        assert!(refusal("[server.a]\nkind = 'nsd'\naddress = '::1'").contains("does not apply to kind nsd"));
        assert!(refusal("[server.a]\nkind = 'nsd'\ncache = '1M'").contains("has no setting for cache"));
        assert!(refusal("[server.a]\nkind = 'unbound'\ncache = 'much'").contains("512k"));
        assert!(refusal("[server.a]\nkind = 'meta'\nfront = 'nsd'").contains("use dnsdist"));
        assert!(refusal("[server.a]\nkind = 'nsd'\nconfiguration = 'no/such'").contains("no/such: No such file"));
    }
}
