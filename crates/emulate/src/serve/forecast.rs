//! Predicts the answer to a question without serving it.

use std::cell::Cell;
use std::net::IpAddr;

use domain::base::Message;
use domain::base::iana::Rtype;
use domain::rdata::Cname;
use ldplayer_core::message::QueryParts;
use ldplayer_zone::{Choose, ReplyKind, Scratch, Transport, Zone, respond, rtype};

use super::index::Group;
use super::set::ZoneSet;

/// Maximum number of aliases followed across zones, similar to resolvers.
const ALIASES: usize = 12;
/// The response code of a resolver that gives up (RFC 1035 §4.1.1).
const SERVFAIL: u16 = 2;

/// A predicted answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This response code, from zones of the set.
    Answer(u16),
    /// A referral, from a name server.
    Referral,
    /// The set has no answer.
    Unknown(Reason),
}

/// Why the set has no answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// No zone of the set, or none at the address, encloses the name.
    NoZone,
    /// The name, or the target of its alias, is delegated to a zone outside the set. Holds the delegating zone, in wire format.
    Delegated(Vec<u8>),
    /// It is an alias of a name that no zone of the set encloses.
    AliasOut,
}

/// Predicts answers of a server or a resolver.
pub struct Forecaster<'a> {
    set: &'a ZoneSet,
    scratch: Scratch,
    query: Vec<u8>,
    reply: Vec<u8>,
}

/// The zones of an address, and the one chosen last.
struct At<'a> {
    set: &'a ZoneSet,
    group: &'a Group,
    chosen: Cell<Option<u32>>,
}

impl Choose for At<'_> {
    fn choose(&self, qname: &[u8], qtype: u16) -> Option<&Zone> {
        let found = self.group.find(self.set.zones(), qname, qtype);
        self.chosen.set(found);
        found.map(|number| &self.set.zones()[number as usize])
    }
}

impl<'a> Forecaster<'a> {
    /// For the zones of a set.
    pub fn new(set: &'a ZoneSet) -> Self {
        Self { set, scratch: Scratch::default(), query: Vec::new(), reply: Vec::new() }
    }

    /// Whether this is the address of a name server of the set, rather than of a resolver.
    pub fn is_name_server(&self, address: IpAddr) -> bool {
        self.set.index().group(address).is_some_and(|group| !group.zones().is_empty())
    }

    /// The answer of the name server at this address, or without an address, of one that serves all zones.
    pub fn server(&mut self, address: Option<IpAddr>, name: &[u8], qtype: u16, qclass: u16) -> Expected {
        let index = self.set.index();
        match address.map_or(Some(index.all()), |address| index.group(address)) {
            Some(group) => match self.ask(group, name, qtype, qclass) {
                Some((_, ReplyKind::Referral, _)) => Expected::Referral,
                Some((rcode, ..)) => Expected::Answer(rcode),
                None => Expected::Unknown(Reason::NoZone),
            },
            None => Expected::Unknown(Reason::NoZone),
        }
    }

    /// The answer of a resolver that knows only this set.
    pub fn resolver(&mut self, name: &[u8], qtype: u16, qclass: u16) -> Expected {
        let all = self.set.index().all();
        let (mut name, mut is_alias) = (name.to_ascii_lowercase(), false);
        for _ in 0..ALIASES {
            let Some((rcode, kind, zone)) = self.ask(all, &name, qtype, qclass) else {
                return Expected::Unknown(if is_alias { Reason::AliasOut } else { Reason::NoZone });
            };
            match kind {
                ReplyKind::Referral => {
                    let zone = zone.map(|zone| self.set.zones()[zone as usize].apex().to_vec());
                    return Expected::Unknown(zone.map_or(Reason::NoZone, Reason::Delegated));
                }
                ReplyKind::Answer => match self.open_alias(qtype) {
                    Some(target) => (name, is_alias) = (target, true),
                    None => return Expected::Answer(rcode),
                },
                _ => return Expected::Answer(rcode),
            }
        }
        Expected::Answer(SERVFAIL)
    }

    /// Response code, kind and zone of the reply; `None` without a zone.
    fn ask(&mut self, group: &Group, name: &[u8], qtype: u16, qclass: u16) -> Option<(u16, ReplyKind, Option<u32>)> {
        self.query.clear();
        self.reply.clear();
        QueryParts { id: 0, flags: 0, name, qtype, qclass, edns: None }.compose(&mut self.query);
        let at = At { set: self.set, group, chosen: Cell::new(None) };
        let reply = respond(&at, &self.query, Transport::Tcp, &mut self.scratch, &mut self.reply);
        reply.zone.map(|_| (reply.rcode, reply.kind, at.chosen.get()))
    }

    /// The out-of-zone target of the last reply's aliases, if any.
    fn open_alias(&self, qtype: u16) -> Option<Vec<u8>> {
        if matches!(qtype, rtype::CNAME | rtype::ANY) {
            return None;
        }
        let message = Message::from_octets(&self.reply).ok()?;
        let answer = message.answer().ok()?;
        let is_end = |rtype: Rtype| rtype == Rtype::from_int(qtype);
        if answer.filter_map(Result::ok).any(|record| is_end(record.rtype())) {
            return None;
        }
        let last = answer.limit_to::<Cname<_>>().filter_map(Result::ok).last()?;
        let mut target = Vec::new();
        last.data().cname().iter().for_each(|label| {
            target.push(label.len() as u8);
            target.extend_from_slice(label.as_slice());
        });
        Some(target.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const ROOT: &str = "$TTL 60\n. SOA a. b. 1 2 3 4 60\n. NS a.\na. A 192.0.2.1\nexample. NS ns.example.\nns.example. A 192.0.2.2\n\
        lost. NS ns.example.\n";
    const EXAMPLE: &str = "$TTL 60\n@ SOA a b 1 2 3 4 60\n@ NS ns\nns A 192.0.2.2\nwww A 192.0.2.80\nin CNAME www\nabsent CNAME nothing\n\
        out CNAME www.lost.\nother CNAME www.other.\nloop CNAME loop2\nloop2 CNAME loop\nsub NS ns.lost.\n";
    const OTHER: &str =
        "$TTL 60\n@ SOA a b 1 2 3 4 60\n@ NS ns.elsewhere.\nwww A 192.0.2.90\nback CNAME other.example.\n";

    fn forecast(without_root: bool, names: &[(&str, u16)]) -> Vec<Expected> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [("root.zone", ROOT), ("example.zone", EXAMPLE), ("other.zone", OTHER)] {
            if !without_root || name != "root.zone" {
                fs::write(directory.path().join(name), text).unwrap();
            }
        }
        let set = ZoneSet::load(directory.path()).unwrap();
        let mut forecaster = Forecaster::new(&set);
        let wire = |text: &str| {
            let mut wire = Vec::new();
            ldplayer_core::name::parse(text, &mut wire).unwrap();
            wire
        };
        names.iter().map(|(name, qtype)| forecaster.resolver(&wire(name), *qtype, 1)).collect()
    }

    #[test]
    fn a_resolver_follows_aliases_through_the_set() {
        let delegated = |apex: &[u8]| Expected::Unknown(Reason::Delegated(apex.to_vec()));
        let found = forecast(
            false,
            &[
                ("WWW.example", 1),
                ("www.example", 28),
                ("in.example", 1),
                ("absent.example", 1),
                ("out.example", 1),
                ("out.example", 5),
                ("other.example", 1),
                ("back.other", 1),
                ("loop.example", 1),
                ("x.sub.example", 1),
                ("sub.example", 43),
                ("nothing", 1),
                ("www.lost", 1),
            ],
        );
        let answer = Expected::Answer;
        let wanted = [
            answer(0),
            answer(0),
            answer(0),
            answer(3),
            delegated(b"\0"),
            answer(0),
            answer(0),
            answer(0),
            answer(0),
            delegated(b"\x07example\0"),
            answer(0),
            answer(3),
            delegated(b"\0"),
        ];
        assert_eq!(found[..8], wanted[..8]);
        assert_eq!(found[9..], wanted[9..]);
        assert!(matches!(found[8], Expected::Answer(_)), "a loop ends");
    }

    #[test]
    fn without_the_root_there_are_names_without_a_zone() {
        let found = forecast(true, &[("www.example", 1), ("www.test", 1), ("out.example", 1)]);
        let unknown = Expected::Unknown;
        assert_eq!(found, [Expected::Answer(0), unknown(Reason::NoZone), unknown(Reason::AliasOut)]);
    }

    #[test]
    fn a_name_server_knows_its_own_zones() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("root.zone"), ROOT).unwrap();
        fs::write(directory.path().join("example.zone"), EXAMPLE).unwrap();
        let set = ZoneSet::load(directory.path()).unwrap();
        let mut forecaster = Forecaster::new(&set);
        let (root, example) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert!(forecaster.is_name_server(root) && !forecaster.is_name_server("192.0.2.9".parse().unwrap()));
        let name = b"\x03www\x07example\0";
        assert_eq!(forecaster.server(Some(root), name, 1, 1), Expected::Referral);
        assert_eq!(forecaster.server(Some(example), name, 1, 1), Expected::Answer(0));
        assert_eq!(forecaster.server(Some(example), b"\x04lost\0", 1, 1), Expected::Unknown(Reason::NoZone));
        assert_eq!(forecaster.server(None, name, 28, 1), Expected::Answer(0), "all zones");
        assert_eq!(forecaster.server(Some(example), name, 1, 3), Expected::Unknown(Reason::NoZone));
    }
}
