//! The stock servers: what each is, described once in a file of its own.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ldplayer_core::nearest::suggest;
use ldplayer_core::{Transport, serde_as_text};
use ldplayer_net::programs;

use super::{
    Configured, Program, Zone, bind, bind_resolver, dnsdist, knot, knot_resolver, nsd, pdns_recursor, powerdns, unbound,
};

/// The file with the configuration of [`Kind::COMMAND`] in its work directory.
pub(super) const CONFIG: &str = "config";

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves zones.
    Authoritative,
    /// Resolves names in an emulated Internet.
    Resolver,
    /// Forwards to another server.
    Proxy,
    /// Unknown: it is not started here.
    Foreign,
}

impl Role {
    const ALL: [Self; 4] = [Self::Authoritative, Self::Resolver, Self::Proxy, Self::Foreign];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authoritative => "authoritative",
            Self::Resolver => "resolver",
            Self::Proxy => "proxy",
            Self::Foreign => "foreign",
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.name() == word && *role != Self::Foreign);
        found.ok_or_else(|| format!("`{word}` is no role: use authoritative, resolver or proxy"))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a server may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `threads`
    Threads,
    /// `cache`
    Cache,
    /// `idle_timeout`
    IdleTimeout,
}

impl Setting {
    /// Its key.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Cache => "cache",
            Self::IdleTimeout => "idle_timeout",
        }
    }
}

/// What is known of a server. It has what it says, and nothing else.
#[derive(Debug)]
pub(super) struct Description {
    /// The name in options and files.
    pub name: &'static str,
    /// A second name; empty for none.
    pub alias: &'static str,
    pub role: Role,
    pub program: Program,
    /// The option that prints its version.
    pub version: &'static str,
    /// The transports of Debian's package with the template.
    pub speaks: &'static [Transport],
    pub settings: &'static [Setting],
    /// The template of its configuration ([`super::StockServer::configuration`] has the values); empty if arguments say all.
    pub template: &'static str,
    /// The names and templates of other files in its work directory.
    pub more_files: &'static [(&'static str, &'static str)],
    /// The templates of arguments after those of the program.
    pub arguments: &'static [&'static str],
    /// The line of the log about a zone that cannot be loaded.
    pub complaint: fn(&str, &[Zone]) -> Option<String>,
}

impl Description {
    pub(super) const NONE: Self = Self {
        name: "",
        alias: "",
        role: Role::Foreign,
        program: Program { name: "", package: "", options: &[], configured: Configured::ByOption("") },
        version: "",
        speaks: &[],
        settings: &[],
        template: "",
        more_files: &[],
        arguments: &[],
        complaint: |_, _| None,
    };
}

/// A kind of server.
#[derive(Clone, Copy)]
pub struct Kind(pub(super) &'static Description);

#[allow(missing_docs, reason = "they are called what they are")]
impl Kind {
    pub const NSD: Self = Self(&nsd::NSD);
    pub const BIND: Self = Self(&bind::BIND);
    pub const BIND_RESOLVER: Self = Self(&bind_resolver::BIND_RESOLVER);
    pub const KNOT: Self = Self(&knot::KNOT);
    pub const UNBOUND: Self = Self(&unbound::UNBOUND);
    pub const KNOT_RESOLVER: Self = Self(&knot_resolver::KNOT_RESOLVER);
    pub const POWERDNS: Self = Self(&powerdns::POWERDNS);
    pub const PDNS_RECURSOR: Self = Self(&pdns_recursor::PDNS_RECURSOR);
    pub const DNSDIST: Self = Self(&dnsdist::DNSDIST);
    /// `ldplayer serve`.
    pub const META: Self = Self(&Description {
        name: "meta",
        role: Role::Authoritative,
        program: Program {
            name: "ldplayer",
            package: "ldplayer",
            options: &["serve"],
            configured: Configured::ByOption(""),
        },
        version: "--version",
        speaks: &[Transport::Udp, Transport::Tcp],
        settings: &[Setting::Threads, Setting::IdleTimeout],
        ..Description::NONE
    });
    /// Any server, started by a command of the user's. It is told what its command and its configuration mention.
    pub const COMMAND: Self = Self(&Description {
        name: "command",
        role: Role::Authoritative,
        program: Program { name: "sh", package: "dash", options: &["-c"], configured: Configured::ByName(CONFIG) },
        speaks: &[Transport::Udp, Transport::Tcp],
        ..Description::NONE
    });
    /// A server that already runs.
    pub const ADDRESS: Self = Self(&Description { name: "address", speaks: &Transport::ALL, ..Description::NONE });

    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::NSD,
        Self::BIND,
        Self::KNOT,
        Self::UNBOUND,
        Self::BIND_RESOLVER,
        Self::KNOT_RESOLVER,
        Self::POWERDNS,
        Self::PDNS_RECURSOR,
        Self::DNSDIST,
        Self::META,
        Self::COMMAND,
        Self::ADDRESS,
    ];

    /// The resolvers.
    pub fn resolvers() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.role() == Role::Resolver)
    }

    /// The resolver of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn resolver(name: &str) -> Result<Self, UnknownResolver> {
        Self::resolvers().find(|kind| kind.is_called(name)).ok_or_else(|| {
            let known = Self::resolvers().map(Self::name).collect::<Vec<_>>().join(", ");
            UnknownResolver { word: name.to_owned(), known }
        })
    }

    fn is_called(self, word: &str) -> bool {
        self.name() == word || (!self.0.alias.is_empty() && self.0.alias == word)
    }

    /// The name in options and files.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// The program. [`Kind::META`] is this program; [`Kind::ADDRESS`] has none.
    pub const fn program(self) -> Program {
        self.0.program
    }

    /// The program as found on this machine.
    pub fn find(self) -> Option<PathBuf> {
        match self.role() {
            Role::Foreign => None,
            _ if self == Self::META => std::env::current_exe().ok(),
            _ => programs::find(self.program().name),
        }
    }

    /// The option that prints the version.
    pub const fn version_option(self) -> &'static str {
        self.0.version
    }

    /// Whether a template configures it; if not, arguments do.
    pub const fn has_template(self) -> bool {
        !self.0.template.is_empty()
    }

    /// The role.
    pub const fn role(self) -> Role {
        self.0.role
    }

    /// The transports that Debian's packages support with our configuration.
    pub const fn speaks(self) -> &'static [Transport] {
        self.0.speaks
    }

    /// Whether our configuration supports a setting.
    pub fn can_be_told(self, what: Setting) -> bool {
        self.0.settings.contains(&what)
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Kind {}

/// An unknown kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of server `{word}`{hint}")]
pub struct UnknownKind {
    word: String,
    hint: String,
}

/// An unknown resolver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown resolver `{word}`: use {known}")]
pub struct UnknownResolver {
    word: String,
    known: String,
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.is_called(word)).ok_or_else(|| {
            let known = Self::ALL.map(Self::name);
            UnknownKind { word: word.to_owned(), hint: suggest(word, &known) }
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

serde_as_text!(Kind, Role);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_back_and_the_nearest_is_named() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("powerdns-recursor".parse(), Ok(Kind::PDNS_RECURSOR));
        assert_eq!(
            "knott".parse::<Kind>().unwrap_err().to_string(),
            "unknown kind of server `knott`: did you mean `knot`?"
        );
        assert_eq!(
            Kind::resolver("bind").unwrap_err().to_string(),
            "unknown resolver `bind`: use unbound, bind-resolver, knot-resolver, pdns-recursor"
        );
    }

    /// Zones are built for servers that an experiment calls the same.
    #[test]
    fn servers_that_zones_are_built_for_are_kinds() {
        for server in ldplayer_zone::construct::Stock::ALL {
            assert_eq!(server.name().parse::<Kind>().map(|kind| kind.to_string()), Ok(server.name().to_owned()));
        }
    }

    #[test]
    fn each_that_is_configured_has_a_template_and_one_that_says_nothing_can_do_nothing() {
        for kind in Kind::ALL {
            assert_eq!(kind.has_template(), ![Kind::META, Kind::COMMAND, Kind::ADDRESS].contains(&kind), "{kind}");
        }
        let unsaid = Kind(&Description::NONE);
        assert!(!unsaid.can_be_told(Setting::Threads) && unsaid.speaks().is_empty());
    }
}
