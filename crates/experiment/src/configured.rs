//! A stock server configured by a template: the built-in one of its kind, or the user's.

use std::net::SocketAddr;
use std::path::Path;

use ldplayer_emulate::stock::{Bind, Knot, Nsd, Program, Stock, StockError, Zone};
use minijinja::{Environment, UndefinedBehavior, Value, context};

use crate::certificate::Certificate;
use crate::kind::{Kind, Role};
use crate::servers::ServerTable;

/// The file for PowerDNS's BIND backend, in the work directory.
const POWERDNS_ZONES: &str = "zones.conf";

/// The port of DNS over HTTPS (RFC 8484 §4.1).
pub(crate) const HTTPS: u16 = 443;

/// A server to be started.
pub(crate) struct Configured<'a> {
    pub table: &'a ServerTable,
    /// The zones it serves; none for resolvers and proxies.
    pub zones: &'a [Zone],
    /// Its TLS address and certificate.
    pub tls: Option<(&'a Certificate, Vec<SocketAddr>)>,
    /// Its backend, for a proxy.
    pub backends: &'a [SocketAddr],
}

/// Addresses in the form of each template.
fn each(addresses: &[SocketAddr]) -> Vec<Value> {
    let one = |at: &SocketAddr| {
        context! { address => at.to_string(), ip => at.ip().to_string(), port => at.port(), is_v6 => at.is_ipv6() }
    };
    addresses.iter().map(one).collect()
}

impl Configured<'_> {
    fn template(&self) -> &str {
        self.table.template.as_deref().unwrap_or_else(|| self.table.kind.template())
    }

    /// Zones, with text that is safe in quotes.
    fn plain_zones(&self) -> Result<Vec<Value>, StockError> {
        let zone = |zone: &Zone| {
            let (apex, file) = (quotable(&zone.apex)?, quotable_path(&zone.file)?);
            Ok(context! { apex, file })
        };
        self.zones().iter().map(zone).collect()
    }

    fn tls_values(&self) -> Result<Option<Value>, StockError> {
        let Some((made, listen)) = &self.tls else { return Ok(None) };
        let (certificate, key) = (quotable_path(&made.certificate)?, quotable_path(&made.key)?);
        let port = listen.first().map_or(0, SocketAddr::port);
        let bracketed = |at: &SocketAddr| if at.is_ipv6() { format!("[{}]", at.ip()) } else { at.ip().to_string() };
        let ips: Vec<String> = listen.iter().map(bracketed).collect();
        Ok(Some(context! { certificate, key, port, https_port => HTTPS, ips }))
    }
}

impl Stock for Configured<'_> {
    fn program(&self) -> Program {
        self.table.kind.program()
    }

    fn configuration(&self, work: &Path, listen: &[SocketAddr]) -> Result<String, StockError> {
        let table = self.table;
        let root_hints = table.root_hints.as_deref().map(quotable_path).transpose()?;
        let values = context! {
            work => quotable_path(work)?,
            listen => each(listen),
            has_v4 => listen.iter().any(SocketAddr::is_ipv4),
            has_v6 => listen.iter().any(SocketAddr::is_ipv6),
            tls => self.tls_values()?,
            zones => self.plain_zones()?,
            backends => each(self.backends),
            threads => table.threads,
            cache => table.cache,
            idle_timeout_ms => table.idle_timeout.map(|span| span.ns() / 1_000_000),
            connections => table.connections,
            per_thread => usize::from(table.threads) * listen.len() * if self.tls.is_some() { 3 } else { 1 },
            root_hints,
        };
        let mut environment = Environment::empty();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.render_str(self.template(), values).map_err(|error| StockError::Template {
            name: table
                .configuration
                .as_ref()
                .map_or_else(|| table.kind.to_string(), |file| file.display().to_string()),
            what: error.to_string(),
        })
    }

    fn more_files(&self) -> Result<Vec<(&'static str, String)>, StockError> {
        if self.table.kind != Kind::Powerdns {
            return Ok(Vec::new());
        }
        let zone = |zone: &Zone| {
            let (apex, file) = (quotable(&zone.apex)?, quotable_path(&zone.file)?);
            Ok(format!("zone \"{apex}\" {{ type master; file \"{file}\"; }};\n"))
        };
        let text: String = self.zones.iter().map(zone).collect::<Result<_, StockError>>()?;
        Ok(vec![(POWERDNS_ZONES, text)])
    }

    fn zones(&self) -> &[Zone] {
        if self.table.kind.role() == Role::Authoritative { self.zones } else { &[] }
    }

    fn complaint(&self, log: &str) -> Option<String> {
        let zones = || self.zones.to_vec();
        match self.table.kind {
            Kind::Nsd => Nsd { zones: zones() }.complaint(log),
            Kind::Knot => Knot { zones: zones() }.complaint(log),
            Kind::Bind => Bind::new(zones()).complaint(log),
            _ => None,
        }
    }
}

/// Text that can be quoted in every configuration language: not all of them know escapes.
fn quotable(text: &str) -> Result<String, StockError> {
    if text.contains(['"', '\\', '\n', '\r']) {
        Err(StockError::Unquotable(text.to_owned()))
    } else {
        Ok(text.to_owned())
    }
}

fn quotable_path(path: &Path) -> Result<String, StockError> {
    let absolute = std::path::absolute(path).map_err(|source| StockError::File { file: path.to_owned(), source })?;
    quotable(absolute.to_str().ok_or_else(|| StockError::Unquotable(path.display().to_string()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_workload::spec::read;

    /// A server table with one extra key.
    fn table(kind: Kind, more: &str) -> ServerTable {
        let text = format!("[server.a]\nkind = '{kind}'\nbackend = 'b'\n{more}");
        let text = if kind == Kind::Dnsdist { text } else { text.replace("backend = 'b'\n", "") };
        let made = read(&text, |root| {
            let servers = root.get("server").expect("a table").entries()?;
            ServerTable::read(&servers[0], &|path| path.into())
        });
        made.unwrap()
    }

    fn text(table: &ServerTable, zones: &[Zone], is_tls: bool) -> Result<String, StockError> {
        let made = Certificate { certificate: "/c.pem".into(), key: "/k.pem".into() };
        let tls = is_tls.then(|| (&made, vec!["127.0.0.1:853".parse().unwrap(), "[::1]:853".parse().unwrap()]));
        let backends = ["127.0.0.1:5300".parse().unwrap()];
        let stock = Configured { table, zones, tls, backends: &backends };
        stock.configuration(Path::new("/work"), &["127.0.0.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()])
    }

    #[test]
    fn every_template_says_where_it_listens_and_what_it_is_told() {
        let zones = [Zone::new("example.", "/zones/example.zone")];
        for (kind, more, wanted) in [
            (
                Kind::Nsd,
                "threads = 3\nidle_timeout = 2.5",
                &["ip-address: ::1@53", "::1@853", "server-count: 3", "tcp-timeout: 3", "name: \"example.\""][..],
            ),
            (
                Kind::Bind,
                "idle_timeout = 2",
                &[
                    "listen-on-v6 port 53 { ::1; };",
                    "port 853 tls experiment { 127.0.0.1; };",
                    "port 443 tls experiment http default { ::1; };",
                    "tcp-idle-timeout 20;",
                    "zone \"example.\"",
                ],
            ),
            (Kind::Knot, "idle_timeout = 2", &["listen: ::1@53", "tcp-idle-timeout: 2", "- domain: \"example.\""]),
            (
                Kind::Unbound,
                "cache = '1M'\nthreads = 2\nconnections = 80",
                &["interface: ::1@853", "msg-cache-size: 1048576", "incoming-num-tcp: 7"],
            ),
            (
                Kind::KnotResolver,
                "cache = '1M'",
                &["cache.open(1048576, 'lmdb://.')", "net.listen('::1', 853, { kind = 'tls' })"],
            ),
            (Kind::Powerdns, "threads = 2", &["local-address=127.0.0.1:53, [::1]:53", "receiver-threads=2"]),
            (
                Kind::PowerdnsRecursor,
                "idle_timeout = 2",
                &["local-address=127.0.0.1:53,[::1]:53", "client-tcp-timeout=2"],
            ),
            (
                Kind::Dnsdist,
                "idle_timeout = 30",
                &[
                    "setTCPRecvTimeout(30)",
                    "addLocal('[::1]:53')",
                    "addTLSLocal('[::1]:853', \"/c.pem\", \"/k.pem\")",
                    "newServer({ address = '127.0.0.1:5300'",
                ],
            ),
        ] {
            let text = text(&table(kind, more), &zones, true).unwrap();
            for line in wanted {
                assert!(text.contains(line), "{line} is not in {text}");
            }
        }
    }

    #[test]
    fn neither_a_path_nor_a_name_can_add_options() {
        for zone in [Zone::new(".", "x\"\nserver: chroot: \""), Zone::new("a\"; file \"b", "x")] {
            for kind in [Kind::Nsd, Kind::Bind, Kind::Knot] {
                let error = text(&table(kind, ""), std::slice::from_ref(&zone), false).unwrap_err();
                assert!(matches!(error, StockError::Unquotable(_)), "{error}");
            }
        }
    }

    #[test]
    fn a_template_of_the_user_is_taken_and_its_errors_are_told_on_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mine.conf");
        let own = |template: &str| {
            std::fs::write(&file, template).unwrap();
            text(&table(Kind::Nsd, &format!("configuration = '{}'", file.display())), &[], false)
        };
        assert_eq!(own("{{ threads }} on {{ listen[0].address }}").unwrap(), "1 on 127.0.0.1:53");
        for wrong in ["{{ thread }}", "{% if %}"] {
            let error = own(wrong).unwrap_err().to_string();
            assert!(error.contains("mine.conf: ") && !error.contains('\n'), "{error}");
        }
    }
}
