"""LDplayer, figures 11 and 13: what all queries over TCP, TLS and QUIC cost a root server, over the time that it keeps idle connections."""

from figures import draw
from figures.claim import UNCLAIMED, Claim, judged, missing
from figures.footprint import TIME_WAIT_S, growth, level, over, processor, quantiles, rate, seconds
from figures.interval import Interval
from figures.programs import dnsproxy
from figures.runs import Runs

TITLE = "A root server with all queries over TCP: processor, memory and connections over idle timeouts"
SOURCE = "LDplayer, figures 11 and 13"
SCALE = {
    "small": "24 s of root-like traffic, 700 queries/s of 20,300 clients (theirs: an hour, 39,000 queries/s of 1.17 M clients: so a client "
    "asks as often), timeouts 5 and 20 s, NSD with 2 processes, 3 repeats; over QUIC half of that load, once",
    "long": "48 s of root-like traffic, 700 queries/s of 20,300 clients (theirs: an hour, 39,000 queries/s of 1.17 M clients: so a client asks as often), timeouts 5 to "
    "35 s, NSD with 2 processes, 3 repeats; three runs of 165 s at 20 s, in which also TIME_WAIT settles; over QUIC half of that load for 24 s, once",
    "full": "10 min of root-like traffic, 10,000 queries/s of 290,000 clients, timeouts 5 to 35 s, NSD with 8 processes, 3 repeats",
}
# What theirs held at 20 s: connections established and in TIME_WAIT, and its memory.
THEIR_ESTABLISHED, THEIR_TIME_WAIT, GB = 60_000, 120_000, 1e9
# A TIME_WAIT socket of Linux is a few hundred octets of slab; an established one, with inode, file and epoll entry, some 4 kB.
KERNEL_ESTABLISHED, KERNEL_TIME_WAIT = 4_100, 300
SUGGESTED = "20s"
# Of the queries of the trace, in a run that counts.
LEAST_SENT = 0.99
NAMES = {"as-recorded": "original (3 % TCP)", "tcp": "all TCP", "dot": "all TLS", "doq": "all QUIC (dnsproxy)"}


def measure(stage):
    """The runs over NSD, and where dnsproxy can be had, those over QUIC; of the long form, also runs in which TIME_WAIT settles."""
    runs = Runs(stage.experiment())
    quic = Runs(stage.experiment(name="quic")) if dnsproxy() else None
    longer = Runs(stage.experiment(name="settles")) if stage.form == "long" else None
    return runs, quic, longer


def claims(measured, stage):
    found = Found(*measured, stage)
    found.draw_boxes()
    found.draw_series()
    found.write_table()
    return [*found.connections(), *found.memory(), *found.processor(), *found.tls(), *found.quic()]


class Found:
    """The runs, and the part of each in which connections come and go evenly."""

    def __init__(self, runs, quic, longer, stage):
        self.runs, self.stage, self.out = runs, stage, stage.out
        self.lasts = seconds(stage.merged()["generate"]["duration"])
        self.proxied = quic.cells[0] if quic else None
        self.longer = longer.cells[0] if longer else None

    def cell(self, transport, timeout=SUGGESTED):
        return self.runs.cell(transport=transport, server_idle_timeout=timeout)

    def cells(self):
        """Cells by transport and timeout, the shortest first."""
        found = [(cell.keys["transport"], seconds(cell.keys["server_idle_timeout"]), cell) for cell in self.runs.cells]
        order = list(NAMES)
        return sorted(found, key=lambda row: (order.index(row[0]), row[1]))

    def complete(self, transport, timeout=SUGGESTED):
        """The runs that count for connections and memory: (nearly) all queries were sent. Milliseconds of lateness change neither."""
        return [run for run in self.cell(transport, timeout).runs if sent_all(run)]

    def steady(self, timeout):
        """From a second after the first connections can have been idle for long enough, to the end of the trace."""
        return (seconds(timeout) + 1, self.lasts)

    def established(self, run, timeout):
        return open_connections(run, self.steady(timeout))

    def share(self, run, timeout):
        """Of the connections that the server has in the long run, those established: what it closes a second stays for a minute more."""
        established = self.established(run, timeout)
        closed = rate(run, "connections_closed_by_server", self.steady(timeout), "client")
        return established / (established + closed * TIME_WAIT_S)

    def per_connection(self, run, timeout=SUGGESTED):
        """Memory of the server's processes for each connection: of RSS, since what grows is shared by none."""
        return growth(run, "rss_bytes", self.steady(timeout)) / self.established(run, timeout)

    def extrapolated(self, run, connections=THEIR_ESTABLISHED):
        """Memory in GB with as many connections as theirs: what the processes have without any, and so much for each."""
        base = run.telemetry("pss_bytes")[0][1]
        kernel = KERNEL_ESTABLISHED * connections + KERNEL_TIME_WAIT * THEIR_TIME_WAIT * connections / THEIR_ESTABLISHED
        return (base + self.per_connection(run) * connections + kernel) / GB

    def connections(self):
        timeouts = sorted({cell.keys["server_idle_timeout"] for cell in self.runs.having(transport="tcp")}, key=seconds)
        short, long = timeouts[0], timeouts[-1]
        more = Interval.ratio(
            [self.established(run, long) for run in self.complete("tcp", long)],
            [self.established(run, short) for run in self.complete("tcp", short)],
        )
        shares = over(self.complete("tcp"), lambda run: self.share(run, SUGGESTED))
        return [
            judged("a third of the connections are established at 20 s, the others in TIME_WAIT", "60 k of 180 k: 0.33", shares, at_least=0.25,
                   at_most=0.42, why="bounds: a quarter to either side of a third. TIME_WAIT as what the server closes a second, times its 60 s"),
            judged("established connections grow with the timeout", "figure 13b", more, "times", at_least=1, why=f"{long} against {short}"),
            self.settles(),
        ]  # fmt: skip

    def settles(self):
        """Whether connections of all states are as many at the end as when the last kind of them has filled up."""
        text, theirs = "connections and memory are steady after about 5 minutes", "flat after 5 min"
        full = seconds(SUGGESTED) + TIME_WAIT_S
        lasts = seconds(self.stage.merged("settles")["generate"]["duration"]) if self.longer else self.lasts
        if lasts < 2 * full:
            why = f"a run of {lasts:.0f} s is too short: established connections are steady after the timeout, TIME_WAIT a minute later, so after {full:.0f} s"
            return missing(text, theirs, why)
        runs = [run for run in self.longer.runs if sent_all(run)] if self.longer else self.complete("tcp")
        ratio = Interval.of([total(run, (lasts - 30, lasts)) / total(run, (full + 5, full + 35)) for run in runs])
        return judged(text, theirs, ratio, "times", at_least=0.95, at_most=1.05, why=f"the last 30 s against those after {full:.0f} s")

    def memory(self):
        tcp, original = self.complete("tcp"), self.complete("as-recorded")
        each = over(tcp, lambda run: self.per_connection(run) / 1000)
        if not tcp or not original:
            return [missing("memory at 20 s", "13 GB", "no run sent all queries")]
        share = over(original, lambda run: self.established(run, SUGGESTED)).value / over(tcp, lambda run: self.established(run, SUGGESTED)).value
        whole = over(tcp, self.extrapolated)
        ratio = Interval.ratio([self.extrapolated(run) for run in tcp], [self.extrapolated(run, THEIR_ESTABLISHED * share) for run in original])
        why = (
            f"extrapolated: what the processes have without connections, and {each.text('kB')} more for each of 60,000, with "
            f"{KERNEL_ESTABLISHED / 1000:g} kB of the kernel's each and 0.3 kB for each of 120,000 in TIME_WAIT. Theirs is 217 kB a connection, of "
            "NSD 4.1.17 and all else on the host; this NSD is a later one"
        )
        return [
            judged("memory at 20 s with 60,000 established connections", "13 GB", whole, "GB", at_least=10, at_most=16, why=why),
            judged("all TCP takes several times the memory of the original load", "13 GB against 2 GB: 6.5", ratio, "times", at_least=2,
                   why=f"both extrapolated in the same way; the original load has {100 * share:.0f} % of the connections"),
        ]  # fmt: skip

    def processor(self):
        tcp = self.runs.having(transport="tcp")
        ends = sorted(tcp, key=lambda cell: seconds(cell.keys["server_idle_timeout"]))
        flat = Interval.ratio(ends[0].values("telemetry.server.cpu_s"), ends[-1].values("telemetry.server.cpu_s"))
        against = self.against("tcp", "as-recorded")
        why = "processes of the server alone; the kernel's work on packets that arrive is counted with whoever had the core. Theirs is of the whole host"
        return [
            judged("the processor time is the same at all timeouts", "10 to 20 % of 24 cores; 1 % more at the shortest", flat, "times", at_least=0.9, at_most=1.2,
                   why=f"{ends[0].keys['server_idle_timeout']} against {ends[-1].keys['server_idle_timeout']}, of whole runs; bounds: 10 % less to 20 % more"),
            judged("all TCP takes no more processor time than the original load", "the same median, 2 % more at the extremes", against, "times", at_most=1.2, why=why),
        ]  # fmt: skip

    def against(self, transport, other):
        sides = (self.cell(which).values("telemetry.server.cpu_s") for which in (transport, other))
        return Interval.ratio(*sides)

    def tls(self):
        tls, tcp = self.complete("dot"), self.complete("tcp")
        each = Interval.ratio([self.per_connection(run) for run in tls], [self.per_connection(run) for run in tcp])
        there = "the paper of 2018 has all TLS, too; its figures are not at hand"
        return [
            judged("all TLS takes more memory a connection than all TCP", there, each, "times", at_least=1,
                   why=f"{over(tls, lambda run: self.per_connection(run) / 1000).text('kB')} a connection; key on P-256"),
            judged("all TLS takes more processor time than all TCP", there, self.against("dot", "tcp"), "times", at_least=1,
                   why="every client's first connection falls into the run, more of them than later"),
        ]  # fmt: skip

    def quic(self):
        text, theirs = "all QUIC: memory and processor time", "not measured"
        if not self.proxied or not self.proxied.runs:
            return [missing(text, theirs, "NSD speaks no QUIC, and dnsproxy is not built: scripts/build-server.sh dnsproxy")]
        runs = [run for run in self.proxied.runs if sent_all(run)]
        if not runs:
            return [missing(text, theirs, "no run sent all queries: the machine was too busy")]
        each = Interval.of([self.per_connection(run) / 1000 for run in runs])
        work = Interval.of([run.get("telemetry.server.cpu_us_per_query") for run in runs])
        ours = f"{each.text('kB')} a connection, {work.text('µs')} of processor time a query"
        why = "the source has no figure. dnsproxy (Go) before NSD, its own memory and time alone; the client closes idle connections after 20 s"
        return [Claim(text, theirs, ours, UNCLAIMED, why)]

    def draw_boxes(self):
        """Figure 11: processor time of each second, by transport and timeout."""
        rows = [(transport, timeout, [value for run in cell.runs for _, value in processor(run)]) for transport, timeout, cell in self.cells()]
        with draw.picture(self.out, "processor", "Processor time of NSD over its idle timeout (medians, quartiles, 5th and 95th percentiles)") as axes:
            # The longest name has two lines.
            draw.boxes(axes, [(f"{NAMES[transport]}\n{timeout:.0f} s".replace(" (", "\n("), quantiles(values)) for transport, timeout, values in rows])
            axes.set(ylabel="% of one core, each second", ylim=(0, None))
        draw.table(self.out, "processor", ["transport", "timeout_s", "p5", "p25", "p50", "p75", "p95"],
                   [[transport, timeout, *map(rounded, quantiles(values))] for transport, timeout, values in rows])  # fmt: skip

    def draw_series(self):
        """Figure 13: memory and connections over the time of the first repeat."""
        figures = [("rss_bytes", "server", "memory of the processes (RSS), MB", 1e6), ("connections_open", "client", "established connections", 1),
                   ("tcp_time_wait", "server", "connections in TIME_WAIT", 1)]  # fmt: skip
        points = []
        with draw.picture(self.out, "footprint", "Memory and connections of NSD over the time of the run", columns=3, size=(12, 4.2)) as columns:
            for axes, (name, side, label, unit) in zip(columns, figures):
                for transport, timeout, cell in self.shown():
                    series = [(at, value / unit) for at, value in cell.runs[0].telemetry(name, side) if at <= self.lasts]
                    style = {"color": draw.COLOURS[list(NAMES).index(transport)], "linestyle": "-" if timeout == seconds(SUGGESTED) else ":" if timeout < seconds(SUGGESTED) else "--"}
                    axes.plot(*zip(*series), label=f"{NAMES[transport]}, {timeout:.0f} s", **style)
                    points += [[transport, timeout, name, round(at, 2), round(value, 3)] for at, value in series]
                axes.set(xlabel="seconds of the run", ylabel=label, ylim=(0, None))
            # Room for the names above the curves.
            columns[0].set_ylim(0, columns[0].get_ylim()[1] * 1.4)
            columns[0].legend(fontsize=8, loc="upper left", ncols=2)
        draw.table(self.out, "footprint", ["transport", "timeout_s", "figure", "at_s", "value"], points)

    def shown(self):
        """The cells of the series: the shortest timeout, the suggested one and the longest."""
        cells = [row for row in self.cells() if row[2].runs]
        chosen = {min(row[1] for row in cells), seconds(SUGGESTED), max(row[1] for row in cells)}
        return [row for row in cells if row[1] in chosen]

    def write_table(self):
        """Where the memory is, of processes and kernel apart, and what the connections are."""
        header = ["transport", "timeout_s", "established", "time_wait", "share_established_in_the_long_run", "rss_peak_MB", "pss_peak_MB",
                  "kernel_tcp_buffers_peak_MB", "kernel_tcp_slab_peak_MB", "rss_kB_a_connection", "cpu_us_a_query"]  # fmt: skip
        rows = []
        for transport, timeout, cell in self.cells():
            part = (timeout + 1, self.lasts)
            for run in cell.runs:
                levels = [open_connections(run, part), level(run, "tcp_time_wait", part)]
                peaks = ("rss", "pss", "tcp_memory", "tcp_slab")
                memory = [scaled(run.get(f"telemetry.server.{name}_peak_bytes"), 1e6) for name in peaks]
                share, each = self.share(run, f"{timeout}s"), self.per_connection(run, f"{timeout}s") / 1000
                rows.append([transport, timeout, *levels, share, *memory, each, run.get("telemetry.server.cpu_us_per_query")])
        draw.table(self.out, "memory", header, [[row[0], *map(rounded, row[1:])] for row in rows])


def sent_all(run):
    return run.get("queries.sent") >= LEAST_SENT * run.get("queries.trace")


def total(run, part):
    return open_connections(run, part) + level(run, "tcp_time_wait", part)


def open_connections(run, part):
    """As the clients count them; the server has as many."""
    return level(run, "connections_open", part, "client")


def scaled(value, unit):
    return None if value is None else value / unit


def rounded(value):
    return value if value is None else round(value, 3)
