//! The report in a real browser: it draws every figure and says nothing on the console.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ldplayer_core::Outcome;
use ldplayer_report::figures::{FIGURES, Needs, Section};
use ldplayer_report::many::{CellRuns, Overview};
use ldplayer_report::read_curves;
use ldplayer_results::{Figure, RunEnd, Side, read_document};

/// The figures of the page of a run without connections whose server was not watched.
fn always() -> Vec<&'static str> {
    [Section::Server, Section::Replay].into_iter().flat_map(|section| of_section(section, Needs::Nothing)).collect()
}

/// The figures of a section that need so much.
fn of_section(section: Section, needs: Needs) -> Vec<&'static str> {
    let of = FIGURES.iter().filter(|figure| figure.section == section && figure.needs == needs);
    of.map(|figure| figure.id).collect()
}

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
    let used = [Needs::Nothing, Needs::Watched].map(|needs| of_section(Section::Usage, needs)).concat();
    used.iter().for_each(|figure| assert!(has_svg(&dom, figure), "figure {figure} was not drawn"));
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
    for figure in always() {
        assert!(marks(&dom, figure) > 0, "figure {figure} has no marks");
        assert!(has_svg(&dom, figure), "figure {figure} has no SVG");
    }
    assert!(marks(&dom, "boxes") >= 60, "a box for every slice of time");
    assert!(marks(&dom, "rcodes") >= 5, "a bar for every code, and the unanswered");
    assert_eq!((marks(&dom, "rcodes_time"), marks(&dom, "without_time"), marks(&dom, "mbps_time")), (4, 1, 2));
    let text = shown(&dom);
    assert!(
        text.contains("99th percentile: 500 queries or more in") && !text.contains("Not drawn for want of queries")
    );
    let (before, rest) = text.split_once("<details").unwrap();
    let words = format!("{before}{}", rest.split_once("</details>").unwrap().1);
    let keys = [
        "busiest_1",
        "2_to_10",
        "over_100",
        "timing_p99",
        "not_sent",
        "receive_drops",
        "first_byte",
        ">-0.0<",
        ">-0<",
        ">1 queries",
    ];
    keys.iter().for_each(|key| assert!(!words.contains(key), "{key} is no word"));
}

#[test]
fn a_run_over_connections_has_figures_of_them_and_no_other_run_has() {
    let dir = tempfile::tempdir().unwrap();
    let (connected, other) = (dir.path().join("connected"), dir.path().join("other"));
    let rows = common::connected(20.0, 2_000.0);
    let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
    common::run_to(&connected, rows, common::end_connected(queries, 20));
    let dom = loaded(&connected.join("report.html"));
    let of_connections = of_section(Section::Connections, Needs::Nothing);
    for figure in always().iter().chain(&of_connections) {
        assert!(marks(&dom, figure) > 0 && has_svg(&dom, figure), "figure {figure} has no marks");
    }
    assert_eq!(marks(&dom, "connections_time"), 2, "a curve for connections and one for TIME_WAIT");
    assert_eq!(marks(&dom, "handshakes"), 5);
    assert_eq!(marks(&dom, "latency_connections"), 5, "tcp has no resumed sessions");
    assert!(marks(&dom, "closes") >= 4);
    common::run(&other, common::lifelike(2.0, 100.0));
    let dom = loaded(&other.join("report.html"));
    assert!(!of_connections.iter().any(|figure| dom.contains(&format!("id=\"{figure}\""))));
}

/// Chooses the first server of those there are.
const CHOOSE: &str = r#"<script>
const select = document.querySelector('#filters select');
select.value = "old";
select.dispatchEvent(new Event("change"));
</script>"#;

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
    let started = "2025-11-24T16:00:00.500000000Z".to_owned();
    Overview { name: "two".to_owned(), repeats: 3, started, axes, ..Overview::default() }
        .with_cells(&cells)
        .write_page(&page)
        .unwrap();
    let dom = loaded(&page);
    for figure in ["any", "boxes", "cdf", "tail", "p50", "p99", "answers", "timeouts", "cores", "memory"] {
        assert!(marks(&dom, figure) > 0 && has_svg(&dom, figure), "figure {figure} has no marks");
    }
    assert_eq!((marks(&dom, "cdf"), marks(&dom, "boxes")), (2, 4), "a curve a cell; box and median of each");
    assert!(!dom.contains("<b id=\"bold\"") && !dom.contains("id=\"unwatched\""));
    assert!(
        shown(&dom).contains("<b>99th percentile of latency, against server.</b>"),
        "a figure is called what it is of"
    );
    assert!(shown(&dom).contains("started 2025-11-24 16:00:00 UTC"));
    assert!(!shown(&dom).contains("<th>p99</th>") && shown(&dom).contains("<th>99th percentile of latency</th>"));
    let files = saved(&page);
    let of = |kind: &str| files.iter().filter(|file| file["name"].as_str().unwrap().ends_with(kind)).count();
    assert_eq!([".svg", ".png", ".csv"].map(of), [10; 3], "each figure in each form");
    check_saved(&files, "two, 2025-11-24 16:00:00 UTC, 3 repeats of each cell");
    check_saved(&files, "server: old, <b id=bold>");
    let csv = |name: &str| files.iter().find(|file| file["name"] == name).unwrap()["lines"].clone();
    assert_eq!(csv("two-cores.csv")[0], "cell,time_s,cores,experiment,server");
    assert_eq!(csv("two-any.csv")[0], "cell,repeat,p99 (ms),experiment,server");
    assert!(csv("two-any.csv")[1].as_str().unwrap().ends_with(",two,old"), "{}", csv("two-any.csv"));
    let chosen = loaded(&with_script(&page, CHOOSE));
    assert_eq!((marks(&chosen, "cdf"), marks(&chosen, "boxes")), (1, 2), "one cell is left, in the place of both");
    let narrow = loaded_in(&with_script(&page, WIDTHS), 400);
    assert!(narrow.contains("data-out=\"400: fits \""), "{}", narrow.split('>').nth(1).unwrap_or_default());
    check_print(&page);
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

/// What a page says of runs that hardly are ones: none, one query, too few for a percentile, and a server that dies in the midst.
#[test]
fn no_percentile_is_drawn_that_its_slices_cannot_hold() {
    let dir = tempfile::tempdir().unwrap();
    let drawn = |name: &str, queries: u64| {
        let run = dir.path().join(name);
        common::run(&run, (0..queries).map(|at| common::outcome(at, at as i64 * 20_000_000)).collect());
        loaded(&run.join("report.html"))
    };
    let dom = drawn("few", 9);
    assert_eq!((marks(&dom, "latency_time"), marks(&dom, "boxes")), (0, 0));
    assert!(
        shown(&dom).contains("Nothing to show: a median needs 10 queries sent.")
            && shown(&dom).contains("quartiles need 20 queries")
    );
    let dom = drawn("some", 300);
    assert!(marks(&dom, "latency_time") == 2 && marks(&dom, "boxes") > 10);
    assert!(shown(&dom).contains("Not drawn for want of queries: 99th percentile (needs 500)"), "of 300 queries");
    assert!(shown(&dom).contains("There are too few queries for whiskers."));
    let dom = drawn("ten-slices", 5_040);
    assert!(shown(&dom).contains("99th percentile: 500 queries or more in 10 slices"), "5,040 queries are ten slices");
    assert!(marks(&dom, "latency_time") == 3 && !shown(&dom).contains("too few queries for whiskers"));
}

#[test]
fn a_run_without_times_has_no_figures_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let row = |at: u64| Outcome { intended: ldplayer_core::RunTime(0), ..common::outcome(at, at as i64 * 1_000_000) };
    let end = RunEnd { limits: ldplayer_results::VerdictLimits::FAST, ..common::end(6_000) };
    common::run_to(&run, (0..6_000).map(row).collect(), end);
    let dom = loaded(&run.join("report.html"));
    assert!(shown(&dom).contains("id=\"untimed\"") && !shown(&dom).contains("<figure id=\"boxes\""));
    assert_eq!((marks(&dom, "latency_time"), marks(&dom, "throughput")), (3, 2));
}

#[test]
fn a_server_that_dies_is_seen_to_die() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let row = |at: u64| {
        let row = common::outcome(at, at as i64 * 10_000_000);
        if at < 500 { row } else { common::unanswered(row) }
    };
    let of_server =
        |sample: &ldplayer_results::TelemetrySample| sample.side == Side::Server && sample.at.0 > 5_000_000_000;
    let telemetry = common::usage(10).into_iter().filter(|sample| !of_server(sample)).collect();
    common::run_to(&run, (0..1_000).map(row).collect(), RunEnd { telemetry, ..common::end(1_000) });
    let dom = loaded(&run.join("report.html"));
    let data: serde_json::Value = serde_json::from_str(embedded(&dom, "data")).unwrap();
    let of = |figure: &str, curve: &str| -> Vec<f64> {
        let points = data["data"][figure].as_array().unwrap().iter().filter(|point| point["of"] == curve);
        points.map(|point| point["y"].as_f64().unwrap()).collect()
    };
    assert_eq!(of("rcodes_time", "NOERROR"), [[100.0; 5], [0.0; 5]].concat(), "to the end, and not to the last answer");
    assert_eq!(of("throughput", "answers"), [[100.0; 5], [0.0; 5]].concat());
    assert_eq!(of("without_time", "timed_out"), [[0.0; 5], [100.0; 5]].concat());
    assert!(of("cpu_time", "server_cpu_s").len() < of("cpu_time", "client_cpu_s").len());
    let slices = data["data"]["latency_time"].as_array().unwrap();
    let silent = slices.iter().filter(|slice| slice["ms"].is_null());
    assert!(silent.clone().count() > 0 && silent.clone().all(|slice| slice["to"].as_f64().unwrap() > 4.9));
    assert!(marks(&dom, "latency_time") > 0 && shown(&dom).contains("500 queries without an answer are not in it"));
}

/// Clicks on each button of a page, and leaves what would have been saved in the document.
const CLICKS: &str = r#"<script>
(async () => {
  const [blobs, saved, Real, toBlob] = [new Map(), [], Blob, HTMLCanvasElement.prototype.toBlob];
  Blob = function (parts, options) { return Object.assign(new Real(parts, options), { words: parts.join("") }); };
  HTMLCanvasElement.prototype.toBlob = function (made, type) {
    const [width, height] = [this.width, this.height];
    const dots = this.getContext("2d").getImageData(0, 0, width, height).data.filter((value, at) => at % 4 === 0 && value < 255).length;
    toBlob.call(this, (blob) => made(Object.assign(blob, { width, height, dots })), type);
  };
  URL.createObjectURL = (blob) => (blobs.set(`blob:${blobs.size}`, blob), `blob:${blobs.size - 1}`);
  const buttons = [...document.querySelectorAll("button[data-save]")];
  await new Promise((done) => {
    HTMLAnchorElement.prototype.click = function () {
      saved.push([this.download, blobs.get(this.getAttribute("href"))]);
      if (saved.length === buttons.length) done();
    };
    buttons.forEach((button) => button.click());
  });
  const found = saved.map(([name, blob]) => {
    const text = blob.words ?? "";
    const svg = blob.type === "image/svg+xml" ? new DOMParser().parseFromString(text, blob.type) : null;
    return { name, type: blob.type, size: blob.size, width: blob.width, height: blob.height, dots: blob.dots,
      lines: text.split("\n").slice(0, 2), rows: text.split("\n").length - 2,
      words: svg ? [...svg.querySelectorAll("text")].map((part) => part.textContent).join(" ") : "",
      is_svg: svg?.documentElement.nodeName === "svg", open: /var\(|currentColor|http:\/\/(?!www\.w3\.org)/.test(text) };
  });
  const made = document.createElement("script");
  made.type = "application/json";
  made.id = "saved";
  made.textContent = JSON.stringify(found);
  document.body.append(made);
})();
</script>"#;

/// What the buttons of a page save.
fn saved(page: &Path) -> Vec<serde_json::Value> {
    serde_json::from_str(embedded(&loaded(&with_script(page, CLICKS)), "saved")).unwrap()
}

fn check_saved(files: &[serde_json::Value], caption: &str) {
    for file in files {
        let name = file["name"].as_str().unwrap();
        assert!(file["open"] == false, "{name} depends on what is around it");
        match file["type"].as_str().unwrap() {
            "image/svg+xml" => {
                let words = file["words"].as_str().unwrap();
                assert!(file["is_svg"] == true && words.contains(caption), "{name}: {words}");
            }
            "image/png" => {
                let of = |key: &str| file[key].as_u64().unwrap();
                assert!(
                    of("width") > 1_000 && of("height") > 400 && of("size") > 5_000 && of("dots") > 5_000,
                    "{file}"
                );
            }
            kind => assert!(kind == "text/csv" && file["rows"].as_u64() > Some(0), "{name} has no rows"),
        }
    }
}

#[test]
fn every_figure_is_saved_as_svg_png_and_csv_with_what_it_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    common::run(&run, common::lifelike(20.0, 200.0));
    let files = saved(&run.join("report.html"));
    let of = |kind: &str| files.iter().filter(|file| file["name"].as_str().unwrap().ends_with(kind)).count();
    assert_eq!((of(".svg"), of(".png"), of(".csv")), (always().len(), always().len(), always().len()));
    check_saved(&files, "b-root.pcap.xz → 198.51.100.1:53, over UDP, 2025-11-24 16:00:00 UTC");
    let csv = files.iter().find(|file| file["name"] == "b-root.pcap.xz-latency-time.csv").expect("latency over time");
    assert_eq!(csv["lines"][0], "from_s,to_s,queries,percentile,latency_ms,run,settings");
    assert!(csv["lines"][1].as_str().unwrap().contains("\"b-root.pcap.xz → 198.51.100.1:53, over UDP, 2025"));
}

#[test]
fn several_runs_are_laid_over_one_another() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["fast", "silent", "none", "<b id=bold>"];
    let dirs = names.map(|name| dir.path().join(name));
    let rows = common::connected(10.0, 200.0);
    let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
    common::run_to(&dirs[0], rows, common::end_connected(queries, 10));
    common::run(&dirs[1], (0..50).map(|at| common::unanswered(common::outcome(at, at as i64 * 100_000_000))).collect());
    common::run(&dirs[2], Vec::new());
    common::run(&dirs[3], common::lifelike(5.0, 300.0));
    // One that was killed, and lost a file besides.
    let killed = dir.path().join("killed");
    let mut recorder = ldplayer_results::Recorder::create(&killed, false, common::setup(1), common::SPEC).unwrap();
    recorder.record(0, &(0..100).map(|at| common::outcome(at, at as i64 * 10_000_000)).collect::<Vec<_>>()).unwrap();
    recorder.tick(ldplayer_core::RunTime(62_000_000_000)).unwrap();
    drop(recorder);
    std::fs::write(killed.join("queries/shard-000-000002.parquet"), "damaged").unwrap();
    let (page, dirs) = (dir.path().join("report-compare.html"), [dirs.as_slice(), &[killed]].concat());
    let documents = ldplayer_report::rewrite_pages::<String>(&dirs, &page).unwrap();
    assert_eq!(documents.len(), 5);
    assert!(!loaded(&dirs[4].join("report.html")).is_empty(), "the page of what is left of it");
    let dom = loaded(&page);
    assert_eq!(
        (marks(&dom, "tail"), marks(&dom, "p50"), marks(&dom, "answers")),
        (3, 3, 4),
        "a curve for each that has one"
    );
    assert_eq!((marks(&dom, "connections"), marks(&dom, "cores"), marks(&dom, "memory")), (1, 1, 1));
    assert!(marks(&dom, "rcodes") > 8 && marks(&dom, "timeouts") >= 2);
    assert!(
        dom.contains("what the server used in silent, none, &lt;b id=bold&gt;, killed: no process"),
        "what is not known is said"
    );
    assert!(!dom.contains("<b id=\"bold\""), "a name became markup");
    let files = saved(&page);
    check_saved(&files, "b-root.pcap.xz → 198.51.100.1:53");
    let csv = files.iter().find(|file| file["name"] == "runs-answers.csv").unwrap();
    assert_eq!(csv["lines"][0], "run,time_s,answers_per_second,trace_server_date,settings");
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
    common::finish(&run, recorder, common::end(100));
    let dom = loaded(&run.join("report.html"));
    let at = |word: &str| dom.find(word).unwrap_or_else(|| panic!("no {word}"));
    let order = [
        "id=\"verdict-server\" class=\"verdict failed\"",
        "<li>answers NOERROR: 0.00 % (0 of 100) (limit &gt;= 99 %)</li>",
        "id=\"verdict-replay\" class=\"verdict ok\"",
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
    let config = setup.config.with("trace", "</script><script>console.error('inside')</script>");
    setup.config = config.with("server", "<b id=bold>");
    let mut recorder = ldplayer_results::Recorder::create(&run, false, setup, common::SPEC).unwrap();
    recorder.record(0, &[common::outcome(0, 0)]).unwrap();
    common::finish(&run, recorder, common::end(1));
    let dom = loaded(&run.join("report.html"));
    assert!(!dom.contains("<b id="), "the server's name became an element");
}

/// Says how wide the page is, and what stands out of a narrow window without a bar to scroll it.
const WIDTHS: &str = r#"<script>
document.querySelectorAll("details").forEach((folded) => { folded.open = true; });
const out = [...document.querySelectorAll("body *")].filter((part) => part.getBoundingClientRect().right > innerWidth + 1 && !part.closest(".scroll, svg"));
document.documentElement.dataset.out = `${innerWidth}: ${document.documentElement.scrollWidth > innerWidth ? "wider" : "fits"} ${out.map((part) => part.tagName)}`;
</script>"#;

#[test]
fn nothing_is_wider_than_a_window_of_400_pixels() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = ["one", "other"].map(|name| dir.path().join(name));
    let rows = common::connected(10.0, 200.0);
    let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
    common::run_to(&dirs[0], rows, common::end_connected(queries, 10));
    common::run(&dirs[1], common::lifelike(5.0, 300.0));
    let all = dir.path().join("all.html");
    ldplayer_report::rewrite_pages::<String>(&dirs, &all).unwrap();
    for page in [dirs[0].join("report.html"), all] {
        let dom = loaded_in(&with_script(&page, WIDTHS), 400);
        assert!(dom.contains("data-out=\"400: fits \""), "{}", dom.split('>').nth(1).unwrap_or_default());
    }
}

/// Makes the window the paper of somebody whose screen is dark, and says what does not belong there.
const PRINT: &str = r#"<script>
const sheet = document.styleSheets[0];
const rules = (media) => [...sheet.cssRules].filter((rule) => rule.media?.mediaText === media).flatMap((rule) => [...rule.cssRules]);
const printed = [...rules("(prefers-color-scheme: dark)"), ...rules("print")].map((rule) => rule.cssText);
printed.forEach((rule) => sheet.insertRule(rule, sheet.cssRules.length));
window.dispatchEvent(new Event("beforeprint"));
const all = (query, is) => [...document.querySelectorAll(query)].filter(is).map((part) => part.tagName);
const pressed = all("button, select, details:not([open]) *", (part) => part.getClientRects().length > 0);
const cut = all("figure, tr", (part) => getComputedStyle(part).breakInside !== "avoid");
const out = all("body *", (part) => part.getBoundingClientRect().right > innerWidth + 1 && !part.closest("svg"));
const { color, backgroundColor } = getComputedStyle(document.body);
document.documentElement.dataset.print = `${color} on ${backgroundColor}, pressed ${pressed}, cut ${cut}, out ${out}`;
</script>"#;

/// The page as it is on paper 17 cm wide.
fn check_print(page: &Path) {
    let dom = loaded_in(&with_script(page, PRINT), 660);
    let told = "data-print=\"rgb(0, 0, 0) on rgb(255, 255, 255), pressed , cut , out \"";
    assert!(dom.contains(told), "{}", dom.split('>').nth(1).unwrap_or_default());
}

#[test]
fn paper_is_white_and_has_neither_buttons_nor_figures_that_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = ["one", "other"].map(|name| dir.path().join(name));
    let rows = common::connected(10.0, 200.0);
    let queries = rows.iter().filter(|row| row.status.is_query()).count() as u64;
    common::run_to(&dirs[0], rows, RunEnd { telemetry: common::usage(10), ..common::end_connected(queries, 10) });
    common::run(&dirs[1], common::lifelike(5.0, 300.0));
    let all = dir.path().join("all.html");
    ldplayer_report::rewrite_pages::<String>(&dirs, &all).unwrap();
    check_print(&dirs[0].join("report.html"));
    check_print(&all);
}

/// A copy of the page with one script more.
fn with_script(page: &Path, script: &str) -> PathBuf {
    let copy = page.with_extension("with-script.html");
    let html = std::fs::read_to_string(page).unwrap();
    let (before, after) = html.rsplit_once("</body>").expect("a body");
    // Others do not run.
    let nonce = html.split_once("script-src 'nonce-").and_then(|(_, rest)| rest.split('\'').next()).expect("a policy");
    let script = script.replace("<script>", &format!("<script nonce=\"{nonce}\">"));
    std::fs::write(&copy, format!("{before}{script}</body>{after}")).unwrap();
    copy
}

/// The document after its scripts ran; panics when anything was said on the console.
fn loaded(page: &Path) -> String {
    loaded_in(page, 1_400)
}

/// As [`loaded`], in a window of this width.
fn loaded_in(page: &Path, width: u32) -> String {
    let output = chromium(page, width);
    let said = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "the page said: {console:#?}");
    let dom = String::from_utf8(output.stdout).unwrap();
    assert!(dom.contains("data-drawn=\"yes\""), "the script did not come to its end; the browser said: {said}");
    dom
}

fn chromium(page: &Path, width: u32) -> Output {
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
        .arg(format!("--window-size={width},900"))
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

/// The page without its scripts.
fn shown(dom: &str) -> &str {
    dom.split("<script").next().unwrap_or_default()
}

/// The JSON in an element of the page.
fn embedded<'a>(dom: &'a str, id: &str) -> &'a str {
    let from = dom.split(&format!("id=\"{id}\">")).nth(1).unwrap_or_else(|| panic!("no {id}"));
    from.split("</script>").next().unwrap_or_default()
}

fn has_svg(dom: &str, figure: &str) -> bool {
    let from = dom.split(&format!("<figure id=\"{figure}\"")).nth(1).unwrap_or_default();
    from.split("</figure>").next().unwrap_or_default().contains("<svg")
}

fn tag<'a>(dom: &'a str, figure: &str) -> &'a str {
    let at = dom.find(&format!("<figure id=\"{figure}\"")).unwrap_or_else(|| panic!("no figure {figure}"));
    dom[at..].split('>').next().unwrap_or_default()
}
