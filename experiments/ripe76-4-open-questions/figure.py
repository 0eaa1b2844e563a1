"""RIPE 76: what the talk left open: churn of connections, TLS, QUIC, cache misses, even gaps of each client."""

from figures import draw, ramp
from figures.claim import OPEN, UNCLAIMED, Claim, joined, judged, missing, undecided
from figures.interval import Interval
from figures.programs import dnsproxy
from figures.ramp import Ramp, rates
from figures.runs import Runs

TITLE = "What the talk left open: churn, TLS, QUIC, cache misses, even gaps"
SOURCE = "RIPE 76, open questions"
SCALE = {
    "small": "400 clients, ramps of 6 s up to 300 k queries/s (churn: up to 80 k over TCP and 8 k over TLS; dnsproxy: up to 20 k), misses at 2 k queries/s for 3 s; three times each",
    "long": "400 clients of a server that has a quarter of a core (server_cpu), ramps of 8 s up to 30 k queries/s (churn over TLS: up to 3 k; dnsproxy: up to 5 k); misses without that quota at 2 k queries/s for 10 s; held connections twenty times, the others seven",
    "full": "20,000 clients, ramps of 60 s up to 200 k queries/s (churn: up to 60 k over TCP and 10 k over TLS; dnsproxy: up to 80 k), misses at 5 k queries/s for 30 s; three times each",
}
SIZE = {"small": {"clients": 400, "seconds": 6, "opening": 400}, "long": {"clients": 400, "seconds": 8, "opening": 200}, "full": {"clients": 20_000, "seconds": 60, "opening": 800}}
HELD = {"small": {"low": 1_000, "high": 300_000}, "long": {"low": 1_500, "high": 30_000}, "full": {"low": 5_000, "high": 200_000}}
CHURN = {"small": {"tcp": 80_000, "dot": 8_000}, "long": {"tcp": 30_000, "dot": 3_000}, "full": {"tcp": 60_000, "dot": 10_000}}
# dnsproxy before Unbound, over QUIC and TCP alike.
PROXIED = {"small": {"low": 1_000, "high": 20_000}, "long": {"low": 250, "high": 5_000}, "full": {"low": 4_000, "high": 80_000}}
MISSES = {"small": Ramp(400, 2_000, 2_000, 3), "long": Ramp(400, 2_000, 2_000, 10), "full": Ramp(20_000, 5_000, 5_000, 30)}
CORES = {"small": "0", "long": "0", "full": "4-15"}
# A server that is overloaded with new connections must not hold up the other figures.
AT_MOST_S = {"small": 180, "long": 900, "full": 3600}
NOT_CLAIMED = "a question of theirs: there is no direction to agree with"
# The Internet of the misses: a name server of the root, and a zone in which every name is.
ZONES = {
    "root": ". 3600 SOA a.root-servers.net. hostmaster.example. 1 3600 900 604800 300\n. 3600 NS a.root-servers.net.\na.root-servers.net. 3600 A 198.41.0.4\n"
    "example.com. 3600 NS ns.example.com.\nns.example.com. 3600 A 192.0.2.53\n",
    "example.com": "$TTL 3600\n@ SOA ns hostmaster 1 3600 900 604800 300\n@ NS ns\nns A 192.0.2.53\n* A 192.0.2.1\n",
}


def measure(stage):
    held = loads(stage)
    made = {name: load.write(stage.out / f"{name}.parquet").name for name, load in held.items()}
    only_tcp = [{"trace": made["even"], "transport": transport} for transport in stage.merged()["matrix"]["transport"] if transport != "tcp"]
    runs = run(stage, "experiment", {"matrix": {"trace": [made["poisson"], made["even"]]}, "exclude": only_tcp})
    others = [{"transport": "tcp", "trace": made["churn-dot"]}, {"transport": "dot", "trace": made["churn-tcp"]}, {"transport": "dot", "queries_per_connection": 10}]
    runs.churn = run(stage, "churn", {"matrix": {"trace": [made["churn-tcp"], made["churn-dot"]]}, "exclude": others})
    runs.misses = run(stage, "misses", {"matrix": {"trace": [made["hits"], made["misses"]]}, "zones": str(zones(stage))})
    runs.quic = run(stage, "quic", {"trace": made["proxied"]}) if dnsproxy() else None
    return runs


def loads(stage):
    size, churn = SIZE[stage.form], CHURN[stage.form]
    held = {"poisson": Ramp(**HELD[stage.form], **size), "even": Ramp(**HELD[stage.form], **size, is_even=True)}
    proxied = {"proxied": Ramp(**PROXIED[stage.form], **size)}
    fresh = {f"churn-{transport}": Ramp(low=high / 20, high=high, **size) for transport, high in churn.items()}
    hits = MISSES[stage.form]
    return {**held, **proxied, **fresh, "hits": hits, "misses": Ramp(hits.clients, hits.low, hits.high, hits.seconds, has_new_names=True)}


def run(stage, name, changes):
    return Runs(stage.experiment(changes, name, ("taskset", "-c", CORES[stage.form]), AT_MOST_S[stage.form]))


def zones(stage):
    folder = stage.out / "zones"
    folder.mkdir(exist_ok=True)
    for name, text in ZONES.items():
        (folder / f"{name}.zone").write_text(text, encoding="utf-8")
    return folder


def claims(runs, stage):
    held = {name: load for name, load in loads(stage).items() if name in ("poisson", "even")}
    found = {cell.keys["transport"]: peaks(cell, held["poisson"]) for cell in runs.having(trace="poisson.parquet")}
    found["tcp, even gaps"] = peaks(runs.cell(transport="tcp", trace="even.parquet"), held["even"])
    if runs.quic:
        found |= {f"dnsproxy, {cell.keys['transport']}": peaks(cell, loads(stage)["proxied"]) for cell in runs.quic.cells}
    for cell in runs.churn.cells:
        name = f"{cell.keys['transport']}, a connection for {queries(int(cell.keys['queries_per_connection']))}"
        found[name] = peaks(cell, loads(stage)[f"churn-{cell.keys['transport']}"])
    cost = {name: runs.misses.cell(trace=f"{name}.parquet").values("telemetry.server.cpu_us_per_query", faithful=False) for name in ("hits", "misses")}
    picture(stage, found)
    draw.table(stage.out, "misses", ["names", "repeat", "server_cpu_us_per_query"], [[name, n, v] for name, values in cost.items() for n, v in enumerate(values, 1)])
    return [*of_churn(found), *of_transports(found), of_misses(cost), of_gaps(found)]


def queries(number):
    return "each query" if number == 1 else f"{number} queries"


def peaks(cell, load):
    return [ramp.peak(ramp.windows(run, load)) for run in ramp.whole(cell.runs)]


def answer(question, one, other, found):
    """One peak as a share of another, with what they are."""
    share = Interval.ratio(rates(found[one]), rates(found[other]))
    limits = {name: ramp.at_least(found[name]) for name in (one, other)}
    both = " against ".join(f"{'at least ' if limits[name] else ''}{Interval.of(rates(found[name])).text('queries/s')}" for name in (one, other))
    few = [f"{name}: no run with a window in which the client was on time" for name in (one, other) if not rates(found[name])]
    why = joined(NOT_CLAIMED, *few, *(f"{name}: {limit}" for name, limit in limits.items() if limit))
    if any(limits.values()) or not share.value:
        # Two figures of which one may be anything above it have no ratio.
        return Claim(question, "left open", both, OPEN, why)
    return Claim(question, "left open", f"{share.text('times')}: {both}", UNCLAIMED, why)


def of_churn(found):
    return [
        answer(f"churn over {transport.upper()}: a connection for {queries(number)}, against held ones", f"{transport}, a connection for {queries(number)}", transport, found)
        for transport, number in (("tcp", 1), ("tcp", 10), ("dot", 1))
    ]


def of_transports(found):
    known = [answer(f"held connections: {name.upper()} against TCP", name, "tcp", found) for name in ("dot", "doh2") if name in found]
    return [*known, of_quic(found)]


def of_quic(found):
    """Both of dnsproxy, which costs more than Unbound does: QUIC of the one against TCP of the other would tell about programs."""
    question = "held connections to dnsproxy before Unbound: DOQ against TCP"
    if "dnsproxy, doq" not in found:
        return missing(question, "left open", "dnsproxy is not built: scripts/build-server.sh dnsproxy")
    return answer(question, "dnsproxy, doq", "dnsproxy, tcp", found)


def of_misses(cost):
    growth = Interval.ratio(cost["misses"], cost["hits"])
    each = " against ".join(Interval.of(cost[name]).text("µs") for name in ("misses", "hits"))
    why = f"{NOT_CLAIMED}; processor time of Unbound for a query far below its peak, which falls as this rises; both over the wire of a testbed"
    same = UNCLAIMED if growth.value else OPEN
    return Claim("a query that misses the cache, against one that hits it", "left open", f"{growth.text('times')}: {each}", same, why)


def of_gaps(found):
    """They took Poisson processes, and expected a model to matter: the peak should be the same if it does not."""
    share = Interval.ratio(rates(found["tcp, even gaps"]), rates(found["tcp"]))
    why = "the same peak, within a tenth, would say that their model of Poisson processes did not decide their result"
    claim = judged("clients that ask at even gaps, against Poisson processes", "assumed to do as a model", share, "times", at_least=0.9, at_most=1.1, why=why)
    return undecided(claim, ramp.at_least(found["tcp"] + found["tcp, even gaps"]))


def picture(stage, found):
    names = list(found)
    intervals = [Interval.of(rates(found[name], 1e3)) for name in names]
    with draw.picture(stage.out, "open-questions", f"Peak of one thread of Unbound, and of dnsproxy before it, {SIZE[stage.form]['clients']:,} clients", size=(7.8, 4)) as axes:
        for at, interval in enumerate(intervals):
            bar(axes, at, names[at], interval, bool(ramp.at_least(found[names[at]])))
        axes.set(xlabel="answers/s, thousands, with the range that holds the mean with 95 %\n(hatched: at least so much)")
        axes.set_yticks(range(len(names)), [name.replace("tcp", "TCP").replace("dot", "DoT").replace("doh2", "DoH/2").replace("doq", "DoQ") for name in names])
        axes.invert_yaxis()
        axes.margins(x=0.25)
    rows = [[name, repeat, peak.answers, peak.failed_at, peak.is_servers] for name in names for repeat, peak in enumerate(found[name], 1)]
    draw.table(stage.out, "open-questions", ["what", "repeat", "peak_per_s", "failed_at_per_s", "server_failed_first"], rows)


def bar(axes, at, name, interval, is_bound):
    """One of the peaks; nothing where no run has it. Hatched where the server can do at least so much."""
    if interval.value is None:
        return
    low, high = (interval.low, interval.high) if interval.low is not None else (interval.value, interval.value)
    axes.barh(at, interval.value, color=draw.COLOURS[1 if "connection" in name else 0], hatch="//" if is_bound else None, edgecolor="white", linewidth=0)
    axes.plot([max(low, 0), high], [at, at], color="black", linewidth=1.5)
    axes.text(high, at, f"  {'at least ' if is_bound else ''}{interval.value:.1f}", va="center")
