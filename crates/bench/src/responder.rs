//! What all responders share: listening address, core, and end.

use std::net::SocketAddr;

use ldplayer_net::signals::Signals;
use ldplayer_net::{clock, pin};

/// How often the end is looked for, in nanoseconds.
pub const LOOK: i64 = 100_000_000;
/// Octets of the kernel's buffers for datagrams.
pub const BUFFER: usize = 16 << 20;

/// Options of responders with sockets.
#[derive(clap::Args)]
pub struct Responder {
    /// Address and port to listen on
    #[arg(long)]
    pub listen: SocketAddr,
    #[command(flatten)]
    stay: Stay,
}

/// Options of every responder: where it runs, and for how long.
#[derive(clap::Args)]
pub struct Stay {
    /// Core to run on
    #[arg(long)]
    core: Option<usize>,
    /// Stop after this many seconds
    #[arg(long, default_value = "3600")]
    seconds: f64,
}

impl Responder {
    /// Moves to the core asked for.
    pub fn pin(&self) -> anyhow::Result<()> {
        self.stay.pin()
    }

    /// The time that is left begins now.
    pub fn begin(&self) -> anyhow::Result<Term> {
        self.stay.begin()
    }
}

impl Stay {
    /// Moves to the core asked for.
    pub fn pin(&self) -> anyhow::Result<()> {
        self.core.map_or(Ok(()), |core| Ok(pin::pin_to(core)?))
    }

    /// The time that is left begins now.
    pub fn begin(&self) -> anyhow::Result<Term> {
        Ok(Term { signals: Signals::catch()?, begun: clock::monotonic_ns(), seconds: self.seconds })
    }
}

/// How long a responder runs: until it is ended, or its seconds are over.
pub struct Term {
    signals: Signals,
    begun: i64,
    seconds: f64,
}

impl Term {
    /// Whether it is to end.
    pub fn is_over(&self) -> bool {
        self.signals.is_stopped() || (clock::monotonic_ns() - self.begun) as f64 > self.seconds * 1e9
    }
}
