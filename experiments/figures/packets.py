"""What a capture of the wire has of connections over TCP: packets, and messages with the times at which they left and came."""

import struct
from collections import defaultdict
from dataclasses import dataclass
from ipaddress import ip_address

PCAP_NANOSECONDS, TCP = 0xA1B23C4D, 6
FIN, SYN, RST = 1, 2, 4


@dataclass(frozen=True)
class Packet:
    """A segment as it came to its receiver: `at` in seconds since 1970, `peer` the client's address and port."""

    at: float
    peer: tuple
    from_server: bool
    sequence: int
    acknowledges: int
    flags: int
    data: bytes


def conversations(file, port):
    """The connections to a port, by the client's address and port, each with its packets in order."""
    found = defaultdict(list)
    for at, octets in records(file):
        packet = parsed(at, octets, port)
        if packet:
            found[packet.peer].append(packet)
    return dict(found)


def records(file):
    """Time and octets of each packet of a capture as `ldplayer testbed up --capture` writes it."""
    content = file.read_bytes()
    if struct.unpack_from("<I", content)[0] != PCAP_NANOSECONDS:
        raise ValueError(f"{file}: no capture with nanoseconds")
    place = 24
    while place + 16 <= len(content):
        seconds, nanoseconds, length, _ = struct.unpack_from("<IIII", content, place)
        yield seconds + nanoseconds / 1e9, content[place + 16 : place + 16 + length]
        place += 16 + length


def parsed(at, octets, port):
    """The TCP segment in an IP packet, where it is to or from this port of the server."""
    if octets[0] >> 4 == 4:
        protocol, start, end = octets[9], 4 * (octets[0] & 15), struct.unpack_from(">H", octets, 2)[0]
        source, destination = octets[12:16], octets[16:20]
    else:
        protocol, start, end = octets[6], 40, 40 + struct.unpack_from(">H", octets, 4)[0]
        source, destination = octets[8:24], octets[24:40]
    if protocol != TCP:
        return None
    sender, receiver, sequence, acknowledges, offset, flags = struct.unpack_from(">HHIIBB", octets, start)
    if port not in (sender, receiver):
        return None
    peer = (str(ip_address(destination)), receiver) if sender == port else (str(ip_address(source)), sender)
    return Packet(at, peer, sender == port, sequence, acknowledges, flags, octets[start + 4 * (offset >> 4) : end])


def messages(packets, from_server):
    """The DNS messages that one side sent, each as the time at which its last octet came, its length, and that of the data of the segment
    that brought it; nothing of it was lost."""
    stream, found = b"", []
    expected = None
    for packet in packets:
        if packet.from_server != from_server or not packet.data:
            continue
        ahead = 0 if expected is None else (expected - packet.sequence) & 0xFFFFFFFF
        if ahead >= 1 << 31 or ahead > len(packet.data):  # a gap, or sent again
            continue
        stream += packet.data[ahead:]
        expected = (packet.sequence + len(packet.data)) & 0xFFFFFFFF
        while len(stream) >= 2 and len(stream) >= 2 + (length := int.from_bytes(stream[:2], "big")):
            stream = stream[2 + length :]
            found.append((packet.at, length, len(packet.data)))
    return found


def exchanges(packets, delay):
    """Queries of a connection with their answers, of a server that answers in order: (query came, answer left, answer came, octets of its last
    segment), where the wire takes `delay` seconds each way."""
    queries, answers = messages(packets, False), messages(packets, True)
    return [(query[0], answer - delay, answer, segment) for query, (answer, _, segment) in zip(queries, answers)]


def acknowledgements(packets):
    """When what the server had sent was acknowledged further, as the server saw it."""
    highest, found = None, []
    for packet in packets:
        if not packet.from_server and not packet.flags & (SYN | RST):
            if highest is not None and 0 < (packet.acknowledges - highest) & 0xFFFFFFFF < 1 << 31:
                found.append(packet.at)
            highest = packet.acknowledges
    return found
