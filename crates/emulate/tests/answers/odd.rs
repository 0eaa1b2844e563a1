//! Queries that are not for records of the zone, or are no queries: the code that they are answered with.

use ldplayer_core::message::{QueryParts, flag};

use crate::questions::Question;

/// A name of each of the test zones.
const NAME: &[u8] = b"\x03www\x04test\0";

/// Queries with what they are called. All of them get an answer from all servers.
pub fn all() -> Vec<(&'static str, Question)> {
    let mut all = Vec::new();
    let mut add = |what, name: &[u8], (qtype, qclass), change: &dyn Fn(&mut Vec<u8>)| {
        let (edns, mut octets) = (Some((1232, false)), Vec::new());
        QueryParts { id: 9, flags: flag::RD, name, qtype, qclass, edns }.compose(&mut octets);
        change(&mut octets);
        all.push((what, Question { octets, name: name.to_vec(), qtype, edns, tcp: false }));
    };
    // Where the OPT record begins.
    let opt = 12 + NAME.len() + 4;
    let in_a = (1, 1);
    add("out of zone", b"\x03www\x05other\0", in_a, &|_| {});
    add("class CH", b"\x07version\x04bind\0", (16, 3), &|_| {});
    add("class HS", NAME, (1, 4), &|_| {});
    add("class 65280", NAME, (1, 65280), &|_| {});
    add("AXFR over UDP", b"\x04test\0", (252, 1), &|_| {});
    add("opcode IQUERY", NAME, in_a, &|query| query[2] |= 1 << 3);
    add("opcode STATUS", NAME, in_a, &|query| query[2] |= 2 << 3);
    add("opcode 7", NAME, in_a, &|query| query[2] |= 7 << 3);
    for (what, opcode) in [("opcode 7 without a question", 7), ("opcode DSO without a question", 6)] {
        add(what, NAME, in_a, &|query| {
            query[2] |= opcode << 3;
            query.drain(12..opt);
            query[5] = 0;
        });
    }
    add("opcode 7 with two questions", NAME, in_a, &|query| {
        query[2] |= 7 << 3;
        query[5] = 2;
        query.splice(opt..opt, [0xc0, 12, 0, 1, 0, 1]);
    });
    add("an EDNS option that overruns", NAME, in_a, &|query| {
        query[opt + 10] = 6;
        query.extend_from_slice(&[0xff, 0xf0, 0, 3, 1, 2]);
    });
    add("half an EDNS option", NAME, in_a, &|query| {
        query[opt + 10] = 3;
        query.extend_from_slice(&[0xff, 0xf0, 0]);
    });
    add("two questions", NAME, in_a, &|query| query[5] = 2);
    add("an answer in a query", NAME, in_a, &|query| query[7] = 1);
    add("a cut OPT record", NAME, in_a, &|query| query.truncate(query.len() - 4));
    add("two OPT records", NAME, in_a, &|query| {
        query.extend_from_within(opt..);
        query[11] = 2;
    });
    add("EDNS version 1", NAME, in_a, &|query| query[opt + 6] = 1);
    add("unknown EDNS flags", NAME, in_a, &|query| query[opt + 8] = 0x7f);
    add("an unknown EDNS option", NAME, in_a, &|query| {
        query[opt + 10] = 6;
        query.extend_from_slice(&[0xff, 0xf0, 0, 2, 1, 2]);
    });
    add("EDNS size 0", NAME, in_a, &|query| query[opt + 3..opt + 5].fill(0));
    add("Z bit", NAME, in_a, &|query| query[3] |= 0x40);
    add("AA and RA in a query", NAME, in_a, &|query| {
        query[2] |= 0x04;
        query[3] |= 0x80;
    });
    all
}
