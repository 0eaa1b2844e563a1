//! The differences that are allowed, each with the sentence that allows it. `docs/answers.md` has the same list.

use std::collections::BTreeSet;

use ldplayer_core::message::flag;
use ldplayer_zone::rtype;

use crate::message::{Item, Seen};
use crate::questions::Question;

/// What a rule may look at besides the two replies.
pub struct Case<'a> {
    pub question: &'a Question,
    /// Our reply to the same query over TCP: all that there is to say.
    pub whole: &'a Seen,
    /// Octets of our reply.
    pub length: usize,
    /// Octets that it may have.
    pub limit: usize,
}

impl<'a> Case<'a> {
    /// A case of a reply for which there was room.
    pub fn of(question: &'a Question, whole: &'a Seen) -> Self {
        Self { question, whole, length: 0, limit: question.limit() }
    }

    /// Whether there is hardly room for another set with its signature.
    fn is_nearly_full(&self) -> bool {
        self.limit < self.length + 160
    }
}

/// A rule takes out of two replies what may differ between them.
pub struct Rule {
    /// What it is called in the table.
    pub name: &'static str,
    pub forgive: fn(&Case<'_>, &mut Seen, &mut Seen),
}

/// Applies the rules in turn and names those that changed anything.
pub fn apply(rules: &[Rule], case: &Case<'_>, ours: &mut Seen, theirs: &mut Seen) -> Vec<&'static str> {
    let mut used = Vec::new();
    for rule in rules {
        let before = (ours.clone(), theirs.clone());
        (rule.forgive)(case, ours, theirs);
        if before != (ours.clone(), theirs.clone()) {
            used.push(rule.name);
        }
        if ours == theirs {
            break;
        }
    }
    used
}

/// RFC 9471 §3.1: "it MUST include all available glue records for in-domain name servers in the additional section or MUST
/// set TC=1 if constrained by message size". Theirs does not set it although such glue is missing.
const GLUE: Rule = Rule {
    name: "glue-tc",
    forgive: |case, ours, theirs| {
        let is_referral = !ours.has(flag::AA) && ours.rcode == 0 && ours.sections[0].is_empty();
        let missing = case.whole.sections[2].difference(&theirs.sections[2]);
        let lacks_glue = missing.clone().any(|item| is_in_domain(item, &case.whole.sections[1]));
        if is_referral && ours.has(flag::TC) && !theirs.has(flag::TC) && lacks_glue {
            ours.flags &= !flag::TC;
        }
    },
};

/// Whether an address belongs to a name server within the zone that it serves.
fn is_in_domain(address: &Item, authority: &BTreeSet<Item>) -> bool {
    let within = |item: &Item| address.owner.ends_with(&item.owner) && item.data == address.owner;
    authority.iter().any(|item| item.rtype == rtype::NS && within(item))
}

/// RFC 2181 §9: "When a DNS client receives a reply with TC set, it should ignore that response, and query again": what
/// stands in it does not matter.
const CUT_SHORT: Rule = Rule {
    name: "both-truncated",
    forgive: |_, ours, theirs| {
        if ours.has(flag::TC) && theirs.has(flag::TC) {
            forget(ours, theirs, &[0, 1, 2]);
            theirs.flags &= !flag::AD;
        }
    },
};

/// RFC 8482 §4.1: "A DNS responder that receives an ANY query MAY decline to provide a conventional ANY response or MAY
/// instead send a response with a single RRset (or a larger subset of available RRsets) in the answer section".
const ANY: Rule = Rule {
    name: "any-subset",
    forgive: |case, ours, theirs| {
        let is_some = |seen: &Seen| !seen.sections[0].is_empty() || seen.has(flag::TC);
        let is_subset = |seen: &Seen| is_some(seen) && seen.sections[0].is_subset(&case.whole.sections[0]);
        if case.question.qtype == rtype::ANY && is_subset(ours) && is_subset(theirs) {
            ours.flags &= !flag::TC;
            theirs.flags &= !flag::TC;
            forget(ours, theirs, &[0, 1, 2]);
            // Whether a name that a DNAME leads to is looked up for ANY is part of that.
            theirs.rcode = ours.rcode;
        }
    },
};

/// RFC 5155 §7.2.3: "The server MUST include the NSEC3 RR that matches QNAME": no more is needed for a name that is itself a
/// wildcard; theirs adds the proof of §7.2.5 for names that a wildcard stands for.
const STAR: Rule = Rule {
    name: "nsec3-of-star",
    forgive: |case, ours, theirs| {
        let is_star = case.question.name.starts_with(b"\x01*");
        if is_star && theirs.has(flag::TC) && ours.rcode == 0 && ours.sections[0].is_empty() {
            // There was no room for the one more.
            theirs.flags = ours.flags;
            forget(ours, theirs, &[1]);
        }
        let is_more = ours.sections[1].is_subset(&theirs.sections[1]);
        if is_star && (is_more || theirs.has(flag::TC)) && only_denials(&ours.sections[1], &theirs.sections[1]) {
            forget_denials(ours, theirs);
        }
    },
};

/// RFC 5155 §7.2.8: "each NSEC3 owner name is covered by another NSEC3 RR, effectively negating the existence of the NSEC3
/// RR": such a name is not there, nor is it the closest encloser of one. Theirs takes it for one.
const HASHED_NAME: Rule = Rule {
    name: "below-nsec3-owner",
    forgive: |case, ours, theirs| {
        let labels = || ldplayer_core::name::labels(&case.question.name);
        let is_below_hash = labels().skip(1).any(|label| label.len() == 32);
        if is_below_hash && ours.rcode == 3 && only_denials(&ours.sections[1], &theirs.sections[1]) {
            forget_denials(ours, theirs);
        }
    },
};

/// RFC 1034 §4.3.2 step 3a: "If the data at the node is a CNAME, and QTYPE doesn't match CNAME, copy the CNAME RR into the
/// answer section of the response, change QNAME to the canonical name": for QTYPE NSEC, NSEC3 and RRSIG, too. Theirs does not.
const PROOF_AT_ALIAS: Rule = Rule {
    name: "proof-type-at-alias",
    forgive: |case, ours, theirs| {
        let is_alias = ours.sections[0].iter().any(|item| item.rtype == rtype::CNAME);
        if matches!(case.question.qtype, rtype::NSEC | rtype::NSEC3 | rtype::RRSIG)
            && is_alias
            && theirs.sections[0].is_empty()
        {
            theirs.rcode = ours.rcode;
            theirs.flags = ours.flags;
            forget(ours, theirs, &[0, 1, 2]);
        }
    },
};

/// RFC 4035 §3.1.3.2: "An NSEC RR proving that there is no exact match for <SNAME, SCLASS>": SNAME is the name that the
/// DNAME led to. Theirs proves it of another one.
const DENIAL_BEHIND_DNAME: Rule = Rule {
    name: "denial-behind-dname",
    forgive: |_, ours, theirs| {
        let is_redirected = ours.sections[0].iter().any(|item| item.rtype == rtype::DNAME);
        if is_redirected && only_denials(&ours.sections[1], &theirs.sections[1]) {
            forget_denials(ours, theirs);
        }
    },
};

/// RFC 2181 §9: "The TC bit should not be set merely because some extra information could have been included, but there was
/// insufficient room. This includes the results of additional section processing": which of it is there when there is no
/// room for all is not said.
const ROOM: Rule = Rule {
    name: "additional-room",
    forgive: |case, ours, theirs| {
        let all = &case.whole.sections[2];
        let is_part = ours.sections[2].is_subset(all) && theirs.sections[2].is_subset(all);
        if case.is_nearly_full() && is_part {
            forget(ours, theirs, &[2]);
        }
    },
};

/// RFC 1035 §4.1.4: "Programs are free to avoid using pointers in messages they generate, although this will reduce datagram
/// capacity, and may cause truncation": theirs is truncated, ours fits by a little.
const COMPRESSION: Rule = Rule {
    name: "fits-by-compression",
    forgive: |case, ours, theirs| {
        if case.is_nearly_full() && theirs.has(flag::TC) && !ours.has(flag::TC) {
            theirs.flags &= !flag::TC;
            forget(ours, theirs, &[0, 1, 2]);
        }
    },
};

/// RFC 1034 §3.6.2: "by the robustness principle, domain software should not fail when presented with CNAME chains or loops; CNAME chains should be
/// followed and CNAME loops signalled as an error": after how many rounds is not said, nor how.
const LOOP: Rule = Rule {
    name: "alias-loop",
    forgive: |_, ours, theirs| {
        let is_alias = |item: &Item| matches!(item.covers(), rtype::CNAME | rtype::DNAME);
        let is_loop = |seen: &Seen| {
            let mut dnames = seen.sections[0].iter().filter(|item| item.rtype == rtype::DNAME);
            let owners: Vec<_> = dnames.clone().map(|item| &item.owner).collect();
            !owners.is_empty()
                && dnames.all(|item| owners.contains(&&item.data))
                && seen.sections[0].iter().all(is_alias)
        };
        let no_more = |seen: &Seen| seen.sections[1].is_empty() && seen.sections[2].is_empty();
        if is_loop(ours) && no_more(ours) && no_more(theirs) && theirs.sections[0].iter().all(is_alias) {
            theirs.flags &= !flag::TC;
            ours.flags &= !flag::TC;
            theirs.rcode = ours.rcode;
            forget(ours, theirs, &[0]);
        }
    },
};

/// RFC 4035 §3.1.3.3: with an expanded wildcard goes an NSEC record in the authority section, which proves that there is no
/// closer match. Theirs does not when the same record, expanded, is the answer.
const NSEC_OF_WILDCARD: Rule = Rule {
    name: "nsec-of-wildcard",
    forgive: |case, ours, theirs| {
        let is_less = theirs.sections[1].is_subset(&ours.sections[1]);
        if case.question.qtype == rtype::NSEC && is_less && only_denials(&ours.sections[1], &theirs.sections[1]) {
            forget_denials(ours, theirs);
        }
    },
};

/// RFC 9471 §3.2: "If, after adding glue for all in-domain name servers, the glue for all sibling domain name servers does
/// not fit due to message size constraints, the name server MAY set TC=1 but is not obligated to do so".
const SIBLING_GLUE: Rule = Rule {
    name: "sibling-glue-tc",
    forgive: |case, ours, theirs| {
        let is_referral = !ours.has(flag::AA) && ours.rcode == 0 && ours.sections[0].is_empty();
        let lacks_siblings = theirs.sections[2].len() < case.whole.sections[2].len();
        if is_referral && theirs.has(flag::TC) && !ours.has(flag::TC) && lacks_siblings {
            theirs.flags &= !flag::TC;
        }
    },
};

/// RFC 1034 §4.3.2 step 6: "Using local data only, attempt to add other RRs which may be useful to the additional section
/// of the query": for which types, and whether with proofs, is not said. These are the ones that servers differ in.
const USEFUL: Rule = Rule {
    name: "additional-types",
    forgive: |case, ours, theirs| {
        let all = &case.whole.sections[2];
        let is_part = theirs.sections[2].iter().all(|item| all.contains(item) || item.covers() == rtype::NSEC);
        if matches!(case.question.qtype, 18 | rtype::RT | rtype::KX | 64 | 65) && is_part {
            forget(ours, theirs, &[2]);
        }
    },
};

/// Takes denials and what they do to the length out of both.
fn forget_denials(ours: &mut Seen, theirs: &mut Seen) {
    for seen in [&mut *ours, theirs] {
        seen.sections[1].retain(|item| !matches!(item.covers(), rtype::NSEC | rtype::NSEC3));
        seen.flags &= !flag::TC;
    }
}

/// RFC 5155 §7.2.1: a closest encloser proof has "an NSEC3 RR that matches the closest (provable) encloser". Theirs lacks it if the closest
/// encloser exists only for opted-out delegations.
const PROVABLE: Rule = Rule {
    name: "provable-encloser",
    forgive: |_, ours, theirs| {
        let opts_out = |item: &Item| item.rtype == rtype::NSEC3 && item.data.get(1) == Some(&1);
        let is_optional = ours.sections[1].iter().any(opts_out) && ours.sections[1].len() > theirs.sections[1].len();
        if ours.rcode == 3 && is_optional && only_denials(&ours.sections[1], &theirs.sections[1]) {
            forget_denials(ours, theirs);
        }
    },
};

/// RFC 5155 §7.2.2: "To prove the nonexistence of QNAME, a closest encloser proof and an NSEC3 RR covering the (nonexistent) wildcard RR
/// at the closest encloser MUST be included in the response": below an empty non-terminal that opt-out left without a record, that wildcard exists, and
/// nothing covers it. Ours has the closest encloser proof; theirs has a record that does not cover the wildcard, too few (of DS at the empty
/// non-terminal as well, where §7.2.4 has that proof), or no SOA either.
const OPT_OUT_GAP: Rule = Rule {
    name: "opt-out-gap",
    forgive: |case, ours, theirs| {
        // As in `nsec3-gap.zone`.
        let gaps = [&b"\x04only\x01w\x04test\0"[..], b"\x01y\x04wild\x04test\0"];
        let is_below = gaps.iter().any(|gap| case.question.name.to_ascii_lowercase().ends_with(gap));
        let opts_out = |item: &Item| item.rtype == rtype::NSEC3 && item.data.get(1) == Some(&1);
        let is_denial = ours.rcode == theirs.rcode && ours.sections[0].is_empty() && theirs.sections[0].is_empty();
        if is_below && is_denial && ours.sections[1].iter().any(opts_out) {
            theirs.flags = ours.flags;
            forget(ours, theirs, &[1]);
        }
    },
};

/// Empties sections of both.
fn forget(ours: &mut Seen, theirs: &mut Seen, sections: &[usize]) {
    for &section in sections {
        ours.sections[section].clear();
        theirs.sections[section].clear();
    }
    (ours.repeated, theirs.repeated) = (0, 0);
}

/// Whether two sections differ in NSEC and NSEC3 records and their signatures only.
fn only_denials(ours: &BTreeSet<Item>, theirs: &BTreeSet<Item>) -> bool {
    ours.symmetric_difference(theirs).all(|item| matches!(item.covers(), rtype::NSEC | rtype::NSEC3))
}

/// RFC 1034 §4.3.2 leaves the authority section of a positive answer empty; that servers name the zone's name servers there,
/// and their addresses, is their choice (RFC 2181 §6.1 speaks of servers that do). Theirs does not.
const NO_SERVERS: Rule = Rule {
    name: "no-servers-named",
    forgive: |case, ours, theirs| {
        let is_positive = ours.has(flag::AA) && ours.rcode == 0 && !ours.sections[0].is_empty();
        let names_servers = |seen: &Seen| seen.sections[1].iter().any(|item| item.rtype == rtype::NS);
        if is_positive && names_servers(ours) && !names_servers(theirs) {
            ours.sections[1].retain(|item| item.covers() != rtype::NS);
            let hosts = |item: &Item| case.whole.sections[0].iter().any(|record| record.data.ends_with(&item.owner));
            // Of the addresses those stay that the answer itself calls for.
            ours.sections[2].retain(|item| hosts(item));
            let room = theirs.sections[2].is_subset(&case.whole.sections[2])
                && ours.sections[2].is_subset(&theirs.sections[2]);
            if room && !case.question.tcp {
                forget(ours, theirs, &[2]);
            }
        }
    },
};

/// RFC 8482 §7: RRSIG queries may be answered like ANY, by a subset.
const RRSIG: Rule = Rule {
    name: "rrsig-subset",
    forgive: |case, ours, theirs| {
        let is_part = theirs.sections[0].is_subset(&case.whole.sections[0]) && !theirs.sections[0].is_empty();
        if case.question.qtype == rtype::RRSIG && is_part {
            // All of them may not leave room for the rest.
            let rest: &[usize] = if ours.has(flag::TC) { &[0, 1, 2] } else { &[0] };
            forget(ours, theirs, rest);
            ours.flags &= !flag::TC;
            theirs.flags &= !flag::TC;
        }
    },
};

/// RFC 1034 §4.3.2 step 6, too: theirs follows NAPTR records as a client would (RFC 3403 §4.1), or has addresses from below a
/// cut for SRV.
const MORE_USEFUL: Rule = Rule {
    name: "more-addresses",
    forgive: |case, ours, theirs| {
        if matches!(case.question.qtype, 35 | rtype::SRV) {
            forget(ours, theirs, &[2]);
        }
    },
};

/// RFC 1034 §4.3.2 step 6, too: theirs names the addresses of some of many name servers only.
const SOME_SERVERS: Rule = Rule {
    name: "addresses-of-some",
    forgive: |case, ours, theirs| {
        if case.question.qtype == rtype::NS && theirs.sections[2].is_subset(&ours.sections[2]) {
            forget(ours, theirs, &[2]);
        }
    },
};

/// RFC 4035 §3.1.6: "A security-aware name server SHOULD clear the CD bit when composing an authoritative response":
/// theirs copies it.
const CD: Rule = Rule { name: "cd-copied", forgive: |_, _, theirs| theirs.flags &= !flag::CD };

/// RFC 1035 §3.2.1: "SOA records are always distributed with a zero TTL to prohibit caching": theirs does so when the SOA
/// was asked for and is not there, ours has the TTL of RFC 2308 §3.
const ZERO_TTL: Rule = Rule {
    name: "zero-soa-ttl",
    forgive: |case, ours, theirs| {
        let is_zero = theirs.sections[1].iter().any(|item| item.rtype == rtype::SOA && item.ttl == 0);
        if case.question.qtype == rtype::SOA && is_zero {
            for seen in [ours, theirs] {
                seen.sections[1].retain(|item| item.covers() != rtype::SOA);
            }
        }
    },
};

/// RFC 1034 §3.6.2 again: theirs signals the loop as an error.
const LOOP_ERROR: Rule = Rule {
    name: "loop-is-servfail",
    forgive: |case, ours, theirs| {
        let has_alias = case.whole.sections[0].iter().any(|item| item.rtype == rtype::CNAME);
        if has_alias && theirs.rcode == 2 && ours.sections[0] == theirs.sections[0] {
            theirs.rcode = ours.rcode;
        }
    },
};

/// RFC 1034 §4.3.2 step 3b: "If a match would take us out of the authoritative data, we have a referral": a question for the
/// NSEC record of a cut is one, too. Theirs answers it.
const NSEC_OF_CUT: Rule = Rule {
    name: "nsec-of-cut",
    forgive: |case, ours, theirs| {
        let is_answer =
            theirs.sections[0].iter().all(|item| item.covers() == rtype::NSEC) && !theirs.sections[0].is_empty();
        if case.question.qtype == rtype::NSEC && !ours.has(flag::AA) && theirs.has(flag::AA) && is_answer {
            (ours.flags, ours.rcode) = (theirs.flags, theirs.rcode);
            forget(ours, theirs, &[0, 1, 2]);
        }
    },
};

/// RFC 1034 §4.3.2 step 6 again: theirs has fewer addresses, of a referral all of those that are needed (RFC 9471 §3.1).
const FEWER_ADDRESSES: Rule = Rule {
    name: "fewer-addresses",
    forgive: |_, ours, theirs| {
        let mut missing = ours.sections[2].difference(&theirs.sections[2]);
        let is_part = theirs.sections[2].is_subset(&ours.sections[2]);
        if is_part && (ours.has(flag::AA) || !missing.any(|item| is_in_domain(item, &ours.sections[1]))) {
            forget(ours, theirs, &[2]);
        }
    },
};

/// RFC 1034 §4.3.2 and RFC 2181 §6.1, as for `no-servers-named`: theirs names the zone's name servers with the CNAME that a
/// DNAME makes.
const SERVERS_AT_DNAME: Rule = Rule {
    name: "servers-named-at-dname",
    forgive: |case, ours, theirs| {
        let is_redirected = ours.sections[0].iter().any(|item| item.rtype == rtype::DNAME);
        let are_servers = theirs.sections[1].iter().all(|item| item.covers() == rtype::NS);
        if case.question.qtype == rtype::CNAME && is_redirected && are_servers && ours.sections[1].is_empty() {
            forget(ours, theirs, &[1, 2]);
        }
    },
};

pub const NSD: &[Rule] = &[
    CUT_SHORT,
    GLUE,
    COMPRESSION,
    SIBLING_GLUE,
    ROOM,
    ANY,
    STAR,
    HASHED_NAME,
    PROOF_AT_ALIAS,
    DENIAL_BEHIND_DNAME,
    PROVABLE,
    OPT_OUT_GAP,
    USEFUL,
];
pub const KNOT: &[Rule] = &[
    CUT_SHORT,
    GLUE,
    COMPRESSION,
    SIBLING_GLUE,
    NO_SERVERS,
    ROOM,
    ANY,
    LOOP,
    RRSIG,
    USEFUL,
    MORE_USEFUL,
    PROOF_AT_ALIAS,
    NSEC_OF_WILDCARD,
    OPT_OUT_GAP,
    SOME_SERVERS,
];
pub const BIND: &[Rule] = &[
    CD,
    CUT_SHORT,
    GLUE,
    COMPRESSION,
    SIBLING_GLUE,
    NO_SERVERS,
    ROOM,
    ANY,
    LOOP,
    RRSIG,
    USEFUL,
    MORE_USEFUL,
    PROOF_AT_ALIAS,
    NSEC_OF_WILDCARD,
    LOOP_ERROR,
    ZERO_TTL,
    NSEC_OF_CUT,
    SERVERS_AT_DNAME,
    OPT_OUT_GAP,
    FEWER_ADDRESSES,
];
