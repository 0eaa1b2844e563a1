"""Intervals and what is claimed by them: `python -m unittest discover -s experiments -p 'test_*.py'`."""

import random
import unittest

from figures.claim import NO, OPEN, YES, judged, more
from figures.interval import Interval, short


class Intervals(unittest.TestCase):
    def test_fewer_than_three_repeats_have_no_range_and_decide_nothing(self):
        for values in ([], [None], [4.0], [4.0, 4.0]):
            interval = Interval.of(values)
            self.assertIsNone(interval.low)
            self.assertEqual(judged("", "", interval, at_least=1).same, OPEN)

    def test_the_range_of_three_is_students(self):
        interval = Interval.of([9.0, 10.0, 11.0, None])
        self.assertAlmostEqual(interval.high - interval.value, 4.303 / 3**0.5, places=3)
        self.assertEqual(interval.repeats, 3)

    def test_ranges_hold_the_truth_as_often_as_they_say(self):
        draw = random.Random(1)
        for repeats in (3, 5, 10):
            means = (Interval.of([draw.gauss(7, 2) for _ in range(repeats)]) for _ in range(2000))
            held = sum(interval.low <= 7 <= interval.high for interval in means)
            self.assertTrue(1860 <= held <= 1940, f"{held} of 2000 with {repeats}")

    def test_the_range_of_shares_ends_at_none_and_all(self):
        interval = Interval.percent([99.0, 40.0, 60.0])
        self.assertEqual((interval.high, interval.low > 0), (100, False))
        self.assertEqual(Interval.percent([1.0]), Interval.of([1.0]))

    def test_a_ratio_of_sides_that_do_not_differ_holds_one(self):
        draw = random.Random(2)
        sides = [[[draw.lognormvariate(0, 0.3) for _ in range(4)] for _ in "ab"] for _ in range(2000)]
        held = sum((ratio := Interval.ratio(a, b)).low <= 1 <= ratio.high for a, b in sides)
        self.assertGreaterEqual(held, 1880)

    def test_claims_hold_where_the_whole_range_does(self):
        interval = Interval(5.0, 4.0, 6.0, 3)
        for bounds, same in (({"at_least": 4}, YES), ({"at_most": 3.9}, NO), ({"at_least": 5}, OPEN), ({"at_least": 3, "at_most": 7}, YES)):
            self.assertEqual(judged("", "", interval, **bounds).same, same, bounds)
        self.assertIn("holds the bound", judged("", "", interval, at_least=5).why)

    def test_a_factor_is_refused_by_an_interval_that_is_alike_and_without_it(self):
        alike = Interval(1.0, 0.9, 1.1, 5)
        cases = ((alike, 1.5, NO), (alike, 1.2, OPEN), (Interval(1.1, 1.02, 1.2, 5), 1.5, YES), (Interval(1.1, 0.9, 1.3, 5), 1.5, OPEN))
        for interval, factor, same in cases:
            self.assertEqual(more("", "", interval, factor).same, same, (interval, factor))
        self.assertEqual(more("", "", alike, 1.5, why="by cost").why, "alike: a fifth at most; by cost")
        self.assertEqual(more("", "", Interval.of([1.0]), 1.5).same, OPEN)

    def test_what_no_run_has_is_not_decided_and_says_so(self):
        self.assertEqual(judged("", "", Interval.of([None]), at_most=1).why, "no run has the figure")

    def test_figures_have_three_digits_or_those_before_the_point(self):
        self.assertEqual([short(value) for value in (0, 0.012345, 12.34, 1234567.8)], ["0", "0.0123", "12.3", "1,234,568"])


if __name__ == "__main__":
    unittest.main()
