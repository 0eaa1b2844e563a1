//! Capacity by transport, relative to UDP.

use std::collections::BTreeMap;

use serde::Serialize;

use super::recorded::SearchRecord;

/// The matrix key for transports.
const TRANSPORT: &str = "transport";
/// The transport that others are compared with.
const UDP: &str = "udp";

/// The capacity over a transport relative to UDP, all else equal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The other keys of the matrix with their values.
    pub keys: BTreeMap<String, String>,
    /// The goal.
    pub goal: String,
    /// The transport.
    pub transport: String,
    /// Ratio of the relevant lower bounds; `null` where one of the capacities has no upper bound, since two loads of which is only known that
    /// more may be held have no ratio.
    pub ratio: Option<f64>,
    /// Lower bound of the ratio; `null` if the capacity over UDP has no upper bound.
    pub least: Option<f64>,
    /// Upper bound of the ratio; `null` if the capacity over this transport has no upper bound.
    pub most: Option<f64>,
}

/// The ratios of all searches with results over both their transport and UDP.
pub fn by_transport(searches: &[SearchRecord]) -> Vec<Ratio> {
    let without = |search: &SearchRecord| {
        let others = search.keys.iter().filter(|(key, _)| *key != TRANSPORT);
        others.map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>()
    };
    let over = |search: &SearchRecord| search.keys.get(TRANSPORT).cloned();
    let ratio = |search: &SearchRecord| {
        let transport = over(search).filter(|transport| transport != UDP)?;
        let is_its_udp = |other: &&SearchRecord| {
            over(other).is_some_and(|transport| transport == UDP)
                && without(other) == without(search)
                && other.result.goal == search.result.goal
        };
        let udp = searches.iter().find(is_its_udp)?;
        let of = |part: Option<u64>, whole: Option<u64>| Some(part? as f64 / whole.filter(|whole| *whole > 0)? as f64);
        let between = of(search.result.lower, udp.result.lower)?;
        Some(Ratio {
            keys: without(search),
            goal: search.result.goal.clone(),
            transport,
            ratio: search.result.upper.and(udp.result.upper).map(|_| between),
            least: of(search.result.lower, udp.result.upper),
            most: of(search.result.upper, udp.result.lower),
        })
    };
    searches.iter().filter_map(ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Ended, GoalResult};
    use super::*;

    fn search(server: &str, transport: &str, lower: Option<u64>, upper: Option<u64>) -> SearchRecord {
        let keys = [("server", server), (TRANSPORT, transport)].map(|(key, value)| (key.to_owned(), value.to_owned()));
        let result = GoalResult {
            goal: "1".to_owned(),
            lower,
            upper,
            confidence_percent: None,
            conditional_throughput: None,
            inversions: Vec::new(),
            trials: 1,
            trials_s: 1.0,
            limit: None,
            ended: Ended::Width,
        };
        SearchRecord {
            cell: format!("{server}-{transport}"),
            keys: keys.into(),
            unit: "q/s".to_owned(),
            took_s: 1.0,
            discarded: Vec::new(),
            result,
        }
    }

    #[test]
    fn a_transport_is_held_against_udp_of_the_same_server() {
        let searches = [
            search("nsd", "udp", Some(1_000), Some(1_250)),
            search("nsd", "tcp", Some(500), Some(600)),
            search("knot", "udp", Some(2_000), None),
            search("knot", "tcp", Some(500), None),
            search("meta", "tcp", Some(500), Some(600)),
            search("knot", "dot", None, Some(10)),
        ];
        let ratios = by_transport(&searches);
        let told: Vec<_> = ratios.iter().map(|one| (&*one.keys["server"], one.ratio, one.least, one.most)).collect();
        assert_eq!(told, [("nsd", Some(0.5), Some(0.4), Some(0.6)), ("knot", None, None, None)]);
    }

    /// "at least 500" of "1000 to 1250" was told as 0.5 times.
    #[test]
    fn a_capacity_that_is_only_known_to_be_as_large_has_no_ratio() {
        let udp = || search("nsd", "udp", Some(1_000), Some(1_250));
        let told = |other| by_transport(&[udp(), other]).pop().map(|one| (one.ratio, one.least, one.most));
        assert_eq!(told(search("nsd", "tcp", Some(500), None)), Some((None, Some(0.4), None)));
        let open = [search("nsd", "udp", Some(1_000), None), search("nsd", "tcp", Some(500), Some(600))];
        let ratios = by_transport(&open);
        assert_eq!((ratios[0].ratio, ratios[0].least, ratios[0].most), (None, None, Some(0.6)));
    }
}
