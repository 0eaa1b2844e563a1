//! A NATS server of our own, for a lab on one host: started on loopback with a password, ended with its owner.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ldplayer_emulate::stock::{Output, Process, StockError};
use ldplayer_net::programs;
use tempfile::TempDir;

use crate::bus::Link;
use crate::host;

/// The program, which Debian's package of the same name brings.
pub const PROGRAM: &str = "nats-server";
/// How long it may take to listen.
const START_WITHIN: Duration = Duration::from_secs(20);

/// What keeps a server from being started.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// It is not installed.
    #[error(
        "nats-server is not on this host: install the package nats-server, or give the URL of a server with --nats"
    )]
    Missing,
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StockError),
    /// Its files could not be written.
    #[error("a directory for nats-server: {0}")]
    Scratch(#[from] std::io::Error),
    /// It did not say where it listens.
    #[error("nats-server did not listen within {0} s; it said: {1}")]
    Silent(u64, String),
}

/// A running server.
#[derive(Debug)]
pub struct Embedded {
    link: Link,
    /// Ended before its directory goes.
    _process: Process,
    _scratch: TempDir,
}

impl Embedded {
    /// Starts one. It ends with the calling thread.
    ///
    /// # Errors
    /// Why not.
    pub fn start() -> Result<Self, EmbeddedError> {
        let program = programs::find(PROGRAM).ok_or(EmbeddedError::Missing)?;
        let scratch = tempfile::Builder::new().prefix("ldplayer-nats-").tempdir()?;
        let password = host::new_id();
        let configuration = scratch.path().join("configuration");
        fs::write(&configuration, text(scratch.path(), &password))?;
        let mut command = Command::new(program);
        command.arg("-c").arg(&configuration).arg("--ports_file_dir").arg(scratch.path());
        let mut process = Process::start(PROGRAM, &mut command, Output::Log(scratch.path().join("log")))?;
        let address = listening(&mut process, scratch.path())?;
        let link = Link { url: format!("nats://ldplayer:{password}@{address}"), ..Link::default() };
        Ok(Self { link, _process: process, _scratch: scratch })
    }

    /// Where it is, with its password.
    pub const fn link(&self) -> &Link {
        &self.link
    }
}

/// A port that the system chooses, JetStream in the directory, and one user.
fn text(directory: &Path, password: &str) -> String {
    format!(
        "host: 127.0.0.1\nport: -1\nmax_payload: 1MB\njetstream {{ store_dir: \"{}\" }}\nauthorization {{ user: ldplayer, password: \"{password}\" }}\n",
        directory.join("store").display()
    )
}

/// Where it listens, as it says in the file of its ports.
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
