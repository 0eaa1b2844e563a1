"""Figure 6 of the LDplayer paper: how far each query of a replay was from its time in the trace, by the stamps of its receiver."""

import numpy as np

from figures import draw
from figures.claim import judged, not_theirs
from figures.interval import Interval
from figures.replayed import held, interval, of_traces, runs

TITLE = "Timing error of replays, by the receiver's stamps"
SOURCE = "LDplayer, figure 6"
SCALE = {
    "small": "8 s of each trace of which the first 2 s are left out, 5 repeats (theirs: an hour, 20 s left out, 5 repeats); client, server and "
    "receiver on one host. Gaps of 1 s give 6 queries a repeat, those of 0.1 s give 60.",
    "long": "50 s of each trace of which the first 20 s are left out, as theirs, 5 repeats (theirs: an hour); client, server and receiver on "
    "one host. Gaps of 1 s give 30 queries a repeat, those of 0.1 s give 300.",
    "full": "10 minutes of each trace of which the first 20 s are left out, 5 repeats: 6 hours (theirs: an hour of each).",
}
LEFT_OUT_S = {"small": 2, "long": 20, "full": 20}
# Their bounds in ms: of the quartiles, of the quartiles at gaps of 0.1 s, of least and most.
QUARTILES, QUARTILES_AT_100_MS, EXTREMES = 2.5, 8, 17
NAMES = {"syn-0": "1 s", "syn-1": "0.1 s", "syn-2": "10 ms", "syn-3": "1 ms", "syn-4": "0.1 ms", "root-like": "root-like", "l-root": "L-Root"}
MS = 1e6
# Where its box stands, whose errors, what it is called, and its colour.
SIDES = (
    (-0.19, "seen", "stamped by the receiver's kernel", draw.COLOURS[0]),
    (0.19, "own", "by the replay's own rows", draw.COLOURS[5]),
)


def measure(stage):
    return runs(stage)


def claims(done, stage):
    left_out = LEFT_OUT_S[stage.form]
    replays = of_traces(done)
    spread = {name: Spread(of, left_out) for name, of in replays.items()}
    paint(spread, stage.out)
    others = [name for name in replays if name != "syn-1"]
    return [
        quartiles("quartiles of all traces but that with gaps of 0.1 s: the one farthest from 0", "within ±2.5 ms", QUARTILES, others, spread),
        quartiles("quartiles with gaps of 0.1 s", "±8 ms", QUARTILES_AT_100_MS, ["syn-1"], spread),
        larger_at_100_ms(spread),
        extremes(spread),
        lost(replays),
        by_both(spread),
    ]


class Spread:
    """The errors of one trace: those of each repeat, and of all of them."""

    def __init__(self, replays, left_out):
        self.replays = replays
        self.seen = [replayed.errors(left_out) / MS for replayed in replays]
        self.own = [replayed.errors(left_out, "own") / MS for replayed in replays]

    def quartile(self, repeat, by="seen"):
        """The quartile that is farther from 0, in ms."""
        return max(abs(np.percentile(getattr(self, by)[repeat], [25, 75])))

    def extreme(self, repeat):
        return max(abs(self.seen[repeat]))


def quartiles(text, theirs, bound, names, spread):
    """Of each repeat the trace that was farthest off counts."""
    repeats = range(len(spread[names[0]].seen))
    found = Interval.of([max(spread[name].quartile(repeat) for name in names) for repeat in repeats])
    claim = judged(text, theirs, found, "ms", at_most=bound, why="0 is the run's start, not the first query, so that nothing is taken off")
    return held(claim, [replayed for name in names for replayed in spread[name].replays], bound)


def larger_at_100_ms(spread):
    repeats = range(len(spread["syn-1"].seen))
    rest = [name for name in ("syn-0", "syn-2", "syn-3", "syn-4")]
    ratio = Interval.ratio(
        [spread["syn-1"].quartile(repeat) for repeat in repeats],
        [np.median([spread[name].quartile(repeat) for name in rest]) for repeat in repeats],
    )
    why = (
        "the quartile at 0.1 s over the median one of the other synthetic traces; they suspect how the application's and the kernel's timers "
        "work together, and this replay waits for no timer: it spins"
    )
    return judged("the error with gaps of 0.1 s is larger than with others", "3.2 times (8 over 2.5 ms)", ratio, "times", at_least=1, why=why)


def extremes(spread):
    repeats = range(len(spread["syn-1"].seen))
    found = Interval.of([max(of.extreme(repeat) for of in spread.values()) for repeat in repeats])
    claim = judged("least and most error of all traces", "within ±17 ms", found, "ms", at_most=EXTREMES)
    return held(claim, [replayed for of in spread.values() for replayed in of.replays], EXTREMES)


def lost(replays):
    found = interval([replayed for of in replays.values() for replayed in of], lambda replayed: replayed.received * 100)
    return not_theirs(judged("queries sent that the receiver saw", "not said", found, "%", at_least=99.99, why="what the stamps speak of; at least 99.99 %"))


def by_both(spread):
    """How far our own account is from the receiver's, where the difference is largest."""
    repeats = range(len(spread["syn-1"].seen))
    apart = lambda of, repeat: abs(np.median(of.seen[repeat]) - np.median(of.own[repeat])) * 1e3
    off = Interval.of([max(apart(of, repeat) for of in spread.values()) for repeat in repeats])
    text = "the receiver's median error less that of the replay's own rows, at most"
    why = "what lies between handing a query to the kernel and its arrival; at most 100 µs"
    return not_theirs(judged(text, "only the server's side was looked at", off, "µs", at_most=100, why=why))


def paint(spread, out):
    """Quartiles, least and most of each trace: of the receiver, and beside it of the replay's own rows."""
    names = [name for name in NAMES if name in spread]
    rows = []
    title = "Replay less trace: quartiles, least and most of all repeats (0: the run's start)"
    with draw.picture(out, "timing-error", title, size=(8.4, 4.8)) as axes:
        for side, by, label, colour in SIDES:
            found = {name: quantiles(getattr(spread[name], by)) for name in names}
            boxes(axes, [found[name] for name in names], [at + side for at in range(len(names))], label, colour)
            rows += [(name, label, *found[name]) for name in names]
        bands(axes)
        axes.set_xticks(range(len(names)), [f"{name}\n{NAMES[name]}" if name.startswith("syn") else name for name in names])
        axes.set_ylabel("error, ms (linear within ±0.01)")
        axes.legend(loc="upper right", ncols=2, fontsize=8)
    draw.table(out, "timing-error", ["trace", "stamped", "min_ms", "p25_ms", "p50_ms", "p75_ms", "max_ms"], rows)


def quantiles(errors):
    return [float(value) for value in np.percentile(np.concatenate(errors), [0, 25, 50, 75, 100])]


def boxes(axes, found, places, label, colour):
    stats = [{"whislo": q[0], "q1": q[1], "med": q[2], "q3": q[3], "whishi": q[4]} for q in found]
    look = {"boxprops": {"facecolor": colour, "alpha": 0.55}, "medianprops": {"color": "black"}}
    made = axes.bxp(stats, positions=places, widths=0.3, showfliers=False, patch_artist=True, manage_ticks=False, **look)
    made["boxes"][0].set_label(label)


def bands(axes):
    """Their bounds, on an axis that shows microseconds and milliseconds."""
    axes.set_yscale("symlog", linthresh=0.01)
    axes.axhspan(-QUARTILES, QUARTILES, color=draw.COLOURS[7], alpha=0.15, label="their quartiles, ±2.5 ms")
    for sign in (-1, 1):
        axes.axhline(sign * EXTREMES, color=draw.COLOURS[7], linestyle="--", linewidth=1, label="their extremes, ±17 ms" if sign > 0 else None)
    axes.set_ylim(-1000, 1000)
    ticks = [0.01, 0.1, 1, 10, 100]
    axes.set_yticks([*(-tick for tick in ticks), 0, *ticks], [*(f"-{tick:g}" for tick in ticks), "0", *(f"{tick:g}" for tick in ticks)])
