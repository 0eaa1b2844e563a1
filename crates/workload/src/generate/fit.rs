//! Fits a model to a trace: clients and their activity, arrival rates, names, types and transports.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use hashbrown::HashMap;
use ldplayer_core::message::{Message, flag};
use ldplayer_core::name::Presentation;
use ldplayer_core::shard::client_hash;
use ldplayer_core::text::counted;
use ldplayer_core::{TraceTime, Transaction, Transport};
use ldplayer_trace::columns::type_name;

use super::model::MAX_CLIENTS;

/// Maximum number of time bins; beyond it, their length doubles.
const MAX_BINS: usize = 240;
/// Initial length of time bins in nanoseconds.
const FIRST_BIN: i64 = 1_000_000_000;
/// Maximum number of clients counted; beyond it, a sample is taken by hash.
const MAX_COUNTED: usize = 1 << 21;
/// Maximum number of distinct names kept; later names count as asked once.
const MAX_NAMES: usize = 300_000;
/// Response code of names that do not exist (RFC 1035 §4.1.1).
const NXDOMAIN: u16 = 3;
/// Maximum number of EDNS payload sizes in a model.
const MAX_SIZES: usize = 16;

/// Gaps that deviate less, in parts of their mean, are taken for even; at random ones of a steady rate it is 1.
const EVEN: f64 = 0.5;

/// Steps to find a number of draws: to one in a million.
const HALVINGS: u32 = 20;

/// Collects the statistics for a model.
#[derive(Debug)]
pub struct Fit {
    span: Option<(TraceTime, TraceTime)>,
    bins: Vec<u64>,
    bin: i64,
    queries: u64,
    clients: Counts,
    names: HashMap<Box<[u8]>, Asked, foldhash::fast::FixedState>,
    /// Queries for names that were not kept.
    unkept: u64,
    /// The gaps between queries.
    gaps: Gaps,
    latest: Option<TraceTime>,
    /// Those of them that do not exist.
    unkept_absent: u64,
    answered: u64,
    types: BTreeMap<u16, u64>,
    sizes: BTreeMap<u16, u64>,
    transports: [u64; Transport::ALL.len()],
    flags: Flags,
    lower: Vec<u8>,
}

/// How often a name was asked for with a type.
#[derive(Clone, Copy, Debug)]
struct Asked {
    times: u32,
    /// Whether the first answer was that the name does not exist.
    is_absent: bool,
}

/// Queries with each of these.
#[derive(Debug, Default)]
struct Flags {
    ipv6: u64,
    rd: u64,
    cd: u64,
    edns: u64,
    dnssec_ok: u64,
}

/// A model and its list of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fitted {
    /// The model as TOML.
    pub model: String,
    /// Names with types that were asked for at least twice, the most popular first, one a line.
    pub names: String,
}

impl Default for Fit {
    fn default() -> Self {
        Self {
            span: None,
            bins: Vec::new(),
            bin: FIRST_BIN,
            queries: 0,
            clients: Counts::default(),
            names: HashMap::default(),
            unkept: 0,
            gaps: Gaps::default(),
            latest: None,
            unkept_absent: 0,
            answered: 0,
            types: BTreeMap::new(),
            sizes: BTreeMap::new(),
            transports: [0; Transport::ALL.len()],
            flags: Flags::default(),
            lower: Vec::new(),
        }
    }
}

impl Fit {
    /// Counts a batch, in order of time.
    pub fn add(&mut self, batch: &[Transaction]) {
        for row in batch {
            if let Some(query) = row.query.as_deref().and_then(Message::new) {
                self.add_query(row, &query);
            }
        }
    }

    /// The number of queries counted.
    pub const fn queries(&self) -> u64 {
        self.queries
    }

    fn add_query(&mut self, row: &Transaction, query: &Message<'_>) {
        self.queries += 1;
        self.add_time(row.time);
        self.clients.add(row.client.ip());
        self.transports[row.transport as usize] += 1;
        self.flags.ipv6 += u64::from(row.client.is_ipv6());
        self.flags.rd += u64::from(query.has(flag::RD));
        self.flags.cd += u64::from(query.has(flag::CD));
        if let Some(edns) = query.edns() {
            self.flags.edns += 1;
            self.flags.dnssec_ok += u64::from(edns.dnssec_ok);
            *self.sizes.entry(edns.udp_size).or_default() += 1;
        }
        let Some(question) = query.question() else { return };
        *self.types.entry(question.qtype).or_default() += 1;
        let response = row.response.as_deref().and_then(Message::new);
        self.answered += u64::from(response.is_some());
        let is_absent = response.is_some_and(|response| response.rcode() == NXDOMAIN);
        self.add_name(question.name, question.qtype, is_absent);
    }

    fn add_time(&mut self, time: TraceTime) {
        if let Some(latest) = self.latest.replace(time) {
            self.gaps.add((time - latest) as f64);
        }
        let (first, last) = self.span.get_or_insert((time, time));
        *last = (*last).max(time);
        let elapsed = (time - *first).max(0);
        while (elapsed / self.bin) as usize >= MAX_BINS {
            self.bins = self.bins.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.bin *= 2;
        }
        let at = (elapsed / self.bin) as usize;
        if at >= self.bins.len() {
            self.bins.resize(at + 1, 0);
        }
        self.bins[at] += 1;
    }

    /// Counts a name together with the type: a cache answers for both.
    fn add_name(&mut self, name: &[u8], qtype: u16, is_absent: bool) {
        self.lower.clear();
        self.lower.extend(name.iter().map(u8::to_ascii_lowercase));
        self.lower.extend(qtype.to_be_bytes());
        if let Some(asked) = self.names.get_mut(&self.lower[..]) {
            asked.times += 1;
        } else if self.names.len() < MAX_NAMES {
            self.names.insert(self.lower.as_slice().into(), Asked { times: 1, is_absent });
        } else {
            self.unkept += 1;
            self.unkept_absent += u64::from(is_absent);
        }
    }

    /// The fitted model. `trace` names its source, `list` the file for the names.
    pub fn finish(&self, trace: &str, list: &str) -> Fitted {
        let mut names: Vec<(&[u8], Asked)> = self.names.iter().map(|(name, asked)| (&**name, *asked)).collect();
        names.sort_unstable_by(|a, b| b.1.times.cmp(&a.1.times).then(a.0.cmp(b.0)));
        let repeated = names.partition_point(|(_, asked)| asked.times > 1);
        let (repeated, once) = names.split_at(repeated);
        let absent = self.unkept_absent + once.iter().filter(|(_, asked)| asked.is_absent).count() as u64;
        let once = self.unkept + once.len() as u64 - absent;
        let mut list_text = String::new();
        let mut types = self.types.clone();
        for (name, asked) in repeated {
            let (name, qtype) = name.split_at(name.len() - 2);
            let qtype = u16::from_be_bytes([qtype[0], qtype[1]]);
            // Writing to a string cannot fail.
            let _ = writeln!(list_text, "{} {}", Presentation(name), type_name(qtype));
            types.entry(qtype).and_modify(|all| *all = all.saturating_sub(u64::from(asked.times)));
        }
        let popularity: Vec<f64> = repeated.iter().map(|(_, asked)| f64::from(asked.times)).collect();
        let again: u64 = repeated.iter().map(|(_, asked)| u64::from(asked.times)).sum();
        let mut model = self.head(trace);
        model.push_str(&self.names_table(list, &popularity, [again, once, absent]));
        model.push_str(&self.tail(&types));
        Fitted { model, names: list_text }
    }

    fn head(&self, trace: &str) -> String {
        let span = self.span.map_or(0, |(first, last)| last - first) as f64 / 1e9;
        let rates: Vec<f64> = self.rates(span);
        let activity = self.clients.activity();
        format!(
            "# Fitted to {} of {trace}. Clients and names are drawn at random by quantiles: [rank from the most active, value].\n\
             # Gaps between queries deviate by {:.0} % of their mean (even: 0 %, random at a steady rate: 100 %).\n\
             # Not modelled: client sessions, which client asks for which name, and queries that depend on earlier answers.\n\
             duration = \"{:.3}s\"\n\n[arrivals]\nkind = \"profile\"\neach = \"{}s\"\nqps = [{}]\n{}\n\
             [clients]\ncount = {}\nipv6 = {}\nquantiles = {}\n",
            counted(self.queries, "query", "queries"),
            100.0 * self.gaps.deviation(),
            span.max(0.001),
            self.bin as f64 / 1e9,
            rates.iter().map(|rate| format!("{rate:.3}")).collect::<Vec<_>>().join(", "),
            if self.gaps.deviation() < EVEN { "random = false\n" } else { "" },
            activity.len().clamp(1, MAX_CLIENTS as usize),
            share(self.flags.ipv6, self.queries),
            quantiles(&activity),
        )
    }

    /// Queries per second at the points of a profile, which lie between time bins.
    fn rates(&self, span: f64) -> Vec<f64> {
        let length = self.bin as f64 / 1e9;
        let last = self.bins.len().saturating_sub(1);
        let of_piece = |at: usize| {
            let seconds = if at == last { (span - last as f64 * length).clamp(length / 10.0, length) } else { length };
            self.bins[at] as f64 / seconds
        };
        let mut rates: Vec<f64> =
            (0..self.bins.len()).map(|at| (of_piece(at) + of_piece(at.saturating_sub(1))) / 2.0).collect();
        // Smoothing must preserve the number of queries.
        let (is, shall) = (rates.iter().sum::<f64>() * length, self.queries as f64);
        let whole = span.max(length) / (self.bins.len().max(1) as f64 * length);
        rates.iter_mut().for_each(|rate| *rate *= shall / (is * whole.min(1.0)));
        rates
    }

    /// The table of names, for queries for names that were asked for again, once, and once without existing.
    fn names_table(&self, list: &str, popularity: &[f64], [again, once, absent]: [u64; 3]) -> String {
        let stock = match popularity {
            [] => "name = \"q{n}.example.com\"\n".to_owned(),
            _ => format!("list = \"{list}\"\nquantiles = {}\n", quantiles(popularity)),
        };
        let absent = share(absent, self.answered);
        let seen = share(drawn(popularity).round() as u64, again + once);
        format!(
            "\n[names]\n{stock}nxdomain = {absent}    # share of answered queries, for names that occur once; the list has the others\nnxdomain-name = \"{{random}}\"\n\
             cache-hit = {seen}    # the rest asks for names that occur once\n"
        )
    }

    /// The end of the model; `types` are those of queries for names without a type in the list.
    fn tail(&self, types: &BTreeMap<u16, u64>) -> String {
        let of = |count: u64| share(count, self.queries);
        let mut types: Vec<(u16, u64)> = types.iter().map(|(&qtype, &n)| (qtype, n)).filter(|(_, n)| *n > 0).collect();
        types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let types: String = types.iter().map(|(qtype, count)| format!("{} = {count}\n", type_name(*qtype))).collect();
        let mut sizes: Vec<(u16, u64)> = self.sizes.iter().map(|(&size, &count)| (size, count)).collect();
        sizes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        sizes.truncate(MAX_SIZES);
        let sizes: Vec<String> = sizes.iter().map(|(size, count)| format!("{size} = {count}")).collect();
        let transports = Transport::ALL.into_iter().zip(self.transports).filter(|(_, count)| *count > 0);
        let transports: Vec<String> = transports.map(|(transport, count)| format!("{transport} = {count}")).collect();
        let types = if types.is_empty() { "A = 1\n".to_owned() } else { types };
        let sizes = if sizes.is_empty() { "1232 = 1".to_owned() } else { sizes.join(", ") };
        format!(
            "\n[types]\n{types}\n[query]\nrd = {}\ncd = {}\nedns = {}\ndo = {}\nsizes = {{ {sizes} }}\ntransports = {{ {} }}\n",
            of(self.flags.rd),
            of(self.flags.cd),
            of(self.flags.edns),
            of(self.flags.dnssec_ok),
            if transports.is_empty() { "udp = 1".to_owned() } else { transports.join(", ") },
        )
    }
}

/// How many draws of names with these counts repeat as many as the counts do. Drawn as often as counted, names would be repeated more: some are
/// not drawn at all, and the others more often.
fn drawn(counts: &[f64]) -> f64 {
    let all: f64 = counts.iter().sum();
    let repeated = all - counts.len() as f64;
    let repeats = |draws: f64| draws - counts.iter().map(|count| 1.0 - (-count * draws / all).exp()).sum::<f64>();
    let (mut few, mut many) = (0.0, all);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(few, many);
        if repeats(middle) < repeated { few = middle } else { many = middle }
    }
    many
}

/// A share with six decimals.
fn share(part: u64, whole: u64) -> String {
    format!("{:.6}", if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

/// Points of a distribution with values in descending order, denser at the start, where values are few.
fn quantiles(values: &[f64]) -> String {
    let count = values.len();
    let mut ranks: Vec<usize> = std::iter::successors(Some(1.0_f64), |rank| Some(rank * 1.25 + 0.5))
        .map(|rank| rank as usize - 1)
        .take_while(|rank| *rank < count)
        .collect();
    ranks.extend(count.checked_sub(1));
    ranks.dedup();
    let place = |rank: usize| (rank as f64 + 0.5) / count as f64;
    let points: Vec<String> = ranks.iter().map(|&rank| format!("[{:.9}, {:.4}]", place(rank), values[rank])).collect();
    format!("[{}]", if points.is_empty() { "[0.0, 1.0]".to_owned() } else { points.join(", ") })
}

/// Mean and deviation of gaps, updated one by one (Welford, 1962).
#[derive(Debug, Default)]
struct Gaps {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Gaps {
    fn add(&mut self, gap: f64) {
        self.count += 1;
        let before = gap - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (gap - self.mean);
    }

    /// The standard deviation in parts of the mean; 1, as of random gaps, where nothing is known.
    fn deviation(&self) -> f64 {
        if self.count < 2 || self.mean <= 0.0 { 1.0 } else { (self.squares / self.count as f64).sqrt() / self.mean }
    }
}

/// Queries per client, of all clients or of a sample.
#[derive(Debug, Default)]
struct Counts {
    counts: HashMap<u64, u32, foldhash::fast::FixedState>,
    /// One client in 2 to the power of this is counted.
    thinned: u32,
}

impl Counts {
    fn add(&mut self, client: IpAddr) {
        let hash = client_hash(client);
        if hash.trailing_zeros() < self.thinned {
            return;
        }
        *self.counts.entry(hash).or_default() += 1;
        if self.counts.len() > MAX_COUNTED {
            self.thinned += 1;
            let thinned = self.thinned;
            self.counts.retain(|hash, _| hash.trailing_zeros() >= thinned);
        }
    }

    /// Estimated activity of all clients in descending order, including clients that were present but sent no query.
    ///
    /// A generator that used the observed counts as weights would leave out many of the clients seen once or twice. So their number and activity
    /// are corrected by the numbers of clients seen once, twice and three times (Good, "The population frequencies of species", 1953; Chao, 1984).
    fn activity(&self) -> Vec<f64> {
        let mut seen = [0_f64; 4];
        self.counts.values().for_each(|&count| seen[count.min(3) as usize] += f64::from(u8::from(count <= 3)));
        let [_, once, twice, thrice] = seen;
        let unseen = if twice > 0.0 { once * once / (2.0 * twice) } else { 0.0 };
        let unseen = unseen.min(4.0 * self.counts.len() as f64);
        let corrected = |count: u32| match count {
            1 if once > 0.0 && unseen > 0.0 => 2.0 * twice / once,
            2 if thrice > 0.0 => (3.0 * thrice / twice).clamp(1.0, 2.0),
            _ => f64::from(count),
        };
        let mut activity: Vec<f64> = self.counts.values().map(|&count| corrected(count)).collect();
        if unseen >= 1.0 {
            let rate = once / unseen;
            activity.resize(activity.len() + unseen as usize, rate.max(1e-3));
        }
        activity.sort_unstable_by(|a, b| b.total_cmp(a));
        let copies = 1 << self.thinned;
        activity.into_iter().flat_map(|rate| std::iter::repeat_n(rate, copies)).take(MAX_CLIENTS as usize).collect()
    }
}
