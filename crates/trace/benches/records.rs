//! How fast dnstap and C-DNS become transactions, in messages a second.

use std::io::{Read, Write};
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ldplayer_trace::{Input, OpenOptions, open};

/// Transactions of the generated stream, each of a query and a response.
const TRANSACTIONS: u32 = 150_000;
/// Blocks of the repeated C-DNS file.
const BLOCKS: usize = 100;
/// Octets of the C-DNS file before its blocks.
const PREAMBLE: usize = 227;

/// The frame of a message `ccccc.example. IN A` over UDP and IPv4, as Unbound writes it.
fn frame(number: u32, is_response: bool) -> Vec<u8> {
    let mut dns =
        vec![(number >> 8) as u8, number as u8, if is_response { 0x80 } else { 0 }, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    dns.extend_from_slice(b"\x05ccccc\x07example\0\0\x01\0\x01");
    let client = [10, (number >> 16) as u8, (number >> 8) as u8, number as u8];
    let mut message = vec![0x08, if is_response { 6 } else { 5 }, 0x10, 1, 0x18, 1, 0x22, 4];
    message.extend_from_slice(&client);
    message.extend_from_slice(&[0x2a, 4, 192, 0, 2, 1, 0x30, 0xc0, 0xb8, 0x02, 0x38, 53]);
    // Seconds and nanoseconds, then the message: fields 8 to 10 of a query, 12 to 14 of a response.
    let first = if is_response { 12 } else { 8 };
    message.extend_from_slice(&[first << 3, 0x80, 0xe2, 0xcf, 0xaa, 0x06, (first + 1) << 3 | 5]);
    message.extend_from_slice(&(number * 5_000 + u32::from(is_response)).to_le_bytes());
    message.extend_from_slice(&[(first + 2) << 3 | 2, dns.len() as u8]);
    message.extend_from_slice(&dns);
    let mut frame = b"\x0a\x08resolver\x12\x0eunbound 1.22.0\x72".to_vec();
    frame.push(message.len() as u8);
    frame.extend_from_slice(&message);
    frame.extend_from_slice(&[0x78, 1]);
    [&(frame.len() as u32).to_be_bytes(), &*frame].concat()
}

fn dnstap() -> Vec<u8> {
    let mut octets = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap".to_vec();
    for number in 0..TRANSACTIONS {
        octets.extend(frame(number, false));
        octets.extend(frame(number, true));
    }
    octets
}

/// The bundled file with its block over and over.
fn cdns() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/clients-20160629.cdns.xz");
    let file = std::fs::File::open(path).expect("the bundled file");
    let mut octets = Vec::new();
    liblzma::read::XzDecoder::new(file).read_to_end(&mut octets).expect("a sound file");
    // Behind the preamble: the blocks up to a break, each an item of CBOR.
    let (head, blocks) = octets.split_at(PREAMBLE + 1);
    let block = &blocks[..blocks.len() - 1];
    [head, &block.repeat(BLOCKS), &[0xff]].concat()
}

fn read_all(path: &Path) -> u64 {
    let mut source = open(&[Input::File(path.to_owned())], &OpenOptions::default()).expect("a record of traffic");
    let mut batch = Vec::new();
    while source.read(&mut batch).expect("transactions") {
        batch.clear();
    }
    source.tally().dns_messages
}

fn records(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("records");
    for (name, octets, messages) in
        [("dnstap", dnstap(), 2 * u64::from(TRANSACTIONS)), ("cdns", cdns(), 1_998 * BLOCKS as u64)]
    {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(&octets).expect("space for it");
        let path = file.path().to_owned();
        assert_eq!(read_all(&path), messages);
        group.throughput(Throughput::Elements(messages)).sample_size(10);
        group.bench_function(name, |bencher| bencher.iter(|| read_all(&path)));
    }
    group.finish();
}

criterion_group!(benches, records);
criterion_main!(benches);
