//! BIND as an authoritative server.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use super::{Configured, Program, Stock, StockError, Zone, quoted, quoted_path};

/// Log texts which show that a zone is not served.
const REFUSALS: [&str; 2] = [" failed: ", "not loaded due to errors"];
/// The start of the preceding log line, which has file and line; alone it may be a mere warning.
const DETAILS: [&str; 2] = ["dns_rdata_fromtext: ", "dns_master_load: "];

/// BIND with one worker thread.
///
/// It listens only on addresses of an interface: a local route, as in a testbed, is not enough for it.
#[derive(Clone, Debug, Default)]
pub struct Bind {
    zones: Vec<Zone>,
    complete: Option<String>,
}

impl Bind {
    /// BIND serving these zones to all clients.
    pub fn new(zones: Vec<Zone>) -> Self {
        Self { zones, complete: None }
    }

    /// BIND with a complete configuration, such as one with views; [`options`](Self::options) is for its head.
    /// Relative paths in it are in the work directory. `zones` must be answered on queries from this host.
    pub fn with_configuration(text: impl Into<String>, zones: Vec<Zone>) -> Self {
        Self { zones, complete: Some(text.into()) }
    }

    /// The statements that limit BIND to these addresses and its work directory, without control channel, pid file,
    /// notifies or recursion.
    pub fn options(listen: &[SocketAddr]) -> String {
        let mut text = String::from("options {\n  directory \".\";\n");
        // Without the statement, BIND listens on all addresses of that family.
        for (statement, is_v4) in [("listen-on", true), ("listen-on-v6", false)] {
            let mut addresses = listen.iter().filter(|address| address.is_ipv4() == is_v4).peekable();
            if addresses.peek().is_none() {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "  {statement} {{ none; }};");
            }
            for address in addresses {
                let _ = writeln!(text, "  {statement} port {} {{ {}; }};", address.port(), address.ip());
            }
        }
        text.push_str(
            "  pid-file none;\n  session-keyfile none;\n  recursion no;\n  allow-query { any; };\n  notify no;\n  \
             dnssec-validation no;\n  empty-zones-enable no;\n};\ncontrols { };\n",
        );
        text
    }
}

impl Stock for Bind {
    fn program(&self) -> Program {
        Program { name: "named", package: "bind9", options: &["-g", "-n", "1"], configured: Configured::ByOption("-c") }
    }

    fn configuration(&self, _work: &Path, listen: &[SocketAddr]) -> Result<String, StockError> {
        if let Some(text) = &self.complete {
            return Ok(text.clone());
        }
        let mut text = Self::options(listen);
        for zone in &self.zones {
            let (apex, file) = (quoted(&zone.apex)?, quoted_path(&zone.file)?);
            let _ = writeln!(text, "zone {apex} {{ type primary; file {file}; }};");
        }
        Ok(text)
    }

    fn zones(&self) -> &[Zone] {
        &self.zones
    }

    fn complaint(&self, log: &str) -> Option<String> {
        let has = |line: &str, texts: &[&str]| texts.iter().any(|text| line.contains(text));
        let is_refusal = |line: &str| line.contains(" zone ") && has(line, &REFUSALS);
        let mut detail = None;
        for line in log.lines() {
            if is_refusal(line) {
                return Some(detail.map_or(line.to_owned(), |detail| format!("{detail} | {line}")));
            }
            detail = has(line, &DETAILS).then_some(line);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_without_an_address_is_not_listened_on() {
        let text = Bind::options(&["[::1]:53".parse().unwrap()]);
        assert!(text.contains("listen-on { none; };") && text.contains("listen-on-v6 port 53 { ::1; };"), "{text}");
    }

    #[test]
    fn a_complete_configuration_is_taken_as_it_is() {
        let bind = Bind::with_configuration("view \"a\" { };", Vec::new());
        assert_eq!(bind.configuration(Path::new("/work"), &[]).unwrap(), "view \"a\" { };");
    }

    #[test]
    fn a_warning_is_no_complaint() {
        let complaint = |log: &str| Bind::default().complaint(log);
        let warning =
            "1 dns_master_load: a.zone:2: no TTL specified; using SOA MINTTL instead\n2 zone a/IN: loaded serial 1\n";
        assert_eq!(complaint(warning), None);
        let refusal = "1 dns_rdata_fromtext: b.zone:3: near 'x': bad dotted quad\n2 zone b/IN: loading from master file b.zone failed: bad dotted quad\n";
        let told = complaint(&(warning.to_owned() + refusal)).unwrap();
        assert!(told.contains("b.zone:3: near 'x'") && told.contains("zone b/IN"), "{told}");
    }
}
