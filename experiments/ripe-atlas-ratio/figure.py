"""RIPE Atlas, 2012: how many times longer an answer takes over TCP than over UDP, by `ldplayer ratio`."""

import json
import subprocess

from figures import draw
from figures.claim import joined, judged, undecided
from figures.interval import Interval

TITLE = "Response times over TCP against UDP"
SOURCE = "RIPE Atlas, figures 1 to 4"
SCALE = {
    "small": "8 servers on one host; 150 clients, each 20 to 160 ms away, 3 pairs of queries each, a second apart, three studies; theirs: all probes of RIPE Atlas of September "
    "2012, 13 root servers, a pair each 30 minutes for a day",
    "long": "8 servers on one host; 360 clients, each 20 to 160 ms away, 10 pairs of queries each, three seconds apart, three studies",
    "full": "8 servers on one host; 1,000 clients, each 20 to 160 ms away, 48 pairs of queries each (as in a day of theirs), 8.3 s apart, three studies",
}
FORM = {"small": {"clients": 150, "pairs": 3, "interval": "1s"}, "long": {"clients": 360, "pairs": 10, "interval": "3s"}, "full": {"clients": 1000, "pairs": 48, "interval": "8300ms"}}
REPEATS = 3
ADDRESS = "10.53.0.2"
# At ports from 5301 on, as servers.sh starts them.
SERVERS = {
    "nsd": "NSD",
    "bind": "BIND",
    "knot": "Knot DNS",
    "serve": "ldplayer serve",
    "unbound": "Unbound",
    "ten": "NSD, 10 connections",
    "hundred": "NSD, 100 connections",
    "split": "length apart",
}
PLAIN = ("nsd", "bind", "knot", "serve", "unbound")


def measure(stage):
    """The lines of each study, by server."""
    stage.versions = {SERVERS[name]: version(*command) for name, command in COMMANDS.items()}
    return [study(stage, number) for number in range(1, REPEATS + 1)]


def study(stage, number):
    out = stage.out / f"study-{number}"
    targets = [f"{name}={ADDRESS}:{5301 + at}" for at, name in enumerate(SERVERS)]
    start = f"sh experiments/{stage.name}/servers.sh {stage.binaries}/ldplayer {ADDRESS} {stage.out}/servers-{number}"
    options = [f"--{key}={value}" for key, value in {**FORM[stage.form], "seed": number, "zone": "example.", "rtt": "uniform:20ms,160ms"}.items()]
    stage.ldplayer("ratio", *targets, *options, f"--start-server={start}", "-o", out, "--force", status=(0, 1), stdout=subprocess.DEVNULL)
    lines = json.loads((out / "ratio.json").read_text(encoding="utf-8"))["lines"]
    return {line["server"].split()[0]: line for line in lines}


COMMANDS = {"nsd": ("nsd", "-v"), "bind": ("named", "-v"), "knot": ("knotd", "-V"), "unbound": ("unbound", "-V")}


def version(*command):
    done = subprocess.run(["sh", "-c", 'PATH=$PATH:/usr/local/sbin:/usr/sbin; exec "$@"', "-", *command], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines()[0]


def claims(studies, stage):
    scatter(stage, "1-scatter", "Figure 1: ratios of all servers", studies[0], SERVERS)
    scatter(stage, "2-before-and-after", "Figure 2: ten connections at once, and a hundred", studies[0], ("ten", "hundred"))
    histogram(stage, "3-ten-connections", "Figure 3: ten connections at once", studies, ("ten",), 15)
    histogram(stage, "4-histogram", "Figure 4: all servers", studies, [name for name in SERVERS if name not in ("ten", "hundred")], 4)
    tables(stage, studies)
    return [*of_plain(studies), *of_limit(studies), *of_split(studies)]


def of_plain(studies):
    return [
        unless_unfaithful(
            judged(f"{SERVERS[name]}: median ratio", "about 2 for most", medians(studies, name), "times", at_least=1.75, at_most=2.25, why="nearer to 2 than to 2.5 or 1.5"),
            studies, name,
        )
        for name in PLAIN
    ]  # fmt: skip


def of_limit(studies):
    tail, cured = (Interval.percent([line["above_10_percent"] for line in of(studies, name)]) for name in ("ten", "hundred"))
    failed = sum(failures(line) for line in of(studies, "ten"))
    asked = sum(line["pairs"]["asked"] for line in of(studies, "ten"))
    found = ", ".join(sorted({finding["code"] for line in of(studies, "ten") for finding in line["findings"]}))
    return [
        unless_unfaithful(
            judged("ten connections at once (K-root before): ratios above 10", "many; with other servers hardly any", tail, "%", at_least=1,
                   why=f"found: {found}; {failed} of {asked} pairs without an answer over TCP, which the ratios leave out as theirs did"),
            studies, "ten",
        ),
        unless_unfaithful(
            judged("a hundred connections at once (K-root after the mend): ratios above 10", "like other servers", cured, "%", at_most=1), studies, "hundred"
        ),
        unless_unfaithful(
            judged("a hundred connections at once: median ratio", "about 3, since that NSD wrote the length apart", medians(studies, "hundred"), "times", at_least=2.75, at_most=3.25,
                   why="NSD 4 writes both together (from 3.2.14 on), so that 2 is what its mend makes of it"),
            studies, "hundred",
        ),
    ]  # fmt: skip


def of_split(studies):
    mended = Interval.ratio(values(studies, "nsd"), values(studies, "split"))
    return [
        unless_unfaithful(
            judged("a length in a segment of its own (NSD before 3.2.14): median ratio", "about 3", medians(studies, "split"), "times", at_least=2.75, at_most=3.25,
                   why="scripts/split-length.py writes as that NSD did"),
            studies, "split",
        ),
        unless_unfaithful(
            judged("length and response in one segment (NSD after the mend) against apart", "one round trip of three less", mended, "times", at_least=0.6, at_most=0.75), studies, "nsd"
        ),
    ]  # fmt: skip


def of(studies, name):
    return [study[name] for study in studies]


def values(studies, name):
    return [line["ratio"]["p50"] for line in of(studies, name)]


def medians(studies, name):
    return Interval.of(values(studies, name))


def failures(line):
    return line["pairs"]["only_udp"]


def unless_unfaithful(claim, studies, name):
    """Not decided where a replay was unfaithful in more than its timing."""
    return undecided(claim, joined(*sorted({what for line in of(studies, name) for what in line["replay"]})))


def scatter(stage, name, title, study, names):
    """Ratios over the time of the run, a column for each server; pairs without an answer over TCP are at the top."""
    names = list(names)
    with draw.picture(stage.out, name, title, size=(max(5, 1.2 * len(names) + 1), 4.6)) as axes:
        for at, server in enumerate(names):
            points = [(when, tcp / udp) for when, udp, tcp in study[server]["points"] if udp and tcp]
            last = max((when for when, _ in points), default=1) or 1
            axes.plot([at - 0.4 + 0.8 * when / last for when, _ in points], [ratio for _, ratio in points], ".", markersize=3, alpha=0.6)
            if failures(study[server]):
                axes.text(at, 300, f"{failures(study[server])} without\nanswer", ha="center", va="top", fontsize=8)
        axes.set(yscale="log", ylim=(0.9, 320), ylabel="response time over TCP ÷ over UDP")
        axes.set_yticks([1, 2, 3, 10, 30, 100], ["1", "2", "3", "10", "30", "100"])
        axes.set_xticks(range(len(names)), [SERVERS[server].replace(", ", ",\n").replace(" ", "\n", 1) for server in names], fontsize=9)
        axes.minorticks_off()


def histogram(stage, name, title, studies, names, most):
    """Percent of the pairs in bins of 1/20; theirs were of 1/100, with more pairs."""
    with draw.picture(stage.out, name, title) as axes:
        for server in names:
            points = binned(of(studies, server))
            axes.step([low + 0.025 for low, _ in points], [share for _, share in points], where="mid", label=SERVERS[server], linewidth=1.2)
        axes.set(xlim=(1, most), xlabel="response time over TCP ÷ over UDP", ylabel="percent of the pairs, bins of 1/20")
        if len(names) > 1:
            axes.legend()


def binned(lines, width=20):
    """The histograms of all studies in bins of 1/`width`, empty ones included."""
    shares = {}
    for line in lines:
        for low, percent in line["histogram"]:
            place = int(round(low * 100)) * width // 100
            shares[place] = shares.get(place, 0) + percent / len(lines)
    return [(place / width, shares.get(place, 0)) for place in range(min(shares) - 1, min(max(shares), 20 * width) + 2)]


def tables(stage, studies):
    rows = [[name, number, *point] for name in SERVERS for number, study in enumerate(studies, 1) for point in study[name]["points"]]
    draw.table(stage.out, "1-scatter", ["server", "study", "second", "udp_ms", "tcp_ms"], rows)
    lines = [(name, number, study[name]) for name in SERVERS for number, study in enumerate(studies, 1)]
    draw.table(stage.out, "4-histogram", ["server", "study", "ratio", "percent"], [[name, number, *bin_] for name, number, line in lines for bin_ in line["histogram"]])
    quantiles = ("p25", "p50", "p75", "p90", "p99")
    figures = [[name, number, *(line["ratio"][q] for q in quantiles), line["above_10_percent"], failures(line)] for name, number, line in lines]
    draw.table(stage.out, "ratios", ["server", "study", *quantiles, "above_10_percent", "without_answer"], figures)
