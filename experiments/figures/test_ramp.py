"""Who gave in on a ramp, and what may be said of a peak."""

import unittest

from figures.ramp import Window, at_least, peak


def window(offered, answers=None, in_time=1.0, late_ms=0.1):
    return Window(0.5, offered, offered if answers is None else answers, in_time, 0.1, 0.2, 0.3, late_ms)


class Peaks(unittest.TestCase):
    def test_a_server_that_gives_in_has_a_peak(self):
        found = peak([window(1000), window(2000), window(3000, answers=2100, in_time=0.5)])
        self.assertEqual((found.answers, found.is_servers, found.failed_at), (2100, True, 3000))
        self.assertEqual(at_least([found]), "")

    def test_a_ramp_that_ends_before_anybody_gives_in_tells_no_peak(self):
        found = peak([window(1000), window(2000)])
        self.assertEqual((found.is_servers, found.is_clients), (False, False))
        self.assertIn("the ramp ended in 1 of 1 runs before anybody was at a limit: the server can do at least so much", at_least([found]))

    def test_a_client_that_is_late_tells_no_peak(self):
        found = peak([window(1000), window(2000, late_ms=50)])
        self.assertEqual((found.answers, found.is_servers, found.is_clients), (1000, False, True))
        self.assertIn("the client was at its limit before the server in 1 of 1 runs", at_least([found]))

    def test_both_are_told(self):
        ended, late = peak([window(1000)]), peak([window(1000, late_ms=50)])
        said = at_least([ended, late, peak([window(1000, in_time=0)])])
        self.assertIn("limit before the server in 1 of 3 runs and the ramp ended in 1 of 3", said)

    def test_a_client_that_is_never_on_time_tells_nothing(self):
        self.assertIsNone(peak([window(1000, late_ms=50)]).answers)


if __name__ == "__main__":
    unittest.main()
