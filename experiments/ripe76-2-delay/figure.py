"""RIPE 76: what clients of held TCP connections wait for answers, at medium-high load and while it rises into overload."""

import math
import statistics
from dataclasses import replace

from figures import draw, ramp
from figures.claim import UNCLAIMED, joined, judged, missing, undecided
from figures.interval import Interval
from figures.ramp import Ramp
from figures.runs import Runs

TITLE = "Delay of answers over held TCP connections, at medium-high load and into overload"
SOURCE = "RIPE 76, delay"
SCALE = {
    "small": "4,500 clients: 2 k to 150 k queries/s in 6 s, then 0.75 of what it bore for 4 s, three times each; theirs: 360 k clients rising, 4.3 M clients at 43 k of "
    "50 to 60 k queries/s",
    "long": "4,500 clients of a server that has a quarter of a core (server_cpu): 2 k to 40 k queries/s in 20 s, then 0.75 of what it bore for 20 s, seven times each; theirs: 360 k clients rising, 4.3 M clients at 43 k of "
    "50 to 60 k queries/s",
    "full": "360,000 clients: 5 k to 150 k queries/s in 60 s, then 1,000,000 clients at 0.75 of what it bore for 60 s, three times each, on one host of 16 cores; theirs: "
    "360 k clients rising, 4.3 M clients at 43 k of 50 to 60 k queries/s",
}
RISING = {"small": Ramp(4_500, 2_000, 150_000, 6), "long": Ramp(4_500, 2_000, 40_000, 20), "full": Ramp(360_000, 5_000, 150_000, 60, opening=15_000)}
STEADY = {"small": {"clients": 4_500, "seconds": 4}, "long": {"clients": 4_500, "seconds": 20}, "full": {"clients": 1_000_000, "seconds": 60, "opening": 15_000}}
CORES = {"small": "0", "long": "0", "full": "4-15"}
# Of what it bears: 43 k of 50 to 60 k.
MEDIUM_HIGH = 0.75
WIDTH_S = 0.25


def measure(stage):
    rising = Runs(run(stage, RISING[stage.form], "experiment"))
    rising.peaks = [ramp.peak(windows(run, RISING[stage.form])) for run in ramp.whole(rising.cells[0].runs)]
    found = [borne(peak) for peak in rising.peaks if peak.answers is not None]
    if not found:
        raise RuntimeError("the client was never on time while the load rose: the machine is too busy to tell a peak")
    rate = MEDIUM_HIGH * statistics.median(found)
    rising.load = Ramp(low=rate, high=rate, **STEADY[stage.form])
    rising.steady = Runs(run(stage, rising.load, "steady"))
    return rising


def borne(peak):
    """The load at which the server gave in, if that was less than its peak: within a quota it answers more than it can bear for a moment."""
    return min(peak.answers, peak.failed_at or peak.answers)


def run(stage, load, name):
    trace = load.write(stage.out / f"{name}-{load.high:.0f}.parquet")
    return stage.experiment({"trace": trace.name}, name, before=("taskset", "-c", CORES[stage.form]))


def windows(run, load):
    return ramp.windows(run, load, WIDTH_S)


def claims(rising, stage):
    steady = [windows(run, rising.load) for run in ramp.whole(rising.steady.cells[0].runs)]
    overload = [windows(run, RISING[stage.form]) for run in ramp.whole(rising.cells[0].runs)]
    picture(stage, steady, overload, rising.load.high)
    tabled = [[kind, repeat, *vars(w).values()] for kind, runs in (("steady", steady), ("rising", overload)) for repeat, found in enumerate(runs, 1) for w in found]
    draw.table(stage.out, "delay", ["load", "repeat", *vars(steady[0][0])], tabled)
    return [of_steady(steady, rising), of_median(steady, rising), *of_overload(overload, rising.peaks)]


def of_steady(steady, rising):
    """The median delay of the second half against that of the first."""
    halves = [(found[: len(found) // 2], found[len(found) // 2 :]) for found in steady]
    growth = Interval.ratio(*([median(half, "p50_ms") for half in side] for side in ([b for _, b in halves], [a for a, _ in halves])))
    why = f"{rising.load.high:,.0f} queries/s, {MEDIUM_HIGH} of what it bore; the median of the second half against that of the first, where less than half more counts as steady"
    claim = judged("at medium-high load the delay is steady", "a picture without figures", growth, "times", at_most=1.5, why=why)
    return undecided(claim, joined(late(steady), ramp.at_least(rising.peaks)))


def of_median(steady, rising):
    p50, p99 = (Interval.of([median(found, which) for found in steady]) for which in ("p50_ms", "p99_ms"))
    claim = missing("delay at medium-high load", "a picture without figures", "there is no figure of theirs to compare with; over loopback, with no network between")
    told = replace(claim, ours=f"{rising.load.high:,.0f} queries/s: p50 {p50.text('ms')}, p99 {p99.text('ms')}", same=UNCLAIMED)
    return undecided(told, ramp.at_least(rising.peaks))


def of_overload(overload, peaks):
    """The delay of what is offered 1.2 of the peak and more, against that of a half and less."""
    parts = [(part(found, peak, 0, 0.5), part(found, peak, 1.2, math.inf)) for found, peak in zip(overload, peaks) if peak.answers]
    both = [(low, high) for low, high in parts if low and high]
    growth = Interval.ratio([median(high, "p50_ms") for _, high in both], [median(low, "p50_ms") for low, _ in both])
    why = "median delay from 1.2 of the peak on against that up to half of it; what took two seconds counts as two"
    return [undecided(judged("into overload the delay grows", "a picture without figures", growth, "times", at_least=1, why=why), ramp.at_least(peaks))]


def part(found, peak, low, high):
    return [window for window in found if low <= window.offered / peak.answers <= high]


def median(found, which):
    """Of the windows, in milliseconds; what never came counts as two seconds, which it was waited for."""
    return statistics.median(min(getattr(window, which), 2000) for window in found)


def late(runs):
    """Says so where the client was late in one of ten windows or more."""
    shares = [sum(not window.counts for window in found) / len(found) for found in runs]
    return f"the client was late in up to {100 * max(shares):.0f} % of the time" if max(shares) >= 0.1 else ""


def picture(stage, steady, overload, rate):
    with draw.picture(stage.out, "delay", "Delay of answers over held TCP connections (one run of each)", columns=2, size=(9.6, 4)) as panels:
        curves(panels[0], steady[0], f"steady, {rate / 1e3:.0f} k queries/s")
        curves(panels[1], overload[0], "rising into overload")
        offered = panels[1].twinx()
        offered.plot([w.at_s for w in overload[0]], [w.offered / 1e3 for w in overload[0]], color="#9498a0", linestyle="--")
        offered.set_ylabel("offered (dashed), thousand queries/s")
        offered.set_ylim(0, None)
        offered.grid(False)
        panels[0].set_ylabel("from sent to answered, ms")
        panels[0].legend()
        top = max(axes.get_ylim()[1] for axes in panels)
        for axes in panels:
            axes.set_ylim(0.02, top)


def curves(axes, found, title):
    for which in ("p50_ms", "p90_ms", "p99_ms"):
        values = [getattr(window, which) for window in found]
        axes.plot([window.at_s for window in found], [value if value < math.inf else math.nan for value in values], label=which.removesuffix("_ms"))
    axes.set(title=title, xlabel="seconds of the run", yscale="log")
