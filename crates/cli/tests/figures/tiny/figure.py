"""A figure for the tests: it is made of few and short runs, and one of its claims is wrong."""

from figures import draw
from figures.claim import Interval, judged, missing

TITLE = "Bytes of answers"
SOURCE = "a test"
SCALE = {"small": "200 queries", "full": "an hour"}


def claims(runs, stage):
    sides = [runs.cell(transport=transport).values("responses.bytes", faithful=False) for transport in ("udp", "tcp")]
    with draw.picture(stage.out, "bytes", TITLE) as axes:
        draw.with_range(axes, [0, 1], [Interval.of(side) for side in sides], "bytes")
    draw.table(stage.out, "bytes", ("transport", "bytes"), zip(("udp", "tcp"), (side[0] for side in sides)))
    ratio = Interval.ratio(*sides)
    return [
        judged("as many | bytes", "1", ratio, "times", at_least=0.99, at_most=1.01),
        judged("twice as many bytes", "2", ratio, "times", at_least=2, why="they do not"),
        missing("over QUIC", "3", "no server here speaks it"),
    ]
