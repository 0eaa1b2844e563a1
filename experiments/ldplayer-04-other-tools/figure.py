"""Section 4 of the LDplayer paper: the timing error of other tools that replay a capture, beside ours, by one receiver in one run."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from figures import draw, receiver
from figures.claim import NO, OPEN, joined, judged, missing
from figures.interval import Interval, short
from figures.runs import Run

TITLE = "Timing of other tools that replay a capture"
SOURCE = "LDplayer, sections 4.2 and 6"
SCALE = {
    "small": "6 s of the bundled capture (174 queries/s) and of traffic like a root server's at 20,000 queries/s, of which the first second "
    "is left out; 3 repeats, tools in turns (theirs: no tool beside LDplayer)",
    "long": "10 s of the bundled capture (174 queries/s) and of traffic like a root server's at 20,000 queries/s, of which the first two seconds are left out; 9 repeats, "
    "tools in turns (theirs: no tool beside LDplayer)",
    "full": "the whole minute of both, of which the first 5 s are left out; 5 repeats, tools in turns: an hour",
}
FORMS = {"small": {"seconds": 6, "left_out": 1, "repeats": 3}, "long": {"seconds": 10, "left_out": 2, "repeats": 9}, "full": {"seconds": 60, "left_out": 5, "repeats": 5}}
KNOW_TIMES = ["tcpreplay", "dnsjit", "drool"]
TOOLS = ["ldplayer", *KNOW_TIMES, "dnsperf"]
VERSION = {"tcpreplay": ["-V"], "dnsjit": ["-V"], "drool": ["--version"], "dnsperf": ["-h"]}
CAPTURE, QPS = "data/l-root-20161006.pcap.xz", 20_000
RULES = """[[rule]]
where = "transport != udp or time >= {seconds}s"
drop = true
[[rule]]
qname-prefix = "u{{n}}"
"""
THEIRS = "general tools replay \"with timing given in the trace\"; no figures"
MS = 1e6
# A host takes a core for some 30 ms at most; where it is gone for longer, other work has the machine, and no tool is judged.
SHARED_MS = 50


def measure(stage):
    form, there = FORMS[stage.form], [tool for tool in TOOLS if tool == "ldplayer" or shutil.which(tool)]
    stage.versions = {tool: version(tool) for tool in there if tool != "ldplayer"}
    root_like = stage.trace("root-like", qps=QPS, duration=f"{form['seconds']}s")
    captures = [capture(stage, "L-Root", CAPTURE, form), capture(stage, "root-like", root_like, form)]
    plan = {"tools": there, "captures": captures, "binaries": str(stage.binaries), "out": str(stage.out / "runs"), **form}
    file = stage.out / "plan.json"
    file.write_text(json.dumps(plan, indent=1), encoding="utf-8")
    folder = stage.source
    environment = {**os.environ, "PYTHONPATH": str(folder.parent)}
    stage.ldplayer("testbed", "run", "--", sys.executable, folder / "inside.py", file, env=environment)
    return plan


def version(tool):
    said = subprocess.run([tool, *VERSION[tool]], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    found = re.search(r"\d+\.\d+(\.\d+)?", said.stdout + said.stderr)
    return found.group() if found else "unknown"


def capture(stage, name, source, form):
    """The queries over UDP with unique names: as a capture that every tool takes, as text for dnsperf, and their times."""
    folder = stage.out / "captures"
    folder.mkdir(exist_ok=True)
    rules, raw, text = folder / "rules.toml", folder / f"{name}-raw.pcap", folder / f"{name}.txt"
    rules.write_text(RULES.format(seconds=form["seconds"]), encoding="utf-8")
    for options in (["-o", raw], ["-o", text, "--to", "dnsperf"]):
        stage.ldplayer("mutate", source, "--rules", rules, "--force", *options, stderr=subprocess.DEVNULL)
    due, clients = beside("captures", stage.source).on_ethernet(raw, folder / f"{name}.pcap")
    np.save(folder / f"{name}.npy", due)
    length = (due["ns"].max() - due["ns"].min()) / 1e9
    return {"name": name, "file": str(folder / f"{name}.pcap"), "text": str(text), "due": str(folder / f"{name}.npy"),
            "clients": len(clients), "queries": len(due), "qps": round(len(due) / length)}  # fmt: skip


def beside(name, folder):
    """A module of this folder."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def claims(plan, stage):
    repeats = range(1, plan["repeats"] + 1)
    found = {
        (one["name"], tool): [Seen(plan, one, tool, repeat) for repeat in repeats] for one in plan["captures"] for tool in plan["tools"]
    }
    names = [one["name"] for one in plan["captures"]]
    paint(plan, found, stage.out)
    rows = [against(tool, name, found) for tool in TOOLS if tool != "ldplayer" for name in names]
    return rows + [farthest(name, found) for name in names] + [sources(plan, found), over_tcp(plan)]


class Seen:
    """What the receiver saw of one replay of one tool."""

    def __init__(self, plan, capture, tool, repeat):
        self.folder = Path(plan["out"]) / capture["name"] / str(repeat)
        stamps = receiver.read(self.folder / f"{tool}.stamps")
        due = np.load(capture["due"])
        due = due[due["number"] >= 0]
        times = np.full(int(due["number"].max()) + 1, -1, np.int64)
        times[due["number"]] = due["ns"] - due["ns"][0]
        stamps = stamps[stamps["number"] < len(times)]
        stamps = stamps[times[stamps["number"].astype(np.int64)] >= 0]
        at = times[stamps["number"].astype(np.int64)]
        late = stamps["ns"] - stamps["ns"].min() - at
        kept = late[at >= plan["left_out"] * 1_000_000_000]
        # No tool says when it began, so that the median is taken for 0, ours too.
        self.errors = (kept - np.median(kept)) / MS if len(kept) else np.array([])
        self.run = Run(self.folder / "ldplayer") if tool == "ldplayer" else None
        self.received = len(stamps) / len(due)
        self.sources = len(np.unique(stamps["source"])) / capture["clients"]

    @property
    def has_any(self):
        return len(self.errors) > 0

    def extreme(self):
        return float(abs(self.errors).max())

    def width(self):
        """From the first quartile to the third, in ms."""
        return float(np.subtract(*np.percentile(self.errors, [75, 25])))


def against(tool, name, found):
    """How many times as wide its quartiles are apart as ours."""
    text = f"{name}: {tool} keeps the times worse than ldplayer"
    if (name, tool) not in found:
        return missing(text, THEIRS, f"{tool} is not installed here")
    theirs, ours = ([one.width() for one in found[name, which] if one.has_any] for which in (tool, "ldplayer"))
    if not theirs:
        return missing(text, THEIRS, f"the receiver saw no query of it; see {tool}.log")
    share = np.mean([one.received for one in found[name, tool]]) * 100
    why = f"distance of the quartiles: {tool} {middle(theirs)}, ldplayer {middle(ours)}; the receiver saw {share:.1f} % of its queries"
    why += "; it knows no times, and sent at the mean rate" if tool == "dnsperf" else ""
    return held(judged(text, THEIRS, Interval.ratio(theirs, ours), "times as wide", at_least=1, why=why), found[name, "ldplayer"])


def middle(widths):
    return f"{float(np.median(widths)) * 1e3:,.0f} µs"


def held(claim, ours):
    """The claim; it is open where it does not hold and our own replays were disturbed, and where other work had the machine."""
    disturbed = [one for one in ours if not one.run.is_faithful]
    if not disturbed:
        return claim
    stalls = [(one.run.json.get("stalls") or {}).get("longest_ms") or 0 for one in ours]
    is_open = claim.same == NO or np.median(stalls) > SHARED_MS
    said = (
        f"{len(disturbed)} of {len(ours)} replays of ldplayer were not faithful: the core was kept from them for up to {max(stalls):.1f} ms at a "
        "time, and from other tools no less, which do not tell"
    )
    return replace(claim, same=OPEN if is_open else claim.same, why=joined(claim.why, said))


def farthest(name, found):
    """Least and most of ours and of the best other tool that knows times."""
    text = f"{name}: least and most error, the best other tool over ldplayer"
    extreme = {tool: [one.extreme() for one in of if one.has_any] for (capture, tool), of in found.items() if capture == name}
    ours = extreme["ldplayer"]
    others = {tool: extreme[tool] for tool in KNOW_TIMES if extreme.get(tool)}
    if not others:
        return missing(text, THEIRS, "no other tool ran")
    best = min(others, key=lambda tool: np.mean(others[tool]))
    why = f"{best} {np.mean(others[best]):.2f} ms, ldplayer {np.mean(ours):.2f} ms on average; stalls of the host are in it, whichever tool they meet"
    return held(judged(text, THEIRS, Interval.ratio(others[best], ours), "times", at_least=1, why=why), found[name, "ldplayer"])


def sources(plan, found):
    name = plan["captures"][0]["name"]
    shares = {tool: np.mean([one.sources for one in found[name, tool]]) * 100 for tool in plan["tools"]}
    ours = Interval.of([one.sources * 100 for one in found[name, "ldplayer"]])
    rest = ", ".join(f"{tool} {short(float(share))} %" for tool, share in shares.items() if tool != "ldplayer")
    text = f"{name}: clients of the capture that the receiver saw by their own addresses"
    return judged(text, "queries of a source stay together (§2.6)", ours, "%", at_least=99.9, why=f"others: {rest}")


def over_tcp(plan):
    """Queries of the capture, which is all UDP here, that came over TCP and were answered."""
    name = plan["captures"][0]["name"]
    runs = [Run(Path(plan["out"]) / name / str(repeat) / "ldplayer-tcp") for repeat in range(1, plan["repeats"] + 1)]
    query = "select avg((transport = 'tcp' and status = 'answered')::int) * 100 from {rows} where index is not null"
    share = Interval.of([float(run.rows(query)[0][0]) for run in runs])
    why = (
        f"{runs[0].get('connections.opened'):,} connections; tcpreplay has none, as it sends the packets there are; drool and dnsjit put all queries "
        "into one connection, dnsperf into as many as it is told, whoever asked"
    )
    text = f"{name}: all queries over TCP, each client by its own connections"
    return judged(text, "LDplayer can, tools that replay packets cannot (§6)", share, "%", at_least=99.9, why=why)


def paint(plan, found, out):
    rows = []
    names = [one["name"] for one in plan["captures"]]
    title = f"Replay less capture, by the receiver's stamps: quartiles, least and most of {plan['repeats']} repeats (median 0)"
    with draw.picture(out, "other-tools", title, columns=2, size=(9.6, 4.4)) as both:
        for axes, one in zip(both, plan["captures"]):
            tools = [tool for tool in plan["tools"] if any(seen.has_any for seen in found[one["name"], tool])]
            stats = [quantiles(found[one["name"], tool]) for tool in tools]
            box(axes, stats, tools)
            axes.set_title(f"{one['name']}, {one['qps']:,} queries/s", fontsize=10)
            rows += [(one["name"], tool, *quantile) for tool, quantile in zip(tools, stats)]
        both[0].set_ylabel("error, ms (linear within ±0.01)")
    draw.table(out, "other-tools", ["capture", "tool", "min_ms", "p25_ms", "p50_ms", "p75_ms", "max_ms"], rows)


def quantiles(of):
    return [float(value) for value in np.percentile(np.concatenate([seen.errors for seen in of]), [0, 25, 50, 75, 100])]


def box(axes, stats, tools):
    draw.boxes(axes, list(zip(tools, stats)))
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_ylim(-20_000, 20_000)
    ticks = [10.0**power for power in range(-2, 5)]
    axes.set_yticks([-tick for tick in ticks] + [0] + ticks, [f"{-tick:g}" for tick in ticks] + ["0"] + [f"{tick:g}" for tick in ticks])
    axes.axhspan(-2.5, 2.5, color=draw.COLOURS[7], alpha=0.15)
