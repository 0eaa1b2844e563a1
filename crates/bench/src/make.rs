//! Reproducible traces of unique names: `q00000000.example.`, `q00000001.example.`, …

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use ldplayer_core::message::{CLASS_IN, QueryParts, flag};
use ldplayer_core::time::Span;

/// Octets of the IPv4 and UDP headers.
const HEADERS: usize = 28;
/// Start of every trace: 2026-01-01, in seconds.
const EPOCH: u64 = 1_767_225_600;

/// Options of `make-trace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    gaps: Gaps,
    /// Length of the trace
    #[arg(long, default_value = "10s")]
    seconds: Span,
    /// Number of clients, with addresses from 10.0.0.0
    #[arg(long, default_value = "65536")]
    clients: u64,
    /// First let every client send one query, at equal gaps over this time
    #[arg(long, default_value = "0s")]
    opening: Span,
    /// Output file (pcap with nanoseconds, raw IP)
    #[arg(short, long)]
    output: PathBuf,
}

/// When queries are due.
#[derive(clap::Args)]
pub struct Gaps {
    /// Exponential gaps with this many queries per second
    #[arg(long, conflicts_with = "gap", required_unless_present = "gap")]
    poisson: Option<f64>,
    /// Equal gaps
    #[arg(long)]
    gap: Option<Span>,
}

impl Gaps {
    /// The gap in nanoseconds, if all are equal.
    pub fn equal(&self) -> Option<i64> {
        self.gap.map(Span::ns)
    }

    /// Due times in nanoseconds from 0 until before `end`.
    pub fn times(&self, end: i64) -> impl Iterator<Item = i64> {
        let (poisson, gap) = (self.poisson, self.gap.map_or(0, Span::ns).max(1));
        let (mut state, mut exact, mut number) = (0x9e37_79b9_7f4a_7c15_u64, 0.0_f64, 0_i64);
        let next = move || {
            let time = if poisson.is_some() { exact as i64 } else { number * gap };
            number += 1;
            exact += poisson.map_or(0.0, |qps| -(1.0 - uniform(&mut state)).ln() * 1e9 / qps);
            Some(time)
        };
        std::iter::from_fn(next).take_while(move |&time| time < end)
    }
}

/// Writes the trace.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&args.output)?);
    file.write_all(&pcap_header())?;
    let (clients, opening) = (args.clients.max(1), args.opening.ns());
    let first = (0..if opening > 0 { clients as i64 } else { 0 }).map(|number| number * opening / clients as i64);
    let times = first.chain(args.gaps.times(args.seconds.ns()).map(|time| opening + time));
    for (number, time) in times.enumerate() {
        file.write_all(&record(number as u64, time as u64, clients))?;
    }
    file.flush()?;
    Ok(())
}

/// The message of query `number`.
pub fn message(number: u64) -> Vec<u8> {
    let label = format!("q{number:08}");
    let name = [&[label.len() as u8], label.as_bytes(), b"\x07example\0"].concat();
    compose(number as u16, &name)
}

/// The same behind its length, as over TCP.
pub fn framed(number: u64) -> Vec<u8> {
    let message = message(number);
    [&(message.len() as u16).to_be_bytes()[..], &message].concat()
}

/// A query for the addresses of a name in plain text; `None` when that is none.
pub fn question(text: &str) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len() + 2);
    for label in text.trim_end_matches('.').split('.') {
        name.push(u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length))?);
        name.extend(label.as_bytes());
    }
    name.push(0);
    (name.len() <= 255).then(|| compose(0, &name))
}

fn compose(id: u16, name: &[u8]) -> Vec<u8> {
    let edns = Some((1_232, true));
    let parts = QueryParts { id, flags: flag::RD, name, qtype: 1, qclass: CLASS_IN, edns };
    let mut wire = Vec::with_capacity(64);
    parts.compose(&mut wire);
    wire
}

/// The number of the query, read back from its name.
pub fn number(message: &[u8]) -> Option<u64> {
    let label = message.get(13..22)?.strip_prefix(b"q")?;
    std::str::from_utf8(label).ok()?.parse().ok()
}

/// The address of a client.
pub fn client(number: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 | (number as u32 & 0x00ff_ffff))
}

/// Nanoseconds, raw IP (link type 101), little endian.
fn pcap_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    header[4] = 2;
    header[6] = 4;
    header[16..20].copy_from_slice(&65_535_u32.to_le_bytes());
    header[20] = 101;
    header
}

fn record(number: u64, time: u64, clients: u64) -> Vec<u8> {
    let message = message(number);
    let length = (HEADERS + message.len()) as u32;
    let mut record = Vec::with_capacity(16 + length as usize);
    let seconds = (EPOCH + time / 1_000_000_000) as u32;
    for word in [seconds, (time % 1_000_000_000) as u32, length, length] {
        record.extend_from_slice(&word.to_le_bytes());
    }
    // IPv4 without options: TTL 64, UDP, no checksum; then UDP from port 1024 to 53, without checksum.
    record.extend_from_slice(&[0x45, 0, (length >> 8) as u8, length as u8, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    record.extend_from_slice(&client(number % clients).octets());
    record.extend_from_slice(&[127, 0, 0, 1, 4, 0, 0, 53]);
    let udp = length - 20;
    record.extend_from_slice(&[(udp >> 8) as u8, udp as u8, 0, 0]);
    record.extend_from_slice(&message);
    record
}

/// The next number in [0, 1) of a xorshift generator.
pub fn uniform(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_back() {
        assert_eq!(number(&message(12_345_678)), Some(12_345_678));
        assert_eq!(number(b"short"), None);
    }

    #[test]
    fn poisson_times_have_the_rate_asked_for() {
        let gaps = Gaps { poisson: Some(20_000.0), gap: None };
        let count = gaps.times(10_000_000_000).count();
        assert!((198_000..202_000).contains(&count), "{count}");
        let gaps = Gaps { poisson: None, gap: Some("10ms".parse().unwrap()) };
        assert_eq!(gaps.times(100_000_000).last(), Some(90_000_000));
    }
}
