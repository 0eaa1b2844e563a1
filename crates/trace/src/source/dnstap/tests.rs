//! Tests of dnstap frames: pairing, defaults, roles and damage.

use ldplayer_core::Transport;

use super::*;
use crate::Input;

/// A frame under construction.
#[derive(Clone, Default)]
struct Tap(Vec<u8>);

impl Tap {
    fn number(mut self, field: u8, number: u64) -> Self {
        varint(&mut self.0, u64::from(field) << 3);
        varint(&mut self.0, number);
        self
    }

    fn octets(mut self, field: u8, octets: &[u8]) -> Self {
        varint(&mut self.0, u64::from(field) << 3 | 2);
        varint(&mut self.0, octets.len() as u64);
        self.0.extend_from_slice(octets);
        self
    }

    fn nanoseconds(mut self, field: u8, number: u32) -> Self {
        varint(&mut self.0, u64::from(field) << 3 | 5);
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// The frame with its length.
    fn frame(&self) -> Vec<u8> {
        let whole = Self::default().octets(14, &self.0).number(15, 1);
        [&(whole.0.len() as u32).to_be_bytes(), &*whole.0].concat()
    }
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// `a. IN A` with this ID.
fn message(id: u8, is_response: bool) -> Vec<u8> {
    vec![0, id, if is_response { 0x80 } else { 0 }, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1]
}

/// A frame of this kind without messages.
fn tap(kind: u64) -> Tap {
    let ends = Tap::default().number(1, kind).number(2, 1).number(3, 1);
    ends.octets(4, &[192, 0, 2, 1]).octets(5, &[192, 0, 2, 53]).number(6, 1_024).number(7, 5_353)
}

fn query(kind: u64, id: u8, seconds: u64) -> Tap {
    tap(kind).number(8, seconds).nanoseconds(9, 5).octets(10, &message(id, false))
}

fn response(kind: u64, id: u8, seconds: u64) -> Tap {
    tap(kind).number(12, seconds).nanoseconds(13, 9).octets(14, &message(id, true))
}

fn read_with(frames: &[Tap], options: &OpenOptions) -> (Vec<Transaction>, Tally) {
    let start = super::super::framestream::Control::new(2, Some(CONTENT)).compose();
    let octets = [start, frames.iter().flat_map(Tap::frame).collect()].concat();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), octets).unwrap();
    let mut source = crate::open(&[Input::File(file.path().to_owned())], options).unwrap();
    let mut rows = Vec::new();
    while source.read(&mut rows).unwrap() {}
    let tally = source.tally().clone();
    let queries = rows.iter().filter(|row| row.query.is_some()).count() as u64;
    let responses = rows.iter().filter(|row| row.response.is_some()).count() as u64;
    assert_eq!((tally.queries, tally.responses), (queries, responses));
    (rows, tally)
}

fn read(frames: &[Tap]) -> (Vec<Transaction>, Tally) {
    read_with(frames, &OpenOptions::default())
}

#[test]
fn query_and_response_of_two_frames_are_paired_in_either_order() {
    for frames in [[query(5, 1, 10), response(6, 1, 10)], [response(6, 1, 10), query(5, 1, 10)]] {
        let (rows, tally) = read(&frames);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].time.0, rows[0].response_delay), (10_000_000_005, Some(4)));
        assert_eq!(
            (rows[0].client, rows[0].server),
            ("192.0.2.1:1024".parse().unwrap(), "192.0.2.53:5353".parse().unwrap())
        );
        assert_eq!(rows[0].query.as_deref(), Some(&*message(1, false)));
        assert_eq!((tally.packets, tally.damaged.len(), tally.lost.len()), (2, 0, 0));
        assert_eq!(tally.kinds, [("CLIENT_QUERY".into(), 1), ("CLIENT_RESPONSE".into(), 1)].into());
    }
}

#[test]
fn a_frame_with_both_messages_is_a_whole_transaction() {
    let both = response(2, 1, 10).number(8, 10).nanoseconds(9, 5).octets(10, &message(1, false));
    let (rows, tally) = read(std::slice::from_ref(&both));
    assert_eq!((rows.len(), rows[0].response_delay, tally.dns_messages), (1, Some(4), 2));
    // Its query came by itself before: it is one query all the same.
    let (rows, tally) = read(&[query(1, 1, 10), both]);
    assert_eq!((rows.len(), rows[0].response_delay, tally.dns_messages), (1, Some(4), 2));
}

#[test]
fn a_response_alone_has_its_own_time() {
    let (rows, _) = read(&[response(4, 1, 10).number(8, 9)]);
    assert_eq!((rows[0].time.0, rows[0].query.is_none()), (10_000_000_009, true));
}

#[test]
fn roles_that_are_not_wanted_are_counted() {
    let frames = [query(5, 1, 10), query(3, 2, 10), response(4, 2, 10), query(99, 3, 10), query(0, 3, 10)];
    let (rows, tally) = read_with(&frames, &OpenOptions { roles: vec![Role::Client], ..Default::default() });
    assert_eq!(rows.len(), 1);
    assert_eq!(tally.skipped, [("other_role".into(), 2), ("unknown_dnstap_kind".into(), 2)].into());
    assert_eq!(tally.kinds["RESOLVER_QUERY"], 1);
    assert_eq!(read(&frames).0.len(), 2);
}

#[test]
fn what_is_not_told_has_a_default_that_is_counted() {
    let bare = |family| Tap::default().number(1, 5).number(2, family).number(8, 1).octets(10, &message(1, false));
    for (family, client, server) in [(1, "0.0.0.0:0", "0.0.0.0:53"), (2, "[::]:0", "[::]:53")] {
        let (rows, tally) = read(&[bare(family)]);
        assert_eq!((rows[0].client, rows[0].server), (client.parse().unwrap(), server.parse().unwrap()));
        assert_eq!(tally.lost, [("client_address".into(), 1), ("server_address".into(), 1)].into());
    }
    let (rows, _) = read(&[bare(1).octets(4, &[0x20; 16])]);
    assert_eq!(rows[0].server, "[::]:53".parse().unwrap());
}

#[test]
fn protocols_are_transports() {
    let expected = [
        (1, Transport::Udp),
        (2, Transport::Tcp),
        (3, Transport::Dot),
        (4, Transport::Doh2),
        (5, Transport::Udp),
        (6, Transport::Tcp),
        (7, Transport::Doq),
    ];
    for (protocol, transport) in expected {
        let (rows, tally) = read(&[query(5, 1, 1).number(3, protocol)]);
        assert_eq!((rows[0].transport, tally.lost.contains_key("dnscrypt")), (transport, matches!(protocol, 5 | 6)));
    }
    assert_eq!(read(&[query(5, 1, 1).number(3, 4).number(16, 3)]).0[0].transport, Transport::Doh3);
}

#[test]
fn damage_has_its_frame_and_costs_its_message_only() {
    let cases = [
        (query(5, 1, 1).number(3, 77), "bad_transport"),
        (query(5, 1, 1).octets(4, &[1, 2, 3]), "bad_address"),
        (query(5, 1, 1).number(6, 70_000), "bad_address"),
        (query(5, 1, 1).octets(10, &message(1, true)), "wrong_direction"),
        (query(5, 1, 1).octets(10, &[1, 2]), "short_message"),
        (tap(5).octets(10, &message(1, false)), "bad_time"),
        (query(5, 1, u64::MAX), "bad_time"),
        (Tap(vec![0x08]), "bad_dnstap_message"),
    ];
    for (damaged, reason) in cases {
        let (rows, tally) = read(&[query(5, 7, 1), damaged, query(5, 8, 1)]);
        assert_eq!((rows.len(), tally.damaged.len()), (2, 1), "{reason}: {tally:?}");
        assert_eq!((tally.damaged[0].reason.as_str(), tally.damaged[0].first.packet), (reason, 2));
        assert_eq!(tally.damaged[0].first.offset, 42 + query(5, 7, 1).frame().len() as u64);
    }
    let (rows, tally) = read(&[response(6, 1, 1).octets(10, &[1, 2])]);
    assert_eq!((rows.len(), tally.damaged[0].reason.as_str()), (1, "short_message"));
    let (rows, tally) = read(&[tap(5), query(5, 1, 1)]);
    assert_eq!((rows.len(), tally.skipped["no_message"]), (1, 1));
}

#[test]
fn a_stream_of_something_else_is_refused_in_one_line() {
    let start = super::super::framestream::Control::new(2, Some(b"text:\nplain")).compose();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), start).unwrap();
    let refusal = crate::open(&[Input::File(file.path().to_owned())], &OpenOptions::default());
    let refusal = refusal.err().unwrap().to_string();
    assert!(
        refusal.contains(r"the frame stream has content type `text:\nplain`") && !refusal.contains('\n'),
        "{refusal}"
    );
}
