//! Deals queries, in trace order, into batches for each agent.

use bytes::Bytes;
use ldplayer_core::Query;
use ldplayer_core::shard::shard;
use ldplayer_core::wire::{BatchHeader, BatchWriter, WireError};

/// Nanoseconds of run time after which a batch is sent even if it is not full, so that agents with few clients are as far ahead as others.
const OLDEST: i64 = 100_000_000;

/// A batch for one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dealt {
    /// The agent, by its number.
    pub agent: usize,
    /// The batch.
    pub octets: Bytes,
    /// The number of queries in it.
    pub queries: u32,
}

/// Deals queries to agents by client address, in the order of the trace.
#[derive(Debug)]
pub struct Dealer {
    hands: Vec<Hand>,
    /// The due time of the next check for old batches. It depends only on the queries, so that the same trace always gives the same batches.
    look_at: i64,
}

/// The pending batch of an agent.
#[derive(Debug)]
struct Hand {
    batch: BatchWriter<Query>,
    /// Due time of the first query of the batch.
    first: Option<i64>,
    queries: u32,
}

impl Dealer {
    /// For a run of this number with this many agents.
    pub fn new(run: u64, agents: usize) -> Self {
        let hand =
            |shard| Hand { batch: BatchWriter::new(BatchHeader { run, shard, sequence: 0 }), first: None, queries: 0 };
        Self { hands: (0..agents as u32).map(hand).collect(), look_at: i64::MIN }
    }

    /// Deals queries, and appends batches that are full or old enough to `dealt`.
    ///
    /// # Errors
    /// A message is longer than DNS allows, which traces do not have.
    pub fn deal(&mut self, queries: &[Query], dealt: &mut Vec<Dealt>) -> Result<(), WireError> {
        for query in queries {
            let agent = shard(query.client, self.hands.len());
            if self.hands[agent].push(query)? {
                dealt.push(self.take(agent));
            }
            if query.due.0 >= self.look_at {
                self.take_older_than(query.due.0 - OLDEST, dealt);
                self.look_at = query.due.0 + OLDEST / 10;
            }
        }
        Ok(())
    }

    /// The remaining batches at the end of the trace.
    pub fn finish(&mut self, dealt: &mut Vec<Dealt>) {
        self.take_older_than(i64::MAX, dealt);
    }

    fn take_older_than(&mut self, due: i64, dealt: &mut Vec<Dealt>) {
        for agent in 0..self.hands.len() {
            if self.hands[agent].first.is_some_and(|first| first <= due) {
                dealt.push(self.take(agent));
            }
        }
    }

    fn take(&mut self, agent: usize) -> Dealt {
        let hand = &mut self.hands[agent];
        hand.first = None;
        Dealt { agent, octets: hand.batch.take(), queries: std::mem::take(&mut hand.queries) }
    }
}

impl Hand {
    /// Whether the batch is now full.
    fn push(&mut self, query: &Query) -> Result<bool, WireError> {
        let full = self.batch.push(query)?;
        self.first.get_or_insert(query.due.0);
        self.queries += 1;
        Ok(full)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::IpAddr;

    use ldplayer_core::{Expected, RunTime, Transport, wire};
    use proptest::prelude::*;

    use super::*;

    fn query(index: u64, client: u32, octets: usize) -> Query {
        Query {
            index,
            due: RunTime(index as i64 * 1_000_000),
            client: IpAddr::V4(client.into()),
            client_port: 1_024,
            server: "192.0.2.1:53".parse().unwrap(),
            transport: Transport::Udp,
            class: None,
            expected: Expected::Nothing,
            dependency: None,
            wire: vec![7; octets].into(),
        }
    }

    /// What each agent reads of what it was dealt.
    fn read(dealt: &[Dealt], agents: usize) -> Vec<Vec<Query>> {
        let mut read = vec![Vec::new(); agents];
        let mut sequences = vec![0; agents];
        for batch in dealt {
            let (header, rows) = wire::read::<Query>(&batch.octets).unwrap();
            assert_eq!((header.shard as usize, header.sequence), (batch.agent, sequences[batch.agent]));
            sequences[batch.agent] += 1;
            read[batch.agent].extend(rows);
        }
        read
    }

    #[test]
    fn a_batch_that_is_not_full_goes_after_a_while() {
        let mut dealer = Dealer::new(1, 1);
        let mut dealt = Vec::new();
        dealer.deal(&[query(0, 1, 40)], &mut dealt).unwrap();
        dealer.deal(&[query(99, 1, 40)], &mut dealt).unwrap();
        assert_eq!(dealt.len(), 0);
        dealer.deal(&[query(110, 1, 40)], &mut dealt).unwrap();
        assert_eq!(read(&dealt, 1)[0].len(), 3);
        dealer.finish(&mut dealt);
        assert_eq!(dealt.len(), 1, "nothing was left");
    }

    proptest! {
        #[test]
        fn every_query_comes_once_in_order_to_the_agent_of_its_client(
            agents in 1_usize..9,
            clients in proptest::collection::vec((0_u32..50, 12_usize..2_000), 0..600),
        ) {
            let all: Vec<Query> = (0..).zip(&clients).map(|(index, &(client, octets))| query(index, client, octets)).collect();
            let (mut dealer, mut dealt) = (Dealer::new(9, agents), Vec::new());
            for part in all.chunks(37) {
                dealer.deal(part, &mut dealt).unwrap();
            }
            dealer.finish(&mut dealt);
            let read = read(&dealt, agents);
            let owner: HashMap<IpAddr, usize> =
                read.iter().enumerate().flat_map(|(agent, rows)| rows.iter().map(move |row| (row.client, agent))).collect();
            for (agent, rows) in read.iter().enumerate() {
                prop_assert!(rows.is_sorted_by_key(|row| row.index));
                prop_assert!(rows.iter().all(|row| owner[&row.client] == agent && *row == all[row.index as usize]));
            }
            prop_assert_eq!(read.iter().map(Vec::len).sum::<usize>(), all.len());
            let told = |agent| dealt.iter().filter(|batch| batch.agent == agent).map(|batch| batch.queries as usize).sum::<usize>();
            prop_assert!(read.iter().enumerate().all(|(agent, rows)| told(agent) == rows.len()));
        }

        #[test]
        fn a_trace_makes_the_same_batches_however_it_is_read(
            clients in proptest::collection::vec((0_u32..50, 12_usize..2_000), 0..600),
            pieces in (1_usize..200, 1_usize..200),
        ) {
            let all: Vec<Query> = (0..).zip(&clients).map(|(index, &(client, octets))| query(index, client, octets)).collect();
            let batches = |piece: usize| {
                let (mut dealer, mut dealt) = (Dealer::new(9, 3), Vec::new());
                all.chunks(piece).for_each(|part| dealer.deal(part, &mut dealt).unwrap());
                dealer.finish(&mut dealt);
                dealt
            };
            prop_assert_eq!(batches(pieces.0), batches(pieces.1));
        }
    }
}
