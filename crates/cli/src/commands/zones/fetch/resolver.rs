//! The resolver that is asked, and the record of what it asks in turn.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use ldplayer_emulate::stock::{Kind, Process, StockError, StockServer, StockSettings};
use ldplayer_net::settings;
use ldplayer_trace::Recording;

use super::Args;
use crate::failure::Failure;

/// How long nothing may come before the record is taken as complete: Unbound sends once a second.
const QUIET: Duration = Duration::from_millis(2_500);
/// How long it is waited for at most.
const QUIET_WITHIN: Duration = Duration::from_secs(30);
/// How long a resolver may take to come: Unbound tries again after up to 16 s.
const WRITER_WITHIN: Duration = Duration::from_secs(40);
/// How many ports a resolver of ours is started at until it serves.
const STARTS: usize = 3;
/// How often the record is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// A resolver that can be asked.
pub struct Resolver {
    /// Where.
    pub address: SocketAddr,
    own: Option<Process>,
    recording: Option<Recording>,
    /// Has the socket of a resolver of ours.
    _scratch: tempfile::TempDir,
}

impl Resolver {
    /// Starts Unbound with an empty cache, or takes the resolver that was named; what it asks is recorded in `record`.
    pub fn start(args: &Args, record: &Path) -> Result<Self, Failure> {
        // The folder of the harvest may have a name too long for a socket.
        let scratch = tempfile::tempdir().context("cannot make a scratch directory; set TMPDIR to one with space")?;
        let Some(address) = args.resolver else {
            let socket = scratch.path().join("dnstap.sock");
            let recording = Recording::start(&socket, record)?;
            let (address, own) = started(&unbound(args, &socket))?;
            wait_for_writer(&recording, &socket)?;
            return Ok(Self { address, own: Some(own), recording: Some(recording), _scratch: scratch });
        };
        let recording = args.tap.as_ref().map(|socket| Recording::start(socket, record)).transpose()?;
        if let (Some(recording), Some(socket)) = (&recording, &args.tap) {
            wait_for_writer(recording, socket)?;
        }
        Ok(Self { address, own: None, recording, _scratch: scratch })
    }

    /// Waits until its queries are recorded, and ends the processes started.
    pub fn finish(self) -> Result<(), Failure> {
        let Some(recording) = self.recording else { return Ok(()) };
        let begun = Instant::now();
        let (mut octets, mut since) = (recording.octets(), begun);
        while since.elapsed() < QUIET && begun.elapsed() < QUIET_WITHIN {
            std::thread::sleep(LOOK);
            if recording.octets() != octets {
                (octets, since) = (recording.octets(), Instant::now());
            }
        }
        drop(self.own);
        Ok(recording.finish()?)
    }
}

/// Waits until the resolver sends its dnstap: what it asked before would be lost.
fn wait_for_writer(recording: &Recording, socket: &Path) -> Result<(), Failure> {
    let begun = Instant::now();
    while !recording.has_writer() {
        if begun.elapsed() > WRITER_WITHIN {
            let (socket, seconds) = (socket.display(), WRITER_WITHIN.as_secs());
            return Err(Failure::environment(anyhow!(
                "{socket}: no resolver has sent dnstap there within {seconds} s; let it send RESOLVER_QUERY and RESOLVER_RESPONSE messages to this socket"
            )));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn free_address() -> anyhow::Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("no address on loopback for the resolver")?;
    Ok(socket.local_addr()?)
}

/// Starts a server at a free port of loopback; at another one where another program takes the port first.
fn started(server: &StockServer) -> Result<(SocketAddr, Process), Failure> {
    for _ in 1..STARTS {
        let address = free_address()?;
        match server.start(&[address]) {
            Err(StockError::Taken { .. } | StockError::Ended { .. }) => {}
            started => return Ok((address, started.map_err(Failure::environment)?)),
        }
    }
    let address = free_address()?;
    Ok((address, server.start(&[address]).map_err(Failure::environment)?))
}

/// An Unbound that finds every answer by asking for it, and sends what it asks to the socket.
fn unbound(args: &Args, socket: &Path) -> StockServer {
    let own = |path: &Option<PathBuf>| path.as_ref().map(|path| std::path::absolute(path).unwrap_or(path.clone()));
    let extra = format!(
        "server:\n  aggressive-nsec: no\n  trust-anchor-signaling: no\n  prefetch: no\n  serve-expired: no\n\
         dnstap:\n  dnstap-enable: yes\n  dnstap-bidirectional: yes\n  dnstap-socket-path: \"{}\"\n  \
         dnstap-log-resolver-query-messages: yes\n  dnstap-log-resolver-response-messages: yes\n",
        socket.display()
    );
    Kind::UNBOUND.with(StockSettings {
        root_hints: own(&args.root_hints),
        trust_anchor: own(&args.trust_anchor),
        ipv6: settings::has_ipv6(),
        extra,
        ..StockSettings::default()
    })
}
