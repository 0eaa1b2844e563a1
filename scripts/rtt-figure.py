#!/usr/bin/env python3
"""Draws the table of scripts/rtt.sh as SVG: scripts/rtt-figure.py TABLE.md OUT.svg

Latency against the round trip time, a line for each transport and connection, with how many round trips it takes.
"""
import sys

from figure import COLOURS, HEIGHT, MARGIN, WIDTH, panel, write

# What the lines are, in the order of the table: transport, connection.
LINES = [
    ("udp", "–"),
    ("tcp", "reused"),
    ("tcp", "fresh"),
    ("dot, dnsdist", "fresh"),
    ("dot, TLS 1.2", "fresh"),
    ("doh2", "fresh"),
    ("doq", "fresh"),
    ("doq", "fresh early data"),
]


def read(path):
    """The round trip times, and by transport and connection the latencies at them and the round trips told."""
    with open(path, encoding="utf-8") as file:
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in file if line.startswith("|")]
    rtts = [float(cell.split()[0]) for cell in rows[0][2:-1]]
    latencies = {}
    for name, kind, *cells, trips in rows[2:]:
        latencies[name, kind] = [(rtt, float(cell)) for rtt, cell in zip(rtts, cells) if cell != "–"], trips
    return latencies


def main(source, target):
    latencies = read(source)
    lines = [latencies[line][0] for line in LINES]
    out = panel(0, 0, "Until the answer, by round trip time", "round trip time, ms", "median latency, ms", lines, False, False)
    for number, (line, colour) in enumerate(zip(LINES, COLOURS)):
        kind = "" if line[1] == "–" else f" {line[1]}"
        y = MARGIN + 14 + number * 18
        out.append(f'<rect x="{WIDTH}" y="{y - 8}" width="14" height="4" fill="{colour}"/>')
        out.append(f'<text x="{WIDTH + 20}" y="{y}">{line[0]}{kind}: {latencies[line][1]} round trips</text>')
    write(target, WIDTH + 260, HEIGHT, out)


if __name__ == "__main__":
    main(*sys.argv[1:3])
