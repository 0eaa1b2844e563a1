"""What happens while many clients ask: open connections, latency of the slowest queries, and response codes as clients grow."""

from pathlib import Path

from figures import draw
from figures.claim import joined, judged
from figures.interval import Interval
from figures.runs import Runs
from figures.sessions import Population, made

TITLE = "Connections, latency and response codes over time"
SOURCE = "DNS Shotgun, Scaling DNS resolvers (2020), charts over time"
SCALE = {
    "small": "Unbound over TLS with 500 clients for 15 s (idle limit 1.25 s; clients ask eight times as often as in the full form), over UDP, TCP and "
    "TLS with 300 clients for 6 s, and Knot Resolver over UDP with 300 to 5,000 clients for 6 s (20 times as often); three repeats, all on two cores.",
    "long": "Unbound and Knot Resolver over TLS with 1,000 clients for 30 s (idle limit 2.5 s; clients ask four times as often as in the full form), three repeats; Unbound "
    "over UDP, TCP and TLS with 600 clients for 12 s, eleven repeats, and Knot Resolver, with a fifth of a core (server_cpu), over UDP with 600 to 6,000 clients for 12 s (ten times as often), five repeats; all on two cores.",
    "full": "Knot Resolver and Unbound, one thread each (the source: 8 cores and 140,000 clients over TLS): 20,000 clients for 120 s, and 20,000 to "
    "320,000 over UDP; three repeats.",
}
LENGTHS = {
    # The clients' clock runs 8 and 20 times as fast in the small form, 4 and 10 times in the long one.
    "small": {"connections": Population(2_000, roll_call=1, duration=15, gap=3.75), "rest": Population(6_000, roll_call=1, duration=6, gap=1.5)},
    "long": {"connections": Population(4_000, roll_call=1, duration=30, gap=7.5), "rest": Population(12_000, roll_call=1, duration=12, gap=3)},
    "full": {"connections": Population(600_000, roll_call=10, duration=120, gap=30), "rest": Population(600_000, roll_call=10, duration=120, gap=30)},
}
NAMES = {"udp": "UDP", "tcp": "TCP, idle 10 s", "dot": "TLS, idle 10 s", "doh2": "HTTP/2 + TLS, idle 10 s"}
SERVERS = {"knot-resolver": "Knot Resolver", "unbound": "Unbound"}
PICTURE = "a chart; its text has no figure"
# Shares of the queries, in percent, that are slower than what is drawn.
SLOWEST = (100, 90, 80, 70, 60, 50, 40, 30, 20, 15, 10, 7, 5, 3, 2, 1.5, 1, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)
TIMEOUT_MS = 2000
# Round trips before the answer of a query on a new connection comes, TLS 1.3.
RTT_MS = 10
OUTCOMES = {"NOERROR": "#3ca951", "NXDOMAIN": "#4269d0", "SERVFAIL": "#ff725c", "other": "#efb118", "no answer": "#c8ccd4"}


def measure(stage):
    lengths = LENGTHS[stage.form]
    return Found(stage, {name: made(stage, population) for name, population in lengths.items()}, lengths)


class Found(Runs):
    """The runs of connections, and those of latency and growth."""

    def __init__(self, stage, keys, lengths):
        super().__init__(stage.experiment(keys["connections"]))
        self.latency = Runs(stage.experiment(keys["rest"], "latency"))
        self.growth = Runs(stage.experiment(keys["rest"], "growth"))
        self.versions = {**self.versions, **self.latency.versions, **self.growth.versions}
        self.lengths = lengths

    def told(self):
        return [f"{what}: {line}" for what, runs in (("latency", self.latency), ("growth", self.growth)) for line in runs.told()] + super().told()


def claims(found, stage):
    draw_connections(found, stage.out)
    draw_latency(found.latency.cells, found.lengths["rest"].roll_call, stage.out)
    draw_outcomes(found.growth, found.lengths["rest"], stage.out)
    return [*settled(found), *slower(found), *overloaded(found)]


def server_of(cell):
    return cell.keys.get("server", "unbound")


# Connections.


def connections(run, name="connections_open"):
    """A figure of the client's side over the seconds of the pages."""
    return run.telemetry(name, side="client")


def settled(found):
    """Whether as many connections are open in the last third of the pages as in the second."""
    length = found.lengths["connections"]
    third = length.duration / 3
    for cell in found.cells:
        runs = on_time(cell)
        last = [mean_between(run, length.length - third, length.length) for run in runs]
        before = [mean_between(run, length.length - 2 * third, length.length - third) for run in runs]
        shares = [one / other for one, other in zip(last, before)]
        unused = late(cell) if not runs else ""
        why = joined(unused, "mean of the last third of the time to that of the second; a third is longer than the idle limit")
        yield judged(f"{SERVERS[server_of(cell)]}: open TLS connections settle", PICTURE, Interval.of(shares), "times", at_least=0.9, at_most=1.1, why=why)
        open_share = [held / run.get("clients.total") for held, run in zip(last, runs)]
        why = joined(unused, "a client's connection is open while it looks at a page and 10 s longer: the share is a matter of our clients")
        yield judged(f"{SERVERS[server_of(cell)]}: fewer connections than clients", PICTURE, Interval.of(open_share), "of the clients", at_most=1, why=why)


def on_time(cell):
    """The runs that sent all queries within milliseconds of their times: neither a second whose rate is off by more than 0.1 % nor a side that
    waited milliseconds for a core matters to a number of connections, which are held for seconds."""
    return [run for run in cell.runs if set(run.failed_checks) <= {"rate", "server_wait", "client_wait"}]


def mean_between(run, begin, end):
    values = [value for at, value in connections(run) if begin <= at < end]
    return sum(values) / len(values)


def draw_connections(found, out):
    """Open connections, and new ones a second."""
    rows = []
    with draw.picture(out, "connections", "TLS connections over time, idle limit 10 s", columns=2, size=(9, 4)) as (left, right):
        for colour, cell in zip(draw.COLOURS, found.cells):
            for number, run in enumerate(cell.runs):
                label = SERVERS[server_of(cell)] if number == 0 else None
                held, total = connections(run), connections(run, "connections_opened")
                new = [(at, (value - before) / (at - earlier)) for (earlier, before), (at, value) in zip(total, total[1:]) if at > earlier]
                left.plot(*zip(*held), color=colour, linewidth=1, label=f"{label}, each repeat" if label else None)
                right.plot(*zip(*new), color=colour, linewidth=1)
                rows += [(server_of(cell), number + 1, name, *point) for name, points in (("open", held), ("new_per_s", new)) for point in points]
        left.set_ylabel("open connections")
        right.set_ylabel("new connections a second")
        left.legend()
        for axes in (left, right):
            axes.set_xlabel("s")
            axes.set_ylim(bottom=0)
    draw.table(out, "connections", ("server", "repeat", "what", "s", "value"), rows)


# Latency.


def slowest(run, after_s):
    """Latency in ms that so many percent of the queries exceed; what was not answered took the timeout."""
    latency = f"coalesce((answered_ns - submitted_ns) / 1e6, {TIMEOUT_MS})"
    where = f"intended_ns >= {after_s} * 1e9 and status not in ('late', 'stray', 'not_sent')"
    return run.percentiles(latency, [1 - share / 100 for share in SLOWEST], where)


def draw_latency(cells, after_s, out):
    """As DNS Shotgun draws it: the slowest queries to the right, both axes logarithmic."""
    rows = []
    with draw.picture(out, "latency", "Latency of the slowest queries") as axes:
        for colour, cell in zip(draw.COLOURS, [cell for cell in cells if cell.runs]):
            label, style = f"{SERVERS[server_of(cell)]}, {NAMES[over(cell)]}", "-"
            if not cell.faithful:
                label, style = f"{label} (its host may have changed the slowest)", "--"
            values = [slowest(run, after_s) for run in cell.faithful or cell.runs]
            low, middle, high = ([pick(sorted(points)) for points in zip(*values)] for pick in (min, lambda points: points[len(points) // 2], max))
            axes.plot(SLOWEST, middle, style, color=colour, label=label)
            axes.fill_between(SLOWEST, low, high, color=colour, alpha=0.2, linewidth=0)
            rows += [(server_of(cell), over(cell), *row) for row in zip(SLOWEST, middle, low, high)]
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(100, SLOWEST[-1])
        axes.set_xticks((100, 10, 1, 0.1, 0.01), ("100 %", "10 %", "1 %", "0.1 %", "0.01 %"))
        axes.set_xlabel("slowest queries")
        axes.set_ylabel("ms")
        axes.legend()
    draw.table(out, "latency", ("server", "protocol", "slowest_percent", "median_ms", "least_ms", "most_ms"), rows)


def over(cell):
    return Path(cell.keys["rules"]).stem.removeprefix("over-")


def slower(found):
    """Each protocol against the one before, at the share of queries that come with a new connection."""
    at, after_s = SLOWEST.index(10), found.lengths["rest"].roll_call
    for server in dict.fromkeys(server_of(cell) for cell in found.latency.cells):
        cells = [cell for cell in found.latency.cells if server_of(cell) == server]
        of = {over(cell): [slowest(run, after_s)[at] for run in cell.good("p90")] for cell in cells}
        for one, other in (("tcp", "udp"), ("dot", "tcp")):
            ratio = Interval.ratio(of[one], of[other])
            why = f"latency that the slowest 10 % exceed, of the {len(of[one])} and {len(of[other])} replays whose host cannot have changed it; a query on a new connection takes {2 if one == 'tcp' else 3} round trips of {RTT_MS} ms"
            what = f"{SERVERS[server]}: slower over {NAMES[one]} than over {NAMES[other]}"
            yield judged(what, PICTURE, ratio, "times", at_least=1, why=why)


# Response codes.


def outcomes(run, width):
    """Queries by when they were due, and what became of them: {(slice, outcome): queries}."""
    codes = "when rcode = 0 then 'NOERROR' when rcode = 3 then 'NXDOMAIN' when rcode = 2 then 'SERVFAIL' else 'other'"
    code = f"case when status != 'answered' then 'no answer' {codes} end"
    sql = f"select intended_ns // {int(width * 1e9)}, {code}, count(*) from {{rows}} where status not in ('late', 'stray') group by all"
    return {(int(at), what): count for at, what, count in run.rows(sql)}


def draw_outcomes(growth, length, out):
    """A panel for each number of clients: shares of the outcomes over time, of the first repeat."""
    width = length.duration / 24
    rows = []
    cells = [cell for cell in growth.cells if cell.runs]
    with draw.picture(out, "rcodes", "Response codes over time as clients grow (UDP)", columns=len(cells), size=(3.1 * len(cells), 3.6)) as panels:
        for axes, cell in zip(panels, cells):
            found = outcomes(cell.runs[0], width)
            slices = sorted({at for at, _ in found})[:-1]
            shares = [[found.get((at, what), 0) / width / 1e3 for at in slices] for what in OUTCOMES]
            axes.stackplot([at * width for at in slices], shares, labels=OUTCOMES, colors=OUTCOMES.values())
            axes.set_title(f"{SERVERS[server_of(cell)]}, {int(cell.keys['clients']):,} clients", fontsize=9)
            axes.set_xlabel("s")
            rows += [(server_of(cell), cell.keys["clients"], at * width, what, count) for (at, what), count in sorted(found.items())]
        panels[0].set_ylabel("thousand queries a second")
        handles, labels = panels[0].get_legend_handles_labels()
        panels[0].figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=len(OUTCOMES))
    draw.table(out, "rcodes", ("server", "clients", "s", "outcome", "queries"), rows)


def overloaded(found):
    """The share of answers at the fewest and at the most clients."""
    for server in dict.fromkeys(server_of(cell) for cell in found.growth.cells):
        cells = [cell for cell in found.growth.cells if server_of(cell) == server]
        few, many = (min(cells, key=clients), max(cells, key=clients))
        for cell, bound, what in ((few, {"at_least": 99}, "answers nearly all"), (many, {"at_most": 99}, "leaves queries unanswered")):
            yield answered(cell, server, what, bound)


def clients(cell):
    return int(cell.keys["clients"])


def answered(cell, server, what, bound):
    shares = [100 * run.get("queries.answered") / run.get("queries.sent") for run in cell.faithful]
    return judged(f"{SERVERS[server]} {what} of {clients(cell):,} clients over UDP", "more clients until answers fail", Interval.of(shares), "%", **bound, why=held_up(cell))


def held_up(cell):
    """What says that the client was the bottleneck, or the machine."""
    bottleneck = sum("client_bottleneck" in {warning["code"] for warning in run.json["warnings"]} for run in cell.runs)
    told = [f"{bottleneck} of {len(cell.runs)} runs were held up by the client"] * bool(bottleneck)
    lost = sum(run.get("queries.sent") - run.get("queries.answered") for run in cell.runs)
    dropped = sum(run.get("telemetry.server.udp_drops") or 0 for run in cell.runs)
    if lost:
        told.append(f"{100 * dropped / lost:.0f} % of the unanswered queries were dropped at the resolver's socket")
    return joined(late(cell), *told)


def late(cell):
    """What says that replays of a cell do not count; empty where all do."""
    lacking = len(cell.runs) - len(cell.faithful)
    over_what = f" over {NAMES[over(cell)]}" if "rules" in cell.keys else ""
    return f"{lacking} of {len(cell.runs)} replays{over_what} were not faithful" if lacking else ""
