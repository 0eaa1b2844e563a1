"""Captures as every replay tool takes them: Ethernet, microseconds, addressed to the servers of this test.

tcprewrite cannot do it for a capture without link layer (it takes all packets for damaged), and drool fails on nanoseconds.
"""

import ipaddress
import struct

import numpy as np

V4, V6 = ipaddress.ip_address("10.9.9.9"), ipaddress.ip_address("fd09::9")
RAW_IP, ETHERNET, NANOSECONDS, MICROSECONDS = 101, 1, 0xA1B23C4D, 0xA1B2C3D4
UDP = 17
QUERY = np.dtype([("number", "<i8"), ("ns", "<i8")])


def on_ethernet(source, into):
    """Writes the packets of a raw capture in nanoseconds as Ethernet in microseconds. Returns number and time of each, and the clients."""
    data = source.read_bytes()
    magic, *_, link = struct.unpack("<IHHiIII", data[:24])
    if (magic, link) != (NANOSECONDS, RAW_IP):
        raise ValueError(f"{source}: no raw capture in nanoseconds")
    found, clients = [], set()
    with open(into, "wb") as file:
        file.write(struct.pack("<IHHiIII", MICROSECONDS, 2, 4, 0, 0, 65_535, ETHERNET))
        for seconds, nanoseconds, packet in packets(data):
            client, frame = addressed(packet)
            file.write(struct.pack("<IIII", seconds, nanoseconds // 1000, len(frame), len(frame)) + frame)
            found.append((number(packet), seconds * 1_000_000_000 + nanoseconds // 1000 * 1000))
            clients.add(client)
    return np.array(found, QUERY), clients


def packets(data):
    at = 24
    while at < len(data):
        seconds, nanoseconds, length, _ = struct.unpack_from("<IIII", data, at)
        yield seconds, nanoseconds, data[at + 16 : at + 16 + length]
        at += 16 + length


def addressed(packet):
    """Client and frame of a packet, to the server of its family."""
    link = bytes(6) + b"\2" + bytes(5)
    if packet[0] >> 4 == 4:
        head = packet[:10] + b"\0\0" + packet[12:16] + V4.packed
        head = head[:10] + checksum(head) + head[12:]
        # Without a checksum of UDP, which IPv4 permits.
        return packet[12:16], link + b"\x08\0" + head + packet[20:26] + b"\0\0" + packet[28:]
    head, udp = packet[:24] + V6.packed, packet[40:46] + b"\0\0" + packet[48:]
    pseudo = head[8:40] + struct.pack(">II", len(udp), UDP) + udp
    return packet[8:24], link + b"\x86\xdd" + head + udp[:6] + checksum(pseudo) + udp[8:]


def checksum(data):
    """The Internet checksum: numbers of 16 bits add up modulo 65535."""
    total = int.from_bytes(data + b"\0" * (len(data) % 2), "big") % 65_535
    return struct.pack(">H", 65_535 - total)


def number(packet):
    """The number in the first label of the question; -1 where the rule could not give it one."""
    label = packet[20 + 20 :] if packet[0] >> 4 == 4 else packet[40 + 20 :]
    digits = label[2 : 1 + label[0]]
    return int(digits) if label[1:2] == b"u" and digits.isdigit() else -1
