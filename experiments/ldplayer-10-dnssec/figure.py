"""Response traffic of a root server by the share of queries with DO, the keys of the zone, and the UDP size."""

import lzma
import os
import subprocess

from figures.claim import NO, YES, Claim, judged, missing, not_theirs
from figures.draw import COLOURS, picture, table
from figures.interval import Interval
from figures.runs import Runs
from figures.stage import ROOT

TITLE = "Response traffic of a root server by DO and keys"
SOURCE = "LDplayer, figure 10"
SCALE = {
    "small": "three draws of 16,000 queries from a population of 60,000 clients, and the bundled minute of real queries, as fast as they are answered; what is "
    "counted is octets a query, which do not depend on the rate, times the 38,000 queries/s of B-Root-16 (theirs: an hour at that rate, 1.07 M clients)",
    "long": "three draws of 30 s of 37,037 queries/s from a population of 1.07 M clients (1.1 M queries each), and the bundled minute of real queries, as fast as they "
    "are answered, octets a query times the 38,000 queries/s of B-Root-16 (theirs: an hour at that rate, 1.07 M clients)",
    "full": "three draws of 30 s of 37,037 queries/s from a population of 1.07 M clients, and the bundled minute of real "
    "queries as recorded (theirs: an hour at that rate, 1.07 M clients)",
}

# Queries a second: the median of B-Root-16 (their section 4.2).
RATE = 38_000
ALL_DO = "data/rules/all-do.toml"
# How much of a source's growth ours may be more or less for being called the same amount.
NEAR = 0.2
# The share of queries without an answer that a run may have for its octets to be counted.
LOST = 0.001

# Draws of one model, each with its own clients and names: the repeats. What the model is given in each form.
DRAWS = (1, 2, 3)
DRAWN = {"small": {"clients": 60_000, "qps": 8_000, "duration": "2s"}, "long": {"duration": "30s"}, "full": {"duration": "30s"}}

RSA = ("--algorithm", "rsasha256", "--ksk-bits", "2048", "--zsk-bits")
# What `ldplayer zones sign` is told for each zone. Of two ZSKs the first signs and the other is published; with a double signature both sign.
ZONES = {
    "rsa-1024": (*RSA, "1024"),
    "rsa-1024-published": (*RSA, "1024", "--zsks", "2"),
    "rsa-1024-double": (*RSA, "1024", "--zsks", "2", "--double-signature"),
    "rsa-2048": (*RSA, "2048"),
    "rsa-2048-published": (*RSA, "2048", "--zsks", "2"),
    "rsa-2048-double": (*RSA, "2048", "--zsks", "2", "--double-signature"),
    "rsa-2048-nsec3": (*RSA, "2048", "--nsec3"),
    "rsa-4096": (*RSA, "4096"),
    "ecdsa-p256": ("--algorithm", "ecdsap256sha256"),
    "ecdsa-p256-nsec3": ("--algorithm", "ecdsap256sha256", "--nsec3"),
    "ed25519": ("--algorithm", "ed25519"),
}
LABELS = {
    "rsa-1024": "RSA 1024",
    "rsa-1024-published": "… rollover,\nsecond key\npublished",
    "rsa-1024-double": "… rollover,\ntwo\nsignatures",
    "rsa-2048": "RSA 2048",
    "rsa-2048-published": "… rollover,\nsecond key\npublished",
    "rsa-2048-double": "… rollover,\ntwo\nsignatures",
    "rsa-2048-nsec3": "RSA 2048,\nNSEC3",
    "as-it-was": "as it was\non 2016-10-08",
    "rsa-4096": "RSA 4096",
    "ecdsa-p256": "P-256",
    "ecdsa-p256-nsec3": "P-256,\nNSEC3",
    "ed25519": "Ed25519",
}
# Mb/s of theirs, by zone and whether all queries have DO.
THEIRS = {("rsa-2048", False): 225, ("rsa-2048", True): 296, ("rsa-1024", False): 225 / 1.32}

# A datagram's headers are those of IP and UDP. Of a response over TCP those of one segment are taken, and its length.
COUNTED = """
with answers as (
  select *, case when client like '%:%' then 40 else 20 end + case when transport = 'udp' then 8 else 22 end as headers
  from {rows} where status not in ('late', 'stray')
), answered as (select * from answers where status = 'answered')
select (select count(*) from answers), (select count(*) from answered),
       (select sum(response_bytes) from answered), (select sum(headers) from answered),
       (select avg(tc::int) from answered where transport = 'udp'), (select quantile_disc(response_bytes, [0.25, 0.5, 0.75, 0.95]) from answered),
       (select quantile_cont(mbps, [0.05, 0.25, 0.5, 0.75, 0.95]) from (
          select sum(response_bytes + headers) * 8 / 1e6 as mbps from answered
          where answered_ns // 1000000000 < (select max(answered_ns) // 1000000000 from answered) group by answered_ns // 1000000000))
"""


class Traffic:
    """What the responses of a run come to."""

    def __init__(self, run):
        sent, answered, octets, headers, self.truncated, self.sizes, self.seconds = run.rows(COUNTED)[0]
        self.is_whole = sent > 0 and answered >= (1 - LOST) * sent
        self.octets = octets / sent
        self.on_the_wire = (octets + headers) / sent

    @property
    def mbps(self):
        """At the rate of B-Root-16, with the headers of IP and UDP."""
        return self.on_the_wire * 8 * RATE / 1e6


class Measured(dict):
    """Traffic of all runs that are whole, by the trace, for each (server, zone, whether all queries have DO)."""

    def __init__(self, runs):
        super().__init__()
        self.left_out = []
        for cell in (cell for each in runs for cell in each.cells):
            key = cell.keys.get("server", "serve"), cell.keys["zones"].removeprefix("zones/"), cell.keys["rules"] == ALL_DO
            for traffic in (Traffic(run) for run in cell.runs):
                if traffic.is_whole:
                    # A trace that stands at the top of the file is the first.
                    self.setdefault(key, {})[cell.keys.get("trace", "traces/root-1.parquet")] = traffic
                else:
                    self.left_out.append(cell.name)

    def of(self, zone, all_do, server="serve"):
        return self.get((server, zone, all_do), {})

    def ratio(self, one, other):
        """How many times the traffic of `other` that of `one` is, over the traces that both have."""
        a, b = self.of(*one), self.of(*other)
        return counted([a[trace].mbps / b[trace].mbps for trace in a if trace in b])

    def mean(self, *cell, what="mbps"):
        return counted([getattr(traffic, what) for traffic in self.of(*cell).values()])

    def first(self, *cell):
        return next(iter(self.of(*cell).values()))


def counted(values):
    """Over several traces they are a sample; of one trace, octets are counted and not estimated."""
    return Interval.exact(values[0]) if len(values) == 1 else Interval.of(values)


def measure(stage):
    make_zones(stage)
    make_traces(stage)
    os.environ["LDPLAYER"] = str(stage.binaries / "ldplayer")
    return [Runs(stage.experiment(name=name)) for name in ("experiment", "kinds", "capture")]


def make_zones(stage):
    """The root zone of 2016 as it was, and signed in each way."""
    folder = stage.out / "zones"
    was = folder / "as-it-was"
    was.mkdir(parents=True, exist_ok=True)
    packed = ROOT / "data" / "root-2016100801.zone.xz"
    (was / "root.zone").write_bytes(lzma.decompress(packed.read_bytes()))
    for name, options in ZONES.items():
        if not (folder / name / "root.zone").exists():
            stage.ldplayer("zones", "sign", was, "-o", folder / name, *options, "--seed", "1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_traces(stage):
    (stage.out / "traces").mkdir(exist_ok=True)
    given = [f"--{key}={value}" for key, value in DRAWN[stage.form].items()]
    for seed in DRAWS:
        out = stage.out / "traces" / f"root-{seed}.parquet"
        stage.ldplayer("generate", stage.source / "root.toml", *given, f"--seed={seed}", "-o", out, "--force", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def claims(runs, stage):
    drawn, kinds, capture = runs
    measured, real = Measured([drawn, kinds]), Measured([capture])
    draw_traffic(measured, stage)
    draw_truncated(measured, stage)
    write_seconds(drawn, stage)
    found = [*theirs(measured, real), *later(measured), servers(measured)]
    return found + told(measured, real)


def theirs(measured, real):
    """What they say in section 5.1."""
    do = measured.ratio(("rsa-2048", True), ("rsa-2048", False))
    key = measured.ratio(("rsa-2048", False), ("rsa-1024", False))
    now, then = measured.mean("rsa-2048", False), measured.mean("rsa-2048", True)
    return [
        judged("DO in all queries in place of 72 % makes responses more, ZSK of 2048 bits", "× 1.31 (225 to 296 Mb/s)", do, "×", at_least=1.0,
               why=f"{amounts(now)} to {amounts(then)} at 38,000 queries/s; {on_capture(real, ('rsa-2048', True), ('rsa-2048', False))}"),
        near("DO in all queries in place of 72 %, ZSK of 2048 bits: the growth is theirs within a fifth of it", 1.31, do, without_do(do)),
        judged("a ZSK of 2048 bits in place of 1024 makes responses more, DO in 72 %", "× 1.32", key, "×", at_least=1.0,
               why=f"{amounts(measured.mean('rsa-1024', False))} to {amounts(now)}; {on_capture(real, ('rsa-2048', False), ('rsa-1024', False))}"),
        near("a ZSK of 2048 bits in place of 1024, DO in 72 %: the growth is theirs within a fifth of it", 1.32, key),
        judged("response traffic at 38,000 queries/s, DO in 72 %, ZSK of 2048 bits: within a fifth", "225 Mb/s", now, "Mb/s",
               at_least=225 * (1 - NEAR), at_most=225 * (1 + NEAR), why=by_parts(measured)),
    ]  # fmt: skip


def later(measured):
    """What they left for later, or did not ask: nothing of theirs to hold against, so each says what is expected of the zone's data."""
    def row(claim, one, other, why, **bounds):
        return not_theirs(judged(claim, "left for later" if "4096" in claim else "not tried", measured.ratio(one, other), "×", why=why, **bounds))

    return [
        row("a ZSK of 4096 bits in place of 2048 makes responses more, DO in 72 %", ("rsa-4096", False), ("rsa-2048", False),
            amounts(measured.mean("rsa-4096", False)), at_least=1.0),
        row("a ZSK of 4096 bits in place of 2048 makes responses more, DO in all", ("rsa-4096", True), ("rsa-2048", True),
            amounts(measured.mean("rsa-4096", True)), at_least=1.0),
        row("a rollover with the second ZSK published hardly changes responses (less than 2 %), 2048 bits", ("rsa-2048-published", False), ("rsa-2048", False),
            "only answers with the DNSKEY set grow", at_most=1.02),
        row("a rollover with two signatures makes responses more, 2048 bits", ("rsa-2048-double", False), ("rsa-2048", False),
            f"{amounts(measured.mean('rsa-2048-double', False))}: all signatures are there twice", at_least=1.0),
        row("P-256 in place of RSA 2048 makes responses fewer, DO in all", ("ecdsa-p256", True), ("rsa-2048", True),
            f"{amounts(measured.mean('ecdsa-p256', True))}: signatures of 64 octets in place of 256", at_most=1.0),
        row("Ed25519 makes what P-256 makes (within 1 %), DO in all", ("ed25519", True), ("ecdsa-p256", True), "signatures of 64 octets both", at_least=0.99, at_most=1.01),
        row("NSEC3 in place of NSEC makes responses more, RSA 2048, DO in all", ("rsa-2048-nsec3", True), ("rsa-2048", True),
            "a name that is not there takes up to three records in place of two", at_least=1.0),
        *(truncated(measured, zone) for zone in ("rsa-1024", "rsa-2048", "rsa-2048-double", "rsa-4096", "ecdsa-p256")),
    ]  # fmt: skip


def truncated(measured, zone):
    """The share of UDP answers that are truncated, at both sizes."""
    name = "RSA 2048 with two signatures" if zone.endswith("double") else LABELS[zone]
    claim = f"UDP answers of at most 1232 octets are truncated no more often than of at most 4096, DO in all: {name}"
    then, now = measured.of(zone, True), measured.of(zone, True, "serve-1232")
    both = [trace for trace in then if trace in now]
    if not both:
        return not_theirs(missing(claim, "not tried", "no run answered all queries"))
    shares = [100 * found[both[0]].truncated for found in (then, now)]
    less = measured.ratio((zone, True, "serve-1232"), (zone, True))
    same = YES if shares[1] <= shares[0] + 100 * LOST else NO
    why = f"counted in one trace; responses come to × {less.value:.3f}, without what is asked again over TCP"
    return not_theirs(Claim(claim, "not tried", f"{shares[0]:.2f} % truncated at 4096, {shares[1]:.2f} % at 1232", same, why))


def servers(measured):
    """NSD beside `ldplayer serve`."""
    ratio = measured.ratio(("rsa-2048", True, "nsd"), ("rsa-2048", True))
    other = measured.ratio(("rsa-2048", False, "nsd"), ("rsa-2048", False))
    growth = measured.ratio(("rsa-2048", True, "nsd"), ("rsa-2048", False, "nsd"))
    why = f"× {other.value:.3f} with DO in 72 %; the growth by DO is × {growth.value:.3f} at NSD" if other.value and growth.value else ""
    claim = "the server does not matter: NSD's responses are those of `ldplayer serve` within 3 %, DO in all"
    return not_theirs(judged(claim, "one server tried", ratio, "×", at_least=0.97, at_most=1.03, why=why))


def near(claim, theirs, ratio, *more):
    """Whether a growth is that of the source within a fifth of it."""
    low, high = (1 + (theirs - 1) * (1 + sign * NEAR) for sign in (-1, 1))
    return judged(claim, f"× {theirs}", ratio, "×", at_least=low, at_most=high, why="; ".join([f"from × {low:.2f} to × {high:.2f}", *more]))


def without_do(growth):
    """How large an answer without DO is beside one with it, if 72 % and 100 % of DO differ by this."""
    sizes = [100 * (1 - (1 - 1 / ratio) / 0.28) for ratio in (1.31, growth.value) if ratio]
    return "so answers without DO have " + " at theirs, ".join(f"{size:.0f} % of the octets of those with it" if at == 0 else f"{size:.0f} % here" for at, size in enumerate(sizes))


def amounts(interval):
    return interval.text("Mb/s") if interval.value is None else f"{interval.value:.0f} Mb/s"


def on_capture(real, one, other):
    ratio = real.ratio(one, other)
    return f"× {ratio.value:.2f} with the bundled capture" if ratio.value else "no run of the bundled capture"


def by_parts(measured):
    octets, wire = (measured.mean("rsa-2048", False, what=what) for what in ("octets", "on_the_wire"))
    return "" if octets.value is None else f"{octets.value:.0f} octets a query, {wire.value:.0f} with the headers of IP and UDP; what theirs counts is not said"


def told(measured, real):
    left_out = sorted(set(measured.left_out + real.left_out))
    return [missing("all runs count", "–", f"not all queries were sent and answered in {', '.join(left_out)}")] if left_out else []


def draw_traffic(measured, stage):
    zones = [zone for zone in LABELS if any(measured.of(zone, do) for do in (False, True))]
    with picture(stage.out, "traffic", f"Responses of a root server at {RATE:,} queries/s, UDP answers of up to 4096 octets", size=(10.4, 4.8)) as axes:
        for all_do, label, shift in ((False, "DO in 72 % of the queries", -0.2), (True, "DO in all queries", 0.2)):
            bars = [(at + shift, measured.mean(zone, all_do).value) for at, zone in enumerate(zones) if measured.of(zone, all_do)]
            axes.bar(*zip(*bars), width=0.38, label=label, color=COLOURS[int(all_do)])
            for at, height in bars:
                axes.annotate(f"{height:.0f}", (at, height - 4), ha="center", va="top", fontsize=8, color="white")
        marks = [(zones.index(zone) + (0.2 if do else -0.2), mbps) for (zone, do), mbps in THEIRS.items() if zone in zones]
        axes.scatter(*zip(*marks), marker="_", s=420, linewidth=2.5, color="black", label="theirs (1024: from their + 32 %)", zorder=3)
        axes.set_xticks(range(len(zones)), [LABELS[zone] for zone in zones], fontsize=8)
        axes.grid(axis="x", visible=False)
        axes.set_ylabel("Mb/s, with headers of IP and UDP")
        axes.margins(y=0.18)
        axes.legend(loc="upper left", ncols=3)
    rows = [
        (server, zone, "100 %" if do else "72 %", trace, f"{found.octets:.2f}", f"{found.on_the_wire:.2f}", f"{found.mbps:.2f}", f"{found.truncated:.6f}", *found.sizes)
        for (server, zone, do), traces in sorted(measured.items()) for trace, found in traces.items()
    ]  # fmt: skip
    header = ("server", "zone", "queries with DO", "trace", "octets a query", "with headers", f"Mb/s at {RATE} queries/s", "truncated share of UDP", "p25 octets", "p50", "p75", "p95")
    table(stage.out, "traffic", header, rows)


def draw_truncated(measured, stage):
    zones = [zone for zone in LABELS if measured.of(zone, True) and measured.of(zone, True, "serve-1232")]
    with picture(stage.out, "truncated", "UDP answers that are truncated, DO in all queries") as axes:
        for server, label, shift in (("serve", "4096 octets at most", -0.2), ("serve-1232", "1232 octets at most", 0.2)):
            bars = [(at + shift, 100 * measured.first(zone, True, server).truncated) for at, zone in enumerate(zones)]
            axes.bar(*zip(*bars), width=0.38, label=label)
            for at, height in bars:
                axes.annotate(f"{height:.1f}", (at, height), ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(zones)), [LABELS[zone].replace("… ", "RSA 1024\n" if "1024" in zone else "RSA 2048\n") for zone in zones], fontsize=8)
        axes.grid(axis="x", visible=False)
        axes.set_ylabel("% of UDP answers")
        axes.legend()
    rows = [(zone, *(measured.first(zone, True, server).truncated for server in ("serve", "serve-1232"))) for zone in zones]
    table(stage.out, "truncated", ("zone", "share at 4096", "share at 1232"), rows)


def write_seconds(runs, stage):
    """As their figure: quantiles over the seconds of the run, at the rate that was replayed."""
    rows = [(*(cell.keys[key] for key in ("trace", "server", "zones")), cell.keys["rules"] == ALL_DO, *(f"{mbps:.2f}" for mbps in Traffic(run).seconds or ()))
            for cell in runs.cells for run in cell.runs]  # fmt: skip
    table(stage.out, "seconds", ("trace", "server", "zone", "DO in all", "p5 Mb/s", "p25", "p50", "p75", "p95"), rows)
