//! An embedded NATS server for agents on one host: on loopback with a password, ended with its owner.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ldplayer_emulate::stock::{Output, Process, StockError};
use ldplayer_net::programs;
use tempfile::TempDir;

use crate::bus::Link;
use crate::host;

/// The program, from Debian's package of the same name.
pub const PROGRAM: &str = "nats-server";
/// How long it may take to listen.
const START_WITHIN: Duration = Duration::from_secs(20);

/// Why an embedded server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// It is not installed.
    #[error("nats-server is not installed: install the package nats-server, or give the URL of a server with --nats")]
    Missing,
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StockError),
    /// Its directory could not be made.
    #[error("cannot make a directory for nats-server: {0}")]
    Scratch(#[from] std::io::Error),
    /// It did not listen in time.
    #[error("nats-server did not listen within {0} s; its last log lines: {1}")]
    Silent(u64, String),
}

/// A running server.
#[derive(Debug)]
pub struct Embedded {
    link: Link,
    /// Ended before its directory is removed.
    _process: Process,
    _scratch: TempDir,
}

impl Embedded {
    /// Starts a server, which ends with the calling thread.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start() -> Result<Self, EmbeddedError> {
        let program = programs::find(PROGRAM).ok_or(EmbeddedError::Missing)?;
        let scratch = tempfile::Builder::new().prefix("ldplayer-nats-").tempdir()?;
        let password = host::new_id();
        let configuration = scratch.path().join("configuration");
        ldplayer_net::output::write(&configuration, text(scratch.path(), &password))?;
        let mut command = Command::new(program);
        command.arg("-c").arg(&configuration).arg("--ports_file_dir").arg(scratch.path());
        let mut process = Process::start(PROGRAM, &mut command, Output::Log(scratch.path().join("log")))?;
        let address = listening(&mut process, scratch.path())?;
        let link = Link { url: format!("nats://ldplayer:{password}@{address}"), ..Link::default() };
        Ok(Self { link, _process: process, _scratch: scratch })
    }

    /// Its address and password.
    pub const fn link(&self) -> &Link {
        &self.link
    }
}

/// Configures a port chosen by the system, JetStream in the directory, and one user.
fn text(directory: &Path, password: &str) -> String {
    format!(
        "host: 127.0.0.1\nport: -1\nmax_payload: 1MB\njetstream {{ store_dir: \"{}\" }}\nauthorization {{ user: ldplayer, password: \"{password}\" }}\n",
        directory.join("store").display()
    )
}

/// Its address, from its ports file.
fn listening(process: &mut Process, directory: &Path) -> Result<String, EmbeddedError> {
    let file = directory.join(format!("{PROGRAM}_{}.ports", process.id()));
    let begun = Instant::now();
    while begun.elapsed() < START_WITHIN {
        let ports = fs::read(&file).ok().and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
        let url = ports.and_then(|ports| ports["nats"][0].as_str().map(str::to_owned));
        if let Some(url) = url {
            return Ok(url.trim_start_matches("nats://").to_owned());
        }
        process.ensure_alive()?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(EmbeddedError::Silent(START_WITHIN.as_secs(), process.log()))
}
