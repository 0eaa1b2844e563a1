"""Loads that rise until a server gives in: their traces, and what became of a run of one, window by window."""

from dataclasses import dataclass

import duckdb
import numpy

# A window of the run, and how long an answer may take to have come in time.
WINDOW_S = 0.5
IN_TIME_MS = 100
# Of the queries of a window, a tenth may be later than this at the client. Beyond it the window is about the client and counts for nothing.
LATE_MS = 10
# The share in time below which a server has given in, and the share of what is offered that it has to answer meanwhile.
FAILS, BEHIND = 0.99, 0.95


@dataclass(frozen=True)
class Ramp:
    """Clients that each ask once, `opening` of them a second, so that their connections are open; and a second later all of them at rates that
    rise from `low` to `high` queries a second (the same for a steady load). Each is a Poisson process, or asks at even gaps of its own."""

    clients: int
    low: float
    high: float
    seconds: float
    opening: float = 4000
    is_even: bool = False
    # Each query asks for a name of its own; else 1,000 names are asked for.
    has_new_names: bool = False

    @property
    def opened_s(self):
        """When all clients have asked once."""
        return self.clients / self.opening

    @property
    def begins_s(self):
        return self.opened_s + 1

    @property
    def ends_s(self):
        return self.begins_s + self.seconds

    def offered(self, at_s):
        """The rate at a time of the run."""
        return self.low + (self.high - self.low) * (at_s - self.begins_s) / self.seconds

    def write(self, path, seed=1):
        """Writes the trace, which is the same for the same ramp and seed."""
        order, client = self.arrivals(numpy.random.default_rng(seed))
        times = numpy.concatenate([numpy.arange(self.clients) / self.opening, self.begins_s + self.times(order)])
        clients = numpy.concatenate([numpy.arange(self.clients), client])
        write(path, times, clients, self.has_new_names)
        return path

    def arrivals(self, random):
        """Queries by how many were to come before them, in order, and whose each is."""
        expected = (self.low + self.high) / 2 * self.seconds
        if not self.is_even:
            order = numpy.sort(random.uniform(0, expected, random.poisson(expected)))
            return order, random.integers(0, self.clients, len(order))
        first = random.uniform(0, 1, self.clients)
        rounds = numpy.arange(int(expected / self.clients) + 1)
        order = ((rounds[:, None] + first) * self.clients).ravel()
        client = numpy.tile(numpy.arange(self.clients), len(rounds))
        kept = numpy.flatnonzero(order < expected)
        kept = kept[numpy.argsort(order[kept], kind="stable")]
        return order[kept], client[kept]

    def times(self, order):
        """When so many have come: the inverse of the integral of the rate."""
        slope = (self.high - self.low) / self.seconds
        if slope == 0:
            return order / self.low
        return (numpy.sqrt(self.low**2 + 2 * slope * order) - self.low) / slope


def write(path, times, clients, has_new_names):
    """A trace in Parquet; a client's address has its number in it."""
    rows = {"due": (times * 1e9).astype("int64"), "client": clients.astype("int64"), "number": numpy.arange(len(times))}
    name = "'q' || number" if has_new_names else "'n' || client % 1000"
    address = "'10.' || (64 + (client >> 16)) || '.' || ((client >> 8) & 255) || '.' || (client & 255)"
    made = f"select make_timestamp_ns(due) as time, {address} as src, {name} || '.example.com.' as qname, 'A' as qtype from rows order by due, number"
    with duckdb.connect() as database:
        database.register("rows", rows)
        target = str(path).replace("'", "''")
        database.sql(f"copy ({made}) to '{target}' (format parquet, compression zstd)")


@dataclass(frozen=True)
class Window:
    """A part of the ramp: what was offered and answered in it, a second; the share of its queries that was answered in time; how long
    they took; how late the client was with them."""

    at_s: float
    offered: float
    answers: float
    in_time: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    late_ms: float

    @property
    def counts(self):
        return self.late_ms <= LATE_MS

    @property
    def fails(self):
        return self.in_time < FAILS or self.answers < BEHIND * self.offered


def windows(run, ramp, width=WINDOW_S):
    """The windows of a run, from the beginning of the ramp to its end. What was not answered took for ever."""
    begun = f"intended_ns >= {ramp.begins_s * 1e9}"
    where = f"status not in ('late', 'stray') and {begun}"
    # The server did the work also of an answer for which nobody waited any more.
    came = f"status in ('answered', 'late') and {begun}"
    number = f"cast(floor(({{time}} / 1e9 - {ramp.begins_s}) / {width}) as integer)"
    took = "case when status = 'answered' then (answered_ns - submitted_ns) / 1e6 else 'infinity'::double end"
    late = "coalesce((submitted_ns - intended_ns) / 1e6, 'infinity'::double)"
    asked = run.rows(
        f"select {number.format(time='intended_ns')} w, count(*), avg(({took} <= {IN_TIME_MS})::int), quantile_disc({took}, [0.5, 0.9, 0.99]), "
        f"quantile_disc({late}, 0.9) from {{rows}} where {where} group by w order by w"
    )
    came = dict(run.rows(f"select {number.format(time='answered_ns')} w, count(*) from {{rows}} where {came} group by w"))
    return [
        Window(ramp.begins_s + (at + 0.5) * width, count / width, came.get(at, 0) / width, in_time, *took_ms, late_ms)
        for at, count, in_time, took_ms, late_ms in asked
        if (at + 1) * width <= ramp.seconds + 1e-9
    ]


@dataclass(frozen=True)
class Peak:
    """The most answers a second that a ramp had (none where the client was never on time), and who gave in first: the server (`is_servers`), the
    client (`is_clients`), or nobody up to the end of the ramp. Only the first tells what the server can do at most."""

    answers: float | None
    is_servers: bool
    is_clients: bool
    # The rate offered when the server gave in.
    failed_at: float | None


def peak(found):
    """Of the windows in which the client was on time."""
    kept = [window for window in found if window.counts]
    failed = [window.offered for window in kept if window.fails]
    is_late = len(kept) < len(found)
    return Peak(max((window.answers for window in kept), default=None), bool(failed), is_late and not failed, failed[0] if failed else None)


def rates(peaks, unit=1):
    """The peaks that there are."""
    return [found.answers / unit for found in peaks if found.answers is not None]


def at_least(peaks):
    """What is to be said where the server was not what gave in, in some of the repeats; nothing where it always was."""
    clients = sum(found.is_clients for found in peaks)
    nobody = sum(not found.is_clients and not found.is_servers for found in peaks)
    said = [f"the client was at its limit before the server in {clients} of {len(peaks)} runs"] * (clients > 0)
    said += [f"the ramp ended in {nobody} of {len(peaks)} runs before anybody was at a limit"] * (nobody > 0)
    return f"{' and '.join(said)}: the server can do at least so much" if said else ""


def whole(runs):
    """The runs whose accounts are right. That a replay was late is judged by windows here: behind its peak a ramp is meant to be too much."""
    return [run for run in runs if not {"accounting", "completeness"} & set(run.failed_checks)]


def at(samples, when_s):
    """The last sample up to a time of the run; the first one where there is none."""
    values = [value for time, value in samples if time <= when_s]
    return values[-1] if values else samples[0][1]


def cost_us(run, ramp, rate):
    """Processor time of the server for an answer, from the beginning of the ramp until so many queries a second are offered."""
    until = ramp.begins_s + (rate - ramp.low) / (ramp.high - ramp.low) * ramp.seconds
    times, used = zip(*run.telemetry("cpu_s"))
    took = numpy.interp(until, times, used) - numpy.interp(ramp.begins_s, times, used)
    between = f"answered_ns / 1e9 between {ramp.begins_s} and {until}"
    return took * 1e6 / max(run.rows(f"select count(*) from {{rows}} where status in ('answered', 'late') and {between}")[0][0], 1)


def growth(samples, ramp):
    """From the first sample to when all connections are open."""
    return at(samples, ramp.begins_s - 0.1) - samples[0][1]


def closed(runs):
    """Says so where the server closed one in a hundred connections or more, that were to be held."""
    shares = [sum((run.get(f"connections.closed.{by}") or 0) for by in ("server", "reset")) / max(run.get("connections.opened") or 1, 1) for run in runs]
    return f"the server closed up to {100 * max(shares):.0f} % of the connections" if max(shares, default=0) >= 0.01 else ""


def places(run):
    """Room for connections that Unbound was told to have in a run, on all addresses."""
    folder = run.directory.with_name(f"{run.directory.name}.server")
    lines = next(folder.glob("*-configuration")).read_text(encoding="utf-8").splitlines()
    told = [line.split(":", 1) for line in lines if ":" in line]
    addresses = sum(key.strip() == "interface" for key, _ in told)
    return addresses * next(int(value) for key, value in told if key.strip() == "incoming-num-tcp")


def draw(axes, found, title):
    """What was offered and answered in each window of a run; hollow where the client was late, so that it is about the client."""
    x = [window.at_s for window in found]
    axes.plot(x, [window.offered / 1e3 for window in found], label="offered", color="#9498a0")
    axes.plot(x, [window.answers / 1e3 for window in found], label="answered", marker="o", markersize=4, fillstyle="none")
    kept = [window for window in found if window.counts]
    axes.plot([window.at_s for window in kept], [window.answers / 1e3 for window in kept], "o", markersize=4, color="#4269d0", label="answered, client on time")
    axes.set(title=title, xlabel="seconds of the run", ylim=(0, None))
