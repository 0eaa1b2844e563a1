//! Answers one query: chooses the zone by the address queried, and counts the reply.

use std::cell::{Cell, RefCell};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use ldplayer_core::Message;
use ldplayer_core::name::MAX_NAME;
use ldplayer_core::transport::Transport;
use ldplayer_net::udp::BATCH;
use ldplayer_zone::{Choose, Scratch, Zone, respond};

use super::answers::Chooser;
use super::counters::Counters;
use super::faults::{Asked, Fate, Maker};
use super::index::{Clue, Group};
use super::set::ZoneSet;
use super::shared::Current;
use super::sums::Counted;
use super::tcp::{ConnectionCounts, Deed, Ends};
use super::transfer::Transfer;
use super::unknown::{LISTED, UnknownList};

/// Answers queries, for one worker.
pub struct Responder {
    current: Current,
    everywhere: bool,
    scratch: Scratch,
    counters: Counters,
    unknown: UnknownList,
    /// Lookups of the next queries, for prefetching.
    ahead: Vec<u32>,
    faults: Option<Maker>,
    answers: Option<Chooser>,
    transfers: bool,
}

/// An answer, and the zone that it is from.
struct Composed {
    sends: bool,
    rcode: u16,
    zone: Option<u32>,
}

/// The zones of one address; remembers the chosen zone, and lists questions without one.
struct At<'a> {
    set: &'a ZoneSet,
    group: Option<&'a Group>,
    local: IpAddr,
    chosen: Cell<Option<u32>>,
    unknown: RefCell<&'a mut UnknownList>,
}

impl Choose for At<'_> {
    #[inline]
    fn choose(&self, qname: &[u8], qtype: u16) -> Option<&Zone> {
        let found = self.group.and_then(|group| group.find(self.set.zones(), qname, qtype));
        self.chosen.set(found);
        if found.is_none() {
            self.unknown.borrow_mut().add(qname, qtype, self.local);
        }
        found.map(|number| &self.set.zones()[number as usize])
    }
}

impl Responder {
    /// For one worker; with `everywhere`, each address serves all zones. UDP answers have at most `udp_size` octets.
    pub fn new(current: Current, everywhere: bool, udp_size: u16) -> Self {
        let counters = Counters::new(current.set.apexes());
        let scratch = Scratch::with_udp_size(udp_size);
        Self {
            current,
            everywhere,
            scratch,
            counters,
            unknown: UnknownList::new(LISTED),
            ahead: Vec::with_capacity(BATCH),
            faults: None,
            answers: None,
            transfers: false,
        }
    }

    /// The same with faults.
    pub fn with_faults(self, faults: Option<Maker>) -> Self {
        Self { faults, ..self }
    }

    /// The same with other versions of record sets than those of the zone files.
    pub fn with_answers(self, answers: Option<Chooser>) -> Self {
        Self { answers, ..self }
    }

    /// The same with zone transfers over connections.
    pub fn with_transfers(self, transfers: bool) -> Self {
        Self { transfers, ..self }
    }

    /// The zone transfer that a query over a connection asks for.
    #[inline]
    pub fn transfer(&mut self, ends: &Ends, query: &[u8]) -> Option<Transfer> {
        if !self.transfers {
            return None;
        }
        let set = &self.current.set;
        let transfer = Transfer::of(query, set, group(set, self.everywhere, ends.local)?)?;
        self.counters.count(Some(transfer.zone()), ends.transport, 0);
        Some(transfer)
    }

    /// Prefetches what the answers to these queries need. Each of them alone would wait for memory several times; step by step, all
    /// of them together wait about as often as one.
    ///
    /// It handles at most [`BATCH`] queries.
    pub fn look_ahead<'q>(&mut self, queries: impl Iterator<Item = (IpAddr, &'q [u8])>) {
        let set = &*self.current.set;
        let mut clues = [const { None }; BATCH];
        for (clue, (local, query)) in clues.iter_mut().zip(queries) {
            *clue = group(set, self.everywhere, local).and_then(|group| Some((group, clue_of(group, query)?)));
        }
        self.ahead.clear();
        self.ahead.extend(clues.iter().flatten().filter_map(|(group, clue)| group.guess(clue)));
        for &zone in &self.ahead {
            set.zones()[zone as usize].fetch();
            self.counters.fetch(zone);
        }
        self.ahead.iter().for_each(|&zone| set.zones()[zone as usize].fetch_pieces());
    }

    /// Appends the answer to a query, and says what becomes of it.
    #[inline]
    pub fn answer(&mut self, ends: &Ends, query: &[u8], out: &mut Vec<u8>) -> Deed {
        let Composed { sends, mut rcode, zone } = self.compose(ends, query, out);
        if !sends {
            self.counters.count_ignored();
            return Deed::Ignore;
        }
        let mut deed = Deed::Send;
        if self.faults.is_some() {
            deed = self.fault(ends, query, zone, out);
            rcode = Message::new(out).map_or(rcode, |answer| answer.rcode());
        }
        if matches!(deed, Deed::Drop | Deed::Reset) {
            self.counters.count_dropped();
            return deed;
        }
        self.counters.count(zone, ends.transport, rcode);
        if let (Some(marks), Some(zone)) = (&self.current.marks, zone) {
            self.scratch.asked().iter().for_each(|&rrset| marks.mark(zone, rrset as usize));
        }
        deed
    }

    /// What the faults make of an answer.
    fn fault(&mut self, ends: &Ends, query: &[u8], zone: Option<u32>, out: &mut Vec<u8>) -> Deed {
        let Some(mut maker) = self.faults.take() else { return Deed::Send };
        let message = Message::new(query);
        let fate = message.and_then(|message| Some((message, message.question()?))).map(|(message, question)| {
            let set = Arc::clone(&self.current.set);
            let asked = Asked {
                zone: zone.map(|zone| set.zones()[zone as usize].apex()),
                name: question.name,
                qtype: question.qtype,
                local: ends.local,
                peer: ends.peer,
                transport: ends.transport,
                edns: message.opt_offset().is_some(),
                length: out.len(),
                at_ns: maker.since_begun(ends.now),
            };
            let mut again = |query: &[u8], out: &mut Vec<u8>| {
                self.compose(ends, query, out);
            };
            maker.apply(asked, query, out, &mut again)
        });
        self.faults = Some(maker);
        match fate {
            None | Some(Fate::Sent { later_ns: 0 }) => Deed::Send,
            Some(Fate::Sent { later_ns }) => Deed::SendLater(later_ns),
            Some(Fate::SentSlowly { every_ns }) => Deed::SendSlowly(every_ns),
            Some(Fate::SentElsewhere) => Deed::SendElsewhere,
            Some(Fate::Dropped) => Deed::Drop,
            Some(Fate::Reset) => Deed::Reset,
        }
    }

    /// Appends the answer that the zones give to a query to a local address.
    #[inline]
    fn compose(&mut self, ends: &Ends, query: &[u8], out: &mut Vec<u8>) -> Composed {
        let local = ends.local;
        if let Some(answers) = &self.answers {
            self.scratch.set_pick(answers.pick(ends.now, ends.peer));
        }
        let set = &*self.current.set;
        let group = group(set, self.everywhere, local);
        let (chosen, unknown) = (Cell::new(None), RefCell::new(&mut self.unknown));
        let at = At { set, group, local, chosen, unknown };
        let transport = match ends.transport {
            Transport::Udp => ldplayer_zone::Transport::Udp,
            _ => ldplayer_zone::Transport::Tcp,
        };
        let reply = respond(&at, query, transport, &mut self.scratch, out);
        Composed { sends: reply.sends, rcode: reply.rcode, zone: at.chosen.get() }
    }

    /// Answers from other zones from now on. Take the counters before.
    pub fn renew(&mut self, current: Current) {
        self.counters = Counters::new(current.set.apexes());
        if let (Some(maker), Some(faults)) = (&mut self.faults, &current.faults) {
            maker.renew(faults);
        }
        self.current = current;
    }

    /// The counters since the last call, without those of connections.
    pub fn take_counted(&mut self) -> Counted {
        let counters = mem::replace(&mut self.counters, Counters::new(self.current.set.apexes()));
        let (unknown, unlisted) = self.unknown.take();
        let faults = self.faults.as_mut().map_or_else(Vec::new, Maker::take_applied);
        let (tcp, quic) = (ConnectionCounts::default(), ConnectionCounts::default());
        Counted { counters, set: Arc::clone(&self.current.set), tcp, quic, unsent: 0, unknown, unlisted, faults }
    }
}

#[inline]
fn group(set: &ZoneSet, everywhere: bool, local: IpAddr) -> Option<&Group> {
    if everywhere { Some(set.index().all()) } else { set.index().group(local) }
}

/// Where to look up the zone of a query.
#[inline]
fn clue_of(group: &Group, query: &[u8]) -> Option<Clue> {
    let question = Message::new(query)?.question()?;
    let mut lower = [0; MAX_NAME];
    let lower = lower.get_mut(..question.name.len())?;
    lower.copy_from_slice(question.name);
    lower.make_ascii_lowercase();
    Some(group.clue(lower))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::message::QueryParts;
    use proptest::prelude::*;
    use std::path::Path;

    const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    /// The root, `example`, and zones below it, all at one address; a zone of many hosts among them.
    fn set() -> ZoneSet {
        let many: String = (0..400).map(|host| format!("h{host} A 192.0.2.9\n")).collect();
        let below = (0..40).map(|zone| (format!("z{zone}.example"), String::from("h1 A 192.0.2.7\n* TXT any\n")));
        let named = [(".", "example NS ns.example\n"), ("example", "z1 NS ns\n"), ("many.example", &many)];
        let named = named.map(|(apex, text)| (apex.to_owned(), text.to_owned()));
        let zone = |(apex, text): (String, String)| {
            let text = format!("$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS ns.example.\n{text}");
            let text = if apex == "example" { text + "ns A 192.0.2.1\n" } else { text };
            let mut none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
            let records =
                ldplayer_zone::load::text_of(text.as_bytes(), Path::new(&apex), Some(&wire(&apex)), &mut none).unwrap();
            Zone::from_records(&records).unwrap().0
        };
        ZoneSet::new(named.into_iter().chain(below).map(zone).collect(), Vec::new()).unwrap()
    }

    fn wire(text: &str) -> Vec<u8> {
        let mut wire = Vec::new();
        ldplayer_core::name::parse(text, &mut wire).unwrap();
        wire
    }

    /// Questions for what is there and for what is not, and messages that are no queries.
    fn query() -> impl Strategy<Value = Vec<u8>> {
        let names = prop_oneof![
            (0..50, 0..3).prop_map(|(zone, host)| format!("H{host}.z{zone}.example")),
            (0..500).prop_map(|host| format!("h{host}.many.example")),
            "[a-z]{0,3}".prop_map(|name| format!("{name}.")),
        ];
        let question = (names, prop_oneof![Just(1), Just(43), Just(2), any::<u16>()]).prop_map(|(name, qtype)| {
            let (mut query, name) = (Vec::new(), wire(&name));
            let edns = Some((1232, qtype % 2 == 0));
            QueryParts { id: qtype, flags: 0, name: &name, qtype, qclass: 1, edns }.compose(&mut query);
            query
        });
        prop_oneof![9 => question, 1 => prop::collection::vec(any::<u8>(), 0..60)]
    }

    fn responder(set: &Arc<ZoneSet>, everywhere: bool) -> Responder {
        Responder::new(Current { set: Arc::clone(set), marks: None, faults: None }, everywhere, ldplayer_zone::UDP_SIZE)
    }

    fn answers(responder: &mut Responder, local: IpAddr, queries: &[Vec<u8>]) -> Vec<(bool, Vec<u8>)> {
        let mut answer = |query: &Vec<u8>| {
            let mut out = Vec::new();
            let ends = Ends { local, peer: SERVER, now: 0, transport: Transport::Udp };
            (responder.answer(&ends, query, &mut out) == Deed::Send, out)
        };
        queries.iter().map(&mut answer).collect()
    }

    #[test]
    fn looking_ahead_finds_the_zone_of_each_query() {
        let set = Arc::new(set());
        let mut responder = responder(&set, false);
        let ask = |name: &str| {
            let mut query = Vec::new();
            QueryParts { id: 1, flags: 0, name: &wire(name), qtype: 1, qclass: 1, edns: None }.compose(&mut query);
            query
        };
        let queries = [ask("H1.Z7.example"), ask("www.test"), b"no query".to_vec(), ask("h3.many.example")];
        responder.look_ahead(queries.iter().map(|query| (SERVER, query.as_slice())));
        let zone = |name: &str| set.zone(&wire(name)).unwrap();
        assert_eq!(responder.ahead, [zone("z7.example"), zone("."), zone("many.example")]);
        responder.look_ahead(queries.iter().map(|query| ("192.0.2.99".parse().unwrap(), query.as_slice())));
        assert!(responder.ahead.is_empty(), "nothing is served there");
    }

    proptest! {
        #[test]
        fn rules_that_fit_nothing_change_no_octet(queries in prop::collection::vec(query(), 0..20)) {
            let set = Arc::new(set());
            let rules = "fault = [\
                { zone = 'elsewhere.', answer = 'none' }, { under = 'n.o.w.h.e.r.e.', answer = 'wrong-id' }, \
                { server = '203.0.113.0/24', answer = 'servfail' }, { client = '203.0.113.0/24', delay = '1s' }, \
                { transport = 'tcp', answer = 'truncated' }, { above = 65535, answer = 'lame' }, \
                { share = '0 %', answer = 'without-glue' }, { after = '1s', answer = 'no-edns' }, \
                { for = '0s', answer = 'unsigned' }]";
            let faults = Arc::new(crate::serve::faults::Faults::parse(rules).unwrap());
            let mut plain = responder(&set, true);
            let mut faulty = responder(&set, true).with_faults(Some(Maker::new(faults, 0, 0)));
            prop_assert_eq!(answers(&mut plain, SERVER, &queries), answers(&mut faulty, SERVER, &queries));
            prop_assert!(faulty.take_counted().faults.iter().all(|(_, count)| *count == 0));
        }

        #[test]
        fn answers_are_the_same_with_and_without_looking_ahead(
            queries in prop::collection::vec(query(), 0..BATCH + 3), everywhere: bool,
        ) {
            let set = Arc::new(set());
            let (mut plain, mut ahead) = (responder(&set, everywhere), responder(&set, everywhere));
            ahead.look_ahead(queries.iter().map(|query| (SERVER, query.as_slice())));
            prop_assert_eq!(answers(&mut plain, SERVER, &queries), answers(&mut ahead, SERVER, &queries));
        }
    }
}
