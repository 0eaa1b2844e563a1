"""Figure 8 of the LDplayer paper: queries that came in each second of a replay against those of that second of the trace."""

import numpy as np

from figures import draw
from figures.claim import judged
from figures.replayed import held, interval, of_traces, runs

TITLE = "Query rate of each second, replay against trace"
SOURCE = "LDplayer, figure 8"
SCALE = {
    "small": "the runs of figure 6 with the root-like trace: 8 s at 37,000 queries/s, 5 repeats, hence 40 seconds in all (theirs: 3,600 s of "
    "B-Root-16 at a median of 38,000 queries/s, 5 repeats)",
    "long": "the runs of figure 6 with the root-like trace: 50 s at 37,000 queries/s, 5 repeats, hence 250 seconds in all (theirs: 3,600 s of "
    "B-Root-16 at a median of 38,000 queries/s, 5 repeats)",
    "full": "the runs of figure 6 with the root-like trace: 600 s at 37,000 queries/s, 5 repeats",
}
NS = 1_000_000_000
END_NS = 10_000_000
CLOSE_PERCENT, FAR_PERCENT, THEIRS = 0.1, 2, 95


def measure(stage):
    return runs(stage)


def claims(done, stage):
    replays = of_traces(done)["root-like"]
    paint(replays, stage.out)
    share = interval(replays, lambda replayed: np.mean(abs(differences(replayed)) <= CLOSE_PERCENT) * 100)
    worst = interval(replays, lambda replayed: abs(differences(replayed)).max())
    least = judged("seconds whose rate is within ±0.1 % of the trace's", "98 to 99 % in four replays, 95 % in one", share, "%", at_least=THEIRS,
                   why="by arrival at the receiver; seconds are counted from the run's start")  # fmt: skip
    # In a second of Poisson traffic a stall moves as many queries over its border as it lasts: 1 ms moves 0.1 %.
    return [
        held(least, replays, 1),
        held(judged("the second that is farthest off", "within ±2 %, but for a few", worst, "%", at_most=FAR_PERCENT), replays, 20),
    ]


def differences(replayed):
    """For each full second of the trace, by how many percent more queries came than were due, of which those that were not sent are a part."""
    number, at = replayed.seen
    # The last second is full where the trace goes on to its end.
    seconds = int((replayed.scheduled.max() + END_NS) // NS)
    due, came = (np.bincount((times.clip(0) // NS).astype(int), minlength=seconds)[:seconds] for times in (replayed.scheduled, at))
    return (came - due) * 100 / due


def paint(replays, out):
    rows = []
    with draw.picture(out, "rate", "Difference of the rate of each second, replay against trace (root-like)") as axes:
        axes.axvspan(-CLOSE_PERCENT, CLOSE_PERCENT, color=draw.COLOURS[7], alpha=0.2, label="±0.1 %")
        for trial, replayed in enumerate(replays, 1):
            found = differences(replayed)
            points = draw.cumulative(axes, found, f"trial {trial}", drawstyle="steps-post", marker=".", markersize=4)
            rows += [(trial, *point) for point in points]
        farthest = max(0.2, *(abs(row[1]) * 1.1 for row in rows))
        axes.set(xlabel="difference, %", ylabel="share of the seconds", xlim=(-farthest, farthest), ylim=(0, 1.02))
        axes.legend(loc="upper left", fontsize=8)
    draw.table(out, "rate", ["trial", "difference_percent", "share"], rows)
