//! The servers of an experiment: their programs, which must be installed, and the versions that these tell.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ldplayer_emulate::stock::{Kind, Role, find};
use ldplayer_net::programs;

use crate::error::ExperimentError;
use crate::plan::Plan;
use crate::servers::ServerTable;
use crate::watcher::Options;

/// Limits for asking a program for its version: time, polling interval, and octets of output.
const SAYS_WITHIN: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);
const LONGEST_SAID: u64 = 64 << 10;
/// Maximum length of a version, in characters.
const LONGEST_VERSION: usize = 120;

/// All servers of all cells, each once.
pub(crate) fn servers(plan: &Plan) -> Vec<&ServerTable> {
    let mut servers: Vec<&ServerTable> = Vec::new();
    for cell in &plan.experiment.cells {
        for server in cell.stage.backend.iter().chain(&cell.stage.server) {
            if servers.iter().all(|known| known.name != server.name) {
                servers.push(server);
            }
        }
    }
    servers
}

/// The versions of all servers; every program must be installed.
pub(crate) fn versions(
    servers: &[&ServerTable],
    options: &Options,
) -> Result<BTreeMap<String, String>, ExperimentError> {
    let mut versions = BTreeMap::new();
    for server in servers.iter().filter(|server| server.role() != Role::Foreign) {
        for kind in server.front.into_iter().chain([server.kind]) {
            let own = (kind == server.kind).then_some(server.program.as_deref()).flatten();
            let path = program_of(kind, own, &server.name, options)?;
            let name = if kind == server.kind { server.name.clone() } else { format!("{}-front", server.name) };
            let told = match &server.version {
                Some(command) if kind == Kind::COMMAND => version(Command::new(path).arg("-c").arg(command)),
                None if kind == Kind::COMMAND => UNKNOWN.to_owned(),
                _ => version(Command::new(path).arg(kind.version_option())),
            };
            versions.insert(name, told);
        }
    }
    Ok(versions)
}

fn program_of(kind: Kind, own: Option<&Path>, server: &str, options: &Options) -> Result<PathBuf, ExperimentError> {
    let program = kind.program();
    let missing = |program: String, package: &str| ExperimentError::Missing {
        server: server.to_owned(),
        program,
        package: package.to_owned(),
    };
    match own {
        Some(path) if path.is_file() => Ok(path.to_owned()),
        Some(path) => Err(missing(path.display().to_string(), program.package)),
        None if kind == Kind::META => Ok(options.ldplayer.clone()),
        None => find(program.name, program.package).map_err(|_| missing(program.name.to_owned(), program.package)),
    }
}

/// The version of a program that does not say it.
const UNKNOWN: &str = "unknown";

/// The first line with a digit of a program's version output.
fn version(command: &mut Command) -> String {
    let said = say(command).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).find(|line| line.chars().any(|c| c.is_ascii_digit()));
    // PowerDNS prefixes lines with a timestamp, which is not part of the version.
    let line = line.map(|line| line.find("PowerDNS").map_or(line, |at| &line[at..]));
    line.map_or_else(|| UNKNOWN.to_owned(), |line| line.chars().take(LONGEST_VERSION).collect())
}

/// The output of a program that should print something and exit; it is killed after a timeout.
fn say(command: &mut Command) -> std::io::Result<Vec<u8>> {
    let mut out = tempfile::tempfile()?;
    command.env("PATH", programs::search_path()).stdin(Stdio::null());
    let mut child = command.stdout(out.try_clone()?).stderr(out.try_clone()?).spawn()?;
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > SAYS_WITHIN {
            child.kill()?;
        }
        thread::sleep(LOOK);
    }
    let mut said = Vec::new();
    out.rewind()?;
    out.take(LONGEST_SAID).read_to_end(&mut said)?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_tells_its_version_on_its_first_line_with_a_figure() {
        assert_eq!(version(Command::new("/bin/echo").arg("a 1.2")), "a 1.2");
        assert_eq!(version(Command::new("/bin/echo").arg("Nov 22 21:29:09 PowerDNS 4.8")), "PowerDNS 4.8");
        assert_eq!(version(Command::new("/no/such").arg("-v")), "unknown");
    }
}
