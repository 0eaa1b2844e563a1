//! The page of a run: what stands on it, and that it can be written again.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use ldplayer_report::{RunText, rewrite_page};

#[test]
fn a_run_is_called_by_what_was_replayed_against_what_over_what() {
    let place = tempfile::tempdir().unwrap();
    let report = common::run(&place.path().join("run"), common::connected(1.0, 50.0));
    assert_eq!(RunText(&report).title(), "b-root.pcap.xz → 198.51.100.1:53 over TCP, DoT");
    let page = fs::read_to_string(place.path().join("run").join("report.html")).unwrap();
    assert!(page.contains("<h1>b-root.pcap.xz → 198.51.100.1:53</h1>"));
    assert!(page.contains("<p class=\"under\">over TCP, DoT · 2025-11-24 16:00:00 UTC · complete, "), "to the second");
    assert!(
        RunText(&report).to_string().starts_with("run        b-root.pcap.xz → 198.51.100.1:53 over TCP, DoT\n"),
        "{}",
        RunText(&report)
    );
}

#[test]
fn reading_the_rows_again_gives_the_same_page() {
    let place = tempfile::tempdir().unwrap();
    let report = common::run(&place.path().join("run"), common::lifelike(3.0, 500.0));
    let page = place.path().join("run").join("report.html");
    let before = fs::read(&page).unwrap();
    fs::remove_file(&page).unwrap();
    assert_eq!(rewrite_page::<String>(&place.path().join("run"), None).unwrap().report.summary, report.summary);
    assert!(fs::read(&page).unwrap() == before, "the page changed");
}

#[test]
fn a_page_written_again_has_the_figures_of_connections() {
    let place = tempfile::tempdir().unwrap();
    let rows = common::connected(3.0, 200.0);
    let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
    common::run_to(&place.path().join("run"), rows, common::end_connected(queries, 3));
    let page = place.path().join("run").join("report.html");
    let before = fs::read_to_string(&page).unwrap();
    rewrite_page::<String>(&place.path().join("run"), None).unwrap();
    assert!(fs::read_to_string(&page).unwrap() == before, "the page changed");
    assert!(
        before.contains("client: last query") && before.contains("\"of\":\"client_tcp_time_wait\"}"),
        "figures have points"
    );
}

#[test]
fn the_vendored_scripts_are_those_that_were_checked() {
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let sums = fs::read_to_string(assets.join("SHA256SUMS")).unwrap();
    for name in ["d3.min.js", "plot.umd.min.js", "LICENSE.d3", "LICENSE.plot", "DejaVuSans-Latin.ttf", "LICENSE.dejavu"]
    {
        assert!(sums.contains(name), "{name} has no checksum");
    }
    let status = Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&assets).status();
    assert!(status.unwrap().success());
}
