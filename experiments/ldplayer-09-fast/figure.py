"""Figure 9 of the LDplayer paper: queries and octets per second of a replay that sends one query over and over, without times."""

from dataclasses import replace

import numpy as np

from figures import draw
from figures.claim import NO, OPEN, joined, judged
from figures.interval import Interval
from figures.runs import Runs

TITLE = "Throughput of a fast replay from one host"
SOURCE = "LDplayer, figure 9"
SCALE = {
    "small": "5 M queries (15 to 50 s), 3 repeats, one worker; NSD on the other core of the same host (theirs: five minutes, once, eight "
    "processes on a host of 4 cores and 8 threads, server on another host)",
    "long": "108 M queries (some five minutes, as theirs), 3 repeats, one worker; NSD on the other core of the same host",
    "full": "100 M queries (some five minutes), 3 repeats, eight workers; NSD with six processes on the same host",
}
QPS, MBPS, EVERY_S, CORES = 87_000, 60, 2, 4.5
# Passes of a million queries: 15 to 50 seconds of two cores, some five minutes of them, and as long of a host of 16 cores.
LOOPS = {"small": 5, "long": 108, "full": 100}
# Ethernet, IPv4 and UDP, without the checksum of the frame: 14 + 20 + 8. Their 60 Mb/s at 87 k queries/s are 86 octets a query.
HEADERS = 42
# Of a core: what an end has at least that is as fast as it can be.
BUSY = 0.8
NS = 1_000_000_000


def measure(stage):
    return Runs(stage.experiment({"loop": LOOPS[stage.form]}))


def claims(done, stage):
    runs = done.cells[0].runs
    samples = [sampled(run) for run in runs]
    paint(samples, stage.out)
    # The first sample is not full.
    steady = [np.array(of_run[1:]) for of_run in samples]
    return [rate(steady, runs), bits(steady, runs), per_core(runs), evenness(steady)]


def rate(steady, runs):
    found = Interval.of([float(of_run[:, 1].mean()) for of_run in steady])
    claim = judged("queries per second from one host", "87 k queries/s", found, "queries/s", at_least=QPS, why=told(runs))
    return alone(claim, runs)


def bits(steady, runs):
    found = Interval.of([float(of_run[:, 2].mean()) for of_run in steady])
    octets = runs[0].rows(f"select avg(query_bytes) + {HEADERS} from {{rows}} where submitted_ns is not null")[0][0]
    why = f"Ethernet, IPv4, UDP and message: theirs are 86 octets a query by their two figures, ours {octets:.0f}"
    return alone(judged("Mb/s of queries", "60 Mb/s", found, "Mb/s", at_least=MBPS, why=why), runs)


def per_core(runs):
    found = Interval.of([run.get("queries.sent") / run.get("telemetry.client.cpu_s") for run in runs])
    why = (
        "theirs: the generator took one core, the distributor and six queriers half a core each, by the paper; ours has reading, the matching of "
        "answers and the rows in it"
    )
    theirs = "some 19 k (87 k by 4.5 cores)"
    return judged("queries for each second of processor time of the replay", theirs, found, "queries", at_least=QPS / CORES, why=why)


def evenness(steady):
    found = Interval.of([float(np.ptp(of_run[:, 1]) / of_run[:, 1].mean() * 100) for of_run in steady])
    why = "samples of 2 s behind the first; the bound is ours"
    return judged("steady over time: most less least sample", "steady, by their picture", found, "% of the mean", at_most=20, why=why)


def cores(run, side):
    return run.get(f"telemetry.{side}.cores_mean") or 0


def alone(claim, runs):
    """The claim; where it does not hold, and neither end had a core to itself, it is open."""
    shared = [run for run in runs if max(cores(run, "client"), cores(run, "server")) < BUSY]
    if claim.same != NO or not shared:
        return claim
    said = f"in {len(shared)} of {len(runs)} runs neither of them had a core to itself, so that others had the processor"
    return replace(claim, same=OPEN, why=joined(claim.why, said))


def sampled(run):
    """(seconds, queries/s, Mb/s, answers/s) of each full two seconds, by the rows."""
    width = EVERY_S * NS
    found = run.rows(
        f"select submitted_ns // {width} as w, count(*), sum(query_bytes + {HEADERS}), count(*) filter (where status = 'answered') "
        "from {rows} where submitted_ns >= 0 and status not in ('late', 'stray') group by w order by w"
    )
    return [
        ((int(at) + 1) * EVERY_S, count / EVERY_S, float(octets) * 8 / EVERY_S / 1e6, answered / EVERY_S)
        for at, count, octets, answered in found[:-1]
    ]


def told(runs):
    """Who was the bottleneck, by what both ends used."""
    client, server = (np.mean([cores(run, side) for run in runs]) for side in ("client", "server"))
    answered = np.mean([run.get("queries.answered") / run.get("queries.sent") for run in runs]) * 100
    warned = sum(any(warning["code"] == "client_bottleneck" for warning in run.json["warnings"]) for run in runs)
    said = f"; the replay was the bottleneck in {warned} of {len(runs)} runs" if warned else ""
    return (
        f"replay and NSD share the host: {client:.2f} and {server:.2f} cores busy, {answered:.2f} % answered; up to 1,000 queries wait for "
        f"answers at a time, so that the slower end sets the rate{said}"
    )


def paint(samples, out):
    rows = []
    with draw.picture(out, "fast", "Fast replay of one query over UDP, samples of 2 s", columns=2, size=(9, 4)) as (rates, octets):
        for repeat, of_run in enumerate(samples, 1):
            times = [sample[0] for sample in of_run]
            rates.plot(times, [sample[1] / 1e3 for sample in of_run], marker="o", markersize=4, label=f"repeat {repeat}")
            octets.plot(times, [sample[2] for sample in of_run], marker="o", markersize=4)
            rows += [(repeat, *sample) for sample in of_run]
        for axes, theirs, label in ((rates, QPS / 1e3, "thousand queries/s"), (octets, MBPS, "Mb/s")):
            axes.axhline(theirs, color=draw.COLOURS[7], linestyle="--", label="theirs")
            axes.set(xlabel="time, s", ylabel=label, ylim=(0, None), xlim=(0, None))
        rates.legend(loc="best", fontsize=8)
    draw.table(out, "fast", ["repeat", "s", "queries_per_s", "mbps", "answered_per_s"], rows)
