"""Clients of a resolver that ask in bursts, as browsers do, and the Internet in which their names are: a trace and zones, made without draws of the clock.

Models of `ldplayer generate` have no sessions, and what a connection costs a query is a matter of how many queries share one. A client looks at
pages: all its names within a fraction of a second, then nothing for a while. It looks at one at least, as a client that is in a capture has asked.

    roll call: every client asks for one name over UDP, in an order of no meaning ──► then pages, whose transport rules may change

The first N clients of the trace (`clients`, or `[find] what = "clients"`) are those that ask first. The roll call makes them any N of all, and the
load of N clients N times that of one, from the first second to the last.
"""

import hashlib
from dataclasses import dataclass

import numpy
import pyarrow
import pyarrow.parquet

START_NS = 1_601_251_200_000_000_000
ROLL_CALL = "roll-call.d0.example."
# Before the others, so that their name is in the cache.
HEAD_START_S = 0.5
# Rows of a group, as ldplayer writes them.
ROWS = 131_072


@dataclass(frozen=True)
class Population:
    """Who asks, for how long, and how often. All figures but the length are assumed: the source has a capture that is not published."""

    clients: int
    # Seconds of the roll call, and of the pages behind it.
    roll_call: float
    duration: float
    # Seconds between two pages of a client, on average.
    gap: float
    # Names of a page, and the seconds within which they come.
    names: float = 5.0
    spread: float = 0.08
    domains: int = 500
    hosts: int = 40
    zipf: float = 0.95
    # Shares of the names that nobody asked for before, and that do not exist.
    fresh: float = 0.10
    missing: float = 0.06
    seed: int = 1

    @property
    def length(self):
        """Seconds of the trace."""
        return self.roll_call + self.duration

    @property
    def queries_each(self):
        """Queries of a client on average, beside the roll call."""
        mean = self.duration / self.gap
        return 2 * self.names * mean / -numpy.expm1(-mean)


def write_trace(population, file):
    """Writes the trace, ordered by time."""
    random = numpy.random.default_rng(population.seed)
    time, client, name, names = asked(random, population)
    roll = roll_call(random, population)
    clients = numpy.concatenate((roll[1], client, client))
    # A name's A and AAAA are asked for at once.
    times = numpy.concatenate((roll[0], time, time + 50e-6))
    which = numpy.concatenate((numpy.zeros(population.clients, int), name, name))
    kinds = numpy.concatenate((numpy.zeros(population.clients + len(name), int), numpy.ones(len(name), int)))
    order = numpy.argsort(times, kind="stable")
    table = pyarrow.table({
        "time": pyarrow.array(START_NS + (times[order] * 1e9).astype("int64"), pyarrow.timestamp("ns", "UTC")),
        "src": words(clients[order], [address(number) for number in range(population.clients)]),
        "transport": words(numpy.zeros(len(order), int), ["udp"]),
        "qname": words(which[order], names),
        "qtype": words(kinds[order], ["A", "AAAA"]),
        "edns_size": pyarrow.array(numpy.full(len(order), 1232, "uint16")),
    })  # fmt: skip
    pyarrow.parquet.write_table(table, file, compression="zstd", row_group_size=ROWS)


def asked(random, population):
    """The names that are asked for: their times, clients and numbers, and the names by these numbers."""
    mean = population.duration / population.gap
    # Poisson of those that are not zero: the first arrival falls within the trace, the others follow it freely.
    first = -numpy.log1p(-random.random(population.clients) * -numpy.expm1(-mean))
    pages = 1 + random.poisson(mean - first)
    page_client = numpy.repeat(numpy.arange(population.clients), pages)
    page_time = population.roll_call + random.random(len(page_client)) * population.duration
    of_page = 1 + random.poisson(population.names - 1, len(page_client))
    client, time = (numpy.repeat(values, of_page) for values in (page_client, page_time))
    is_first = numpy.zeros(len(client), bool)
    is_first[numpy.cumsum(of_page) - of_page] = True
    time = time + numpy.where(is_first, 0, random.exponential(population.spread, len(client)))
    return time, client, *drawn_names(random, population, len(client))


def drawn_names(random, population, count):
    """Numbers of names, and the names: popular ones, those that nobody asked for before, and those that do not exist."""
    popular = ["h{}.d{}.example.".format(*divmod(number, population.domains)) for number in range(population.domains * population.hosts)]
    weights = numpy.cumsum(1 / numpy.arange(1, len(popular) + 1) ** population.zipf)
    number = 1 + numpy.searchsorted(weights, random.random(count) * weights[-1])
    kind = random.random(count)
    is_fresh, is_missing = kind < population.fresh, kind > 1 - population.missing
    fresh = [f"f{at}.d{at % population.domains}.example." for at in range(is_fresh.sum())]
    missing = [f"m{at}.none.example." for at in range(is_missing.sum())]
    number[is_fresh] = 1 + len(popular) + numpy.arange(len(fresh))
    number[is_missing] = 1 + len(popular) + len(fresh) + numpy.arange(len(missing))
    return number, [ROLL_CALL, *popular, *fresh, *missing]


def roll_call(random, population):
    """Times and clients of the roll call."""
    times = HEAD_START_S + numpy.sort(random.random(population.clients)) * (population.roll_call - HEAD_START_S)
    times[0] = 0
    return times, random.permutation(population.clients)


def words(numbers, names):
    # Not as a dictionary: pyarrow writes all of one into each row group.
    return pyarrow.array(names).take(pyarrow.array(numbers))


def address(number):
    """Of 10.0.0.0/8, without those that look like a network's."""
    return f"10.{number // 62_500}.{number // 250 % 250}.{number % 250 + 1}"


def write_zones(population, folder):
    """Writes the root, a top-level domain, and the domains in it, each on a name server of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [*(f"d{number}" for number in range(population.domains)), "none"]
    hosts = {name: f"198.18.{at // 250}.{at % 250 + 2}" for at, name in enumerate(names)}
    write_zone(folder, "root", ". NS a.root-servers.net.\na.root-servers.net. A 198.41.0.4\nexample. NS ns.example.\nns.example. A 198.18.0.1\n")
    delegations = "".join(f"{name} NS ns.{name}\nns.{name} A {host}\n" for name, host in hosts.items())
    write_zone(folder, "example", f"@ NS ns\nns A 198.18.0.1\n{delegations}")
    for name, host in hosts.items():
        # Whatever is asked for there is there, but for the domain of the names that do not exist.
        wildcard = "" if name == "none" else "* A 203.0.113.1\n* AAAA 2001:db8::1\n"
        write_zone(folder, f"{name}.example", f"@ NS ns\nns A {host}\n{wildcard}")


def write_zone(folder, name, records):
    apex = "." if name == "root" else f"{name}."
    (folder / f"{name}.zone").write_text(f"$ORIGIN {apex}\n$TTL 3600\n@ SOA ns.example. hostmaster.example. 1 3600 900 604800 300\n{records}")


def made(stage, population):
    """The keys of an experiment whose clients and Internet these are; both are made once, in the figure's folder."""
    name = hashlib.sha256(repr(population).encode()).hexdigest()[:8]
    file, zones = stage.out / f"clients-{name}.parquet", stage.out / f"zones-{population.domains}"
    if not zones.exists():
        write_zones(population, zones)
    if not file.exists():
        table = file.with_suffix(".names")
        write_trace(population, table)
        # With the messages in it, each run reads it in half the time.
        stage.ldplayer("convert", table, "-o", file, "--force", capture_output=True)
        table.unlink()
    return {"trace": str(file), "zones": str(zones)}
