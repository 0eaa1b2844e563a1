"""Figure 7 of the LDplayer paper: the gaps between queries, those of the trace beside those that the receiver of its replay saw."""

import numpy as np

from figures import draw
from figures.claim import judged
from figures.replayed import held, interval, of_traces, runs

TITLE = "Gaps between queries, original and replay"
SOURCE = "LDplayer, figure 7"
SCALE = {
    "small": "the runs of figure 6: 8 s of each trace of which the first 2 s are left out, 5 repeats (theirs: an hour). Gaps of 1 s give 5 gaps a "
    "repeat.",
    "long": "the runs of figure 6: 50 s of each trace of which the first 20 s are left out, 5 repeats (theirs: an hour).",
    "full": "the runs of figure 6: 10 minutes of each trace of which the first 20 s are left out, 5 repeats.",
}
LEFT_OUT_S = {"small": 2, "long": 20, "full": 20}
GAPS_S = {"syn-0": 1, "syn-1": 0.1, "syn-2": 0.01, "syn-3": 0.001, "syn-4": 0.0001}
# What their words are taken for, which give no numbers.
ON_TARGET, CLOSE, CLOSE_PERCENT, LITTLE = 0.01, 0.1, 95, 5
NS = 1e9


def measure(stage):
    return runs(stage)


def claims(done, stage):
    left_out = LEFT_OUT_S[stage.form]
    replays = of_traces(done)
    paint(replays, left_out, stage.out)
    by_repeat = list(zip(*(replays[name] for name in GAPS_S)))
    return [median(by_repeat, left_out), close(by_repeat, left_out), wider(by_repeat, left_out), *parted(replays["root-like"], left_out)]


def gaps(replayed, left_out, by="seen"):
    """Gaps in seconds, in the order of arrival."""
    return np.diff(replayed.times(left_out, by)) / NS


def relative(of_repeat, left_out):
    """The gaps of each synthetic trace over the gap that it has, for one repeat."""
    return {name: gaps(replayed, left_out) / gap for (name, gap), replayed in zip(GAPS_S.items(), of_repeat)}


def median(by_repeat, left_out):
    """Of each repeat the trace whose median is farthest from its gap counts."""
    off = lambda of_repeat: max(abs(np.median(found) - 1) for found in relative(of_repeat, left_out).values()) * 100
    why = "the farthest of the five traces; \"on target\" is taken for 1 %"
    text = "the median gap is that of the trace, also below 1 ms"
    return judged(text, "on target", interval(by_repeat, off), "% off", at_most=ON_TARGET * 100, why=why)


def close(by_repeat, left_out):
    share = lambda of_repeat: min(near(found) for name, found in relative(of_repeat, left_out).items() if GAPS_S[name] >= 0.01)
    why = "the least share of gaps within ±10 % of the trace's, of the gaps of 1 s, 0.1 s and 10 ms; \"quite close\" is taken for 95 %"
    claim = judged("gaps of 10 ms and more are quite close", "quite close", interval(by_repeat, share), "%", at_least=CLOSE_PERCENT, why=why)
    return held(claim, [replayed for of_repeat in by_repeat for replayed in of_repeat[:3]], 1)


def near(found):
    return float(np.mean(abs(found - 1) <= CLOSE) * 100)


def wider(by_repeat, left_out):
    """The middle 90 % of the gaps, in parts of the gap, at 0.1 ms over those at 10 ms."""
    width = lambda found: np.subtract(*np.percentile(found, [95, 5]))
    def ratio(of_repeat):
        found = relative(of_repeat, left_out)
        return width(found["syn-4"]) / max(width(found["syn-2"]), 1e-9)
    why = "the width of the middle 90 % of the gaps, in parts of the gap, at 0.1 ms over that at 10 ms"
    return judged("gaps below 1 ms vary more than those of 10 ms", "larger", interval(by_repeat, ratio), "times", at_least=1, why=why)


def parted(replays, left_out):
    """How far the two CDFs of traffic like a root server's are apart, below and above the median gap."""
    below, above = (interval(replays, lambda replayed: apart(replayed, left_out)[half]) for half in (0, 1))
    why = "farthest distance of the two CDFs; \"little\" is taken for 5 %"
    kept = judged("root-like: the longer half of the gaps is kept", "little divergence", above, "% apart", at_most=LITTLE, why=why)
    why = "the same; divergence is taken for more than 5 %"
    lost = judged("root-like: the shorter half diverges", "divergence for the smallest", below, "% apart", at_least=LITTLE, why=why)
    return [held(kept, replays, 1), lost]


def apart(replayed, left_out):
    """The distance of the CDFs in percent: (at gaps up to the median of the trace, beyond it)."""
    original, seen = (np.sort(gaps(replayed, left_out, by)) for by in ("due", "seen"))
    at = np.quantile(original, np.linspace(0.005, 0.995, 199))
    share = lambda found: np.searchsorted(found, at, side="right") / len(found)
    distance = abs(share(original) - share(seen)) * 100
    half = len(at) // 2
    return float(distance[:half].max()), float(distance[half:].max())


def paint(replays, left_out, out):
    rows = []
    with draw.picture(out, "gaps", "Gaps between queries: trace (dotted) and replay as received, all repeats", size=(8.4, 4.6)) as axes:
        for colour, name in zip(draw.COLOURS, (*GAPS_S, "root-like")):
            for by, style in (("due", ":"), ("seen", "-")):
                found = np.concatenate([gaps(replayed, left_out, by) for replayed in replays[name]])
                points = draw.cumulative(axes, found.clip(1e-7), name if by == "seen" else None, linestyle=style, color=colour, linewidth=1.4)
                rows += [(name, "trace" if by == "due" else "replay", *point) for point in points]
        axes.set(xscale="log", xlabel="gap, s", ylabel="share of the gaps", xlim=(5e-8, 3))
        axes.legend(loc="upper left", fontsize=8)
    draw.table(out, "gaps", ["trace", "which", "gap_s", "share"], rows)
