//! Client classes: each has a share of the clients, and its own transport and connection policy.

use std::net::IpAddr;

use hashbrown::HashTable;
use ldplayer_core::policy::{KEYS, Key};
use ldplayer_core::random::{draw, subkey};
use ldplayer_core::shard::client_hash;
use ldplayer_core::{PolicyOverrides, Query, Transport};
use serde::{Deserialize, Serialize};

use crate::mutate::{Even, Share};
use crate::spec::{BadSpec, Table, read};

/// Keys of a class, in addition to those of its policy.
const OWN_KEYS: [&str; 3] = ["name", "share", "transport"];
/// Maximum number of classes.
const MOST: usize = 64;
/// The bits of a table entry that hold the client's class; the others are its hash.
const CLASS: u64 = MOST as u64 - 1;
/// Separates these draws from others with the same seed.
const KEY: u64 = 0x636c_6173_7365_7321;

/// A class of clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientClass {
    /// Its name in results.
    pub name: String,
    /// Its share of the clients.
    pub share: Share,
    /// The transport of its queries; `None` for the recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// How it uses connections, where that differs from the run's policy.
    #[serde(flatten)]
    pub policy: PolicyOverrides,
}

impl ClientClass {
    /// A class for `transport`, named after it.
    pub fn over(transport: Transport, share: Share) -> Self {
        Self { name: transport.to_string(), share, transport: Some(transport), policy: PolicyOverrides::default() }
    }
}

/// Parses classes from `[[class]]` tables in TOML.
///
/// # Errors
/// An unknown key, a value out of range, a name used twice, or shares that do not add up to 1; with the line.
pub fn read_classes(text: &str) -> Result<Vec<ClientClass>, BadSpec> {
    read(text, |root| {
        root.items(&["class"])?;
        let list = root.get("class").ok_or_else(|| root.bad("no [[class]] table"))?.list()?;
        let classes = list.iter().map(|item| read_class(item.table()?)).collect::<Result<Vec<_>, _>>()?;
        check_shares(&classes).map_err(|what| root.bad(what))?;
        Ok(classes)
    })
}

fn read_class(table: Table<'_>) -> Result<ClientClass, BadSpec> {
    let required = |key: &str| table.get(key).ok_or_else(|| table.bad(format!("a class needs a `{key}`")));
    let options: Vec<String> = KEYS.iter().map(Key::option).collect();
    let known = OWN_KEYS.into_iter().chain(options.iter().map(String::as_str));
    table.items(&known.collect::<Vec<_>>())?;
    let name = required("name")?;
    let is_word = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let class = ClientClass {
        name: name.text()?.to_owned(),
        share: required("share")?.parsed(str::parse)?,
        transport: table.get("transport").map(|item| item.parsed(str::parse)).transpose()?,
        policy: read_policy(table)?,
    };
    if is_word(&class.name) {
        Ok(class)
    } else {
        Err(name.bad("a class name may contain only letters, digits, `-`, `_` and `.`"))
    }
}

fn read_policy(table: Table<'_>) -> Result<PolicyOverrides, BadSpec> {
    let mut policy = PolicyOverrides::default();
    for key in KEYS {
        if let Some(item) = table.get(&key.option()) {
            let text = if item.is_truth() { item.truth()?.to_string() } else { item.word()? };
            policy.set(key, &text).map_err(|error| item.bad(error))?;
        }
    }
    Ok(policy)
}

/// Checks that the names of classes are unique and that their shares add up to 1.
///
/// # Errors
/// The violation, in words.
pub fn check_shares(classes: &[ClientClass]) -> Result<(), String> {
    if classes.len() > MOST {
        return Err(format!("{} classes, the maximum is {MOST}", classes.len()));
    }
    let mut names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("the class name `{}` is used twice", twice[0]));
    }
    let sum = classes.iter().try_fold(Share::NONE, |sum, class| sum.plus(class.share));
    if sum == Some(Share::ALL) {
        return Ok(());
    }
    let percent: f64 = classes.iter().map(|class| class.share.part() * 100.0).sum();
    Err(format!("the shares add up to {} %, not 100 %", (percent * 1e7).round() / 1e7))
}

/// Assigns each client a class with its first query.
///
/// Each class in turn takes its share of the clients left over by those before it, exact to within one client at every point of
/// the trace. So the n-th class is exact to within n clients. The same trace and seed give the same classes, for any timing and
/// number of workers.
#[derive(Debug)]
pub struct ClassDraws {
    transports: Vec<Option<Transport>>,
    steps: Vec<Even>,
    key: u64,
    /// Hashes of the clients seen, with their class in the lowest bits. Among a million clients, the probability that two share
    /// a hash, and so a class, is one in 300,000.
    clients: HashTable<u64>,
}

impl ClassDraws {
    /// The draws for these classes, at most 64.
    pub fn new(classes: &[ClientClass], seed: u64) -> Self {
        let mut taken = Share::NONE;
        let steps = classes.iter().map(|class| {
            let step = Even::new(class.share.of_the_rest(taken));
            taken = taken.plus(class.share).unwrap_or(Share::ALL);
            step
        });
        Self {
            steps: steps.collect(),
            transports: classes.iter().map(|class| class.transport).collect(),
            key: subkey(seed, KEY),
            clients: HashTable::new(),
        }
    }

    /// Sets a query's class to that of its client, and its transport to that of the class.
    pub fn assign(&mut self, query: &mut Query) {
        let class = self.class(query.client);
        query.class = Some(class);
        query.transport = self.transports.get(usize::from(class)).copied().flatten().unwrap_or(query.transport);
    }

    /// Clients of each class so far.
    pub fn clients(&self) -> impl Iterator<Item = u64> {
        self.steps.iter().map(Even::drawn)
    }

    fn class(&mut self, client: IpAddr) -> u8 {
        let hash = client_hash(client) & !CLASS;
        if let Some(entry) = self.clients.find(hash, |entry| entry & !CLASS == hash) {
            return (entry & CLASS) as u8;
        }
        let mut steps = self.steps.iter_mut().zip(0_u64..);
        let found = steps.find_map(|(step, at)| step.next(draw(subkey(self.key, at), hash)).then_some(at));
        let class = found.unwrap_or(0).min(CLASS);
        self.clients.insert_unique(hash, hash | class, |entry| entry & !CLASS);
        class as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ldplayer_core::Policy;
    use ldplayer_core::policy::TlsVersion;
    use proptest::prelude::*;

    const FILE: &str = include_str!("../../../data/classes/mixed.toml");

    fn refusal(text: &str) -> String {
        read_classes(text).unwrap_err().to_string()
    }

    fn client(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    fn classes(shares: &[u32]) -> Vec<ClientClass> {
        let whole: u32 = shares.iter().sum();
        let mut left = Share::ALL.part();
        let last = shares.len() - 1;
        let class = |(at, &share): (usize, &u32)| {
            let part = if at == last { left } else { (f64::from(share) / f64::from(whole) * 1e6).round() / 1e6 };
            left -= part;
            ClientClass {
                name: at.to_string(),
                ..ClientClass::over(Transport::Tcp, Share::of(part.clamp(0.0, 1.0)).unwrap())
            }
        };
        shares.iter().enumerate().map(class).collect()
    }

    #[test]
    fn the_example_is_read() {
        let classes = read_classes(FILE).unwrap();
        assert_eq!(classes.len(), 5);
        let at_once = classes.iter().find(|class| class.name == "tcp-at-once").unwrap();
        assert_eq!((at_once.transport, at_once.policy.idle_timeout), (Some(Transport::Tcp), Some(0)));
        let fresh = classes.iter().find(|class| class.name == "dot-fresh").unwrap();
        assert_eq!(
            fresh.policy,
            PolicyOverrides { resumption: Some(false), queries_per_connection: Some(10), ..Default::default() }
        );
    }

    #[test]
    fn a_class_may_say_all_of_it() {
        let keys: String = KEYS.iter().map(|key| format!("{} = '{}'\n", key.option(), key.default())).collect();
        let classes = read_classes(&format!("[[class]]\nname = 'a'\nshare = '100 %'\n{keys}")).unwrap();
        let given: Vec<&str> = classes[0].policy.given().map(|(key, _)| key.name).collect();
        assert_eq!(given, KEYS.iter().map(|key| key.name).collect::<Vec<_>>());
        assert_eq!(classes[0].policy.over(Policy { pipeline: 7, ..Policy::default() }), Policy::default());
        let text = "[[class]]\nname = 'a'\nshare = '100 %'\nidle-timeout = '0.5s'\nhandshake-timeout = 2\nnagle = true\n\
            tls-version = '1.2'\npadding = 468";
        let policy = PolicyOverrides {
            idle_timeout: Some(500_000_000),
            handshake_timeout: Some(2_000_000_000),
            nagle: Some(true),
            tls_version: Some(TlsVersion::Tls12),
            padding: Some(468),
            ..PolicyOverrides::default()
        };
        assert_eq!(read_classes(text).unwrap()[0].policy, policy);
    }

    #[test]
    fn errors_name_the_line_and_the_sum() {
        let class = |more: &str| format!("[[class]]\nname = 'a'\nshare = '95 %'\n{more}");
        assert_eq!(refusal(&class("")), "line 1: the shares add up to 95 %, not 100 %");
        assert!(refusal(&class("[[class]]\nname = 'b'\nshare = 0.1")).ends_with("add up to 105 %, not 100 %"));
        assert!(refusal(&class("[[class]]\nname = 'a'\nshare = 0.05")).contains("the class name `a` is used twice"));
        assert_eq!(
            refusal(&class("idle_timeout = 3")),
            "line 4: unknown key `idle_timeout`: did you mean `idle-timeout`?"
        );
        assert!(refusal(&class("transport = 'sctp'")).contains("sctp"));
        assert!(refusal(&class("pipeline = 0")).contains("from 1 to 32768"));
        assert!(refusal(&class("padding = 4097")).contains("from 0 to 4096"));
        assert!(refusal(&class("tls-version = '1.1'")).contains("use 1.2 or 1.3"));
        assert!(refusal("[[class]]\nshare = '100 %'").contains("needs a `name`"));
        assert!(refusal("[[class]]\nname = 'a b'\nshare = '100 %'").contains("letters"));
        assert!(refusal("").contains("[[class]]"));
    }

    #[test]
    fn thirds_are_whole_when_they_sum_up() {
        let third = |percent: &str, name: &str| format!("[[class]]\nname = '{name}'\nshare = '{percent} %'\n");
        assert!(read_classes(&(third("33.33", "a") + &third("33.33", "b") + &third("33.34", "c"))).is_ok());
        assert!(refusal(&(third("33.3", "a") + &third("33.3", "b") + &third("33.3", "c"))).contains("99.9 %"));
    }

    #[test]
    fn a_client_keeps_its_class_and_the_seed_decides_which() {
        let classes = classes(&[60, 5, 35]);
        let all = |seed| {
            let mut draws = ClassDraws::new(&classes, seed);
            let first: Vec<u8> = (0..2_000).map(|number| draws.class(client(number))).collect();
            let again: Vec<u8> = (0..2_000).map(|number| draws.class(client(number))).collect();
            assert_eq!(first, again);
            assert_eq!(draws.clients().sum::<u64>(), 2_000);
            first
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn each_client_is_as_likely_as_any_other_to_have_a_class() {
        let classes = classes(&[50, 30, 20]);
        let mut times = [[0_u32; 3]; 8];
        for seed in 0..10_000 {
            let mut draws = ClassDraws::new(&classes, seed);
            (0..8).for_each(|number| times[number as usize][usize::from(draws.class(client(number)))] += 1);
        }
        let near = |count: u32, wanted: u32| count.abs_diff(wanted) < 250;
        assert!(times.iter().all(|[a, b, c]| near(*a, 5_000) && near(*b, 3_000) && near(*c, 2_000)), "{times:?}");
    }

    proptest! {
        #[test]
        fn every_class_is_off_by_less_than_its_place(shares in prop::collection::vec(1_u32..100, 1..8), seed: u64) {
            let classes = classes(&shares);
            let mut draws = ClassDraws::new(&classes, seed);
            for count in 1..=300_u32 {
                draws.class(client(count));
                for ((class, drawn), place) in classes.iter().zip(draws.clients()).zip(1_u32..) {
                    let wanted = class.share.part() * f64::from(count);
                    prop_assert!((drawn as f64 - wanted).abs() < f64::from(place) + 1e-3, "{drawn} of {wanted}");
                }
            }
            prop_assert_eq!(draws.clients().sum::<u64>(), 300);
        }
    }
}
