"""LDplayer, figure 14: memory, connections and processor time of a server over the round-trip time of its clients; from the runs of figure 12."""

from figures import draw
from figures.claim import judged
from figures.folder import Figure
from figures.footprint import growth, level, over, seconds
from figures.interval import Interval
from figures.stage import ROOT, Stage

TITLE = "Memory, connections and processor time of a server with all queries over TCP, over the round-trip time"
SOURCE = "LDplayer, figure 14"
RUNS = ROOT / "experiments/ldplayer-12-latency-rtt"
SCALE = {
    "small": "the runs of figure 12: 8 s, 400 queries/s of 2,320 clients, timeout 4 s, RTT 0, 20, 120 ms, 3 repeats; the last 4 s count",
    "long": "the runs of figure 12: 12 s, 400 queries/s of 2,320 clients, timeout 4 s, RTT 0, 20, 40, 80, 120 ms, 6 repeats; the last 8 s count",
    "full": "the runs of figure 12: 5 min, 5,000 queries/s of 145,000 clients, timeout 20 s, RTT 0 to 120 ms, 3 repeats; the last 280 s count",
}
NAMES = {"as-recorded": "original (3 % TCP)", "tcp": "all TCP", "dot": "all TLS"}


def measure(stage):
    """The runs of figure 12, made now where they are not there."""
    other = Stage(RUNS, stage.form, stage.out.parent)
    runs = Figure(RUNS).module.made(other)
    stage.commands += other.commands
    return runs


def claims(runs, stage):
    spec = Stage(RUNS, stage.form, stage.out.parent).merged()
    part = (seconds(spec["server_idle_timeout"]), seconds(spec["generate"]["duration"]))
    figures = {
        "memory": ("memory of the processes (RSS), MB", lambda run: level(run, "rss_bytes", part) / 1e6),
        "connections": ("established connections", lambda run: level(run, "connections_open", part, "client")),
        "processor": ("processor time, µs a query", lambda run: run.get("telemetry.server.cpu_us_per_query")),
    }
    picture(runs, stage.out, spec["matrix"]["rtt"], figures)
    grown = {**figures, "memory": ("", lambda run: growth(run, "rss_bytes", part) / 1e6)}
    return [row(runs, name, transport, grown[name][1]) for transport in ("tcp", "dot") for name in figures]


def row(runs, name, transport, figure):
    """Whether a figure is the same with 120 ms as without any distance."""
    near, far = ([figure(run) for run in counted(cell(runs, transport, rtt), name)] for rtt in ("0ms", "120ms"))
    what = {"memory": "what memory connections take", "connections": "how many are established", "processor": "the processor time"}[name]
    theirs = "no change from 0 to 120 ms" if transport == "tcp" else "all TLS is in the paper of 2018; its figures are not at hand"
    why = f"120 ms against 0 ms: {Interval.of(far).text()} and {Interval.of(near).text()}, {UNITS[name]}; bounds: a tenth to either side"
    return judged(f"{NAMES[transport]}: the RTT does not change {what}", theirs, Interval.ratio(far, near), "times", at_least=0.9, at_most=1.1, why=why)


UNITS = {"memory": "MB above those of the start", "connections": "connections", "processor": "µs a query"}


def counted(cell, name):
    """The runs that count: for connections and their memory those that sent (nearly) all queries, as milliseconds of lateness change neither."""
    if name == "processor":
        return [run for run in cell.runs if run.only_waited]
    return [run for run in cell.runs if run.get("queries.sent") >= 0.99 * run.get("queries.trace")]


def cell(runs, transport, rtt):
    return runs.cell(server="nsd", transport=transport, rtt=rtt)


def picture(runs, out, rtts, figures):
    """Figure 14: each figure over the round-trip time, with the range of the repeats."""
    rows = []
    with draw.picture(out, "rtt", "NSD over the round-trip time of its clients", columns=3, size=(12, 4.2)) as columns:
        for axes, (name, (label, figure)) in zip(columns, figures.items()):
            for number, transport in enumerate(NAMES):
                found = [over(cell(runs, transport, rtt).runs, figure) for rtt in rtts]
                draw.with_range(axes, [seconds(rtt) * 1000 for rtt in rtts], found, NAMES[transport], color=draw.COLOURS[number])
                rows += [[name, transport, rtt, one.value, one.low, one.high] for rtt, one in zip(rtts, found)]
            axes.set(xlabel="round-trip time, ms", ylabel=label, ylim=(0, None))
        columns[0].legend()
    draw.table(out, "rtt", ["figure", "transport", "rtt", "mean", "low", "high"], rows)
