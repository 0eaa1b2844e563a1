"""Replays as their receiver saw them, beside their trace: figures 6, 7 and 8 of the LDplayer paper, which come from the same runs."""

import datetime
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np

from . import receiver
from .claim import NO, OPEN, joined
from .interval import Interval
from .runs import Runs
from .stage import Stage

NAME = "ldplayer-06-timing-error"
NS = 1_000_000_000
CAPTURE = "data/l-root-20161006.pcap.xz"


class Replayed:
    """One replay: when each query was due, when the receiver saw it, and what the replay itself says. All in ns from the run's start."""

    def __init__(self, run, trace):
        self.run, self.trace = run, trace

    @cached_property
    def due(self):
        """The due time of each query that was sent, by the trace itself; -1 where none was."""
        due = np.full(len(self.scheduled), -1, np.int64)
        due[self.own[0]] = self.scheduled[self.own[0]]
        return due

    @cached_property
    def scheduled(self):
        """The due time of each query of the trace, sent or not."""
        found = duckdb.sql(f"select epoch_ns(time) as at from '{self.trace}'").fetchnumpy()["at"]
        return found - found[0]

    @cached_property
    def own(self):
        """Numbers of the queries that were sent, and when they were handed to the kernel."""
        sent = "index is not null and submitted_ns is not null and status <> 'late'"
        rows = self.run.rows(f"select index, submitted_ns from {{rows}} where {sent} order by index")
        return np.array(rows, np.int64).reshape(-1, 2).T

    @cached_property
    def seen(self):
        """Numbers of the queries that the receiver saw, and when."""
        found = receiver.read(next(self.run.directory.parent.glob(f"{self.run.directory.name}.server/*-stamps")))
        found = found[found["number"] < len(self.due)]
        return found["number"].astype(np.int64), found["ns"] - started_ns(self.run.json["started"])

    @property
    def received(self):
        """The share of the queries sent that the receiver saw."""
        return len(self.seen[0]) / max(1, len(self.own[0]))

    def errors(self, after_s, by="seen"):
        """How much later than due each query was, in ns, of those due from then on."""
        number, at = self.seen if by == "seen" else self.own
        late = at - self.due[number]
        return late[self.due[number] >= after_s * NS]

    def times(self, after_s, by="seen"):
        """When queries came, or with `due` were to come, in ns and in order, of those due from then on."""
        number, at = self.seen
        due = self.due[number]
        kept = due >= after_s * NS
        return np.sort(due[kept] if by == "due" else at[kept])

    @property
    def stall_ms(self):
        """The longest time that the host kept the core from the replay, as far as it saw."""
        return (self.run.json.get("stalls") or {}).get("longest_ms") or 0


def started_ns(text):
    """Nanoseconds since 1970 of a time with nine digits behind the point."""
    whole, rest = text.removesuffix("Z").split(".")
    moment = datetime.datetime.fromisoformat(f"{whole}+00:00")
    return int(moment.timestamp()) * NS + int(rest.ljust(9, "0"))


def runs(stage):
    """Makes the runs of figure 6 unless they are there, for any of the three figures. Returns them."""
    own = stage if stage.name == NAME else Stage(stage.source.parent / NAME, stage.form, stage.out.parent)
    for trace in own.merged()["matrix"]["trace"]:
        make_trace(own, Path(trace).stem)
    done = Runs(own.experiment({"server": {"nsd": {"program": str(receiver.wrapper(own, "nsd"))}}}))
    if own is not stage:
        stage.commands += own.commands
    return done


def make_trace(stage, stem):
    """Makes traces/PRESET-durationLENGTH.parquet; the capture is unpacked once, so that no run has to do it beside its queries."""
    preset, _, length = stem.partition("-duration")
    if length:
        return stage.trace(preset, duration=length)
    into = stage.out / "traces" / f"{stem}.parquet"
    if not into.exists():
        into.parent.mkdir(exist_ok=True)
        stage.ldplayer("convert", CAPTURE, "-o", into)
    return into


def of_traces(done):
    """For each trace, by its name, its replays that count: {name: [Replayed]}."""
    found = {}
    for cell in done.cells:
        trace = done.directory.parent / cell.keys["trace"]
        found[trace.stem.partition("-duration")[0]] = [Replayed(run, trace) for run in cell.runs]
    return found


def interval(replays, figure):
    """The interval of a figure of each replay. All count: to leave out those that were late would be to choose the figure."""
    return Interval.of([float(figure(replayed)) for replayed in replays])


def held(claim, replays, bound_ms):
    """The claim; where it does not hold in runs that the host stopped for longer than the bound, it is open."""
    stopped = [replayed.stall_ms for replayed in replays if replayed.stall_ms > bound_ms]
    if not stopped:
        return claim
    said = f"the core was kept from {len(stopped)} of {len(replays)} replays, by the host or others on it, for up to {max(stopped):.1f} ms at a time"
    return replace(claim, same=OPEN if claim.same == NO else claim.same, why=joined(claim.why, said))
