"""What connections cost a server: levels and rates over a part of a run, from the samples of its telemetry."""

import re

from .interval import Interval

# How long Linux keeps a connection in TIME_WAIT at the side that closed first; it is no setting.
TIME_WAIT_S = 60
UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600}


def seconds(text):
    """`250ms`, `20s` and `10m` as a number."""
    number, unit = re.fullmatch(r"([0-9.]+)([a-z]*)", str(text)).groups()
    return float(number) * UNITS[unit or "s"]


def window(run, name, part, side="server"):
    """The samples of a figure in a part of the run: (from, to) in seconds."""
    return [(at, value) for at, value in run.telemetry(name, side) if part[0] <= at <= part[1]]


def level(run, name, part, side="server"):
    """The mean of a figure in a part of the run; None where it was not read there."""
    values = [value for _, value in window(run, name, part, side)]
    return sum(values) / len(values) if values else None


def growth(run, name, part, side="server"):
    """How far a figure has risen by this part of the run above its first sample."""
    now, samples = level(run, name, part, side), run.telemetry(name, side)
    return None if now is None else now - samples[0][1]


def rate(run, name, part, side="server"):
    """How much a total grows a second in a part of the run."""
    samples = window(run, name, part, side)
    if len(samples) < 2:
        return None
    (first, before), (last, after) = samples[0], samples[-1]
    return (after - before) / (last - first)


def processor(run):
    """The processor time of the server in percent of one core, second by second: (second, percent)."""
    samples = run.telemetry("cpu_s")
    whole = {int(at): value for at, value in reversed(samples) if at >= 0}
    return [(second, 100 * (whole[second + 1] - whole[second])) for second in sorted(whole) if second + 1 in whole]


def over(runs, figure):
    """The mean of a figure over runs, with its interval."""
    return Interval.of([figure(run) for run in runs])


def quantiles(values, at=(0.05, 0.25, 0.5, 0.75, 0.95)):
    """Nearest ranks, as the papers' boxes have them: medians, quartiles, 5th and 95th percentiles."""
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in at]
