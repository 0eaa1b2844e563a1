//! Rows per second from a Parquet trace to transactions on one core; the aim is five million.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ldplayer_core::message::QueryParts;
use ldplayer_core::{TraceTime, Transaction, Transport};
use ldplayer_trace::{Format, Input, OpenOptions, create, open};

const ROWS: u64 = 1_000_000;

/// A trace like that of a root server: 20,000 clients, names that hardly repeat, queries of 60 to 100 octets.
fn transaction(row: u64) -> Transaction {
    let random = row.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let label = format!("{random:016x}{:0width$}", row % 1_000, width = 16 + (random % 24) as usize);
    let mut name = vec![label.len() as u8];
    name.extend_from_slice(label.as_bytes());
    name.extend_from_slice(b"\x07example\0");
    let mut wire = Vec::new();
    let parts =
        QueryParts { id: random as u16, flags: 0x100, name: &name, qtype: 1, qclass: 1, edns: Some((1232, true)) };
    parts.compose(&mut wire);
    let client = 0x0a00_0000 + (random >> 40) as u32 % 20_000;
    Transaction {
        index: 0,
        time: TraceTime((row * 25_000 + random % 20_000) as i64),
        client: (std::net::Ipv4Addr::from_bits(client), random as u16).into(),
        server: "192.0.2.53:53".parse().unwrap_or_else(|_| unreachable!("a constant")),
        transport: Transport::Udp,
        stream: None,
        query: Some(Bytes::from(wire)),
        response: None,
        response_delay: None,
        retry_of: None,
    }
}

fn make(path: &Path) {
    let mut sink = create(path, Format::Parquet, true).unwrap();
    for start in (0..ROWS).step_by(10_000) {
        let mut batch: Vec<Transaction> = (start..start + 10_000).map(transaction).collect();
        sink.write(&mut batch).unwrap();
    }
    sink.finish().unwrap();
}

fn read(path: &Path) -> u64 {
    let mut source = open(&[Input::File(PathBuf::from(path))], &OpenOptions::default()).unwrap();
    let (mut batch, mut rows) = (Vec::new(), 0);
    loop {
        let more = source.read(&mut batch).unwrap();
        rows += batch.len() as u64;
        batch.clear();
        if !more {
            return rows;
        }
    }
}

fn parquet(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bench.parquet");
    make(&path);
    assert_eq!(read(&path), ROWS);
    let mut group = criterion.benchmark_group("parquet");
    group.throughput(Throughput::Elements(ROWS)).sample_size(10).measurement_time(Duration::from_secs(5));
    group.bench_function("read", |bencher| bencher.iter(|| read(&path)));
    group.finish();
}

criterion_group!(benches, parquet);
criterion_main!(benches);
