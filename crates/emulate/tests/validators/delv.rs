//! `delv`, which validates what it is told: it asks the server itself, without a resolver between them.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use ldplayer_core::name::Presentation;

use super::world::Question;

/// What it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelvResult {
    /// All of the answer is secure, and whether the name is denied.
    Secure { is_denied: bool },
    /// Some of it is provably unsigned.
    Unsigned,
    /// It does not accept the answer: the last line that it says.
    Refused(String),
}

/// Asks a server that serves all zones at one address.
pub fn ask(server: SocketAddr, anchor: &Path, question: &Question) -> DelvResult {
    let mut command = Command::new("delv");
    command.arg(format!("@{}", server.ip())).args(["-p", &server.port().to_string(), "-a"]).arg(anchor);
    command.args(["-q", &Presentation(&question.name).to_string(), "-t", &format!("TYPE{}", question.qtype)]);
    let output = command.output().expect("no delv: scripts/need.sh delv installs it");
    let said = [output.stdout, output.stderr].concat();
    DelvResult::read(&String::from_utf8_lossy(&said))
}

impl DelvResult {
    fn read(said: &str) -> Self {
        let lines = || said.lines().map(str::trim);
        let failed = lines().find_map(|line| line.strip_prefix(";; resolution failed: "));
        if failed.is_some_and(|failed| !failed.starts_with("ncache ")) {
            return Self::Refused(said.trim().to_owned());
        }
        let says = |what: &str| lines().any(|line| line.starts_with("; ") && line.ends_with(what));
        match (says("fully validated"), says("unsigned answer")) {
            (true, false) => Self::Secure { is_denied: failed == Some("ncache nxdomain") },
            (_, true) => Self::Unsigned,
            (false, false) => Self::Refused(said.trim().to_owned()),
        }
    }

    /// What is wrong with it.
    pub fn fault(&self, question: &Question) -> Option<String> {
        let told = |what: &str| Some(format!("{what}: {question}: {self}"));
        match self {
            Self::Refused(_) => told("bogus"),
            Self::Unsigned if question.is_secure => told("not secure"),
            Self::Secure { is_denied } if question.rcode.is_some_and(|wanted| (wanted == 3) != *is_denied) => {
                told("another code")
            }
            _ => None,
        }
    }
}

impl fmt::Display for DelvResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
