//! Figures as files: their forms, sizes, captions, and what is refused.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use ldplayer_report::picture::{Look, Style};
use ldplayer_report::{Export, ExportError, Exported, export_runs};

/// A run of three seconds over UDP.
fn run(place: &Path, name: &str) -> PathBuf {
    let dir = place.join(name);
    common::run(&dir, common::lifelike(3.0, 500.0));
    dir
}

fn wanted(figures: &[&str], look: Look) -> Export {
    Export { figures: figures.iter().map(|&name| name.to_owned()).collect(), look }
}

fn paper(size: &str) -> Look {
    Look { style: Style::Paper, size: Some(size.parse().unwrap()) }
}

fn read(path: PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(&path).unwrap_or_else(|_| panic!("{}", path.display()))).into_owned()
}

#[test]
fn the_figures_of_a_run_are_written_in_every_form_with_captions() {
    let place = tempfile::tempdir().unwrap();
    let (run, out) = (run(place.path(), "run"), place.path().join("figures"));
    let exported = export_runs(&[run], &out, &Export::default()).unwrap();
    for name in ["throughput", "rcodes", "latency-time", "latency-histogram", "boxes", "error-cdf", "rate"] {
        assert!(exported.written.iter().any(|written| written == name), "{name}: {exported:?}");
    }
    let captions = read(out.join("captions.txt"));
    for name in &exported.written {
        let file = |kind: &str| read(out.join(format!("{name}.{kind}")));
        assert!(file("svg").starts_with("<svg width=\"900\""), "{name}");
        assert!(file("pdf").starts_with("%PDF") && file("png").contains("PNG"), "{name}");
        let csv = file("csv");
        let columns = |line: &str| line.split(',').count();
        let head = csv.lines().next().unwrap();
        assert!(head.ends_with(",run,settings") && columns(head) >= 4, "{name}: {head}");
        assert!(csv.lines().count() > 1, "{name}");
        let caption = captions.lines().find(|line| line.starts_with(&format!("{name}: "))).unwrap();
        for part in ["b-root.pcap.xz → 198.51.100.1:53, over UDP, 2025-11-24 16:00:00 UTC; ", "; replay ", ", server "]
        {
            assert!(caption.contains(part), "{caption}");
        }
    }
    assert_eq!(exported.empty, [], "nobody asked for what has nothing to show");
}

#[test]
fn a_figure_for_a_paper_has_its_size_in_inches_its_font_and_no_title() {
    let place = tempfile::tempdir().unwrap();
    let (run, out) = (run(place.path(), "run"), place.path().join("figures"));
    let export = wanted(&["latency_time", "latency-tail"], paper("3.5x2in"));
    let exported = export_runs(std::slice::from_ref(&run), &out, &export).unwrap();
    assert_eq!(exported.written, ["latency-time", "latency-tail"]);
    let (svg, pdf) = (read(out.join("latency-time.svg")), read(out.join("latency-time.pdf")));
    assert!(svg.starts_with("<svg width=\"336\" height=\"192\" viewBox=\"0 0 3360 1920\""), "{}", &svg[..99]);
    assert!(svg.contains("\nmedian\n") && !svg.contains("Latency over the run"), "{svg}");
    assert!(pdf.contains("/MediaBox [0 0 252 144]") && pdf.contains("/FontFile2"), "{}", &pdf[..400]);
    assert!(!out.join("rcodes.svg").exists());
    let screen = wanted(&["latency_time"], Look::default());
    export_runs(&[run], &out, &screen).unwrap();
    assert!(read(out.join("latency-time.svg")).contains("\nLatency over the run."));
}

#[test]
fn the_same_run_gives_the_same_files() {
    let place = tempfile::tempdir().unwrap();
    let run = run(place.path(), "run");
    let once = |name: &str| {
        let out = place.path().join(name);
        export_runs(std::slice::from_ref(&run), &out, &wanted(&["boxes"], paper("7in"))).unwrap();
        ["boxes.svg", "boxes.pdf", "boxes.png", "boxes.csv", "captions.txt"]
            .map(|file| fs::read(out.join(file)).unwrap())
    };
    assert!(once("a") == once("b"));
}

#[test]
fn several_runs_are_laid_over_one_another() {
    let place = tempfile::tempdir().unwrap();
    let (runs, out) = ([run(place.path(), "nsd"), run(place.path(), "knot")], place.path().join("figures"));
    let exported = export_runs(&runs, &out, &Export::default()).unwrap();
    assert!(exported.written.iter().any(|name| name == "latency-cdf"), "{exported:?}");
    let svg = read(out.join("latency-cdf.svg"));
    assert!(svg.contains("\nnsd\n") && svg.contains("\nknot\n"), "{svg}");
    let csv = read(out.join("latency-cdf.csv"));
    assert!(csv.starts_with("run,latency_ms,queries_percent,about,settings\nnsd,"), "{}", &csv[..99]);
    assert!(read(out.join("captions.txt")).contains(" knot: b-root.pcap.xz → "));
}

#[test]
fn a_figure_without_anything_to_show_is_told_and_an_unknown_one_refused() {
    let place = tempfile::tempdir().unwrap();
    let (run, out) = (run(place.path(), "run"), place.path().join("figures"));
    let exported = export_runs(
        std::slice::from_ref(&run),
        &out,
        &wanted(&["compared_time", "handshakes", "rcodes"], Look::default()),
    );
    let Err(error @ ExportError::NoFigure { .. }) = exported else { panic!("{exported:?}") };
    assert!(error.to_string().starts_with("there is no figure `compared-time`"), "{error}");
    assert!(!out.exists(), "nothing was made");
    let exported =
        export_runs(std::slice::from_ref(&run), &out, &wanted(&["handshakes", "rcodes"], Look::default())).unwrap();
    let none = "Nothing to show: no query of this run has this figure.";
    assert_eq!(exported, Exported { written: vec!["rcodes".into()], empty: vec![("handshakes".into(), none.into())] });
    let error = export_runs(&[run], &out, &wanted(&["latency_tails"], Look::default())).unwrap_err();
    assert_eq!(error.to_string(), "there is no figure `latency-tails`: did you mean `latency-tail`?");
}
