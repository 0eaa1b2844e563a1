"""RIPE 76: the peak of Unbound over held TCP connections against its threads."""

import os

from figures import draw, ramp
from figures.claim import judged, undecided
from figures.interval import Interval
from figures.ramp import Ramp, rates
from figures.runs import Runs

TITLE = "Peak over held TCP connections against threads of Unbound"
SOURCE = "RIPE 76, threads"
SCALE = {
    "small": "4,000 clients, 1 and 2 threads, 2 k to 150 k queries/s in 6 s, three times each; the second thread shares the clients' core. Theirs: 14,400 clients, a server of "
    "twice ten cores",
    "long": "4,000 clients, 1 and 2 threads with a fifth of a core each (server_cpu), 2 k to 50 k queries/s in 12 s, seven times each. Theirs: 14,400 clients, a server of "
    "twice ten cores",
    "full": "14,400 clients as theirs, 1, 2, 4 and 8 threads with a core each, 10 k to 600 k queries/s in 60 s, three times each",
}
LOAD = {"small": Ramp(4_000, 2_000, 150_000, 6), "long": Ramp(4_000, 2_000, 50_000, 12), "full": Ramp(14_400, 10_000, 600_000, 60)}
CORES = {"small": "0", "long": "0", "full": "9-15"}
# Forms in which the server has a quota that leaves the clients their core.
HAS_QUOTA = ("long",)


def measure(stage):
    trace = LOAD[stage.form].write(stage.out / "threads.parquet")
    return Runs(stage.experiment({"trace": trace.name}, before=("taskset", "-c", CORES[stage.form])))


def claims(runs, stage):
    peaks = {int(cell.keys["server_threads"]): [ramp.peak(ramp.windows(run, LOAD[stage.form])) for run in ramp.whole(cell.runs)] for cell in runs.cells}
    picture(stage, peaks)
    most = max(peaks)
    growth = Interval.ratio(rates(peaks[most]), rates(peaks[1]))
    claim = judged(f"the peak grows with threads: {most} against 1", "a picture without figures in the text", growth, "times", at_least=1, why=ramp.at_least(peaks[most]))
    limit = ramp.at_least(peaks[1] + peaks[most]) if stage.form in HAS_QUOTA else shared(most) or ramp.at_least(peaks[1])
    return [undecided(claim, limit)]


def shared(threads):
    """Why more threads than there are cores beside the clients' prove nothing."""
    cores = os.cpu_count()
    return f"on {cores} cores one of {threads} threads shares a core with all clients" if threads >= cores else ""


def picture(stage, peaks):
    threads = sorted(peaks)
    intervals = [Interval.of(rates(peaks[number], 1e3)) for number in threads]
    with draw.picture(stage.out, "threads", f"Peak over {LOAD[stage.form].clients:,} held connections against threads") as axes:
        draw.with_range(axes, threads, intervals, "found")
        if intervals[0].value is not None:
            axes.plot(threads, [intervals[0].value * number for number in threads], "--", color="#9498a0", label="as many times one thread")
        axes.set(xlabel="threads of Unbound", ylabel="answers/s, thousands", xticks=threads, ylim=(0, None))
        axes.legend()
    rows = [[number, repeat, peak.answers, peak.failed_at, peak.is_servers] for number in threads for repeat, peak in enumerate(peaks[number], 1)]
    draw.table(stage.out, "threads", ["threads", "repeat", "peak_per_s", "failed_at_per_s", "server_failed_first"], rows)
