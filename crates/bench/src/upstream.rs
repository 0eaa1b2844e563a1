//! A synthetic capture between a resolver and authoritative servers: root, com, and one server for each of many zones.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use bytes::Bytes;
use ldplayer_core::message::{CLASS_IN, QueryParts};
use ldplayer_core::name;
use ldplayer_core::time::TraceTime;
use ldplayer_core::{Transaction, Transport};
use ldplayer_trace::{Format, create};

/// Options of `make-upstream`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of zones below com
    #[arg(long, default_value = "1000")]
    zones: u64,
    /// Number of responses: one referral from the root, one from com for each zone, and answers of the zones
    #[arg(long, default_value = "1000000")]
    responses: u64,
    /// How often each name is queried
    #[arg(long, default_value = "2")]
    repeats: u64,
    /// Output file (pcap)
    #[arg(short, long)]
    output: PathBuf,
}

/// A response to write.
struct Response {
    server: Ipv4Addr,
    question: String,
    flags: u16,
    answer: Vec<u8>,
    authority: Vec<u8>,
    additional: Vec<u8>,
}

const REFERRAL: u16 = 0x8000;
const ANSWER: u16 = 0x8400;
const NXDOMAIN: u16 = 0x8403;
const ROOT: Ipv4Addr = Ipv4Addr::new(198, 41, 0, 4);
const COM: Ipv4Addr = Ipv4Addr::new(192, 5, 6, 30);

/// Writes the capture.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut sink = create(&args.output, Format::Pcap, true)?;
    let mut batch = Vec::with_capacity(1_024);
    for number in 0..args.responses {
        batch.push(transaction(number, &response(number, args)));
        if batch.len() == batch.capacity() {
            sink.write(&mut batch)?;
        }
    }
    sink.write(&mut batch)?;
    sink.finish()?;
    Ok(())
}

fn response(number: u64, args: &Args) -> Response {
    let ns = |zone: &str, host: &str| record(zone, 2, &wire(host));
    match number.checked_sub(1) {
        None => Response {
            server: ROOT,
            question: "site0.com".into(),
            flags: REFERRAL,
            answer: Vec::new(),
            authority: ns("com", "a.gtld-servers.net"),
            additional: record("a.gtld-servers.net", 1, &COM.octets()),
        },
        Some(zone) if zone < args.zones => {
            let (apex, host) = (format!("site{zone}.com"), format!("ns1.site{zone}.com"));
            Response {
                server: COM,
                flags: REFERRAL,
                answer: Vec::new(),
                authority: ns(&apex, &host),
                additional: record(&host, 1, &server(zone).octets()),
                question: apex,
            }
        }
        Some(number) => answer(number % args.zones, (number / args.zones - 1) / args.repeats),
    }
}

/// Nine names of ten exist.
fn answer(zone: u64, host: u64) -> Response {
    let (apex, name) = (format!("site{zone}.com"), format!("h{host}.site{zone}.com"));
    let soa = [wire(&apex), wire(&apex), vec![0; 20]].concat();
    let exists = host % 10 != 9;
    Response {
        server: server(zone),
        flags: if exists { ANSWER } else { NXDOMAIN },
        answer: if exists { record(&name, 1, &(host as u32).to_be_bytes()) } else { Vec::new() },
        authority: if exists { record(&apex, 2, &wire(&format!("ns1.{apex}"))) } else { record(&apex, 6, &soa) },
        additional: if exists { record(&format!("ns1.{apex}"), 1, &server(zone).octets()) } else { Vec::new() },
        question: name,
    }
}

fn server(zone: u64) -> Ipv4Addr {
    Ipv4Addr::from_bits(0xc612_0000 + zone as u32)
}

fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::with_capacity(text.len() + 2);
    // Names made here are names.
    name::parse(text, &mut wire).unwrap_or_default();
    wire
}

fn record(owner: &str, rtype: u16, data: &[u8]) -> Vec<u8> {
    let fixed: Vec<u8> =
        [rtype, CLASS_IN, 0, 3_600, data.len() as u16].iter().flat_map(|word| word.to_be_bytes()).collect();
    [wire(owner), fixed, data.to_vec()].concat()
}

fn transaction(number: u64, response: &Response) -> Transaction {
    let id = number as u16;
    let name = wire(&response.question);
    let mut query = Vec::with_capacity(64);
    QueryParts { id, flags: 0, name: &name, qtype: 1, qclass: CLASS_IN, edns: None }.compose(&mut query);
    let mut message = query.clone();
    message[2..4].copy_from_slice(&response.flags.to_be_bytes());
    for (at, section) in [(6, &response.answer), (8, &response.authority), (10, &response.additional)] {
        message[at + 1] = u8::from(!section.is_empty());
        message.extend_from_slice(section);
    }
    Transaction {
        index: 0,
        time: TraceTime(1_767_225_600_000_000_000 + number as i64 * 50_000),
        client: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1_024 + id % 60_000),
        server: SocketAddr::new(response.server.into(), 53),
        transport: Transport::Udp,
        stream: None,
        query: Some(Bytes::from(query)),
        response: Some(Bytes::from(message)),
        response_delay: Some(20_000),
        retry_of: None,
    }
}
