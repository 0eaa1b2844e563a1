//! Settings common to all stock resolvers, and the list of them.

use std::path::PathBuf;
use std::str::FromStr;

use super::{KnotResolver, Recursor, Stock, Unbound, find};

/// The settings of a resolver.
#[derive(Clone, Debug)]
pub struct Resolving {
    /// Root hints, as a zone file with the root's NS records and their addresses; the built-in ones by default.
    pub root_hints: Option<PathBuf>,
    /// A file of trust anchors as DS or DNSKEY records; without it, nothing is validated.
    pub trust_anchor: Option<PathBuf>,
    /// Whether it minimises query names (RFC 9156).
    pub qname_minimisation: bool,
    /// Whether it sends queries over IPv6.
    pub ipv6: bool,
    /// Additional configuration in its own language, which takes precedence.
    pub extra: String,
}

impl Default for Resolving {
    /// QNAME minimisation and IPv6 on, validation off.
    fn default() -> Self {
        Self { root_hints: None, trust_anchor: None, qname_minimisation: true, ipv6: true, extra: String::new() }
    }
}

/// A stock resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolverKind {
    /// NLnet Labs' Unbound.
    Unbound,
    /// CZ.NIC's Knot Resolver.
    KnotResolver,
    /// PowerDNS Recursor.
    Recursor,
}

/// An unknown resolver.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown resolver `{0}`: use unbound, knot-resolver or pdns-recursor")]
pub struct UnknownResolver(String);

impl ResolverKind {
    /// All resolvers.
    pub const ALL: [Self; 3] = [Self::Unbound, Self::KnotResolver, Self::Recursor];

    /// Its name in options, which is that of Debian's package.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::KnotResolver => "knot-resolver",
            Self::Recursor => "pdns-recursor",
        }
    }

    /// Whether its program is installed.
    pub fn is_installed(self) -> bool {
        let program = self.told(Resolving::default()).program();
        find(program.name, program.package).is_ok()
    }

    /// The resolver with these settings.
    pub fn told(self, told: Resolving) -> Box<dyn Stock> {
        match self {
            Self::KnotResolver => Box::new(KnotResolver { told }),
            Self::Recursor => Box::new(Recursor { told }),
            Self::Unbound => {
                let Resolving { root_hints, trust_anchor, qname_minimisation, ipv6, extra } = told;
                Box::new(Unbound { root_hints, trust_anchor, qname_minimisation, ipv6, extra })
            }
        }
    }
}

impl FromStr for ResolverKind {
    type Err = UnknownResolver;

    fn from_str(name: &str) -> Result<Self, UnknownResolver> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownResolver(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_has_a_name_and_is_told_the_same() {
        assert_eq!("bind".parse::<ResolverKind>(), Err(UnknownResolver("bind".to_owned())));
        for (kind, lines) in ResolverKind::ALL.into_iter().zip([
            ["qname-minimisation: no", "do-ip6: no", "interface: 127.0.0.1@5353", "module-config: \"iterator\""],
            [
                "option('NO_MINIMIZE', true)",
                "net.ipv6 = false",
                "net.listen('127.0.0.1', 5353",
                "trust_anchors.remove('.')",
            ],
            [
                "qname-minimization=no",
                "query-local-address=0.0.0.0\n",
                "local-address=127.0.0.1:5353",
                "dnssec=process-no-validate",
            ],
        ]) {
            assert_eq!(kind.name().parse(), Ok(kind));
            let told = Resolving {
                qname_minimisation: false,
                ipv6: false,
                extra: "the last line".into(),
                ..Resolving::default()
            };
            let listen = ["127.0.0.1:5353".parse().unwrap()];
            let text = kind.told(told).configuration(Path::new("/work"), &listen).unwrap();
            for line in lines {
                assert!(text.contains(line), "{line} is not in {text}");
            }
            assert!(text.trim_end().ends_with("the last line"), "{text}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_or_cannot_be_named_is_told() {
        for kind in ResolverKind::ALL {
            for (file, wanted) in [("no/such.file", "no/such.file: "), ("a\"b", "cannot hold")] {
                let told = Resolving { root_hints: Some(file.into()), ..Resolving::default() };
                let Err(error) = kind.told(told).configuration(Path::new("/work"), &[]) else { panic!("{file}") };
                assert!(error.to_string().contains(wanted) || error.to_string().contains("No such file"), "{error}");
            }
        }
    }
}
