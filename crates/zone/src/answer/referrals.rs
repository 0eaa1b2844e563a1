//! Writes the referrals of a zone beforehand, so that answers have only to copy them.

use ldplayer_core::message::{HEADER, QueryParts};

use super::{Scratch, Transport, respond};
use crate::rtype;
use crate::store::{HEAD, NONE, Node, Written, Zone};

/// Longer ones are written when they are needed.
const LONGEST: usize = 4096;

/// Writes the referrals of all cuts. What is too much for 32 bits is written when it is needed.
pub(crate) fn write_referrals(zone: &mut Zone) {
    let cuts = zone.cuts();
    if cuts.is_empty() {
        return;
    }
    let mut writing = Writing::default();
    for cut in cuts {
        if writing.write(zone, zone.node(cut)) && !zone.keep_template(cut, &writing.written(zone, zone.node(cut))) {
            break;
        }
    }
    zone.shrink_templates();
}

/// The reply to a query for a cut.
#[derive(Default)]
struct Writing {
    scratch: Scratch,
    query: Vec<u8>,
    out: Vec<u8>,
    /// Where the records begin.
    start: usize,
}

impl Writing {
    /// False where there is no use in a template.
    fn write(&mut self, zone: &Zone, node: &Node) -> bool {
        let name = zone.name(node);
        self.query.clear();
        self.out.clear();
        QueryParts { id: 0, flags: 0, name, qtype: rtype::A, qclass: zone.class(), edns: None }
            .compose(&mut self.query);
        self.scratch.note_pointers();
        respond(zone, &self.query, Transport::Tcp, &mut self.scratch, &mut self.out);
        self.start = HEADER + name.len() + 4;
        self.out.len() <= LONGEST
    }

    fn written(&self, zone: &Zone, node: &Node) -> Written<'_> {
        let count = |at: usize| u16::from_be_bytes([self.out[at], self.out[at + 1]]);
        let targets = zone.set_of(node, rtype::NS).map_or(&[][..], |set| zone.targets(set));
        let is_signed = |&&host: &&u32| {
            let node = (host != NONE && !zone.is_glue(host)).then(|| zone.node(host));
            node.is_some_and(|node| zone.sets_of(node).iter().any(|set| set.signatures > 0))
        };
        Written {
            message: &self.out,
            start: self.start,
            additional: (0..count(8)).fold(self.start, |at, _| self.behind_record(at)),
            pointers: self.scratch.noted_pointers(),
            additionals: count(10),
            is_signed: targets.iter().any(|host| is_signed(&host)),
        }
    }

    /// Where the next record begins, in a message of our own.
    fn behind_record(&self, at: usize) -> usize {
        let name = match self.out[at] {
            0xc0..=0xff => 2,
            _ => self.out[at..].iter().position(|&octet| octet == 0).map_or(1, |end| end + 1),
        };
        let length = [self.out[at + name + 8], self.out[at + name + 9]];
        at + name + HEAD + usize::from(u16::from_be_bytes(length))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Zone, load};

    #[test]
    fn every_cut_of_a_zone_has_its_referral() {
        let text =
            "$TTL 60\n@ SOA ns mail 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\na NS ns.a\nns.a A 192.0.2.2\nb NS ns.a\n";
        let origin = b"\x07example\0";
        let records = load::text_of(text.as_bytes(), Path::new("t"), Some(origin), &mut |_| unreachable!()).unwrap();
        let (zone, _) = Zone::from_records(&records).unwrap();
        let records_of = |cut: &u32| zone.template(zone.node(*cut)).map(|template| template.additionals);
        assert_eq!(zone.cuts().iter().map(records_of).collect::<Vec<_>>(), [Some(1), Some(1)]);
        assert!(zone.template(zone.node(0)).is_none());
    }
}
