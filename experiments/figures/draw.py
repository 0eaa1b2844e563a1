"""Pictures of one look, each as SVG, PNG and the points of it as CSV."""

import csv
import math
from contextlib import contextmanager

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (the backend is chosen first)

COLOURS = ("#4269d0", "#ff725c", "#3ca951", "#a463f2", "#9c6b4e", "#efb118", "#6cc5b0", "#9498a0")
STYLE = {
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
    "svg.fonttype": "none",
    "legend.frameon": False,
}


@contextmanager
def picture(out, name, title, columns=1, size=(7.2, 4.4)):
    """Axes to draw on (an array of them where there are several columns), written to `out` as NAME.svg and NAME.png."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, columns, figsize=size, layout="constrained", squeeze=True)
        figure.suptitle(title, fontsize=11)
        yield axes
        for ending in ("svg", "png"):
            figure.savefig(out / f"{name}.{ending}", metadata={"Date": None} if ending == "svg" else None)
        plt.close(figure)


def table(out, name, header, rows):
    """The points of a picture as NAME.csv."""
    with open(out / f"{name}.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def boxes(axes, named):
    """Boxes from quantiles: a list of (label, (low, p25, p50, p75, high))."""
    stats = [{"label": label, "whislo": q[0], "q1": q[1], "med": q[2], "q3": q[3], "whishi": q[4]} for label, q in named]
    axes.bxp(stats, showfliers=False, medianprops={"color": COLOURS[1]})


def cumulative(axes, values, label, **options):
    """The share of the values up to each; many are thinned to 2,000 points. Returns the points."""
    ordered = sorted(values)
    count = len(ordered)
    step = max(1, count // 2000)
    points = [(ordered[at], (at + 1) / count) for at in range(0, count, step)] + [(ordered[-1], 1.0)]
    axes.plot(*zip(*points), label=label, **options)
    return points


def with_range(axes, xs, intervals, label, **options):
    """A line through estimates, with the range of each as a bar."""
    values = [math.nan if interval.value is None else interval.value for interval in intervals]
    low = [(v - i.low) if i.low is not None else 0 for v, i in zip(values, intervals)]
    high = [(i.high - v) if i.high is not None else 0 for v, i in zip(values, intervals)]
    axes.errorbar(xs, values, yerr=(low, high), label=label, marker="o", markersize=4, capsize=3, **options)
