"""RIPE 76: how many queries per second Unbound answers on one thread, against the number of clients, over UDP and TCP."""

from figures import draw, ramp
from figures.claim import joined, judged, undecided
from figures.interval import Interval
from figures.ramp import Ramp, rates
from figures.runs import Runs

TITLE = "Queries per second against clients, over UDP and over held TCP connections"
SOURCE = "RIPE 76, qps against clients"
SCALE = {
    "small": "10, 100, 1,000 and 4,500 clients (a process may have 20,000 open files here), ramps of 6 s up to 250 k queries/s over UDP and 150 k over TCP, three times each; "
    "theirs: 6.5 M clients on 216 virtual machines, ramps in steps of 30 to 50 s",
    "long": "10, 100, 1,000 and 4,500 clients (a process may have 20,000 open files here), a server that has a quarter of a core (server_cpu), ramps of 12 s up to 80 k "
    "queries/s over UDP and 60 k over TCP, ten times each; theirs: 6.5 M clients on 216 virtual machines, ramps in steps of 30 to 50 s",
    "full": "10 to 1,000,000 clients, ramps of 60 s up to 300 k queries/s over UDP and 200 k over TCP, three times each, on one host of 16 cores; theirs: 6.5 M clients "
    "on 216 virtual machines, ramps in steps of 30 to 50 s",
}
CLIENTS = {"small": (10, 100, 1_000, 4_500), "long": (10, 100, 1_000, 4_500), "full": (10, 100, 1_000, 10_000, 100_000, 1_000_000)}
SIZE = {"small": {"seconds": 6}, "long": {"seconds": 12}, "full": {"seconds": 60, "opening": 15_000}}
# From and to so many queries a second.
RATES = {
    "small": {"udp": (10_000, 250_000), "tcp": (2_000, 150_000)},
    "long": {"udp": (5_000, 80_000), "tcp": (2_000, 60_000)},
    "full": {"udp": (10_000, 300_000), "tcp": (5_000, 200_000)},
}
# Up to this rate the cost of a query is compared: below any peak.
COST_RATE = {"small": 20_000, "long": 8_000, "full": 66_000}
# The cores that Unbound may use: server_cpu in the form's file.
CORES_OF_SERVER = {"small": 1, "long": 0.25, "full": 1}
# Of the generator, which has them for itself.
CORES = {"small": "0", "long": "0", "full": "4-15"}
# 51.4 GB for 6.5 M connections, kernel and Unbound together.
THEIR_BYTES = 51.4e9 / 6.5e6
# As unbound.conf has it.
BUFFER_BYTES = 4096


def loads(stage):
    """The ramp of each transport and number of clients."""
    return {
        (transport, clients): Ramp(clients, low, high, **SIZE[stage.form])
        for transport, (low, high) in RATES[stage.form].items()
        for clients in CLIENTS[stage.form]
    }


def trace(transport, clients):
    return f"{transport}-{clients}.parquet"


def measure(stage):
    found = loads(stage)
    for key, load in found.items():
        load.write(stage.out / trace(*key))
    fewest = ("tcp", CLIENTS[stage.form][0])
    unneeded = [{"transport": "udp" if key[0] == "tcp" else "tcp", "trace": trace(*key)} for key in found]
    unneeded += [{"server": "few", "trace": trace(*key)} for key in found if key != fewest]
    changes = {"matrix": {"trace": [trace(*key) for key in found]}, "exclude": unneeded}
    return Runs(stage.experiment(changes, before=("taskset", "-c", CORES[stage.form])))


def claims(runs, stage):
    found = {key: peaks_of(cell_of(runs, *key), load) for key, load in loads(stage).items()}
    draw_rates(found, stage)
    draw_ramp(runs, stage)
    most = cell_of(runs, "tcp", CLIENTS[stage.form][-1])
    made = (*of_rates(found, CLIENTS[stage.form]), of_thread(found, stage), of_cost(runs, stage), *of_memory(memory(runs, stage), stage))
    return [undecided(claim, ramp.closed(most.runs)) for claim in made]


def cell_of(runs, transport, clients, server="unbound"):
    return runs.cell(server=server, transport=transport, trace=trace(transport, clients))


def peaks_of(cell, load):
    return [ramp.peak(ramp.windows(run, load)) for run in ramp.whole(cell.runs)]


def of_rates(found, numbers):
    few, more, most = numbers[0], numbers[-2], numbers[-1]
    udp_few, udp_most, tcp_few, tcp_more, tcp_most = (
        found[key] for key in (("udp", few), ("udp", most), ("tcp", few), ("tcp", more), ("tcp", most))
    )
    limit = ramp.at_least
    return [
        undecided(
            judged(f"UDP does not depend on the number of clients: {most:,} against {few}", "it does not really", Interval.ratio(rates(udp_most), rates(udp_few)),
                   "times", at_least=0.8, at_most=1.25, why="within a fifth counts as flat"),
            limit(udp_few + udp_most),
        ),
        undecided(
            judged(f"TCP is good with very few clients and drops: {most:,} against {few}", "drops rapidly", Interval.ratio(rates(tcp_most), rates(tcp_few)), "times",
                   at_most=1, why=limit(tcp_few)),
            limit(tcp_most),
        ),
        undecided(
            judged(f"and then stays: {most:,} clients against {more:,}", "a plateau, up to 6.5 M", Interval.ratio(rates(tcp_most), rates(tcp_more)), "times",
                   at_least=0.8, at_most=1.25, why="where their plateau begins is in a picture only"),
            limit(tcp_more + tcp_most),
        ),
    ]  # fmt: skip


def of_thread(found, stage):
    """What a thread answers with the most clients; of a server within a quota, for a whole core."""
    clients, cores = CLIENTS[stage.form][-1], CORES_OF_SERVER[stage.form]
    peaks = found["tcp", clients]
    why = "their processors are of 2016 and had no hypervisor; clients were on other machines, here the loopback's work is on both cores"
    told = joined(f"for a whole core, from peaks at {cores} cores" if cores < 1 else "", why)
    most = Interval.of(rates(peaks, cores))
    claim = judged(f"a thread answers {clients:,} clients over TCP", "50 k to 60 k queries/s", most, "queries/s", at_least=50_000, why=told)
    return undecided(claim, ramp.at_least(peaks))


def of_cost(runs, stage):
    """What a query costs Unbound with many clients and with few, at the same rates: it needs no peak, so that the client's limit is no matter."""
    rate = COST_RATE[stage.form]
    cost = {clients: [ramp.cost_us(run, load, rate) for run in ramp.whole(cell_of(runs, transport, clients).runs)]
            for (transport, clients), load in loads(stage).items() if transport == "tcp"}  # fmt: skip
    draw.table(stage.out, "cost", ["clients", "repeat", "server_cpu_us_per_answer"], [[n, i, v] for n, values in cost.items() for i, v in enumerate(values, 1)])
    few, *_, most = CLIENTS[stage.form]
    each = " against ".join(Interval.of(cost[clients]).text("µs") for clients in (most, few))
    why = f"{each} of processor time for an answer, up to {rate:,.0f} queries/s: fewer queries share a read and a write where each client asks less often"
    return judged(f"the drop is Unbound's own: what a query costs it, {most:,} clients against {few}", "their guess: less aggregation, and caches of the processor",
                  Interval.ratio(cost[most], cost[few]), "times", at_least=1, why=why)  # fmt: skip


def memory(runs, stage):
    """Octets of a connection in each repeat: of a place in Unbound, of Unbound with a connection in it, of the kernel for one end of it."""
    fewest, most = CLIENTS[stage.form][0], CLIENTS[stage.form][-1]
    many, few = cell_of(runs, "tcp", most), cell_of(runs, "tcp", fewest, "few")
    places = [ramp.places(cell.runs[0]) for cell in (many, few)]
    return [one_memory(a, b, loads(stage)["tcp", most], *places) for a, b in zip(many.runs, few.runs)]


def one_memory(many, few, load, places, few_places):
    before, open_ = (ramp.at(many.telemetry("rss_bytes"), when) for when in (0, load.begins_s - 0.1))
    place = (before - ramp.at(few.telemetry("rss_bytes"), 0)) / (places - few_places)
    kernel = sum(ramp.growth(many.telemetry(name, "client"), load) for name in ("slab_bytes", "tcp_memory_bytes"))
    return {"place": place, "unbound": place + (open_ - before) / load.clients, "kernel": kernel / load.clients / 2}


def of_memory(found, stage):
    draw.table(stage.out, "memory", ["repeat", *found[0]], [[number, *each.values()] for number, each in enumerate(found, 1)])
    unbound, kernel, rest = (scaled(Interval.of([what(each) for each in found])) for what in (in_unbound, in_kernel, beside_buffer))
    both = scaled(Interval.of([in_unbound(each) + in_kernel(each) for each in found]))
    why = f"{CLIENTS[stage.form][-1]:,} connections: {unbound.text('kB')} in Unbound, which takes it for each place at its start, and {kernel.text('kB')} in the kernel for one end"
    return [
        judged("memory of a held connection, Unbound and kernel", f"{THEIR_BYTES / 1e3:.1f} kB (51.4 GB for 6.5 M)", both, "kB", at_most=THEIR_BYTES / 1e3, why=why),
        judged("of it the buffer of Unbound", "4 kB", unbound, "kB", at_least=4, why="with what Unbound has around it"),
        judged("of it the rest: Unbound, libevent, kernel", "3.7 kB", rest, "kB", at_most=3.7, why=why),
    ]


def in_unbound(each):
    return each["unbound"]


def in_kernel(each):
    return each["kernel"]


def beside_buffer(each):
    return each["unbound"] + each["kernel"] - BUFFER_BYTES


def scaled(interval):
    """Octets as kB."""
    kilo = [None if value is None else value / 1e3 for value in (interval.value, interval.low, interval.high)]
    return Interval(*kilo, interval.repeats)


def draw_rates(found, stage):
    numbers, bounds = CLIENTS[stage.form], []
    with draw.picture(stage.out, "clients", "Peak of one thread of Unbound against clients") as axes:
        axes.axhspan(50, 60, color="#9498a0", alpha=0.25, label="their plateau over TCP")
        for transport in ("udp", "tcp"):
            intervals = [Interval.of(rates(found[transport, clients], 1e3)) for clients in numbers]
            draw.with_range(axes, numbers, intervals, transport.upper())
            bounds += [(n, interval.value) for n, interval in zip(numbers, intervals) if interval.value is not None and ramp.at_least(found[transport, n])]
        if bounds:
            axes.scatter(*zip(*bounds), marker="^", s=110, facecolors="none", edgecolors="black", label="at least so much: Unbound was not what gave in")
        axes.set(xscale="log", xlabel="clients, each with an address and (TCP) a connection of its own", ylabel="answers/s, thousands", ylim=(0, None))
        axes.legend()
    rows = [[transport, clients, repeat, peak.answers, peak.failed_at, peak.is_servers]
            for (transport, clients), peaks in found.items() for repeat, peak in enumerate(peaks, 1)]  # fmt: skip
    draw.table(stage.out, "clients", ["transport", "clients", "repeat", "peak_per_s", "failed_at_per_s", "server_failed_first"], rows)


def draw_ramp(runs, stage):
    """One run of each transport with the most clients, as their pictures of the method have it."""
    most = CLIENTS[stage.form][-1]
    with draw.picture(stage.out, "ramp", f"A ramp of {most:,} clients: offered and answered", columns=2, size=(9.6, 3.8)) as panels:
        for axes, transport in zip(panels, ("udp", "tcp")):
            found = ramp.windows(ramp.whole(cell_of(runs, transport, most).runs)[0], loads(stage)[transport, most])
            ramp.draw(axes, found, transport.upper())
        panels[0].set_ylabel("queries/s, thousands")
        panels[0].legend()
