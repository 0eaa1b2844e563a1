//! Maps addresses to the zones whose name servers have them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use ldplayer_core::name::MAX_NAME;
use ldplayer_zone::store::table::{SEED, Table, extend};
use ldplayer_zone::{Zone, hints, rtype};

use super::lame::Lame;

/// Maximum number of labels in a name, without the root label (RFC 1035 §3.1: 255 octets).
const MAX_LABELS: usize = 127;

/// Maps addresses to the zones that they serve.
#[derive(Debug, Default)]
pub struct Index {
    groups: Vec<Group>,
    addresses: HashMap<IpAddr, u32, FixedState>,
    all: Group,
}

/// Addresses that serve the same zones, and these zones.
#[derive(Debug, Default)]
pub struct Group {
    zones: Vec<u32>,
    /// By apex.
    table: Table,
    /// Bit n: one of the zones has an apex of n labels.
    depths: u128,
}

/// An unreachable delegation: none of its name servers has an address in the set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delegation {
    /// The delegating zone, by its index in the set.
    pub zone: u32,
    /// The owner of the NS records, in wire format.
    pub owner: Box<[u8]>,
}

/// Unreachable delegations and zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreachable {
    /// Delegations without an address.
    pub delegations: Vec<Delegation>,
    /// Zones, by index, none of whose name servers has an address in the set.
    pub zones: Vec<u32>,
}

impl Index {
    /// Finds the name servers of all zones and their addresses: glue and host records anywhere in the set. Name servers
    /// that are lame for a zone
    /// do not serve it.
    pub fn new(zones: &[Zone], lame: &Lame) -> (Self, Unreachable) {
        let servers = Servers::of(zones);
        let hosts = servers.hosts(zones);
        let mut zones_of: HashMap<IpAddr, BTreeSet<u32>, FixedState> = HashMap::default();
        let mut unreachable = Unreachable { delegations: servers.unreachable(&hosts), zones: Vec::new() };
        for ((number, zone), targets) in (0..).zip(zones).zip(&servers.of_zones) {
            let known = targets.iter().flat_map(|&target| &hosts[target as usize]).copied();
            let addresses: BTreeSet<IpAddr> = known.chain(root_hints(zone.apex())).collect();
            if addresses.is_empty() {
                unreachable.zones.push(number);
            }
            for address in addresses {
                let served = zones_of.entry(address).or_default();
                if !lame.is_lame(zone.apex(), address) {
                    served.insert(number);
                }
            }
        }
        // Name servers of zones outside the set are included: they refuse, and queries to them are reported.
        for &address in hosts.iter().flatten() {
            zones_of.entry(address).or_default();
        }
        (Self::of_groups(zones, zones_of), unreachable)
    }

    fn of_groups(all: &[Zone], zones_of: HashMap<IpAddr, BTreeSet<u32>, FixedState>) -> Self {
        let mut numbers: HashMap<Vec<u32>, u32, FixedState> = HashMap::default();
        let (mut groups, mut addresses) = (Vec::new(), HashMap::default());
        let mut sorted: Vec<_> = zones_of.into_iter().collect();
        sorted.sort_unstable_by_key(|(address, _)| *address);
        for (address, zones) in sorted {
            let zones: Vec<u32> = zones.into_iter().collect();
            let number = *numbers.entry(zones).or_insert_with_key(|zones| {
                groups.push(Group::new(zones.clone(), all));
                groups.len() as u32 - 1
            });
            addresses.insert(address, number);
        }
        let all = Group::new((0..all.len() as u32).collect(), all);
        Self { groups, addresses, all }
    }

    /// The zones of an address; `None` if it is not a name server's.
    #[inline]
    pub fn group(&self, address: IpAddr) -> Option<&Group> {
        self.addresses.get(&address).map(|&number| &self.groups[number as usize])
    }

    /// All zones.
    pub const fn all(&self) -> &Group {
        &self.all
    }

    /// All name server addresses, sorted.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses: Vec<IpAddr> = self.addresses.keys().copied().collect();
        addresses.sort_unstable();
        addresses
    }

    /// The groups of addresses that serve the same zones, with these zones, sorted by first address.
    pub fn views(&self) -> Vec<(Vec<IpAddr>, &[u32])> {
        let mut views: Vec<(Vec<IpAddr>, &[u32])> =
            self.groups.iter().map(|group| (Vec::new(), group.zones.as_slice())).collect();
        for address in self.addresses() {
            views[self.addresses[&address] as usize].0.push(address);
        }
        views
    }
}

impl Group {
    fn new(zones: Vec<u32>, all: &[Zone]) -> Self {
        let (mut table, mut depths) = (Table::with_capacity(zones.len()), 0);
        for &zone in &zones {
            let starts = Starts::of(all[zone as usize].apex());
            depths |= 1 << starts.labels;
            table.insert(starts.hash(all[zone as usize].apex()), zone);
        }
        Self { zones, table, depths }
    }

    /// The deepest zone that encloses the name (wire format, lower case) and answers for the type: for DS, that is the
    /// parent (RFC 4035 §3.1.4.1), unless the group has only the child. `all` are the zones of the set.
    #[inline]
    pub fn find(&self, all: &[Zone], name: &[u8], qtype: u16) -> Option<u32> {
        if self.depths == 1 {
            // Only the root zone encloses every name.
            return self.zones.first().copied();
        }
        let starts = Starts::of(name);
        let (mut above, mut own) = (None, None);
        for (depth, hash) in self.hashes(name, &starts) {
            let Some(found) = self.get(all, hash, starts.suffix(name, depth)) else { continue };
            *if depth == starts.labels { &mut own } else { &mut above } = Some(found);
        }
        if qtype == rtype::DS { above.or(own) } else { own.or(above) }
    }

    /// The zone of this apex (wire format, lower case).
    pub fn zone(&self, all: &[Zone], apex: &[u8]) -> Option<u32> {
        self.get(all, Starts::of(apex).hash(apex), apex)
    }

    /// Prefetches the places where the zone of a name is looked up.
    #[inline]
    pub fn clue(&self, name: &[u8]) -> Clue {
        let mut clue = Clue::default();
        for (_, hash) in self.hashes(name, &Starts::of(name)) {
            self.table.fetch(hash);
            clue.add(hash);
        }
        clue
    }

    /// The zone that [`Self::find`] will most probably find.
    #[inline]
    pub fn guess(&self, clue: &Clue) -> Option<u32> {
        clue.deepest_first().find_map(|hash| self.table.find(hash, |_| true))
    }

    #[inline]
    fn get(&self, all: &[Zone], hash: u64, apex: &[u8]) -> Option<u32> {
        self.table.find(hash, |zone| *all[zone as usize].apex() == *apex)
    }

    /// The hashes of those suffixes of a name that are as long as apexes of the zones, shortest first, and their labels.
    #[inline]
    fn hashes(&self, name: &[u8], starts: &Starts) -> impl Iterator<Item = (usize, u64)> {
        let deepest = (u128::BITS - self.depths.leading_zeros()) as usize;
        let mut hash = SEED;
        let each = (0..deepest.min(starts.labels + 1)).map(move |depth| {
            hash = if depth == 0 { SEED } else { extend(hash, starts.label(name, depth)) };
            (depth, hash)
        });
        each.filter(|&(depth, _)| (self.depths >> depth) & 1 == 1)
    }

    /// The zones, by index.
    pub fn zones(&self) -> &[u32] {
        &self.zones
    }
}

/// Number of depths that are prefetched.
const CLUES: usize = 4;

/// Hashes of a name's suffixes, deepest first, limited to depths at which the group has zones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clue {
    hashes: [u64; CLUES],
    count: usize,
}

impl Clue {
    #[inline]
    const fn add(&mut self, hash: u64) {
        self.hashes[self.count % CLUES] = hash;
        self.count += 1;
    }

    #[inline]
    fn deepest_first(&self) -> impl Iterator<Item = u64> {
        (0..self.count).rev().take(CLUES).map(|at| self.hashes[at % CLUES])
    }
}

/// Offsets of the labels of a name.
struct Starts {
    /// Offset of the root label.
    offsets: [u8; MAX_LABELS + 1],
    /// Number of labels without the root label.
    labels: usize,
}

impl Starts {
    #[inline]
    fn of(name: &[u8]) -> Self {
        let (mut offsets, mut labels, mut at) = ([0; MAX_LABELS + 1], 0, 0);
        while let Some(&length @ 1..) = name.get(at).filter(|_| at < MAX_NAME && labels < MAX_LABELS) {
            offsets[labels] = at as u8;
            labels += 1;
            at += usize::from(length) + 1;
        }
        // Invalid names end somewhere, too.
        offsets[labels] = at.min(name.len().saturating_sub(1)).min(MAX_NAME) as u8;
        Self { offsets, labels }
    }

    /// The last `depth` labels of the name.
    #[inline]
    fn suffix<'a>(&self, name: &'a [u8], depth: usize) -> &'a [u8] {
        &name[usize::from(self.offsets[self.labels - depth])..]
    }

    /// The first of the last `depth` labels, with its length octet.
    #[inline]
    fn label<'a>(&self, name: &'a [u8], depth: usize) -> &'a [u8] {
        let at = self.labels - depth;
        &name[usize::from(self.offsets[at])..usize::from(self.offsets[at + 1])]
    }

    fn hash(&self, name: &[u8]) -> u64 {
        (1..=self.labels).fold(SEED, |hash, depth| extend(hash, self.label(name, depth)))
    }
}

/// Addresses from root hints: resolvers start there.
fn root_hints(apex: &[u8]) -> impl Iterator<Item = IpAddr> {
    hints::addresses().filter(move |_| apex == [0])
}

/// The addresses of name servers, by number.
type Hosts = Vec<BTreeSet<IpAddr>>;

/// The name servers of zones and delegations; a large zone has millions of them.
#[derive(Default)]
struct Servers<'a> {
    /// Numbers of their names.
    names: HashMap<Cow<'a, [u8]>, u32, FixedState>,
    of_zones: Vec<Vec<u32>>,
    /// Delegating zone, owner and name server; records of the same owner are adjacent.
    delegations: Vec<(u32, &'a [u8], u32)>,
}

impl<'a> Servers<'a> {
    /// NS records at the apex of a zone and at its delegation, which may differ.
    fn of(zones: &'a [Zone]) -> Self {
        let numbers: HashMap<&[u8], usize, FixedState> = zones.iter().map(Zone::apex).zip(0..).collect();
        let mut servers = Self { of_zones: vec![Vec::new(); zones.len()], ..Self::default() };
        for (zone, number) in zones.iter().zip(0..) {
            for target in zone.name_servers() {
                let target = servers.number(target);
                servers.of_zones[number as usize].push(target);
            }
            for (owner, target) in zone.delegations() {
                let target = servers.number(target);
                servers.delegations.push((number, owner, target));
                if let Some(&child) = numbers.get(owner) {
                    servers.of_zones[child].push(target);
                }
            }
        }
        servers
    }

    /// The number of a name. Names in record data keep their case.
    fn number(&mut self, name: &'a [u8]) -> u32 {
        let has_upper = name.iter().any(u8::is_ascii_uppercase);
        let lower = if has_upper { Cow::Owned(name.to_ascii_lowercase()) } else { Cow::Borrowed(name) };
        let next = self.names.len() as u32;
        *self.names.entry(lower).or_insert(next)
    }

    /// The addresses of all name servers in the set.
    fn hosts(&self, zones: &[Zone]) -> Hosts {
        let mut hosts = vec![BTreeSet::new(); self.names.len()];
        for (owner, rtype, data) in zones.iter().flat_map(Zone::addresses) {
            if let Some(address) = address(rtype, data)
                && let Some(&number) = self.names.get(owner)
            {
                hosts[number as usize].insert(address);
            }
        }
        hosts
    }

    fn unreachable(&self, hosts: &Hosts) -> Vec<Delegation> {
        let cuts = self.delegations.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1));
        let lost = cuts.filter(|cut| cut.iter().all(|&(_, _, target)| hosts[target as usize].is_empty()));
        lost.map(|cut| Delegation { zone: cut[0].0, owner: cut[0].1.into() }).collect()
    }
}

fn address(rtype: u16, data: &[u8]) -> Option<IpAddr> {
    match rtype {
        rtype::A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
        rtype::AAAA => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::name;
    use proptest::strategy::Strategy as _;
    use std::path::Path;

    fn wire(text: &str) -> Vec<u8> {
        let mut wire = Vec::new();
        name::parse(text, &mut wire).unwrap();
        wire
    }

    fn zones(zones: &[(&str, &str)]) -> Vec<Zone> {
        let mut none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
        let mut load = |(apex, text): &(&str, &str)| {
            let text = format!("$TTL 60\n@ SOA a b 1 2 3 4 5\n{text}");
            let records =
                ldplayer_zone::load::text_of(text.as_bytes(), Path::new("x"), Some(&wire(apex)), &mut none).unwrap();
            Zone::from_records(&records).unwrap().0
        };
        zones.iter().map(&mut load).collect()
    }

    fn index(of: &[(&str, &str)]) -> (Index, Unreachable) {
        Index::new(&zones(of), &Lame::default())
    }

    /// What is found, which is what is guessed before.
    fn find(index: &Index, address: &str, name: &str, qtype: u16) -> Option<u32> {
        let (group, all, name) = (index.group(address.parse().unwrap())?, zones(&ZONES), wire(name));
        let found = group.find(&all, &name, qtype);
        assert!(qtype == rtype::DS || group.guess(&group.clue(&name)) == found, "{name:?}");
        found
    }

    /// Root, com and example.com, with a server that com and example.com share, one out of bailiwick, and dead ends.
    const ZONES: [(&str, &str); 4] = [
        (
            ".",
            "@ NS a.root\na.root A 192.0.2.1\ncom NS ns.com\nns.com A 192.0.2.2\nnet NS lost.net\norg NS ns.org\nns.org A 192.0.2.9\n",
        ),
        (
            "com",
            "@ NS ns\nns A 192.0.2.2\nexample NS ns\nexample NS ns.other.test.\nexample DS 1 8 2 0000000000000000000000000000000000000000000000000000000000000000\n",
        ),
        ("example.com", "@ NS ns.com.\n@ NS NS6\nns6 AAAA 2001:db8::6\n"),
        ("other.test", "@ NS ns\nns A 192.0.2.7\n"),
    ];

    #[test]
    fn an_address_serves_the_zones_whose_name_servers_have_it() {
        let (index, _) = index(&ZONES);
        for (address, name, zone) in [
            ("192.0.2.1", "www.example.com", Some(0)),
            ("198.41.0.4", "anything.test", Some(0)),
            ("2001:503:ba3e::2:30", ".", Some(0)),
            ("192.0.2.2", "www.example.com", Some(2)),
            ("192.0.2.2", "example.com", Some(2)),
            ("192.0.2.2", "www.example2.com", Some(1)),
            ("192.0.2.2", "example.net", None),
            ("2001:db8::6", "www.example.com", Some(2)),
            ("2001:db8::6", "com", None),
            ("192.0.2.7", "www.example.com", Some(2)),
            ("192.0.2.7", "other.test", Some(3)),
            ("192.0.2.9", "org", None),
            ("192.0.2.77", ".", None),
        ] {
            assert_eq!(find(&index, address, name, rtype::A), zone, "{name} at {address}");
        }
        assert!(index.group("192.0.2.9".parse().unwrap()).unwrap().zones().is_empty());
        assert_eq!(index.all().find(&zones(&ZONES), &wire("a.other.test"), rtype::A), Some(3));
        let zone = |apex| index.all().zone(&zones(&ZONES), &wire(apex));
        assert_eq!((zone("com"), zone("org"), zone(".")), (Some(1), None, Some(0)));
    }

    #[test]
    fn the_parent_answers_for_ds_where_it_can() {
        let (index, _) = index(&ZONES);
        assert_eq!(find(&index, "192.0.2.2", "example.com", rtype::DS), Some(1));
        assert_eq!(find(&index, "192.0.2.2", "com", rtype::DS), Some(1), "the child alone says that it has none");
        assert_eq!(find(&index, "2001:db8::6", "example.com", rtype::DS), Some(2));
        assert_eq!(find(&index, "192.0.2.2", "a.example.com", rtype::DS), Some(2));
        assert_eq!(find(&index, "192.0.2.1", ".", rtype::DS), Some(0));
    }

    #[test]
    fn dead_ends_are_listed() {
        let (_, unreachable) = index(&ZONES);
        let net = Delegation { zone: 0, owner: wire("net").into() };
        assert_eq!(unreachable, Unreachable { delegations: vec![net], zones: Vec::new() });
        let (_, unreachable) = index(&[("example", "@ NS ns.elsewhere.\n")]);
        assert_eq!(unreachable.zones, [0]);
    }

    #[test]
    fn views_have_each_address_once() {
        let (index, _) = index(&ZONES);
        let mut views: Vec<_> = index.views().iter().map(|(ips, zones)| (ips.len(), zones.to_vec())).collect();
        views.sort_unstable();
        assert_eq!(views, [(1, vec![]), (1, vec![1, 2]), (1, vec![2]), (1, vec![2, 3]), (27, vec![0])]);
    }

    /// Names of few labels, so that they enclose one another often.
    fn names() -> impl proptest::strategy::Strategy<Value = String> {
        proptest::collection::vec("[ab]", 0..6).prop_map(|labels| format!("{}.", labels.join(".")))
    }

    /// The zone with the longest apex that encloses the name; of DS records the parent, if it is there.
    fn enclosing(all: &[Zone], name: &[u8], qtype: u16) -> Option<u32> {
        let is_within = |apex: &[u8]| name.ends_with(apex) && name::labels(name).count() >= name::labels(apex).count();
        let enclosing = all.iter().zip(0..).filter(|(zone, _)| is_within(zone.apex()));
        let is_own = |zone: &Zone| qtype == rtype::DS && *zone.apex() == *name;
        enclosing.max_by_key(|(zone, _)| (!is_own(zone), zone.apex().len())).map(|(_, number)| number)
    }

    proptest::proptest! {
        #[test]
        fn the_deepest_zone_is_found_in_any_set(apexes in proptest::collection::btree_set(names(), 0..12), name in names(), ds: bool) {
            let of: Vec<_> = apexes.iter().map(|apex| (apex.as_str(), "@ NS ns.elsewhere.\n")).collect();
            let (all, qtype) = (zones(&of), if ds { rtype::DS } else { rtype::A });
            let group = Group::new((0..all.len() as u32).collect(), &all);
            proptest::prop_assert_eq!(group.find(&all, &wire(&name), qtype), enclosing(&all, &wire(&name), qtype));
        }

        #[test]
        fn any_octets_end_in_a_zone_or_none(name in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), qtype in 0_u16..60) {
            let (index, _) = index(&ZONES);
            let _ = index.all().find(&zones(&ZONES), &name, qtype);
            let _ = index.all().guess(&index.all().clue(&name));
        }
    }
}
