"""What is read from packets: `python -m unittest discover -s experiments -p 'test_*.py'`."""

import unittest

from figures.packets import Packet, acknowledgements, exchanges, messages

PEER = ("192.0.2.1", 1024)
ACK = 16


def message(octets):
    return len(octets).to_bytes(2, "big") + octets


def sent(at, from_server, sequence, data=b"", acknowledges=0):
    return Packet(at, PEER, from_server, sequence, acknowledges, ACK, data)


class Packets(unittest.TestCase):
    def test_messages_end_where_their_last_octet_came(self):
        both = message(b"first") + message(b"second")
        packets = [sent(1.0, False, 100, both[:9]), sent(2.0, False, 109, both[9:])]
        self.assertEqual(messages(packets, False), [(1.0, 5, 9), (2.0, 6, 6)])

    def test_what_is_sent_again_counts_once(self):
        packets = [sent(1.0, False, 2**32 - 3, message(b"first")), sent(1.5, False, 2**32 - 3, message(b"first")), sent(2.0, False, 4, message(b"x"))]
        self.assertEqual(messages(packets, False), [(1.0, 5, 7), (2.0, 1, 3)])

    def test_answers_belong_to_queries_in_order(self):
        packets = [sent(1.0, False, 0, message(b"a")), sent(1.2, False, 3, message(b"b")), sent(1.5, True, 0, message(b"A") + message(b"B"))]
        self.assertEqual(exchanges(packets, 0.25), [(1.0, 1.25, 1.5, 6), (1.2, 1.25, 1.5, 6)])

    def test_only_new_acknowledgements_count(self):
        packets = [sent(1.0, False, 0, acknowledges=10), sent(2.0, False, 0, acknowledges=10), sent(3.0, False, 0, acknowledges=20)]
        self.assertEqual(acknowledgements(packets), [3.0])


if __name__ == "__main__":
    unittest.main()
