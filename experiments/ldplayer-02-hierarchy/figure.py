"""One server with many zones answers a cold resolver as many servers do: answers, and the questions that the resolver asks."""

import subprocess
import sys
from collections import Counter
from itertools import combinations, product
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parent))

import hierarchy_run as hierarchy  # noqa: E402 (beside this file)
from hierarchy_run import IS_THERE, MANY, ONE, PLAIN, VIEWS  # noqa: E402
from hierarchy_zones import Hierarchy  # noqa: E402

from figures.claim import judged, missing  # noqa: E402
from figures.draw import picture, table  # noqa: E402
from figures.interval import Interval  # noqa: E402

TITLE = "One server answers a cold resolver as many do"
SOURCE = "LDplayer, section 2.4 and figure 2"
SCALE = {
    "small": "250 queries of 91 clients, seven times as fast as Rec-17 (mean gap 26 ms), 93 zones on 57 servers (Rec-17: 20,000 queries in an hour, 549 zones)",
    "long": "20,000 queries of 91 clients, 40 times as fast as Rec-17 (90 s a run, mean gap 4.5 ms), 549 zones as it had",
    "full": "20,000 queries of 91 clients with the gaps of Rec-17, ten times as fast (6 minutes a run), 549 zones as it had",
}
FORMS = {
    "small": {"tlds": 12, "domains": 60, "queries": 250, "speed": 7, "repeats": 3},
    "long": {"tlds": 30, "domains": 425, "queries": 20_000, "speed": 40, "repeats": 3},
    "full": {"tlds": 30, "domains": 425, "queries": 20_000, "speed": 10, "repeats": 3},
}
LEVELS = {"root": "root", "top-level": "top-level domains", "below": "domains below them"}
NAMES = {MANY: "many servers\n(an NSD for each)", ONE: "one server,\nldplayer serve", VIEWS: "one BIND with views,\nbehind proxies", PLAIN: "one server in\nthe plain way"}
# Percent of the exchanges. Questions of clients that meet in the resolver may make it ask twice, with any server.
MEETING = 0.5
SIGN = ("--inception", "2020-01-01", "--expiration", "2040-01-01", "--seed", "1")


def measure(stage):
    form, made = FORMS[stage.form], hierarchy_of(stage)
    make_zones(stage, made)
    trace = make_trace(stage, form)
    runs = {}
    for resolver, repeats in (("unbound", form["repeats"]), ("knot-resolver", 1)):
        if hierarchy.program(hierarchy.RESOLVERS[resolver][1][0]) and hierarchy.program("nsd"):
            runs |= repeated(stage, made, resolver, repeats, trace, form["speed"])
    return runs


def hierarchy_of(stage):
    return Hierarchy(FORMS[stage.form]["tlds"], FORMS[stage.form]["domains"])


def repeated(stage, made, resolver, repeats, trace, speed):
    """Runs by (resolver, how, repeat): many servers and one by turns, then the two other ways of having one. The answers of the first are expected of all."""
    first = hierarchy.run(stage, made, MANY, resolver, 1, trace, "--speed", speed, "--keep-responses")
    # Its responses are queries with answers at the times at which it asked.
    expected = first.folder / "replay" / "responses.parquet", "--compare-answers", "recorded"
    upstream = hierarchy.upstream_trace(first, stage.out / f"upstream-{resolver}.parquet")
    runs = {(resolver, MANY, 1): first, (resolver, ONE, 1): hierarchy.run(stage, made, ONE, resolver, 1, *expected, upstream=upstream)}
    more = [(how, repeat) for repeat in range(2, repeats + 1) for how in (MANY, ONE)]
    more += [(how, 1) for how in (VIEWS, PLAIN) if resolver == "unbound" and hierarchy.program(IS_THERE.get(how, "sh"))]
    return runs | {(resolver, how, repeat): hierarchy.run(stage, made, how, resolver, repeat, *expected) for how, repeat in more}


def make_zones(stage, made):
    """Writes the zones and signs those that are to be: all with NSEC first, so that parents have DS records, then some again with NSEC3."""
    zones = stage.out / "zones"
    if (zones / "signed" / "root.zone").exists():
        return
    made.write(zones)
    for kinds, source, target, options in ((("nsec", "nsec3"), "plain", "nsec", ()), (("nsec3",), "nsec", "signed", ("--nsec3",))):
        chosen = [word for zone in made.zones.values() if zone.signed in kinds for word in ("--zone", zone.apex)]
        stage.ldplayer("zones", "sign", zones / source, "-o", zones / target, *chosen, *SIGN, *options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_trace(stage, form):
    """Rec-17: 91 clients, gaps of 0.18 s with a deviation of 0.36 s, which two rates of which now the one, now the other rules give."""
    model = stage.out / "rec-17.toml"
    model.write_text((stage.source / "rec-17.toml").read_text(encoding="utf-8").replace("questions.txt", str(stage.out / "zones" / "questions.txt")), encoding="utf-8")
    return stage.trace(model, queries=form["queries"])


def claims(runs, stage):
    if ("unbound", ONE, 1) not in runs:
        return [missing("one server answers a cold resolver as many do", "yes", "unbound and NSD are not both there")]
    stage.versions = {name: hierarchy.version(name) for name in ("nsd", "unbound", "named", "kresd") if hierarchy.program(name)}
    write_exchanges(runs, stage)
    draw(runs, stage)
    many, one = (of(runs, "unbound", how) for how in (MANY, ONE))
    return [
        same_answers(many, one), same_questions(many, one, hierarchy_of(stage)), upstream_answers(one[0]),
        *others(runs, many, asides(hierarchy_of(stage))), *other_resolver(runs), servers(many, one), leaks(runs),
    ]  # fmt: skip


def of(runs, resolver, how):
    return [run for (found, way, _), run in runs.items() if (found, way) == (resolver, how)]


def same_answers(many, one):
    """Answers of the resolver to its clients, field by field."""
    among_many = [run.matched for run in many if run.matched is not None]
    shares = Interval.of([100 * run.matched for run in one])
    fields = [f"{field}: {count}" for run in one for field, count in run.summary["answers_compared"]["by_field"].items() if count]
    return judged("clients of a cold resolver get the same answers from one server with all zones as from many", "correct answers", shares, "%",
                  at_least=100 * min(among_many), why=f"code, flags and all sections, {many[0].validated} of {many[0].summary['queries']['answered']} validated; "
                  f"of repeats of many servers {100 * min(among_many):.4g} % are the same"
                  + (f"; not the same: {', '.join(fields)}" if fields else ""))  # fmt: skip


def same_questions(many, one, made):
    """What the resolver asked whose servers, as multisets, but for addresses of name servers, of which it draws one or another."""
    is_aside = asides(made)
    planned = [[only(run.by_server, lambda asked: not is_aside(asked)) for run in runs] for runs in (many, one)]
    among = max(difference(a, b) for a, b in combinations(planned[0], 2))
    found = Interval.of([100 * difference(a, b) for a, b in zip(*planned)])
    whole, drawn = (told(many, one, what) for what in ("by_server", "by_address"))
    return judged("the resolver asks the servers of each zone the same questions, as multisets: those that its clients' questions lead to", "the same query sequence as on the Internet",
                  found, "% differ", at_most=max(100 * among, MEETING), why=f"{planned[0][0].total()} exchanges a run; bound: what repeats of many servers differ in ({100 * among:.2g} %), or {MEETING} %. "
                  f"With questions for addresses of name servers, {whole}; by address, of which unbound draws one of a zone's, {drawn}")  # fmt: skip


def told(many, one, what):
    between, among = (mean(difference(getattr(a, what), getattr(b, what)) for a, b in pairs) for pairs in (list(product(many, one)), list(combinations(many, 2))))
    return f"{100 * between:.2g} % differ, and {100 * among:.2g} % between repeats of many servers"


def asides(made):
    """Whether a question is about a name server's address, or on the way to one: nobody asks providers for anything else."""
    hosts = {name for server in made.servers for name in server.names}
    domains = {name.split(".", 1)[1] for server in made.providers for name in server.names}
    return lambda asked: asked[1] in hosts and asked[2] in ("A", "AAAA") or asked[1] in domains


def only(multiset, kept):
    return Counter({asked: count for asked, count in multiset.items() if kept(asked)})


def upstream_answers(run):
    """What the servers said to the resolver, asked again of the one server."""
    compared = run.upstream["answers_compared"]
    fields = ", ".join(f"{field}: {count}" for field, count in compared["by_field"].items() if count)
    share = Interval.exact(100 * compared["match"] / compared["compared"])
    return judged("to each question that the resolver asked, the one server says what the zone's own server said", "correct responses, as if independent", share, "%",
                  at_least=100, why=f"{compared['compared']} different questions, all sections and flags" + (f"; not the same: {fields}" if fields else ""))  # fmt: skip


def others(runs, many, is_aside):
    """The paper's own way, and what it says does not work."""
    views, plain = (of(runs, "unbound", how) for how in (VIEWS, PLAIN))
    if views:
        apart = Interval.exact(100 * difference(*(only(run.by_server, lambda asked: not is_aside(asked)) for run in (many[0], views[0]))))
        yield judged("their way, one server with split horizon behind two proxies, leads to the same questions", "yes", apart, "% differ", at_most=MEETING,
                     why=f"BIND with a view for each zone's addresses; {100 * views[0].matched:.4g} % of the clients' answers are the same; one run")  # fmt: skip
    else:
        yield missing("their way, one server with split horizon behind two proxies, leads to the same questions", "yes", "BIND is not there")
    if plain:
        fewer = Interval.exact(plain[0].at_level("below") / many[0].at_level("below"))
        yield judged("one server that has all zones in the plain way refers to nobody: servers of domains are hardly asked", "different results", fewer, "×", at_most=0.5,
                     why=f"{plain[0].at_level('below')} questions to servers below top-level domains in place of {many[0].at_level('below')}, and {plain[0].at_level('root')} to root "
                     f"servers in place of {many[0].at_level('root')}: a resolver that minimises names goes on label by label at the root's servers. One run; "
                     f"{100 * plain[0].matched:.4g} % of the clients' answers are the same all the same")  # fmt: skip


def other_resolver(runs):
    many, one = (of(runs, "knot-resolver", how) for how in (MANY, ONE))
    claim = "clients of another resolver, Knot Resolver, get the same answers, too"
    if not one:
        return [missing(claim, "one resolver tried", "Knot Resolver is not there")]
    apart = difference(many[0].by_server, one[0].by_server)
    share = Interval.exact(100 * one[0].matched)
    return [judged(claim, "one resolver tried", share, "%", at_least=100, why=f"one run of each; {100 * apart:.3g} % of the questions upstream differ, whose order and choice it draws")]


def servers(many, one):
    """What the many take."""
    ratio = Interval.ratio([run.facts["memory_mb"] for run in many], [run.facts["memory_mb"] for run in one])
    a, b = (Interval.of([run.facts["memory_mb"] for run in runs]) for runs in (many, one))
    return judged("a server for each zone does not scale: it takes more memory", "limits of memory and virtual network interfaces", ratio, "×", at_least=1.0,
                  why=f"{a.text('MB')} in {many[0].facts['processes']} processes, up in {many[0].facts['up_s']:.1f} s; {b.text('MB')} in one, with the wire, up in {one[0].facts['up_s']:.1f} s")  # fmt: skip


def leaks(runs):
    """What went to addresses that are no server's: the wire drops and counts it."""
    leaked = Interval.exact(sum(run.facts["leaked"] for run in runs.values()))
    return judged("no packet is for an address outside of the testbed", "replays do not leak traffic to the Internet", leaked, "packets", at_most=0,
                  why=f"of {len(runs)} runs; counted by the wire, which would drop them")  # fmt: skip


def difference(a, b):
    """The share of two multisets that the other does not have."""
    return ((a - b).total() + (b - a).total()) / (a.total() + b.total())


def draw(runs, stage):
    ways = [how for how in (MANY, ONE, VIEWS, PLAIN) if of(runs, "unbound", how)]
    counts = {level: [mean(run.at_level(level) for run in of(runs, "unbound", how)) for how in ways] for level in LEVELS}
    with picture(stage.out, "questions", "Questions of a cold unbound, by whose servers it asks", size=(7.6, 4.2)) as axes:
        floor = [0.0] * len(ways)
        for level, label in LEVELS.items():
            axes.bar(range(len(ways)), counts[level], width=0.6, bottom=floor, label=label)
            floor = [low + count for low, count in zip(floor, counts[level])]
        for at, height in enumerate(floor):
            axes.annotate(" + ".join(f"{counts[level][at]:.0f}" for level in LEVELS), (at, height), ha="center", va="bottom", fontsize=9)
        axes.set_xticks(range(len(ways)), [NAMES[how] for how in ways])
        axes.grid(axis="x", visible=False)
        axes.set_ylabel("answered questions a run")
        axes.margins(y=0.22)
        axes.legend(loc="upper left", ncols=3)


def write_exchanges(runs, stage):
    """All multisets side by side."""
    table(stage.out, "questions", ("resolver", "servers", "repeat", "exchanges", *LEVELS, "clients' answers the same, %", "memory MB", "processes", "up s"),
          [(resolver, how, repeat, run.by_server.total(), *(run.at_level(level) for level in LEVELS), None if run.matched is None else 100 * run.matched,
            f"{run.facts['memory_mb']:.1f}", run.facts["processes"], f"{run.facts['up_s']:.2f}") for (resolver, how, repeat), run in runs.items()])  # fmt: skip
    for resolver in sorted({key[0] for key in runs}):
        columns = [(f"{how} {repeat}", run.by_server) for (found, how, repeat), run in runs.items() if found == resolver]
        every = sorted(set().union(*(asked for _, asked in columns)))
        table(stage.out, f"exchanges-{resolver}", ("servers of", "name", "type", "transport", *(name for name, _ in columns)), [(*key, *(asked[key] for _, asked in columns)) for key in every])
