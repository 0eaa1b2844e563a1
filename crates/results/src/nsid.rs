//! Counts responses by the server that sent them (NSID, RFC 5001).

use std::cmp::Reverse;
use std::fmt::Write as _;

use hashbrown::HashMap;
use ldplayer_core::client::is_usable;
use ldplayer_core::histogram::Histogram;
use ldplayer_core::{Message, Transaction};

use crate::analysis::needed;
use crate::model::{ServerAnswers, Tail};

/// Identifiers that are counted apart. A histogram has some 300 kB, and whoever answers may send any identifier.
const MOST: usize = 100;

/// The responses of each server.
#[derive(Clone, Debug, Default)]
pub struct NsidCounts {
    apart: HashMap<Vec<u8>, Counted>,
    others: Option<Counted>,
}

#[derive(Clone, Debug, Default)]
struct Counted {
    failing: u64,
    latency: Histogram,
}

impl NsidCounts {
    /// Counts a transaction whose response has an identifier.
    pub fn add(&mut self, transaction: &Transaction) {
        let message = transaction.response.as_deref().and_then(Message::new);
        let Some((message, delay)) = message.zip(transaction.response_delay) else { return };
        let Some(nsid) = message.nsid() else { return };
        let counted = match self.apart.len() < MOST || self.apart.contains_key(nsid) {
            true => self.apart.entry_ref(nsid).or_default(),
            false => self.others.get_or_insert_default(),
        };
        counted.failing += u64::from(!is_usable(message.rcode()));
        counted.latency.record(delay);
    }

    /// The servers, the one with most responses first.
    pub fn servers(&self) -> Vec<ServerAnswers> {
        let mut servers: Vec<ServerAnswers> =
            self.apart.iter().map(|(nsid, counted)| counted.answers(Some(shown(nsid)))).collect();
        servers.sort_by_cached_key(|server| (Reverse(server.latency_ms.queries), server.nsid.clone()));
        servers.extend(self.others.iter().map(|counted| counted.answers(None)));
        servers
    }
}

impl Counted {
    fn answers(&self, nsid: Option<String>) -> ServerAnswers {
        let queries = self.latency.len();
        let ms = |ns: i64| ns as f64 / 1e6;
        let at = |quantile| (queries >= needed(quantile)).then(|| ms(self.latency.quantile(quantile)));
        let latency_ms = Tail {
            queries,
            mean: (queries > 0).then(|| self.latency.mean() / 1e6),
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: Some(ms(self.latency.max())),
            good: None,
        };
        ServerAnswers { nsid, failing: self.failing, latency_ms }
    }
}

/// Most servers send text, though any octets may come (RFC 5001 §3.1).
fn shown(nsid: &[u8]) -> String {
    match std::str::from_utf8(nsid) {
        Ok(text) if text.chars().all(|letter| letter == ' ' || letter.is_ascii_graphic()) => text.to_owned(),
        _ => nsid.iter().fold("0x".to_owned(), |mut text, octet| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{octet:02x}");
            text
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::{TraceTime, Transport};

    /// A response with this RCODE and the options, after so many milliseconds.
    fn answered(rcode: u8, options: &[u8], ms: i64) -> Transaction {
        let mut response = vec![0, 1, 0x80, rcode, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0];
        response.extend_from_slice(&(options.len() as u16).to_be_bytes());
        response.extend_from_slice(options);
        Transaction {
            index: 0,
            time: TraceTime(0),
            client: "192.0.2.1:1024".parse().unwrap(),
            server: "192.0.2.2:53".parse().unwrap(),
            transport: Transport::Udp,
            stream: None,
            query: None,
            response: Some(response.into()),
            response_delay: Some(ms * 1_000_000),
            retry_of: None,
        }
    }

    fn nsid(value: &[u8]) -> Vec<u8> {
        [&[0, 3, 0, value.len() as u8], value].concat()
    }

    #[test]
    fn responses_are_counted_by_the_server_that_sent_them() {
        let mut counts = NsidCounts::default();
        (0..9).for_each(|ms| counts.add(&answered(0, &nsid(b"ams1"), ms)));
        counts.add(&answered(2, &nsid(b"ams1"), 70));
        counts.add(&answered(3, &nsid(&[0xff, 0]), 5));
        counts.add(&answered(0, &nsid(b""), 5));
        counts.add(&answered(0, &[], 5));
        counts.add(&Transaction { response: None, ..answered(0, &nsid(b"ams1"), 5) });
        let servers = counts.servers();
        let told: Vec<_> = servers
            .iter()
            .map(|of| {
                (of.nsid.as_deref().unwrap(), of.latency_ms.queries, of.failing, of.latency_ms.max.unwrap().round())
            })
            .collect();
        assert_eq!(told, [("ams1", 10, 1, 70.0), ("0xff00", 1, 0, 5.0)]);
        assert_eq!((servers[0].latency_ms.p50.map(f64::round), servers[0].latency_ms.p90), (Some(4.0), None));
        assert_eq!(servers[1].latency_ms.p50, None, "one response has no median");
    }

    #[test]
    fn identifiers_that_never_end_are_counted_together() {
        let mut counts = NsidCounts::default();
        (0..3 * MOST).for_each(|at| counts.add(&answered(0, &nsid(format!("s{at}").as_bytes()), 1)));
        let servers = counts.servers();
        let last = servers.last().unwrap();
        assert_eq!((servers.len(), last.nsid.as_deref(), last.latency_ms.queries), (MOST + 1, None, 2 * MOST as u64));
    }
}
