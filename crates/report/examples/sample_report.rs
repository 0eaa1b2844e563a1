//! Writes a run of made-up outcomes, to look at its report: `cargo run -p ldplayer-report --example sample_report -- RUN`.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let dir = std::env::args().nth(1).expect("usage: sample_report RUN");
    let rows = common::connected(60.0, 2_000.0);
    let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
    let report = common::run_to(dir.as_ref(), rows, common::end_connected(queries, 60));
    println!("{}", ldplayer_report::RunText(&report));
}
