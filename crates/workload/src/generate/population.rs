//! The clients of a model: how often each sends queries, its address and its fixed properties.

use std::net::IpAddr;

use ldplayer_core::random::{draw, subkey, unit};

use super::model::{Clients, Query};
use super::weighted::Weighted;
use crate::mutate::Pools;

/// A client's fixed properties.
const V6: u8 = 1;
const EDNS: u8 = 2;
const DNSSEC_OK: u8 = 4;

/// All clients of a model, about ten octets each.
#[derive(Debug)]
pub struct Population {
    activity: Weighted,
    /// Each client's fixed properties and payload size, packed.
    habits: Vec<(u8, u8)>,
    pools: Pools,
}

/// One client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address.
    pub address: IpAddr,
    /// Whether it uses EDNS.
    pub edns: bool,
    /// Whether it sets the DO bit.
    pub dnssec_ok: bool,
    /// The index of its payload size.
    pub size: usize,
}

impl Population {
    /// Generates the clients. Shares in the model are of queries, while properties are fixed for each client; to meet the shares, properties
    /// are assigned from the busiest client down, each to a client whose activity still fits.
    pub fn new(clients: &Clients, query: &Query, key: u64) -> Self {
        let weights = clients.activity.weights(clients.count as usize);
        let mut habits = vec![0; weights.len()];
        choose(&weights, |_| true, clients.ipv6, subkey(key, 1), |at| habits[at] |= V6);
        let mut edns = vec![false; weights.len()];
        choose(&weights, |_| true, query.edns, subkey(key, 2), |at| edns[at] = true);
        let of_edns = if query.edns > 0.0 { query.dnssec_ok / query.edns } else { 0.0 };
        choose(&weights, |at| edns[at], of_edns, subkey(key, 3), |at| habits[at] |= DNSSEC_OK);
        habits.iter_mut().zip(&edns).for_each(|(habits, edns)| *habits |= if *edns { EDNS } else { 0 });
        let sizes = Weighted::new(&query.sizes.iter().take(256).map(|(_, weight)| *weight).collect::<Vec<f64>>());
        let sizes = (0..weights.len() as u64).map(|at| sizes.pick(draw(subkey(key, 4), at)) as u8);
        let habits = habits.into_iter().zip(sizes).collect();
        Self { activity: Weighted::new(&weights), habits, pools: clients.pools }
    }

    /// Looks up the clients for random numbers, into `clients`. Each step is done for all of them, so that cache misses overlap.
    pub fn pick(&self, random: impl Iterator<Item = u64>, numbers: &mut Vec<usize>, clients: &mut Vec<Client>) {
        numbers.clear();
        numbers.extend(random.map(|random| self.activity.pick(random)));
        clients.clear();
        clients.extend(numbers.iter().map(|&number| self.client(number)));
    }

    fn client(&self, number: usize) -> Client {
        let (habits, size) = self.habits[number];
        let pool = if habits & V6 == 0 { &self.pools.v4 } else { &self.pools.v6 };
        Client {
            address: pool.nth(number as u64 + 1),
            edns: habits & EDNS != 0,
            dnssec_ok: habits & DNSSEC_OK != 0,
            size: usize::from(size),
        }
    }
}

/// Selects `eligible` clients whose weights add up to `share` of all eligible weights.
fn choose(weights: &[f64], eligible: impl Fn(usize) -> bool, share: f64, key: u64, mut take: impl FnMut(usize)) {
    let (mut seen, mut taken) = (0.0, 0.0);
    for (at, weight) in weights.iter().enumerate().filter(|(at, _)| eligible(*at)) {
        seen += weight;
        if unit(draw(key, at as u64)) < (share * seen - taken) / weight {
            taken += weight;
            take(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Activity, Model};
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn shares_of_queries_are_met_by_clients_of_one_habit() {
        let mut model = Model::default();
        model.clients.count = 5_000;
        model.clients.activity = Activity::Zipf(1.1);
        model.clients.ipv6 = 0.15;
        (model.query.edns, model.query.dnssec_ok) = (0.9, 0.72);
        model.query.sizes = vec![(512, 1.0), (4_096, 3.0)];
        let population = Population::new(&model.clients, &model.query, 5);
        let mut picked: Vec<Client> = Vec::new();
        population.pick((0..100_000).map(|count| draw(9, count)), &mut Vec::new(), &mut picked);
        let share = |is: &dyn Fn(&Client) -> bool| picked.iter().filter(|client| is(client)).count() as f64 / 1e5;
        for (found, wanted) in [
            (share(&|client| client.edns), 0.9),
            (share(&|client| client.dnssec_ok), 0.72),
            (share(&|client| client.address.is_ipv6()), 0.15),
        ] {
            assert!((found - wanted).abs() < 0.01, "{found} {wanted}");
        }
        let mut habits: HashMap<IpAddr, Client> = HashMap::new();
        assert!(picked.iter().all(|client| habits.entry(client.address).or_insert(*client) == client));
        assert!(picked.iter().all(|client| client.edns || !client.dnssec_ok));
    }
}
