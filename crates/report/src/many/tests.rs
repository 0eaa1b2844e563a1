//! Overviews of made-up experiments: what their page and their exports hold.

use super::*;
use ldplayer_results::compare::Pair;
use ldplayer_results::{RunReport, SideUsage, Tail};

fn run(p99: f64) -> RunReport {
    let mut run = RunReport::default();
    run.summary.latency_ms.from_sent = Tail { queries: 100, p50: Some(p99 / 4.0), p99: Some(p99), ..Tail::default() };
    (run.summary.queries.sent, run.summary.queries.answered) = (100, 99);
    run.summary.telemetry.server = Some(SideUsage { cpu_us_per_query: Some(20.0), ..SideUsage::default() });
    run.config = run.config.with("query_timeout", "5s");
    run
}

fn curves(by: f64) -> Curves {
    let over_time = |value: f64| (0..50).map(|at| (f64::from(at), Some(value * by))).collect::<Vec<_>>();
    let cdf = (0..=99).map(|at| (0.1 * by * 1.05_f64.powi(at), Some(f64::from(at)))).collect();
    let tail = (0..50).map(|at| (100.0 / f64::from(at + 1), Some(0.1 * by * f64::from(at + 1)))).collect();
    Curves::from([
        ("cdf", cdf),
        ("tail", tail),
        ("p50", over_time(0.2)),
        ("p99", over_time(2.0)),
        ("answers", over_time(100.0)),
        ("cores", over_time(0.5)),
        ("memory", over_time(5e7)),
    ])
}

/// Two servers over two transports, three repeats each.
pub fn overview() -> Overview {
    let axes = vec![
        ("server".to_owned(), vec!["old".to_owned(), "new <b>".to_owned()]),
        ("transport".to_owned(), vec!["udp".to_owned(), "tcp".to_owned()]),
    ];
    let mut cells = Vec::new();
    for (at, server) in axes[0].1.iter().enumerate() {
        for (other, transport) in axes[1].1.iter().enumerate() {
            let by = 1.0 + at as f64 + 2.0 * other as f64;
            let keys: BTreeMap<String, String> =
                [("server".to_owned(), server.clone()), ("transport".to_owned(), transport.clone())].into();
            let runs = (1..=3).map(|repeat| (repeat, run(by * (1.0 + f64::from(repeat) / 50.0)))).collect();
            let side = Side { name: format!("server={server},transport={transport}"), runs, ..Side::default() };
            let curves = (0..3).map(|repeat| curves(by * (1.0 + f64::from(repeat) / 100.0))).collect();
            cells.push(CellRuns { keys, side, curves });
        }
    }
    Overview { name: "two servers".to_owned(), repeats: 3, axes, ..Overview::default() }.with_cells(&cells)
}

#[test]
fn repeats_become_one_curve_and_cells_are_named_by_what_differs() {
    let found = overview();
    assert_eq!(
        found.cells.iter().map(|cell| cell.label.as_str()).collect::<Vec<_>>(),
        ["old · udp", "old · tcp", "new <b> · udp", "new <b> · tcp"]
    );
    let median = found.curves.boxes[0].p50.unwrap();
    assert!((median - 0.1 * 1.01 * 1.05_f64.powi(50)).abs() < 1e-9, "{median}");
    assert_eq!(
        found.curves.by_id["cdf"].iter().filter(|point| point.cell == 0).count(),
        100,
        "one percent was not answered"
    );
    let p99 = found.quantities.iter().find(|figures| figures.quantity == "p99").unwrap();
    assert_eq!((p99.cells.len(), p99.cells[0].values.len(), p99.cells[0].estimate.median), (4, 3, 1.04));
}

#[test]
fn everything_is_exported_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    overview().export(folder.path(), &Export::default()).unwrap();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap_or_else(|_| panic!("{name}"));
    for name in [
        "latency-boxes",
        "latency-cdf",
        "latency-tail",
        "latency-p99-over-time",
        "memory-over-time",
        "figure-p99",
        "figure-cpu",
    ] {
        let svg = String::from_utf8(read(&format!("{name}.svg"))).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.contains("old · udp") && !svg.contains("<b>"),
            "{name}: {}",
            &svg[..200]
        );
        assert!(read(&format!("{name}.pdf")).starts_with(b"%PDF"), "{name}");
        let png = read(&format!("{name}.png"));
        assert!(png.starts_with(b"\x89PNG"), "{name}");
        let reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        assert_eq!(reader.info().width, 1_800);
    }
    let runs = String::from_utf8(read("runs.csv")).unwrap();
    assert!(runs.starts_with("cell,server,transport,repeat,quantity,unit,value\n"), "{runs}");
    assert!(runs.contains("\"server=old,transport=udp\",old,udp,1,p99,ms,1.02\n"), "{runs}");
    assert!(String::from_utf8(read("cells.csv")).unwrap().lines().count() > 4);
    let json: serde_json::Value = serde_json::from_slice(&read("figures.json")).unwrap();
    assert_eq!(json["cells"][1]["keys"]["transport"], "tcp");
}

#[test]
fn an_experiment_is_told_in_sentences() {
    let mut found = overview();
    found.cells[1].left_out = vec!["repeat 2: its replay was not faithful".to_owned()];
    found.versions = [("old".to_owned(), "NSD 4.6.1".to_owned())].into();
    let said = found.methods();
    for part in [
        "the experiment two servers: 4 cells of server (old, new <b>) and transport (udp, tcp), each 3 times, the repeats of all cells in turn. ",
        " 12 runs count, and what is said of figures is their median over the repeats",
        " Left out: server=old,transport=tcp repeat 2: its replay was not faithful. old was NSD 4.6.1.",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn words_of_the_user_cannot_become_markup() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    Overview { file: "</script><b>".to_owned(), ..overview() }.write_page(&page).unwrap();
    let html = std::fs::read_to_string(page).unwrap();
    assert!(!html.contains("<b>udp") && !html.contains("new <b>") && html.contains("new &lt;b&gt; · udp"));
}

#[test]
fn an_experiment_without_a_run_that_counts_has_a_page_and_no_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let side = Side { name: "all".to_owned(), left_out: vec!["repeat 1: failed".to_owned()], ..Side::default() };
    let empty = Overview::default().with_cells(&[CellRuns { side, ..CellRuns::default() }]);
    empty.write_page(&folder.path().join("report.html")).unwrap();
    empty.export(&folder.path().join("out"), &Export::default()).unwrap();
    assert!(std::fs::read_dir(folder.path().join("out")).unwrap().flatten().all(|file| !file.path().ends_with(".png")));
}

#[test]
fn without_a_gate_the_page_begins_with_the_largest_certain_difference() {
    let side = |name: &str, by: f64| Side {
        name: name.to_owned(),
        runs: (1..=8).map(|repeat| (repeat, run(by * (1.0 + f64::from(repeat) / 100.0)))).collect(),
        ..Side::default()
    };
    let against = |by: f64| {
        let pair = Pair { a: side("udp", 50.0), b: side("tcp", by), ..Pair::default() };
        ldplayer_results::compare::compare(&pair)
    };
    let told = |comparisons: Vec<Comparison>| {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("a.html");
        Overview { comparisons, ..overview() }.write_page(&page).unwrap();
        let text = std::fs::read_to_string(page).unwrap();
        assert!(!text.contains("verdict-gate") && !text.contains("none was given"));
        let box_at = text.find("id=\"finding\"").unwrap();
        text[box_at..].split(['>', '<']).nth(1).unwrap().to_owned()
    };
    assert_eq!(
        told(vec![against(100.0), against(150.0)]),
        "tcp: 99th percentile of latency 157 ms, 3.00 × that of udp"
    );
    assert_eq!(told(vec![against(50.0)]), "no difference is certain");
    assert_eq!(told(Vec::new()), "nothing is compared");
}
