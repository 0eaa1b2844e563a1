//! Writes a run of made-up outcomes, to look at its report: `cargo run -p ldplayer-results --example sample_report -- RUN`.

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let dir = std::env::args().nth(1).expect("usage: sample_report RUN");
    let report = common::run(dir.as_ref(), common::lifelike(60.0, 2_000.0));
    println!("{report}");
}
