"""A receiver with the kernel's stamps, in front of any server: when each query of a replay arrived, told by its name.

    sender ─► loopback ─┬─► ring of a packet socket ─► stamps: number of the query, nanoseconds, source
                        └─► the server
    python -m figures.receiver nsd -c …      starts nsd, with `stamps` beside its configuration
    python -m figures.receiver --into FILE   stamps alone, until it is ended

Queries are known by their first label, `u` and a number, as the rule qname-prefix = "u{n}" makes it. The ring is emptied a hundred
times a second, in whole arrays, so that the receiver takes some hundredths of a core from the server.
"""

import mmap
import os
import socket
import struct
import sys
import time
from pathlib import Path

import numpy as np

RECORD = np.dtype([("number", "<u8"), ("ns", "<i8"), ("source", "<u8")])
# linux/if_packet.h: options of level SOL_PACKET, and the layout of a frame of version 2 for a datagram socket.
SOL_PACKET, PACKET_RX_RING, PACKET_VERSION, PACKET_IGNORE_OUTGOING = 263, 5, 10, 23
TPACKET_V2, FRAME, FRAMES, BLOCK, NET_OFFSET = 1, 256, 1 << 16, 1 << 20, 80
HEADER = np.dtype(
    {
        "names": ["status", "sec", "nsec", "packet"],
        "formats": ["<u4", "<u4", "<u4", (np.uint8, FRAME - NET_OFFSET)],
        "offsets": [0, 16, 20, NET_OFFSET],
        "itemsize": FRAME,
    }
)
ETH_P_ALL, UDP, DIGITS, PAUSE_S = 3, 17, 10, 0.01


def ring():
    """A packet socket of this namespace, and its frames as an array."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    tap.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
    tap.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    tap.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack("IIII", BLOCK, FRAME * FRAMES // BLOCK, FRAME, FRAMES))
    return tap, np.ndarray((FRAMES,), HEADER, buffer=mmap.mmap(tap.fileno(), FRAME * FRAMES))


def record(frames, into, goes_on):
    """Writes the stamps of what arrives into a file, as long as `goes_on` says."""
    head = 0
    while goes_on():
        # The kernel stamps and keeps; being woken for each packet would take the core from what is measured.
        time.sleep(PAUSE_S)
        while count := ready(frames["status"][head:]):
            taken = frames[head : head + count]
            os.write(into, stamps(taken).tobytes())
            taken["status"] = 0
            head = (head + count) % FRAMES


def ready(status):
    """How many frames from the first on the kernel has filled."""
    empty = np.flatnonzero((status & 1) == 0)
    return len(status) if not len(empty) else int(empty[0])


def stamps(frames):
    """The queries over UDP among the frames, whichever server they go to."""
    packets = frames["packet"]
    is_v6 = packets[:, 0] >> 4 == 6
    protocol = np.where(is_v6, packets[:, 6], packets[:, 9])
    label = part(packets, np.where(is_v6, 60, 40), DIGITS + 2)
    is_response = part(packets, np.where(is_v6, 50, 30), 1)[:, 0] & 0x80
    number, is_number = numbers(label)
    good = is_number & (protocol == UDP) & (is_response == 0)
    found = np.empty(int(good.sum()), RECORD)
    found["number"] = number[good]
    found["ns"] = (frames["sec"].astype(np.int64) * 1_000_000_000 + frames["nsec"])[good]
    found["source"] = sources(packets, is_v6)[good]
    return found


def part(packets, at, length):
    """So many octets of each packet from an offset of its own."""
    return packets[np.arange(len(packets))[:, None], at[:, None] + np.arange(length)]


def numbers(label):
    """The number in each label (its length, `u`, digits), and whether it is one."""
    length = label[:, 0].astype(int) - 1
    good = (label[:, 1] == ord("u")) & (length > 0) & (length <= DIGITS)
    number = np.zeros(len(label), np.uint64)
    for place in range(DIGITS):
        digit, used = label[:, 2 + place], place < length
        good &= ~used | ((digit >= ord("0")) & (digit <= ord("9")))
        number = np.where(used, number * np.uint64(10) + (digit - np.uint8(ord("0"))).astype(np.uint64), number)
    return number, good


def sources(packets, is_v6):
    """What tells one source address from another: an IPv4 address, or the halves of an IPv6 address folded."""
    v4 = np.ascontiguousarray(packets[:, 12:16]).view(">u4")[:, 0].astype(np.uint64)
    halves = np.ascontiguousarray(packets[:, 8:24]).view(">u8").astype(np.uint64)
    return np.where(is_v6, halves[:, 0] * np.uint64(31) + halves[:, 1], v4)


def read(file):
    """The first arrival of each query of a file of stamps, in the order of their numbers."""
    found = np.fromfile(file, RECORD)
    _, first = np.unique(found["number"], return_index=True)
    return found[first]


def server(program, arguments):
    """Becomes the server, with a receiver beside it that ends when the server does. Only asked for its version, it has none."""
    if "-c" in arguments:
        tap, frames = ring()
        into = os.open(Path(arguments[arguments.index("-c") + 1]).with_name("stamps"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        aside(lambda main: record(frames, into, lambda: os.path.exists(f"/proc/{main}")))
        tap.close()
    os.execvp(program, [program, *arguments])


def aside(work):
    """Forks twice: what the server does not know as its child is not measured as its work."""
    main = os.getpid()
    child = os.fork()
    if child:
        return os.waitpid(child, 0)
    if not os.fork():
        work(main)
    os._exit(0)


def wrapper(stage, program):
    """A program for an experiment that is this server with a receiver beside it."""
    file = stage.out / f"{program}-with-stamps"
    package = Path(__file__).resolve().parents[1]
    text = f"#!/bin/sh\nPYTHONPATH='{package}' exec '{sys.executable}' -m figures.receiver {program} \"$@\"\n"
    # A program that was written anew would be another one for the experiment.
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)
    return file


def main(first, *rest):
    if first != "--into":
        return server(first, list(rest))
    tap, frames = ring()
    into = os.open(rest[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    print("listening", flush=True)
    parent = os.getppid()
    record(frames, into, lambda: os.getppid() == parent)
    tap.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
