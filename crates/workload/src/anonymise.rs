//! Transactions whose clients nobody can know again: pseudonyms for addresses and client subnets, and no cookies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use ldplayer_core::message::{HEADER, OPT};
use ldplayer_core::{Message, Transaction};

use crate::mutate::anonymise::{CryptoPan, KEY};

/// A client subnet (RFC 7871).
const SUBNET: u16 = 8;
/// EDNS options that say nothing about a client: NSID, DAU, DHU, N3U, EXPIRE, TCP keepalive, padding, key tags, extended errors, report
/// channel and zone version.
const HARMLESS: [u16; 11] = [3, 5, 6, 7, 9, 11, 12, 14, 15, 18, 19];
/// Octets of a client subnet before its address: family, source prefix, scope prefix (RFC 7871 §6).
const BEFORE_ADDRESS: usize = 4;

/// What stands behind the question of a damaged message: the beginning of no name that is whole, so that it stays damaged.
const OVERWRITTEN: u8 = 0xff;

/// Replaces clients by the pseudonyms of one key. Whoever has the key can find the addresses again.
#[derive(Clone, Debug)]
pub struct Anonymiser {
    pan: CryptoPan,
}

impl Anonymiser {
    /// Pseudonyms of this key.
    pub fn new(key: [u8; KEY]) -> Self {
        Self { pan: CryptoPan::new(key) }
    }

    /// The pseudonym of an address: addresses have as long a prefix in common as their pseudonyms (Crypto-PAn).
    pub fn address(&mut self, client: IpAddr) -> IpAddr {
        self.pan.pseudonym(client)
    }

    /// Replaces the client, and client subnets in both messages, by pseudonyms. The values of all other EDNS options that may be about a
    /// client become zeros, cookies among them, and of a damaged message everything behind the question is overwritten. No message changes its size.
    /// Names and records stay.
    pub fn transaction(&mut self, transaction: &mut Transaction) {
        let client = self.address(transaction.client.ip());
        transaction.client = SocketAddr::new(client, transaction.client.port());
        for message in [&mut transaction.query, &mut transaction.response].into_iter().flatten() {
            let mut octets = message.to_vec();
            self.message(&mut octets);
            *message = octets.into();
        }
    }

    fn message(&mut self, octets: &mut [u8]) {
        let Some(message) = Message::new(octets) else { return octets.fill(0) };
        let question = message.question().map_or(HEADER, |question| HEADER + question.len());
        let (options, end) = options(&message).unwrap_or((Vec::new(), question));
        for (code, value) in options {
            match code {
                SUBNET => self.subnet(&mut octets[value]),
                _ if HARMLESS.contains(&code) => {}
                _ => octets[value].fill(0),
            }
        }
        octets[end..].fill(OVERWRITTEN);
    }

    /// Replaces the address of a client subnet; of one that is damaged, everything becomes zeros.
    fn subnet(&mut self, value: &mut [u8]) {
        let (family, prefix) = match value {
            [0, family @ 1..=2, prefix, _, ..] => (*family, *prefix),
            _ => return value.fill(0),
        };
        let address = &mut value[BEFORE_ADDRESS..];
        let mut whole = [0; 16];
        let most = if family == 1 { 4 } else { 16 };
        if address.len() > most || usize::from(prefix) > 8 * most {
            return address.fill(0);
        }
        whole[..address.len()].copy_from_slice(address);
        let pseudonym = match family {
            1 => {
                let [a, b, c, d, ..] = whole;
                self.address(Ipv4Addr::new(a, b, c, d).into())
            }
            _ => self.address(Ipv6Addr::from(whole).into()),
        };
        let pseudonym = match pseudonym {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let kept = pseudonym & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or_default();
        let length = address.len();
        address.copy_from_slice(&kept.to_be_bytes()[..length]);
    }
}

/// EDNS options: their codes, and where their values are.
type Options = Vec<(u16, Range<usize>)>;

/// All EDNS options, and where the last record ends; `None` if the message cannot be followed to its end.
fn options(message: &Message<'_>) -> Option<(Options, usize)> {
    let [_, records @ ..] = message.counts();
    let mut at = message.behind_questions()?;
    let mut found = Vec::new();
    for _ in 0..records.map(u32::from).iter().sum() {
        let (next, rtype) = message.record_at(at)?;
        if rtype == OPT {
            options_of(message.octets(), message.rdata_at(at)?..next, &mut found)?;
        }
        at = next;
    }
    (at <= message.octets().len()).then_some((found, at))
}

/// Adds the options of an OPT record's data; `None` if one has less room than it says (RFC 6891 §6.1.2).
fn options_of(octets: &[u8], data: Range<usize>, found: &mut Options) -> Option<()> {
    let mut at = data.start;
    while at < data.end {
        let [a, b, c, d] = *octets[at..data.end].first_chunk()?;
        let value = at + 4..at + 4 + usize::from(u16::from_be_bytes([c, d]));
        if value.end > data.end {
            return None;
        }
        at = value.end;
        found.push((u16::from_be_bytes([a, b]), value));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECRET: [u8; KEY] = [7; KEY];

    /// A query for `a.` with these options.
    fn query(options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut data = Vec::new();
        for (code, value) in options {
            data.extend(code.to_be_bytes());
            data.extend((value.len() as u16).to_be_bytes());
            data.extend(*value);
        }
        let mut wire = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, b'a', 0, 0, 1, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0];
        wire.extend((data.len() as u16).to_be_bytes());
        wire.extend(data);
        wire
    }

    fn scrubbed(mut wire: Vec<u8>) -> Vec<u8> {
        Anonymiser::new(SECRET).message(&mut wire);
        wire
    }

    #[test]
    fn a_client_subnet_gets_the_prefix_of_the_pseudonym_that_its_address_gets() {
        for (client, prefix, family) in
            [("198.51.100.7", 24_u8, 1_u8), ("198.51.100.7", 20, 1), ("2001:db8:1:2::3", 56, 2)]
        {
            let client: IpAddr = client.parse().unwrap();
            let bits = |address: IpAddr| match address {
                IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
                IpAddr::V6(v6) => v6.to_bits(),
            };
            let cut = |address: IpAddr| {
                let kept = bits(address) & u128::MAX << (128 - u32::from(prefix));
                kept.to_be_bytes()[..usize::from(prefix.div_ceil(8))].to_vec()
            };
            let subnet = |address| [vec![0, family, prefix, 0], cut(address)].concat();
            let pseudonym = Anonymiser::new(SECRET).address(client);
            assert_eq!(scrubbed(query(&[(SUBNET, &subnet(client))])), query(&[(SUBNET, &subnet(pseudonym))]));
        }
        let nobody = query(&[(SUBNET, &[0, 1, 0, 0])]);
        assert_eq!(scrubbed(nobody.clone()), nobody, "a client that wants none to be sent (RFC 7871 §7.1.2)");
    }

    #[test]
    fn options_that_may_be_about_a_client_are_zeros_and_the_others_stay() {
        let wire = query(&[(10, &[9; 8]), (3, b"b1"), (65_001, &[1, 2, 3]), (12, &[0; 5])]);
        assert_eq!(scrubbed(wire), query(&[(10, &[0; 8]), (3, b"b1"), (65_001, &[0; 3]), (12, &[0; 5])]));
    }

    #[test]
    fn of_a_damaged_message_the_question_stays() {
        let cut = query(&[(10, &[9; 8])]);
        let cut = &cut[..cut.len() - 1];
        let (question, rest) = cut.split_at(HEADER + 7);
        assert_eq!(scrubbed(cut.to_vec()), [question, &vec![OVERWRITTEN; rest.len()]].concat());
        assert_eq!(scrubbed(vec![192, 0, 2, 1]), [0; 4], "not even a header");
        let with_rest = [query(&[]), b"192.0.2.1".to_vec()].concat();
        assert_eq!(scrubbed(with_rest), [query(&[]), vec![OVERWRITTEN; 9]].concat(), "behind the last record");
        let long = query(&[(SUBNET, &[0, 1, 32, 0, 192, 0, 2, 1, 1])]);
        assert_eq!(scrubbed(long), query(&[(SUBNET, &[0, 1, 32, 0, 0, 0, 0, 0, 0])]), "an address of five octets");
    }

    proptest! {
        #[test]
        fn any_octets_keep_their_number_and_question(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let after = scrubbed(octets.clone());
            prop_assert_eq!(after.len(), octets.len());
            if let Some(before) = Message::new(&octets) {
                prop_assert_eq!(Message::new(&after).unwrap().question_octets(), before.question_octets());
            }
        }
    }
}
