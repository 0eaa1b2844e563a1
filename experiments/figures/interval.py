"""Intervals over repeats: a run is the unit, as for `ldplayer compare` (docs/compare.md)."""

import math
from dataclasses import dataclass

# Quantiles of Student's t at 97.5 %, by degrees of freedom from 1 on; beyond them those of the normal distribution are near enough.
T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
# Fewer repeats than this claim nothing.
LEAST = 3


@dataclass(frozen=True)
class Interval:
    """An estimate, the range that holds it with 95 %, and the repeats behind it. Of fewer than `LEAST` there is no range."""

    value: float | None
    low: float | None
    high: float | None
    repeats: int

    @staticmethod
    def of(values):
        """The mean of the repeats; `None` among them are figures that a run does not have."""
        values = [value for value in values if value is not None]
        if not values:
            return Interval(None, None, None, 0)
        mean = sum(values) / len(values)
        half = half_width(values)
        return Interval(mean, *((None, None) if half is None else (mean - half, mean + half)), len(values))

    @staticmethod
    def percent(values):
        """The mean of shares in percent: what the range has below 0 and above 100 cannot be."""
        found = Interval.of(values)
        return found if found.low is None else Interval(found.value, max(found.low, 0), min(found.high, 100), found.repeats)

    @staticmethod
    def ratio(numerators, denominators):
        """How many times the one is the other: of means of logarithms, with Welch's degrees of freedom."""
        a, b = ([math.log(v) for v in side if v is not None and v > 0] for side in (numerators, denominators))
        if not a or not b:
            return Interval(None, None, None, 0)
        centre = sum(a) / len(a) - sum(b) / len(b)
        repeats = min(len(a), len(b))
        if repeats < LEAST:
            return Interval(math.exp(centre), None, None, repeats)
        parts = [variance(side) / len(side) for side in (a, b)]
        spread = sum(parts)
        freedom = spread**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (a, b))) if spread else 1
        half = student(math.floor(freedom)) * math.sqrt(spread)
        return Interval(math.exp(centre), math.exp(centre - half), math.exp(centre + half), repeats)

    @staticmethod
    def exact(value):
        """A figure that is counted and not estimated, such as what an algorithm makes of a zone."""
        return Interval(value, value, value, 1)

    def is_within(self, low=-math.inf, high=math.inf):
        """Whether it lies between two bounds: True, False, or None where its range holds a bound, or where there is none."""
        if self.low is None:
            return None
        if low <= self.low and self.high <= high:
            return True
        return False if self.high < low or self.low > high else None

    def text(self, unit=""):
        """`12.3 ms (11.9 to 12.6)`."""
        if self.value is None:
            return "–"
        range_ = f" ({short(self.low)} to {short(self.high)})" if self.low is not None and self.low != self.high else ""
        return f"{short(self.value)}{unit and ' ' + unit}{range_}"


def variance(values):
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def half_width(values):
    """Half of the interval of the mean; None of fewer repeats than it takes."""
    if len(values) < LEAST:
        return None
    return student(len(values) - 1) * math.sqrt(variance(values) / len(values))


def student(freedom):
    return T[max(freedom, 1) - 1] if freedom <= len(T) else 1.96


def short(value):
    """Three digits, or all of those before the point."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
