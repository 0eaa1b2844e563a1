//! How many queries a second the distribution carries: one controller that has them in memory, one NATS server, and agents that discard them, all on
//! this host. Prints one line of JSON. Usage: distribute [AGENTS [QUERIES]]

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::Instant;

use ldplayer_cluster::{Bus, Dealer, Distributor, Embedded, Link, ShardFeed, Turn};
use ldplayer_core::{Expected, Query, RunTime, Transport};
use ldplayer_replay::Feed;

/// Octets that may wait for an agent.
const ROOM: i64 = 1 << 30;
/// Queries that are given at a time, and made once.
const AT_A_TIME: u64 = 100_000;
/// Octets of a query: a name of 30 octets, with EDNS.
const OCTETS: usize = 57;
const CLIENTS: u32 = 50_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (agents, count) = (arguments.next().unwrap_or(4) as usize, arguments.next().unwrap_or(5_000_000));
    let server = Embedded::start()?;
    let bus = Bus::connect(server.link(), "controller")?;
    let names: Vec<String> = (0..agents).map(|agent| format!("a{agent}")).collect();
    let mut distributor = Distributor::open(&bus, 1, &names, (ROOM, 1), Turn::ALL)?;
    let mut queries: Vec<Query> = (0..AT_A_TIME).map(query).collect();
    let began = Instant::now();
    let link = server.link();
    let read = thread::scope(|scope| {
        let readers: Vec<_> = (0..agents as u32).map(|shard| scope.spawn(move || discard(link, shard))).collect();
        for first in (0..count).step_by(AT_A_TIME as usize) {
            for (number, query) in (first..).zip(&mut queries) {
                (query.index, query.due) = (number, RunTime(number as i64 * 1_000));
            }
            distributor.give(&bus, &queries).map_err(|error| error.to_string())?;
        }
        distributor.finish(&bus).map_err(|error| error.to_string())?;
        let each =
            readers.into_iter().map(|reader| reader.join().unwrap_or_else(|_| Err("a reader panicked".to_owned())));
        each.sum::<Result<u64, String>>()
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let octets = octets_each(&queries, agents)?;
    if read < count {
        return Err(format!("{read} of {count} queries came").into());
    }
    println!(
        "{{\"agents\": {agents}, \"queries\": {read}, \"seconds\": {seconds:.3}, \"per_second\": {:.0}, \"octets_a_query\": {octets:.1}}}",
        read as f64 / seconds
    );
    Ok(())
}

/// Octets of a batch for each query in it.
fn octets_each(queries: &[Query], agents: usize) -> Result<f64, Box<dyn Error>> {
    let (mut dealer, mut dealt) = (Dealer::new(1, agents), Vec::new());
    dealer.deal(queries, &mut dealt)?;
    dealer.finish(&mut dealt);
    Ok(dealt.iter().map(|batch| batch.octets.len()).sum::<usize>() as f64 / queries.len() as f64)
}

fn query(number: u64) -> Query {
    Query {
        index: number,
        due: RunTime(0),
        client: IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + (number as u32).wrapping_mul(2_654_435_761) % CLIENTS)),
        client_port: 1_024,
        server: ([192, 0, 2, 1], 53).into(),
        transport: Transport::Udp,
        class: None,
        expected: Expected::Nothing,
        dependency: None,
        wire: vec![number as u8; OCTETS].into(),
    }
}

/// Takes all queries of a shard, and says how many there were.
fn discard(link: &Link, shard: u32) -> Result<u64, String> {
    let bus = Bus::connect(link, "agent").map_err(|error| error.to_string())?;
    let (mut feed, mut batch, mut count) = (ShardFeed::open(&bus, 1, shard, i64::MAX / 2), Vec::new(), 0);
    loop {
        let more = feed.next(&mut batch).map_err(|error| error.to_string())?;
        count += batch.len() as u64;
        batch.clear();
        if !more {
            return Ok(count);
        }
    }
}
