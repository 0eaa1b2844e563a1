//! Rows and telemetry of a run directory that may come from a stranger: any octets are a report, or an error of one line.
#![no_main]

use ldplayer_report::rewrite_page;
use ldplayer_results::{Document, ResultsError, RunReport, Selection};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let [kind, rest @ ..] = data else { return };
    let name = if kind % 2 == 0 { "queries/shard-000-000000.parquet" } else { "telemetry.parquet" };
    let directory = ldplayer_fuzz::directory(name, &[b"PAR1", rest].concat());
    let document = Document::new(Value::Null, RunReport::default());
    // A report is JSON.
    let text = serde_json::to_vec(&document).expect("a report is JSON");
    // Without a place to write there is nothing to fuzz.
    std::fs::write(directory.join("run.json"), text).expect("a folder for temporary files that can be written");
    if let Err(error) = rewrite_page::<Value>(directory, None) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    // All columns are columns.
    let all = Selection::new(None, &["all".to_owned()]).expect("all columns are columns");
    // What matters is that it ends.
    let _ = all.of(directory, None, |cells| {
        cells.for_each(drop);
        Ok::<(), ResultsError>(())
    });
});
