//! The limit of timing: a bare loop that spins until each due time.

use ldplayer_core::time::Span;
use ldplayer_net::{clock, pin};
use serde_json::json;

use crate::make::Gaps;
use crate::quantiles;

/// Options of `bare-spin`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    gaps: Gaps,
    /// Duration
    #[arg(long, default_value = "10s")]
    seconds: Span,
    /// Core to run on
    #[arg(long)]
    core: Option<usize>,
}

/// Spins and prints the errors.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(core) = args.core {
        pin::pin_to(core)?;
    }
    let times: Vec<i64> = args.gaps.times(args.seconds.ns()).collect();
    let origin = clock::monotonic_ns() + 1_000_000;
    let mut errors: Vec<i64> = times.iter().map(|due| wait_for(origin + due)).collect();
    println!("{}", json!({ "part": "bare-spin", "error_us": quantiles::of(&mut errors) }));
    Ok(())
}

fn wait_for(due: i64) -> i64 {
    loop {
        let late = clock::monotonic_ns() - due;
        if late >= 0 {
            return late;
        }
    }
}
