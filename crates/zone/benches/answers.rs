//! How fast answers are made, in answers a second on one core: the root zone and what a root server was really asked, and
//! how fast zones are loaded, in records a second.

use std::io::Read;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ldplayer_core::message::QueryParts;
use ldplayer_zone::{Records, Scratch, Transport, Zone, load, respond};

/// The root zone of 8 October 2016.
const ROOT_ZONE: &[u8] = include_bytes!("../../../data/root-2016100801.zone.xz");
/// Zones of the set that is loaded, and records of each.
const ZONES: usize = 10_000;
const RECORDS: usize = 100;

fn root_text() -> Vec<u8> {
    let mut text = Vec::new();
    liblzma::read::XzDecoder::new(ROOT_ZONE).read_to_end(&mut text).expect("the bundled zone");
    text
}

fn records(text: &[u8], origin: &[u8]) -> Records {
    load::text_of(text, Path::new("zone"), Some(origin), &mut |_| unreachable!()).expect("a zone")
}

fn zone(text: &[u8], origin: &[u8]) -> Zone {
    Zone::from_records(&records(text, origin)).expect("a zone").0
}

fn query(name: &[u8], qtype: u16, edns: Option<(u16, bool)>) -> Vec<u8> {
    let mut query = Vec::new();
    QueryParts { id: 1, flags: 0, name, qtype, qclass: 1, edns }.compose(&mut query);
    query
}

/// Names below every top-level domain, or names that are not there.
fn queries(zone: &Zone, exist: bool, edns: Option<(u16, bool)>) -> Vec<Vec<u8>> {
    let mut cuts: Vec<_> = zone.delegations().map(|(cut, _)| cut.to_vec()).collect();
    cuts.dedup();
    let name = |cut: &Vec<u8>| if exist { [b"\x03www\x07example".as_slice(), cut].concat() } else { absent(cut) };
    cuts.iter().map(|cut| query(&name(cut), 1, edns)).collect()
}

fn absent(cut: &[u8]) -> Vec<u8> {
    let label = &cut[1..=usize::from(cut[0])];
    [b"\x05local", &[label.len() as u8 + 1][..], label, b"x\0"].concat()
}

fn answers(criterion: &mut Criterion) {
    let zone = zone(&root_text(), b"\0");
    let mut group = criterion.benchmark_group("respond");
    for (name, exist, edns) in [
        ("referral", true, Some((1232, false))),
        ("referral_dnssec", true, Some((1232, true))),
        ("referral_512", true, None),
        ("nxdomain", false, Some((1232, false))),
        ("nxdomain_dnssec", false, Some((1232, true))),
    ] {
        let queries = queries(&zone, exist, edns);
        group.throughput(Throughput::Elements(queries.len() as u64));
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        group.bench_with_input(BenchmarkId::from_parameter(name), &queries, |bencher, queries| {
            bencher.iter(|| {
                let mut octets = 0;
                for query in queries {
                    out.clear();
                    octets += respond(&zone, query, Transport::Udp, &mut scratch, &mut out).length;
                }
                octets
            });
        });
    }
    group.finish();
}

/// A zone of hosts and delegations.
fn small_zone(number: usize) -> String {
    let mut text =
        format!("$ORIGIN zone{number}.example.\n$TTL 3600\n@ SOA ns1 host 1 2 3 4 5\n@ NS ns1\nns1 A 192.0.2.1\n");
    for host in 0..(RECORDS - 3) / 3 {
        text.push_str(&format!("host{host} A 192.0.2.{host}\n  AAAA 2001:db8::{host}\n  MX 10 host{host}\n"));
    }
    text
}

fn loading(criterion: &mut Criterion) {
    let texts: Vec<String> = (0..ZONES).map(small_zone).collect();
    let root = root_text();
    let mut group = criterion.benchmark_group("load");
    let zones: Vec<Zone> = texts.iter().map(|text| zone(text.as_bytes(), b"\0")).collect();
    let all: usize = zones.iter().map(Zone::records).sum();
    let octets: usize = zones.iter().map(Zone::memory_bytes).sum();
    println!("{} zones: {all} records, {} octets a record", zones.len(), octets / all);
    drop(zones);
    group.sample_size(10).throughput(Throughput::Elements(all as u64));
    group.bench_function("many_zones", |bencher| {
        bencher.iter(|| texts.iter().map(|text| zone(text.as_bytes(), b"\0").records()).sum::<usize>());
    });
    let loaded = zone(&root, b"\0");
    println!("root zone: {} records, {} octets a record", loaded.records(), loaded.memory_bytes() / loaded.records());
    group.throughput(Throughput::Elements(loaded.records() as u64));
    group.bench_function("root", |bencher| bencher.iter(|| zone(&root, b"\0").records()));
    let read = records(&root, b"\0");
    group.bench_function("root_without_reading", |bencher| {
        bencher.iter(|| Zone::from_records(&read).expect("a zone").0.records())
    });
    group.finish();
}

criterion_group!(benches, answers, loading);
criterion_main!(benches);
