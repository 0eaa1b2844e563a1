"""The receiver: what it takes for a query, whatever else is on the wire."""

import tempfile
import unittest

import numpy as np

from figures import receiver


def packet(label, v6=False, response=False, protocol=receiver.UDP, source=1):
    """An IP packet with a DNS message whose first label this is."""
    dns = bytes([0, 7, 0x80 if response else 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, len(label)]) + label + b"\0"
    udp = bytes([4, 0, 0, 53, 0, 0, 0, 0])
    if v6:
        return bytes([0x60, 0, 0, 0, 0, 0, protocol, 64]) + source.to_bytes(16, "big") + bytes(16) + udp + dns
    return bytes([0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0]) + source.to_bytes(4, "big") + bytes(4) + udp + dns


def frames(*packets):
    made = np.zeros(len(packets), receiver.HEADER)
    for at, octets in enumerate(packets):
        made[at]["packet"][: len(octets)] = np.frombuffer(octets, np.uint8)
        made[at]["sec"], made[at]["nsec"], made[at]["status"] = 1_700_000_000, at, 1
    return made


class Stamps(unittest.TestCase):
    def test_queries_of_both_families_are_known_by_their_numbers(self):
        found = receiver.stamps(frames(packet(b"u0"), packet(b"u1234567", v6=True), packet(b"u4294967295", source=7)))
        self.assertEqual(found["number"].tolist(), [0, 1_234_567, 4_294_967_295])
        self.assertEqual(found["ns"].tolist(), [1_700_000_000_000_000_000 + at for at in range(3)])
        self.assertEqual(found["source"].tolist(), [1, 1, 7])

    def test_what_is_no_query_of_the_replay_is_left_out(self):
        others = [packet(b"www"), packet(b"u"), packet(b"u12x"), packet(b"u12", response=True), packet(b"u12", protocol=6), packet(b"u12345678901")]
        self.assertEqual(len(receiver.stamps(frames(*others))), 0)

    def test_frames_are_taken_up_to_the_first_that_is_empty(self):
        self.assertEqual([receiver.ready(np.array(status)) for status in ([1, 1, 0, 1], [0], [1, 1])], [2, 0, 2])

    def test_of_a_query_that_came_twice_the_first_counts(self):
        with tempfile.NamedTemporaryFile() as file:
            np.array([(5, 30, 0), (4, 10, 0), (5, 20, 0)], receiver.RECORD).tofile(file.name)
            self.assertEqual(receiver.read(file.name).tolist(), [(4, 10, 0), (5, 30, 0)])


if __name__ == "__main__":
    unittest.main()
