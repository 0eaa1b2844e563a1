//! The TOML form of a traffic model: arrivals, clients, names, types and query options.

use std::path::{Path, PathBuf};

use ldplayer_core::{TraceTime, Transport, name};
use ldplayer_trace::columns::parse_type;

use super::arrivals::Rate;
use super::weighted::zipf;
use crate::mutate::{Pools, Share, Template};
use crate::spec::{BadSpec, Item, Table, read};

/// The zones that the bundled root zone delegates.
const TOP_LEVEL_DOMAINS: &str = include_str!("../../presets/top-level-domains.txt");
/// Maximum number of clients; each takes 20 octets in tables.
pub const MAX_CLIENTS: u64 = 8_000_000;
/// Maximum number of names in a list.
pub const MAX_NAMES: u64 = 4_000_000;
/// Default start time in seconds since 1970.
const START_S: i64 = 1_700_000_000;

/// A traffic model.
#[derive(Clone, Debug)]
pub struct Model {
    /// The seed of all draws.
    pub seed: u64,
    /// Start time.
    pub start: TraceTime,
    /// Maximum duration in nanoseconds.
    pub duration: Option<i64>,
    /// Maximum number of queries.
    pub queries: Option<u64>,
    /// The rate in queries per second.
    pub rate: Rate,
    /// Whether arrivals are even rather than random.
    pub is_even: bool,
    /// Who asks.
    pub clients: Clients,
    /// What is asked for.
    pub names: Names,
    /// Query types with their weights.
    pub types: Vec<(u16, f64)>,
    /// Options of the queries.
    pub query: Query,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Number of clients.
    pub count: u32,
    /// Relative activity.
    pub activity: Activity,
    /// Share of queries over IPv6.
    pub ipv6: f64,
    /// Their addresses.
    pub pools: Pools,
}

/// A distribution of relative frequencies.
#[derive(Clone, Debug, PartialEq)]
pub enum Activity {
    /// Uniform.
    Even,
    /// Zipf: rank^-exponent.
    Zipf(f64),
    /// Log-normal with this standard deviation of the logarithm.
    LogNormal(f64),
    /// Empirical: points of rank from the most (0) to the least frequent (1), and value.
    Quantiles(Vec<(f64, f64)>),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Names {
    /// The source of repeated names.
    pub stock: Stock,
    /// Their popularity.
    pub popularity: Activity,
    /// Share of queries for names made by `absent` instead.
    pub absent_share: f64,
    /// Nonexistent names, such as random top-level domains.
    pub absent: Template,
    /// Share of the other names that get a unique label.
    pub fresh_share: f64,
}

/// Names to choose from.
#[derive(Clone, Debug)]
pub enum Stock {
    /// A template: one name, or one for each query.
    One(Template),
    /// The names of a file, one a line, the most popular first.
    File(PathBuf),
    /// This many generated names below a suffix.
    Made(u32, String),
    /// These zones, in wire format, the most popular first.
    Zones(Vec<Box<[u8]>>),
}

/// Options of the queries, as shares of the queries.
#[derive(Clone, Debug)]
pub struct Query {
    /// With EDNS, which each client uses always or never.
    pub edns: f64,
    /// With the DO bit, which needs EDNS and which each client sets always or never.
    pub dnssec_ok: f64,
    /// With RD.
    pub rd: f64,
    /// With CD.
    pub cd: f64,
    /// EDNS payload sizes with their weights; fixed for each client.
    pub sizes: Vec<(u16, f64)>,
    /// Transports with their weights.
    pub transports: Vec<(Transport, f64)>,
}

impl Model {
    /// Parses a model. File names are relative to `folder`.
    ///
    /// # Errors
    /// The first error, with its line.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, BadSpec> {
        read(text, |root| Self::of(root, folder))
    }

    fn of(root: Table<'_>, folder: &Path) -> Result<Self, BadSpec> {
        let known = ["seed", "start", "duration", "queries", "note", "arrivals", "clients", "names", "types", "query"];
        let mut model = Self::default();
        for item in root.items(&known)? {
            match item.key {
                "seed" => model.seed = item.integer(0..=u64::MAX)?,
                "start" => model.start = item.parsed(TraceTime::from_seconds)?,
                "duration" => model.duration = Some(item.span()?),
                "queries" => model.queries = Some(item.integer(1..=u64::MAX)?),
                "arrivals" => (model.rate, model.is_even) = arrivals(item.table()?)?,
                "clients" => model.clients = clients(item.table()?)?,
                "names" => model.names = names(item.table()?, folder)?,
                "types" => {
                    model.types = weights(&item, |word| parse_type(word).ok_or_else(|| "no such type".to_owned()))?;
                }
                "query" => model.query = query(item.table()?)?,
                _ => {}
            }
        }
        if model.duration.is_none() && model.queries.is_none() {
            return Err(root.bad("the model never ends: add `duration` or `queries`"));
        }
        Ok(model)
    }
}

impl Default for Model {
    /// The default: a thousand queries per second from a thousand clients for unique names.
    fn default() -> Self {
        Self {
            seed: 1,
            start: TraceTime(START_S * ldplayer_core::time::NS_PER_S),
            duration: None,
            queries: None,
            rate: Rate::constant(1_000.0),
            is_even: false,
            clients: Clients { count: 1_000, activity: Activity::Even, ipv6: 0.0, pools: Pools::default() },
            names: Names {
                stock: Stock::One(template("q{n}.example.com")),
                popularity: Activity::Zipf(1.0),
                absent_share: 0.0,
                absent: template("{random}"),
                fresh_share: 0.0,
            },
            types: vec![(1, 1.0)],
            query: Query {
                edns: 0.0,
                dnssec_ok: 0.0,
                rd: 1.0,
                cd: 0.0,
                sizes: vec![(1_232, 1.0)],
                transports: vec![(Transport::Udp, 1.0)],
            },
        }
    }
}

/// A template known to be valid.
fn template(text: &str) -> Template {
    // The texts are constants of this file, and are parsed by the tests.
    Template::parse(text).expect("a constant template")
}

fn share(item: &Item<'_>) -> Result<f64, BadSpec> {
    item.parsed(str::parse::<Share>).map(Share::part)
}

/// The value of a required key.
fn need<'a>(table: &Table<'a>, key: &str, example: &str) -> Result<Item<'a>, BadSpec> {
    table.get(key).ok_or_else(|| table.bad(format!("`{key}` is missing: add it, for example {key} = {example}")))
}

fn arrivals(table: Table<'_>) -> Result<(Rate, bool), BadSpec> {
    table.items(&["kind", "gap", "qps", "mean", "each", "random"])?;
    let kind = need(&table, "kind", "\"poisson\"")?;
    let qps = || need(&table, "qps", "1000");
    let each = |default: &str| Ok::<f64, BadSpec>(seconds(need(&table, "each", default)?.span()?));
    let rates = || qps()?.list()?.iter().map(rate).collect::<Result<Vec<f64>, BadSpec>>();
    let is_random = table.get("random").map_or(Ok(true), |item| item.truth())?;
    let rate = match kind.text()? {
        "gap" => Rate::Gap(need(&table, "gap", "\"1ms\"")?.span()?.max(1)),
        "poisson" => return Ok((Rate::constant(qps()?.positive()?), false)),
        "even" => return Ok((Rate::constant(qps()?.positive()?), true)),
        "bursts" => {
            let means = need(&table, "mean", "[\"2s\", \"500ms\"]")?;
            let spans = means.list()?.iter().map(Item::span).collect::<Result<Vec<i64>, _>>()?;
            match (&rates()?[..], &spans[..]) {
                ([low, high], [a, b]) => Rate::Bursts { rates: [*low, *high], means: [seconds(*a), seconds(*b)] },
                _ => return Err(kind.bad("bursts need two rates in `qps` and two durations in `mean`")),
            }
        }
        "ramp" => match rates()?[..] {
            [from, to] => Rate::Pieces(vec![(each("\"60s\"")?, from, to)]),
            _ => return Err(kind.bad("a ramp needs two rates in `qps`: the first and the last")),
        },
        "steps" => Rate::Pieces(
            rates()?.into_iter().map(|rate| Ok((each("\"10s\"")?, rate, rate))).collect::<Result<_, BadSpec>>()?,
        ),
        "profile" => profile(&rates()?, each("\"1h\"")?),
        other => {
            let what =
                format!("unknown kind of arrivals `{other}`: use gap, poisson, even, bursts, ramp, steps or profile");
            return Err(kind.bad(what));
        }
    };
    match rate.mean() > 0.0 {
        true => Ok((rate, !is_random)),
        false => Err(kind.bad("all rates are 0")),
    }
}

/// Nanoseconds as seconds, at least a millisecond: the cost of a piece without queries must stay bounded.
fn seconds(ns: i64) -> f64 {
    ns.max(1_000_000) as f64 / 1e9
}

/// A rate that may be 0.
fn rate(item: &Item<'_>) -> Result<f64, BadSpec> {
    item.parsed(|word| {
        let rate = word.parse().ok().filter(|rate: &f64| *rate >= 0.0 && rate.is_finite());
        rate.ok_or("expected a rate in queries per second, 0 or more")
    })
}

/// Linear pieces between the rates at the middles of equal intervals, wrapping around from the last to the first.
fn profile(rates: &[f64], each: f64) -> Rate {
    let next = rates.iter().cycle().skip(1);
    Rate::Pieces(rates.iter().zip(next).map(|(from, to)| (each, *from, *to)).collect())
}

const ACTIVITY_KEYS: [&str; 3] = ["zipf", "lognormal", "quantiles"];

fn activity(table: &Table<'_>, default: Activity) -> Result<Activity, BadSpec> {
    let mut given = ACTIVITY_KEYS.iter().filter_map(|key| table.get(key));
    let Some(item) = given.next() else { return Ok(default) };
    if let Some(other) = given.next() {
        return Err(other.bad(format!("conflicts with `{}`: use only one of {}", item.key, ACTIVITY_KEYS.join(", "))));
    }
    match item.key {
        "zipf" => Ok(Activity::Zipf(item.positive()?)),
        "lognormal" => Ok(Activity::LogNormal(item.positive()?)),
        _ => {
            let points = item.list()?.iter().map(point).collect::<Result<Vec<_>, _>>()?;
            match points.is_empty() || !points.is_sorted_by(|a, b| a.0 <= b.0) {
                true => Err(item.bad("expected pairs [place, value] sorted by place, which is from 0 to 1")),
                false => Ok(Activity::Quantiles(points)),
            }
        }
    }
}

/// A rank from 0 to 1 and a value above 0.
fn point(item: &Item<'_>) -> Result<(f64, f64), BadSpec> {
    let pair = item.list()?;
    let [place, value] = &pair[..] else { return Err(item.bad("expected a pair [place, value]")) };
    Ok((share(place)?, value.positive()?))
}

fn clients(table: Table<'_>) -> Result<Clients, BadSpec> {
    let mut clients = Model::default().clients;
    clients.activity = activity(&table, Activity::Even)?;
    let known = [&["count", "ipv6", "pool"], &ACTIVITY_KEYS[..]].concat();
    for item in table.items(&known)? {
        match item.key {
            "count" => clients.count = item.integer(1..=MAX_CLIENTS)? as u32,
            "ipv6" => clients.ipv6 = share(&item)?,
            "pool" => clients.pools = Pools::parse(item.text()?).map_err(|error| item.bad(error))?,
            _ => {}
        }
    }
    Ok(clients)
}

fn names(table: Table<'_>, folder: &Path) -> Result<Names, BadSpec> {
    let mut names = Model::default().names;
    names.popularity = activity(&table, Activity::Zipf(1.0))?;
    let (mut made, mut suffix) = (None, "example.com");
    let known =
        [&["name", "list", "made", "zones", "suffix", "nxdomain", "nxdomain-name", "cache-hit"], &ACTIVITY_KEYS[..]]
            .concat();
    for item in table.items(&known)? {
        match item.key {
            "name" => names.stock = Stock::One(item.parsed(Template::parse)?),
            "list" => names.stock = Stock::File(folder.join(item.text()?)),
            "made" => made = Some(item.integer(1..=MAX_NAMES)? as u32),
            "zones" => names.stock = Stock::Zones(zones(&item)?),
            "suffix" => suffix = item.text()?,
            "nxdomain" => names.absent_share = share(&item)?,
            "nxdomain-name" => names.absent = item.parsed(Template::parse)?,
            "cache-hit" => names.fresh_share = 1.0 - share(&item)?,
            _ => {}
        }
    }
    if ["name", "list", "made", "zones"].iter().filter(|key| table.get(key).is_some()).count() != 1 {
        return Err(table.bad("[names] needs one of `name`, `list`, `made` and `zones`"));
    }
    if let Some(count) = made {
        Template::parse(suffix).map_err(|error| table.bad(format!("`suffix`: {error}")))?;
        names.stock = Stock::Made(count, suffix.to_owned());
    }
    Ok(names)
}

/// The list of zones that comes with ldplayer.
fn zones(item: &Item<'_>) -> Result<Vec<Box<[u8]>>, BadSpec> {
    if item.text()? != "root" {
        return Err(item.bad("expected \"root\", the top-level domains; other names come by `list`"));
    }
    let wire = |name: &str| {
        let mut wire = Vec::new();
        // The list is a constant, and is parsed by the tests.
        name::parse(name, &mut wire).expect("a name of the list");
        wire.into_boxed_slice()
    };
    Ok(TOP_LEVEL_DOMAINS.lines().filter(|line| !line.starts_with('#')).map(wire).collect())
}

fn query(table: Table<'_>) -> Result<Query, BadSpec> {
    let mut query = Model::default().query;
    for item in table.items(&["edns", "do", "rd", "cd", "sizes", "transports"])? {
        match item.key {
            "edns" => query.edns = share(&item)?,
            "do" => query.dnssec_ok = share(&item)?,
            "rd" => query.rd = share(&item)?,
            "cd" => query.cd = share(&item)?,
            "sizes" => {
                query.sizes =
                    weights(&item, |word| word.parse().map_err(|_| "expected a size from 0 to 65535".to_owned()))?
            }
            _ => {
                query.transports = weights(&item, |word| word.parse::<Transport>().map_err(|error| error.to_string()))?
            }
        }
    }
    match query.dnssec_ok > query.edns {
        true => Err(table.bad("`do` is larger than `edns`, but the DO bit needs EDNS: raise `edns`")),
        false => Ok(query),
    }
}

/// A table of items and their weights.
fn weights<T>(item: &Item<'_>, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<(T, f64)>, BadSpec> {
    let entries = item.entries()?;
    let weights: Vec<(T, f64)> = entries
        .iter()
        .map(|entry| Ok((parse(entry.key).map_err(|error| entry.bad(error))?, entry.positive()?)))
        .collect::<Result<_, _>>()?;
    if weights.is_empty() {
        return Err(item.bad("expected at least one entry with its weight"));
    }
    Ok(weights)
}

impl Activity {
    /// Weights of `count` items in descending order.
    pub fn weights(&self, count: usize) -> Vec<f64> {
        match self {
            Self::Even => vec![1.0; count],
            Self::Zipf(exponent) => zipf(count, *exponent),
            Self::LogNormal(deviation) => {
                let place = |rank: usize| 1.0 - (rank as f64 + 0.5) / count as f64;
                (0..count).map(|rank| (deviation * normal_quantile(place(rank))).exp()).collect()
            }
            Self::Quantiles(points) => super::weighted::of_quantiles(count, points),
        }
    }
}

/// The quantile function of the standard normal distribution, to three digits (Abramowitz and Stegun 26.2.23).
fn normal_quantile(p: f64) -> f64 {
    let tail = p.min(1.0 - p).max(1e-12);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let value = t - above / below;
    if p < 0.5 { -value } else { value }
}
