"""A figure for the tests: it is made of few and short runs, and one of its claims is wrong."""

from figures import draw
from figures.claim import UNCLAIMED, Claim, Interval, judged, missing, not_theirs

TITLE = "Answers by transport"
SOURCE = "a test"
SCALE = {"small": "200 queries", "full": "an hour"}


def claims(runs, stage):
    sides = [runs.cell(transport=transport).values("queries.answered", faithful=False) for transport in ("udp", "tcp")]
    with draw.picture(stage.out, "answers", TITLE) as axes:
        draw.with_range(axes, [0, 1], [Interval.of(side) for side in sides], "answers")
    draw.table(stage.out, "answers", ("transport", "answers"), zip(("udp", "tcp"), (side[0] for side in sides)))
    ratio = Interval.ratio(*sides)
    return [
        judged("as many | answers", "1", ratio, "times", at_least=0.99, at_most=1.01),
        judged("twice as many answers", "2", ratio, "times", at_least=2, why="they do not"),
        missing("over QUIC", "3", "no server here speaks it"),
        not_theirs(judged("fewer than twice as many", "not tried", ratio, "times", at_most=2, why="asked here")),
        not_theirs(judged("none", "not tried", ratio, "times", at_most=0, why="asked here, too")),
        Claim("answers over UDP", "left open", Interval.of(sides[0]).text(""), UNCLAIMED, "a figure"),
    ]
