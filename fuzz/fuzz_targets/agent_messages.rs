//! What is said between controllers and agents: any octets are a message or an error, and no message is more than an agent bears.
#![no_main]

use ldplayer_cluster::Limits;
use ldplayer_cluster::message::{Ask, Say};
use ldplayer_core::histogram::Histogram;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = Limits::default();
    match serde_json::from_slice::<Ask>(data) {
        Ok(Ask::Prepare(part)) => drop(limits.of_part(&part)),
        Ok(Ask::Feed(part)) => drop(limits.of_feed(&part)),
        _ => {}
    }
    if let Ok(Say::Progress(progress)) = serde_json::from_slice::<Say>(data) {
        progress.latencies.iter().for_each(|latencies| drop(Histogram::from_bytes(&latencies.hdr)));
    }
    // Histograms come from other hosts as they are in memory.
    if let Some(histogram) = Histogram::from_bytes(data) {
        let mut sum = Histogram::new();
        sum.merge(&histogram);
        assert!(sum.quantile(0.5) <= sum.quantile(1.0));
    }
});
