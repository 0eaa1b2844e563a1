"""A claim of a source beside what was found: one row of figures/README.md."""

from dataclasses import asdict, dataclass, replace

from .interval import Interval

YES, NO, OPEN = "yes", "no", "not decided"
# Of a figure that is given for what it is: nobody said what it would be.
UNCLAIMED = "no claim"
# Two figures are alike that differ by no more: those of the sources have two digits.
ALIKE = (0.8, 1.25)


@dataclass(frozen=True)
class Claim:
    """`theirs` and `ours` are texts with their units; `same` is one of YES, NO, OPEN, UNCLAIMED; `why` says what it goes by, or why it is open.

    A question that the source did not ask has no direction to share: `is_theirs` is false, and `same` says whether what was expected was found.
    """

    claim: str
    theirs: str
    ours: str
    same: str
    why: str
    is_theirs: bool = True

    def as_dict(self):
        return asdict(self)


def judged(claim, theirs, interval, unit="", *, at_least=None, at_most=None, why=""):
    """A claim that holds where the whole interval lies within the bounds, does not where none of it does, and is open otherwise."""
    bounds = {"low": at_least, "high": at_most}
    holds = interval.is_within(**{key: bound for key, bound in bounds.items() if bound is not None})
    return Claim(claim, theirs, interval.text(unit), {True: YES, False: NO, None: OPEN}[holds], reason(interval, holds, why))


def more(claim, theirs, interval, factor, unit="", why=""):
    """A claim of a source that one figure is `factor` times another: it holds where the whole interval is above 1. It does not where none of it
    is, nor where the two are alike (ALIKE) while `factor` lies beyond that and beyond the interval."""
    found = judged(claim, theirs, interval, unit, at_least=1, why=why)
    is_alike = interval.is_within(*ALIKE) and factor > max(ALIKE[1], interval.high)
    return replace(found, same=NO, why=joined("alike: a fifth at most", why)) if found.same == OPEN and is_alike else found


def reason(interval, holds, why):
    if interval.value is None:
        return joined("no run has the figure", why)
    if holds is None and interval.low is None:
        return joined(f"{interval.repeats} repeat{'s' if interval.repeats > 1 else ''} that count: fewer than 3 claim nothing", why)
    return joined("the interval holds the bound", why) if holds is None else why


def joined(*parts):
    return "; ".join(part for part in parts if part)


def undecided(claim, reason):
    """The claim as it is where there is no reason against it; else it is not decided, for that reason."""
    return replace(claim, same=OPEN, why=joined(reason, claim.why)) if reason else claim


def not_theirs(claim):
    """The claim as a question that the source did not ask, or did not answer."""
    return replace(claim, is_theirs=False)


def missing(claim, theirs, why):
    """A claim that could not be tried here, and why."""
    return Claim(claim, theirs, "–", OPEN, why)


__all__ = ["ALIKE", "NO", "OPEN", "UNCLAIMED", "YES", "Claim", "Interval", "joined", "judged", "missing", "more", "not_theirs", "undecided"]
