//! The kinds of servers that an experiment can start: programs, transports and settings.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ldplayer_core::Transport;
use ldplayer_core::nearest::suggest;
use ldplayer_core::serde_as_text;
use ldplayer_emulate::stock::{Configured, Program};
use ldplayer_net::programs;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are called what they are")]
pub enum Kind {
    Nsd,
    Bind,
    Knot,
    Unbound,
    KnotResolver,
    Powerdns,
    PowerdnsRecursor,
    /// A DNS proxy in front of another server of the experiment.
    Dnsdist,
    /// `ldplayer serve`.
    Meta,
    /// A server that already runs.
    Address,
}

/// An unknown kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown kind of server `{word}`{hint}")]
pub struct UnknownKind {
    word: String,
    hint: String,
}

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves zones.
    Authoritative,
    /// Resolves names in an emulated Internet of these zones.
    Resolver,
    /// Forwards to another server of the experiment.
    Proxy,
    /// Unknown: it is not started by the experiment.
    Foreign,
}

/// Settings in a server table or the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// `threads`
    Threads,
    /// `cache`
    Cache,
    /// `idle_timeout`
    IdleTimeout,
}

impl Told {
    /// The key of the setting.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Cache => "cache",
            Self::IdleTimeout => "idle_timeout",
        }
    }
}

/// The configuration template of a kind, its program, and its version option.
struct Facts {
    name: &'static str,
    template: &'static str,
    program: Program,
    version: &'static str,
}

const fn program(
    name: &'static str,
    package: &'static str,
    options: &'static [&'static str],
    configured: Configured,
) -> Program {
    Program { name, package, options, configured }
}

const fn facts(name: &'static str, template: &'static str, program: Program, version: &'static str) -> Facts {
    Facts { name, template, program, version }
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Nsd,
        Self::Bind,
        Self::Knot,
        Self::Unbound,
        Self::KnotResolver,
        Self::Powerdns,
        Self::PowerdnsRecursor,
        Self::Dnsdist,
        Self::Meta,
        Self::Address,
    ];

    const fn facts(self) -> Facts {
        use Configured::{ByName, ByOption};
        match self {
            Self::Nsd => facts(
                "nsd",
                include_str!("../templates/nsd.conf"),
                program("nsd", "nsd", &["-d"], ByOption("-c")),
                "-v",
            ),
            Self::Bind => facts(
                "bind",
                include_str!("../templates/bind.conf"),
                program("named", "bind9", &["-g"], ByOption("-c")),
                "-v",
            ),
            Self::Knot => facts(
                "knot",
                include_str!("../templates/knot.conf"),
                program("knotd", "knot", &[], ByOption("-c")),
                "-V",
            ),
            Self::Unbound => facts(
                "unbound",
                include_str!("../templates/unbound.conf"),
                program("unbound", "unbound", &["-d", "-p"], ByOption("-c")),
                "-V",
            ),
            Self::KnotResolver => facts(
                "knot-resolver",
                include_str!("../templates/knot-resolver.lua"),
                program("kresd", "knot-resolver", &["-n"], ByOption("-c")),
                "-V",
            ),
            Self::Powerdns => facts(
                "powerdns",
                include_str!("../templates/powerdns.conf"),
                program(
                    "pdns_server",
                    "pdns-server pdns-backend-bind",
                    &["--config-dir=.", "--daemon=no", "--guardian=no"],
                    ByName("pdns.conf"),
                ),
                "--version",
            ),
            Self::PowerdnsRecursor => facts(
                "powerdns-recursor",
                include_str!("../templates/powerdns-recursor.conf"),
                program("pdns_recursor", "pdns-recursor", &["--config-dir=.", "--daemon=no"], ByName("recursor.conf")),
                "--version",
            ),
            Self::Dnsdist => facts(
                "dnsdist",
                include_str!("../templates/dnsdist.lua"),
                program("dnsdist", "dnsdist", &["--supervised", "--disable-syslog"], ByOption("-C")),
                "--version",
            ),
            Self::Meta => facts("meta", "", program("ldplayer", "ldplayer", &[], ByOption("")), "--version"),
            Self::Address => facts("address", "", program("", "", &[], ByOption("")), ""),
        }
    }

    /// The name in files.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The program. [`Kind::Meta`] is this program; [`Kind::Address`] has none.
    pub const fn program(self) -> Program {
        self.facts().program
    }

    /// The program as found on this machine.
    pub(crate) fn find(self) -> Option<PathBuf> {
        match self {
            Self::Meta => std::env::current_exe().ok(),
            Self::Address => None,
            _ => programs::find(self.program().name),
        }
    }

    /// The option that prints the version.
    pub const fn version_option(self) -> &'static str {
        self.facts().version
    }

    /// The configuration template; empty if it is configured by arguments.
    pub const fn template(self) -> &'static str {
        self.facts().template
    }

    /// The role.
    pub const fn role(self) -> Role {
        match self {
            Self::Nsd | Self::Bind | Self::Knot | Self::Powerdns | Self::Meta => Role::Authoritative,
            Self::Unbound | Self::KnotResolver | Self::PowerdnsRecursor => Role::Resolver,
            Self::Dnsdist => Role::Proxy,
            Self::Address => Role::Foreign,
        }
    }

    /// The transports that Debian's packages support with our configuration.
    pub const fn speaks(self) -> &'static [Transport] {
        use Transport::{Doh2, Doh3, Doq, Dot, Tcp, Udp};
        match self {
            Self::Knot | Self::Powerdns | Self::PowerdnsRecursor | Self::Meta => &[Udp, Tcp],
            Self::Nsd | Self::Dnsdist => &[Udp, Tcp, Dot],
            Self::Bind | Self::Unbound | Self::KnotResolver => &[Udp, Tcp, Dot, Doh2],
            Self::Address => &[Udp, Tcp, Dot, Doh2, Doh3, Doq],
        }
    }

    /// Whether our configuration supports a setting.
    pub const fn can_be_told(self, what: Told) -> bool {
        match what {
            Told::Threads => !matches!(self, Self::KnotResolver | Self::Dnsdist | Self::Address),
            Told::Cache => matches!(self, Self::Unbound | Self::KnotResolver | Self::Bind),
            Told::IdleTimeout => !matches!(self, Self::KnotResolver | Self::Address),
        }
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
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

serde_as_text!(Kind);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_back_and_the_nearest_is_named() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(
            "knott".parse::<Kind>().unwrap_err().to_string(),
            "unknown kind of server `knott`: did you mean `knot`?"
        );
    }

    #[test]
    fn each_that_is_configured_has_a_template() {
        for kind in Kind::ALL {
            let is_bare = matches!(kind, Kind::Meta | Kind::Address);
            assert_eq!(kind.template().is_empty(), is_bare, "{kind}");
        }
    }
}
