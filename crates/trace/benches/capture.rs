//! How fast a plain pcap of small queries becomes transactions, in packets a second.

use std::io::Write;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ldplayer_trace::{Input, OpenOptions, open};

/// Packets of the generated capture.
const PACKETS: u32 = 300_000;

/// Ethernet, IPv4, UDP and the query `ccccc.example. IN A`, sent by client number `number`.
fn packet(number: u32) -> Vec<u8> {
    let mut dns = vec![0; 12];
    dns[..6].copy_from_slice(&[(number >> 8) as u8, number as u8, 0, 0, 0, 1]);
    dns.extend_from_slice(b"\x05ccccc\x07example\0\0\x01\0\x01");
    let udp = (8 + dns.len()) as u16;
    let mut packet = vec![0; 12];
    packet.extend_from_slice(&[8, 0, 0x45, 0]);
    packet.extend_from_slice(&(20 + udp).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, (number >> 16) as u8, (number >> 8) as u8, number as u8]);
    packet.extend_from_slice(&[192, 0, 2, 1, 0x9c, 0x40, 0, 53]);
    packet.extend_from_slice(&udp.to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(&dns);
    packet
}

fn capture() -> Vec<u8> {
    let mut octets = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1_u32] {
        octets.extend_from_slice(&word.to_le_bytes());
    }
    for number in 0..PACKETS {
        let packet = packet(number);
        let length = packet.len() as u32;
        for word in [1_700_000_000 + number / 100_000, number % 100_000 * 10, length, length] {
            octets.extend_from_slice(&word.to_le_bytes());
        }
        octets.extend_from_slice(&packet);
    }
    octets
}

fn read_all(path: &Path) -> u64 {
    let mut source = open(&[Input::File(path.to_owned())], &OpenOptions::default()).expect("a capture");
    let mut batch = Vec::new();
    while source.read(&mut batch).expect("transactions") {
        batch.clear();
    }
    source.tally().queries
}

fn pcap(criterion: &mut Criterion) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&capture()).expect("space for the capture");
    let path = file.path().to_owned();
    assert_eq!(read_all(&path), u64::from(PACKETS));
    let mut group = criterion.benchmark_group("capture");
    group.throughput(Throughput::Elements(u64::from(PACKETS))).sample_size(10);
    group.bench_function("pcap_of_queries", |bencher| bencher.iter(|| read_all(&path)));
    group.finish();
}

criterion_group!(benches, pcap);
criterion_main!(benches);
