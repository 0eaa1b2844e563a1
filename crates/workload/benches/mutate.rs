//! Transactions per second through rules on one core (aims: two million with edits of header and EDNS, one million with names), and
//! made from models, to nothing and to Parquet (aim: two million).

use std::path::Path;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use ldplayer_core::Transaction;
use ldplayer_trace::{Format, Source, create};
use ldplayer_workload::generate::{Generator, Model, PRESETS};
use ldplayer_workload::mutate::{Mutator, Rules};

const ROWS: u64 = 200_000;

const RULES: [(&str, &str); 5] = [
    ("do", "[[rule]]\ndo = true"),
    (
        "header, EDNS, share of clients",
        "[[rule]]\nwhere = 'qtype == A'\nshare = '70 %'\ndo = true\nsize = 1400\ncd = true",
    ),
    ("cookie and client subnet", "[[rule]]\ncookie = true\necs = true"),
    ("name prefix", "[[rule]]\nqname-prefix = 'u{n}'"),
    ("anonymise", "[[rule]]\nclient-anonymise = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'"),
];

fn model(preset: &str) -> Model {
    let text = PRESETS.iter().find(|(name, _)| *name == preset).unwrap().1;
    Model { queries: Some(ROWS), duration: None, ..Model::parse(text, Path::new(".")).unwrap() }
}

fn rows() -> Vec<Transaction> {
    let (mut generator, mut rows) = (Generator::new(&model("resolver")).unwrap(), Vec::new());
    while generator.read(&mut rows).unwrap() {}
    rows
}

/// Applies rules in batches as a source gives them.
fn apply(mutator: &mut Mutator, rows: Vec<Transaction>) -> usize {
    let (mut rows, mut out, mut count) = (rows.into_iter(), Vec::new(), 0);
    loop {
        let mut batch: Vec<Transaction> = rows.by_ref().take(4_096).collect();
        if batch.is_empty() {
            return count;
        }
        mutator.apply(&mut batch, &mut out);
        count += out.len();
        out.clear();
    }
}

fn mutate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mutate");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10).measurement_time(Duration::from_secs(3));
    let rows = rows();
    for (name, rules) in RULES {
        let mut mutator = Mutator::new(Rules::parse(rules).unwrap(), 1, 0);
        group.bench_function(name, |bencher| {
            let run = |rows| assert_eq!(apply(&mut mutator, rows), ROWS as usize);
            bencher.iter_batched(|| rows.clone(), run, BatchSize::LargeInput);
        });
    }
    group.finish();
}

fn generate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("generate");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10).measurement_time(Duration::from_secs(3));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out.parquet");
    for preset in ["syn-4", "resolver"] {
        let model = model(preset);
        let pass = |mut sink: Option<Box<dyn ldplayer_trace::Sink>>| {
            let (mut generator, mut batch) = (Generator::new(&model).unwrap(), Vec::new());
            loop {
                let more = generator.read(&mut batch).unwrap();
                sink.iter_mut().for_each(|sink| sink.write(&mut batch).unwrap());
                batch.clear();
                if !more {
                    break;
                }
            }
            sink.map(|sink| sink.finish().unwrap());
        };
        group.bench_function(preset, |bencher| bencher.iter(|| pass(None)));
        group.bench_function(format!("{preset} to Parquet"), |bencher| {
            bencher.iter(|| pass(Some(create(&path, Format::Parquet, true).unwrap())));
        });
    }
    group.finish();
}

criterion_group!(benches, mutate, generate);
criterion_main!(benches);
