//! Pads queries on encrypted transports, so that their length reveals less (RFC 7830, RFC 8467).

use ldplayer_core::Message;
use ldplayer_core::message::OPT;

/// Code of the Padding option (RFC 7830 §3).
const PADDING: u16 = 12;
/// Length of an option header.
const OPTION_HEAD: usize = 4;
/// TYPE of TSIG (RFC 8945 §4.2).
const TSIG: u16 = 250;
/// TYPE of SIG, which signs a transaction when it covers nothing (RFC 2931 §3).
const SIG: u16 = 24;

/// Appends `wire` to `out`, padded to a multiple of `block` octets; 0 disables padding. An existing Padding option is
/// replaced.
///
/// Messages are left unchanged if they have no OPT record, or have records after it, are signed or damaged, or would
/// be longer than 65,535 octets.
pub fn append(out: &mut Vec<u8>, wire: &[u8], block: u16) {
    match plan(wire, usize::from(block)) {
        Some(plan) => plan.append(out, wire),
        None => out.extend_from_slice(wire),
    }
}

/// How to pad a message.
struct Plan {
    /// Where the options begin; they end with the message.
    options: usize,
    /// Length of the options that are kept.
    kept: usize,
    /// Length of the padding.
    fill: usize,
}

impl Plan {
    fn append(&self, out: &mut Vec<u8>, wire: &[u8]) {
        let (head, options) = wire.split_at(self.options);
        let length = self.kept + OPTION_HEAD + self.fill;
        out.reserve(head.len() + length);
        out.extend_from_slice(&head[..head.len() - 2]);
        out.extend_from_slice(&(length as u16).to_be_bytes());
        Options(options).filter(|(code, _)| *code != PADDING).for_each(|(_, option)| out.extend_from_slice(option));
        out.extend_from_slice(&PADDING.to_be_bytes());
        out.extend_from_slice(&(self.fill as u16).to_be_bytes());
        out.resize(out.len() + self.fill, 0);
    }
}

fn plan(wire: &[u8], block: usize) -> Option<Plan> {
    if block == 0 {
        return None;
    }
    let options = options_at(wire)?;
    let (all, kept) = Options(&wire[options..]).fold((0, 0), |(all, kept), (code, option)| {
        (all + option.len(), kept + if code == PADDING { 0 } else { option.len() })
    });
    let length = options + kept + OPTION_HEAD;
    let fill = length.next_multiple_of(block) - length;
    let is_whole = options + all == wire.len();
    (is_whole && length + fill <= usize::from(u16::MAX)).then_some(Plan { options, kept, fill })
}

/// The offset of the options of the OPT record, if that is the last and only one of its kind and the message is not signed.
fn options_at(wire: &[u8]) -> Option<usize> {
    let message = Message::new(wire)?;
    let [_, records @ ..] = message.counts();
    let mut at = message.behind_questions()?;
    let (mut options, mut opts) = (None, 0);
    for _ in 0..records.into_iter().map(u32::from).sum() {
        let (next, rtype) = message.record_at(at)?;
        let data = message.rdata_at(at)?;
        let is_opt = rtype == OPT && wire[at] == 0;
        if rtype == TSIG || (rtype == SIG && wire[data..next].starts_with(&[0, 0])) {
            return None;
        }
        opts += u32::from(is_opt);
        options = is_opt.then_some(data);
        at = next;
    }
    options.filter(|_| opts == 1 && records[2] > 0 && at == wire.len())
}

/// The options of an OPT record: code, and complete octets. Ends at an incomplete option.
pub struct Options<'a>(pub &'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let &[a, b, c, d, ..] = self.0 else { return None };
        let length = OPTION_HEAD + usize::from(u16::from_be_bytes([c, d]));
        let (option, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((u16::from_be_bytes([a, b]), option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::policy::QUERY_BLOCK;
    use proptest::prelude::*;

    /// A record of the root, in the additional section.
    fn record(rtype: u16, data: &[u8]) -> Vec<u8> {
        let mut record = vec![0];
        record.extend([rtype, 1_232, 0, 0x8000, data.len() as u16].into_iter().flat_map(u16::to_be_bytes));
        record.extend_from_slice(data);
        record
    }

    fn query(records: &[Vec<u8>]) -> Vec<u8> {
        let mut wire = crate::test::query(1, 0).wire[..].to_vec();
        wire[11] = records.len() as u8;
        wire.extend(records.concat());
        wire
    }

    fn option(code: u16, value: &[u8]) -> Vec<u8> {
        [&code.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
    }

    fn padded(wire: &[u8], block: u16) -> Vec<u8> {
        let mut out = vec![7];
        append(&mut out, wire, block);
        out.split_off(1)
    }

    #[test]
    fn a_query_fills_a_block() {
        let wire = query(&[record(OPT, &[])]);
        let out = padded(&wire, QUERY_BLOCK);
        assert_eq!((out.len(), &out[..wire.len() - 2]), (128, &wire[..wire.len() - 2]));
        assert_eq!(padded(&out, QUERY_BLOCK), out, "padding is replaced by as much");
        assert_eq!(padded(&out, 1).len(), wire.len() + OPTION_HEAD, "and by less");
        assert_eq!(padded(&wire, 0), wire);
    }

    #[test]
    fn what_must_not_change_does_not() {
        let opt = || record(OPT, &option(10, b"cookie"));
        let cut = query(&[opt()]);
        for (why, wire) in [
            ("no EDNS", query(&[])),
            ("TSIG", query(&[opt(), record(TSIG, b"key")])),
            ("TSIG before OPT", query(&[record(TSIG, b"key"), opt()])),
            ("SIG(0)", query(&[record(SIG, &[0, 0, 5]), opt()])),
            ("a record behind OPT", query(&[opt(), record(16, b"\x01a")])),
            ("two OPT records", query(&[opt(), opt()])),
            ("an option cut short", query(&[record(OPT, &[0, 10, 0, 9, 1])])),
            ("octets behind the message", [&query(&[opt()])[..], b"more"].concat()),
            ("a record cut short", cut[..cut.len() - 3].to_vec()),
            ("no message", vec![1, 2, 3]),
        ] {
            assert_eq!(padded(&wire, QUERY_BLOCK), wire, "{why}");
        }
        let covering = query(&[record(SIG, &[0, 1, 5]), opt()]);
        assert_eq!(padded(&covering, QUERY_BLOCK).len(), 128, "a SIG record that signs other data is no obstacle");
        let long = query(&[record(OPT, &option(65_001, &vec![1; 65_480]))]);
        assert_eq!(padded(&long, 4_096), long);
    }

    proptest! {
        #[test]
        fn the_length_is_a_multiple_and_all_else_stays(
            options in prop::collection::vec((0_u16..20, prop::collection::vec(any::<u8>(), 0..60)), 0..8),
            before in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..3),
            block in 1_u16..700,
        ) {
            let data: Vec<u8> = options.iter().flat_map(|(code, value)| option(*code, value)).collect();
            let mut records: Vec<Vec<u8>> = before.iter().map(|data| record(10, data)).collect();
            records.push(record(OPT, &data));
            let wire = query(&records);
            let out = padded(&wire, block);
            prop_assert_eq!(out.len() % usize::from(block), 0);
            let (ours, theirs) = (Message::new(&out).unwrap(), Message::new(&wire).unwrap());
            prop_assert_eq!((ours.edns().is_some(), ours.counts()), (true, theirs.counts()));
            let at = options_at(&out).unwrap();
            prop_assert_eq!(&out[..at - 2], &wire[..at - 2]);
            let kept: Vec<_> = Options(&out[at..]).collect();
            let (last, others) = kept.split_last().unwrap();
            prop_assert!(last.0 == PADDING && last.1[OPTION_HEAD..].iter().all(|&octet| octet == 0));
            let expected: Vec<_> = Options(&data).filter(|(code, _)| *code != PADDING).collect();
            prop_assert_eq!(others, &expected[..]);
            // Another implementation reads it as well.
            prop_assert!(domain::base::Message::from_octets(&out[..]).unwrap().opt().is_some());
        }

        #[test]
        fn any_octets_do_no_harm(octets in prop::collection::vec(any::<u8>(), 0..300), block: u16) {
            let out = padded(&octets, block);
            prop_assert!(out == octets || out.len().is_multiple_of(usize::from(block)));
        }
    }
}
