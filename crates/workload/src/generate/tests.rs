//! Tests of whole models: their traces, reproducibility, and fits that resemble the original.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;

use ldplayer_core::Message;
use ldplayer_trace::Inspector;
use proptest::prelude::*;

use super::*;

fn model(text: &str) -> Model {
    Model::parse(text, Path::new(".")).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn preset(name: &str) -> Model {
    model(PRESETS.iter().find(|(known, _)| *known == name).unwrap().1)
}

fn rows(model: &Model) -> Vec<Transaction> {
    let (mut generator, mut rows) = (Generator::new(model).unwrap(), Vec::new());
    while generator.read(&mut rows).unwrap() {}
    rows
}

fn names(rows: &[Transaction]) -> Vec<Vec<u8>> {
    let name = |row: &Transaction| Message::new(row.query.as_ref().unwrap()).unwrap().question().unwrap().name.to_vec();
    rows.iter().map(name).collect()
}

#[test]
fn presets_are_models() {
    for (name, _) in PRESETS {
        let mut model = preset(name);
        model.queries = Some(500);
        let rows = rows(&model);
        assert!(!rows.is_empty() && rows.is_sorted_by_key(|row| row.time), "{name}");
    }
}

#[test]
fn the_papers_traces_have_its_figures() {
    let rows = rows(&preset("syn-1"));
    let clients: HashSet<IpAddr> = rows.iter().map(|row| row.client.ip()).collect();
    assert_eq!((rows.len(), rows[35_999].time - rows[0].time), (36_000, 3_599_900_000_000));
    assert!((9_650..9_800).contains(&clients.len()), "the paper has 9.7 k, here are {}", clients.len());
    assert_eq!(names(&rows).iter().collect::<HashSet<_>>().len(), 36_000);
}

#[test]
fn the_same_seed_makes_the_same_trace() {
    let mut model = preset("resolver");
    model.queries = Some(3_000);
    let first = rows(&model);
    assert_eq!(rows(&model), first);
    model.seed = 2;
    assert_ne!(rows(&model), first);
}

#[test]
fn a_root_like_trace_has_the_published_shares() {
    let mut model = preset("root-like");
    model.queries = Some(100_000);
    let rows = rows(&model);
    let mut inspector = Inspector::default();
    inspector.add(&rows);
    let summary = inspector.summary(&Tally::default());
    let share = |count: u64| count as f64 / 100_000.0;
    assert!((share(summary.dnssec_ok) - 0.72).abs() < 0.02, "{}", summary.dnssec_ok);
    assert!((share(rows.iter().filter(|row| row.transport == Transport::Tcp).count() as u64) - 0.03).abs() < 0.005);
    let gap = (rows[99_999].time - rows[0].time) as f64 / 99_999.0;
    assert!((26_500.0..27_500.0).contains(&gap), "{gap}");
}

#[test]
fn cache_hits_and_missing_names_are_as_asked() {
    let text = "queries = 20000\n[names]\nmade = 50\nsuffix = 'test'\ncache-hit = '70 %'\nnxdomain = '20 %'\nnxdomain-name = '{random}.none'";
    let names = names(&rows(&model(text)));
    let absent = names.iter().filter(|name| name.ends_with(b"\x04none\0")).count();
    assert!((3_800..4_200).contains(&absent), "{absent}");
    let mut seen = HashSet::new();
    let present = names.iter().filter(|name| !name.ends_with(b"\x04none\0"));
    let hits = present.filter(|name| !seen.insert((*name).clone())).count() as f64 / (20_000 - absent) as f64;
    assert!((0.68..0.72).contains(&hits), "{hits}");
}

#[test]
fn wrong_models_are_refused_with_line_and_remedy() {
    let refusal = |text: &str| Model::parse(text, Path::new(".")).unwrap_err().to_string();
    assert!(refusal("seed = 1").contains("add `duration` or `queries`"));
    assert_eq!(refusal("queries=1\n[arrivals]\nkind='poison'").split(':').next(), Some("line 3"));
    assert!(refusal("queries=1\n[arrivals]\nkind='poisson'").contains("`qps` is missing"));
    assert!(refusal("queries=1\n[arrivals]\nkind='ramp'\nqps=[1,2,3]\neach='1s'").contains("two rates"));
    assert!(refusal("queries=1\n[arrivals]\nkind='steps'\nqps=[0]\neach='1s'").contains("all rates are 0"));
    assert!(refusal("queries=1\n[clients]\ncuont=1").contains("did you mean `count`?"));
    assert!(refusal("queries=1\n[clients]\ncount=1\nzipf=1\nlognormal=1").contains("conflicts with"));
    assert!(refusal("queries=1\n[names]\nzipf=1").contains("one of `name`, `list`, `made` and `zones`"));
    assert!(refusal("queries=1\n[query]\ndo='50 %'").contains("raise `edns`"));
    assert!(refusal("queries=1\n[types]\nAAAAA=1").contains("no such type"));
    assert!(refusal("queries=1\n[clients]\nquantiles=[[0.5,1],[0.1,2]]").contains("sorted by place"));
    let missing = model("queries=1\n[names]\nlist='no/such/list'");
    assert!(Generator::new(&missing).err().unwrap().to_string().contains("no/such/list: No such file"));
}

/// The queries of each client, from the most to the least.
fn activity(rows: &[Transaction]) -> Vec<u32> {
    let mut counts: HashMap<IpAddr, u32> = HashMap::new();
    rows.iter().for_each(|row| *counts.entry(row.client.ip()).or_default() += 1);
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

#[test]
fn a_fitted_model_makes_what_it_was_fitted_to() {
    let mut original = preset("resolver");
    original.duration = Some(20_000_000_000);
    let before = rows(&original);
    let mut fit = Fit::default();
    fit.add(&before);
    let folder = tempfile::tempdir().unwrap();
    let Fitted { model, names } = fit.finish("a test", "names.txt");
    std::fs::write(folder.path().join("names.txt"), names).unwrap();
    let after = rows(&Model::parse(&model, folder.path()).unwrap_or_else(|error| panic!("{error}: {model}")));
    let near = |a: usize, b: usize, within: f64| (a as f64 / b as f64 - 1.0).abs() < within;
    assert!(near(before.len(), after.len(), 0.03), "{} {}", before.len(), after.len());
    let (a, b) = (activity(&before), activity(&after));
    assert!(near(a.len(), b.len(), 0.05), "{} {}", a.len(), b.len());
    let of_the_busiest = |counts: &[u32]| counts[..counts.len() / 100].iter().sum::<u32>() as usize;
    assert!(near(of_the_busiest(&a), of_the_busiest(&b), 0.08), "{} {}", of_the_busiest(&a), of_the_busiest(&b));
    let summary = |rows: &[Transaction]| {
        let mut inspector = Inspector::default();
        inspector.add(rows);
        inspector.summary(&Tally::default())
    };
    let (a, b) = (summary(&before), summary(&after));
    assert!(near(a.dnssec_ok as usize, b.dnssec_ok as usize, 0.1), "{} {}", a.dnssec_ok, b.dnssec_ok);
    assert!(near(a.edns as usize, b.edns as usize, 0.1), "{} {}", a.edns, b.edns);
    for qtype in ["A", "AAAA", "HTTPS"] {
        assert!(near(a.qtypes[qtype] as usize, b.qtypes[qtype] as usize, 0.05), "{qtype}");
    }
}

#[test]
fn a_fit_tells_even_gaps_from_random_ones() {
    for (name, is_even) in [("syn-2", true), ("poisson", false), ("resolver", false)] {
        let mut model = preset(name);
        model.duration = Some(20_000_000_000);
        let mut fit = Fit::default();
        fit.add(&rows(&model));
        let text = fit.finish("a test", "names.txt").model;
        assert_eq!(text.contains("random = false"), is_even, "{name}: {text}");
    }
}

#[test]
fn a_name_of_a_list_has_the_type_behind_it_or_any() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("names"), "a.example MX\nb.example\nc.example 17\n").unwrap();
    let text = "queries = 300\n[names]\nlist = 'names'\n[types]\nTXT = 1\n";
    for row in rows(&Model::parse(text, folder.path()).unwrap()) {
        let question = ldplayer_core::Message::new(row.query.as_ref().unwrap()).unwrap().question().unwrap();
        assert_eq!(question.qtype, if question.name[1] == b'a' { 15 } else { 16 });
    }
}

#[test]
fn top_level_domains_come_once_each_and_are_names() {
    let model = Model::parse("queries = 1\n[names]\nzones = 'root'", Path::new("")).unwrap();
    let Stock::Zones(zones) = model.names.stock else { panic!() };
    let distinct: std::collections::HashSet<_> = zones.iter().collect();
    assert_eq!((zones.len(), distinct.len()), (zones.len(), zones.len()));
    assert_eq!(&*zones[0], b"\x03com\0");
    assert!(
        Model::parse("queries = 1\n[names]\nzones = 'com'", Path::new("")).unwrap_err().to_string().contains("`list`")
    );
}

#[test]
fn a_long_trace_is_fitted_in_longer_pieces() {
    let mut fit = Fit::default();
    let mut model = preset("syn-0");
    model.duration = Some(3_600_000_000_000);
    fit.add(&rows(&model));
    let text = fit.finish("a test", "names.txt").model;
    assert!(text.contains("each = \"16s\""), "{text}");
}

proptest! {
    #[test]
    fn no_model_makes_it_panic(kind in "gap|poisson|ramp|steps|profile|bursts", a in 0.0..1e6_f64, b in 0.0..1e6_f64, count in 1..100_u32) {
        let text = format!("queries = 50\n[arrivals]\nkind = '{kind}'\ngap = '1us'\nqps = [{a}, {b}]\neach = '1s'\nmean = ['1s', '1ms']\n[clients]\ncount = {count}\nlognormal = 3");
        if let Ok(model) = Model::parse(&text, Path::new(".")) {
            prop_assert!(rows(&model).len() <= 50);
        }
    }
}
