//! Measures how many rows a second one core records and reads back: `cargo run --release --example record_speed -- RUN [ROWS]`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use ldplayer_results::Recorder;

/// Rows of a batch, as the replay engine gives them.
const BATCH: usize = 4_096;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().expect("usage: record_speed RUN [ROWS]");
    let wanted: usize = arguments.next().map_or(4_000_000, |rows| rows.parse().expect("a number of rows"));
    let rows = common::lifelike(5.0, 100_000.0);
    let mut recorder = Recorder::create(dir.as_ref(), true, common::setup(1), common::SPEC).expect("a run directory");
    let start = Instant::now();
    let mut recorded = 0;
    for batch in rows.chunks(BATCH).cycle().take(wanted.div_ceil(BATCH)) {
        recorder.record(0, batch).expect("rows are written");
        recorded += batch.len();
    }
    let recording = start.elapsed().as_secs_f64();
    println!("recorded {recorded} rows, {:.2} M rows/s", recorded as f64 / recording / 1e6);
    let start = Instant::now();
    recorder.finish(common::end(recorded as u64)).expect("the run ends");
    println!(
        "finished in {:.2} s, {:.2} M rows/s",
        start.elapsed().as_secs_f64(),
        recorded as f64 / start.elapsed().as_secs_f64() / 1e6
    );
}
