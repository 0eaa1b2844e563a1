//! The report in a real browser: it draws every figure and says nothing on the console.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ldplayer_core::Outcome;
use ldplayer_results::many::{CellRuns, Overview};
use ldplayer_results::{Figure, RunEnd, Side, read_curves, read_document};

/// Every figure of a page.
const FIGURES: [&str; 10] = [
    "boxes",
    "error_cdf",
    "gaps",
    "rate",
    "rate_cdf",
    "throughput",
    "latency_time",
    "latency_tail",
    "latency_activity",
    "rcodes",
];
/// What the page of a run over connections has besides.
const OF_CONNECTIONS: [&str; 4] = ["connections_time", "handshakes", "latency_connections", "closes"];

/// What the page of a run has whose server was watched.
const OF_USAGE: [&str; 7] =
    ["cpu_time", "memory_time", "server_sockets", "client_sockets", "losses_time", "traffic_time", "switches_time"];

#[test]
fn what_both_ends_used_is_drawn_and_what_is_not_known_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (watched, alone, none) = (dir.path().join("watched"), dir.path().join("alone"), dir.path().join("none"));
    let run = |folder: &Path, telemetry| {
        let rows = common::lifelike(20.0, 500.0);
        let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
        common::run_to(folder, rows, RunEnd { telemetry, ..common::end(queries) });
        loaded(&folder.join("report.html"))
    };
    let dom = run(&watched, common::usage(20));
    OF_USAGE.iter().for_each(|figure| assert!(has_svg(&dom, figure), "figure {figure} was not drawn"));
    assert_eq!((marks(&dom, "cpu_time"), marks(&dom, "server_sockets")), (2, 2), "a curve for each");
    assert_eq!(marks(&dom, "losses_time"), 4, "what there was");
    assert!(!dom.contains("id=\"unwatched\"") && dom.contains("shared memory counted once"));
    let of_client = common::usage(20).into_iter().filter(|sample| sample.side == Side::Client);
    let dom = run(&alone, of_client.filter(|sample| sample.figure != Figure::TcpRetransmitted).collect());
    assert!(dom.contains("id=\"unwatched\"") && !dom.contains("id=\"server_sockets\""));
    assert_eq!((marks(&dom, "cpu_time"), marks(&dom, "losses_time")), (1, 0));
    assert!(dom.contains(">Nothing was lost, as far as it was read"));
    let dom = run(&none, Vec::new());
    assert!(dom.contains("Nothing was sampled of the client either") && !dom.contains("id=\"cpu_time\""));
}

#[test]
fn every_figure_of_a_lifelike_run_has_marks() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    common::run(&run, common::lifelike(20.0, 2_000.0));
    let dom = loaded(&run.join("report.html"));
    for figure in FIGURES {
        assert!(marks(&dom, figure) > 0, "figure {figure} has no marks");
        assert!(has_svg(&dom, figure), "figure {figure} has no SVG");
    }
    assert!(marks(&dom, "boxes") >= 60, "a box for every slice of time");
    assert!(marks(&dom, "rcodes") >= 5, "a bar for every code, and the unanswered");
}

#[test]
fn a_run_over_connections_has_figures_of_them_and_no_other_run_has() {
    let dir = tempfile::tempdir().unwrap();
    let (connected, other) = (dir.path().join("connected"), dir.path().join("other"));
    let rows = common::connected(20.0, 2_000.0);
    let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
    common::run_to(&connected, rows, common::end_connected(queries, 20));
    let dom = loaded(&connected.join("report.html"));
    for figure in FIGURES.iter().chain(&OF_CONNECTIONS) {
        assert!(marks(&dom, figure) > 0 && has_svg(&dom, figure), "figure {figure} has no marks");
    }
    assert_eq!(marks(&dom, "connections_time"), 2, "a curve for connections and one for TIME_WAIT");
    assert_eq!(marks(&dom, "handshakes"), 5);
    assert_eq!(marks(&dom, "latency_connections"), 5, "tcp has no resumed sessions");
    assert!(marks(&dom, "closes") >= 4);
    common::run(&other, common::lifelike(2.0, 100.0));
    let dom = loaded(&other.join("report.html"));
    assert!(!OF_CONNECTIONS.iter().any(|figure| dom.contains(&format!("id=\"{figure}\""))));
}

/// A cell of three runs with this many queries a second.
fn cell(dir: &Path, name: &str, qps: f64) -> CellRuns {
    let mut cell = CellRuns { keys: [("server".to_owned(), name.to_owned())].into(), ..CellRuns::default() };
    cell.side.name = format!("server={name}");
    for repeat in 1..=3 {
        let run = dir.join(format!("{name}-{repeat}"));
        let rows = common::lifelike(5.0, qps);
        let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
        common::run_to(&run, rows, RunEnd { telemetry: common::usage(5), ..common::end(queries) });
        cell.side.runs.push((repeat, read_document::<serde_json::Value>(&run).unwrap().report));
        cell.curves.push(read_curves(&run).unwrap());
    }
    cell
}

#[test]
fn the_page_of_an_experiment_draws_every_figure_of_every_cell() {
    let dir = tempfile::tempdir().unwrap();
    let axes = vec![("server".to_owned(), vec!["old".to_owned(), "<b id=bold>".to_owned()])];
    let cells = [cell(dir.path(), "old", 300.0), cell(dir.path(), "<b id=bold>", 200.0)];
    let page = dir.path().join("report.html");
    Overview { name: "two".to_owned(), repeats: 3, axes, ..Overview::default() }
        .with_cells(&cells)
        .write_page(&page)
        .unwrap();
    let dom = loaded(&page);
    for figure in ["any", "boxes", "cdf", "tail", "p50", "p99", "answers", "cores", "memory"] {
        assert!(marks(&dom, figure) > 0 && has_svg(&dom, figure), "figure {figure} has no marks");
    }
    assert_eq!((marks(&dom, "cdf"), marks(&dom, "boxes")), (2, 6), "a curve a cell; whiskers, box and median of each");
    assert!(!dom.contains("<b id=\"bold\"") && !dom.contains("id=\"unwatched\""));
    let none = Overview { name: "none".to_owned(), ..Overview::default() };
    none.with_cells(&[CellRuns::default()]).write_page(&page).unwrap();
    let dom = loaded(&page);
    assert!(marks(&dom, "any") == 0 && dom.contains("id=\"unwatched\"") && dom.contains("Nothing to show"));
}

#[test]
fn a_run_without_answers_says_so_instead_of_drawing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    common::run(&run, (0..50).map(|at| common::unanswered(common::outcome(at, at as i64 * 1_000_000))).collect());
    let dom = loaded(&run.join("report.html"));
    assert_eq!(marks(&dom, "latency_time"), 0);
    assert_eq!(marks(&dom, "latency_tail"), 0);
    assert!(marks(&dom, "boxes") > 0);
}

#[test]
fn runs_of_one_query_and_of_none_still_draw() {
    for rows in [vec![common::outcome(0, 5)], Vec::<Outcome>::new()] {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        common::run(&run, rows);
        loaded(&run.join("report.html"));
    }
}

#[test]
fn the_verdicts_stand_apart_above_everything_with_the_warnings_below_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let expect = vec!["noerror >= 99 %".parse().unwrap()];
    let setup = ldplayer_results::RunSetup { expect, ..common::setup(1) };
    let mut recorder = ldplayer_results::Recorder::create(&run, false, setup, common::SPEC).unwrap();
    let refused = |at: u64| Outcome { rcode: Some(5), ..common::outcome(at, at as i64 * 1_000_000) };
    recorder.record(0, &(0..100).map(refused).collect::<Vec<_>>()).unwrap();
    recorder.finish(common::end(100)).unwrap();
    let dom = loaded(&run.join("report.html"));
    let at = |word: &str| dom.find(word).unwrap_or_else(|| panic!("no {word}"));
    let order = [
        "id=\"verdict-replay\" class=\"verdict ok\"",
        "id=\"verdict-server\" class=\"verdict failed\"",
        "error_answers",
        "<main>",
        "id=\"server-checks\"",
    ];
    assert!(order.map(at).is_sorted(), "{:?}", order.map(at));
}

#[test]
fn words_of_the_user_cannot_become_markup() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut setup = common::setup(1);
    setup.config.trace = vec!["</script><script>console.error('inside')</script>".to_owned()];
    setup.config.servers = vec!["<b id=bold>".to_owned()];
    let mut recorder = ldplayer_results::Recorder::create(&run, false, setup, common::SPEC).unwrap();
    recorder.record(0, &[common::outcome(0, 0)]).unwrap();
    recorder.finish(common::end(1)).unwrap();
    let dom = loaded(&run.join("report.html"));
    assert!(!dom.contains("<b id="), "the server's name became an element");
}

/// The document after its scripts ran; panics when anything was said on the console.
fn loaded(page: &Path) -> String {
    let output = chromium(page);
    let said = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "the page said: {console:#?}");
    let dom = String::from_utf8(output.stdout).unwrap();
    assert!(dom.contains("data-drawn=\"yes\""), "the script did not come to its end; the browser said: {said}");
    dom
}

fn chromium(page: &Path) -> Output {
    let scratch = tempfile::tempdir().unwrap();
    let arguments = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--virtual-time-budget=5000",
        "--enable-logging=stderr",
        "--v=0",
        "--dump-dom",
    ];
    Command::new(browser())
        .args(arguments)
        .arg(format!("--user-data-dir={}", scratch.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap()
}

/// The browser to test with: `CHROMIUM`, else one on the PATH, as `scripts/need.sh` looks for it.
fn browser() -> PathBuf {
    if let Some(named) = std::env::var_os("CHROMIUM").filter(|named| !named.is_empty()) {
        return named.into();
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
    ["chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable"]
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
        .expect("no Chromium: scripts/need.sh chromium installs one or says how; or name one in CHROMIUM")
}

/// What the page says of a figure's marks; panics when there is no such figure.
fn marks(dom: &str, figure: &str) -> u32 {
    let tag = tag(dom, figure);
    let value = tag.split("data-marks=\"").nth(1).and_then(|rest| rest.split('"').next());
    value.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("figure {figure} was not drawn: {tag}"))
}

fn has_svg(dom: &str, figure: &str) -> bool {
    let from = dom.split(&format!("<figure id=\"{figure}\"")).nth(1).unwrap_or_default();
    from.split("</figure>").next().unwrap_or_default().contains("<svg")
}

fn tag<'a>(dom: &'a str, figure: &str) -> &'a str {
    let at = dom.find(&format!("<figure id=\"{figure}\"")).unwrap_or_else(|| panic!("no figure {figure}"));
    dom[at..].split('>').next().unwrap_or_default()
}
