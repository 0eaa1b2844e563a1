#!/usr/bin/env python3
"""Draws a capture beside the trace of the model fitted to it, as SVG: scripts/fit-figure.py CAPTURE.parquet MADE.parquet OUT.svg

Four panels: queries of each client by rank, gaps between queries, types, queries for each name by rank. Needs pandas and pyarrow
(scripts/python.sh).
"""
import sys

import pandas

from figure import COLOURS, HEIGHT, MARGIN, WIDTH, panel, write


def bars(left, top, title, shares):
    """Shares of types, both traces side by side."""
    out = [f'<text x="{left + MARGIN}" y="{top + 24}" font-weight="bold">{title}</text>']
    step, most = (WIDTH - 2 * MARGIN) / len(shares), max(max(pair) for _, pair in shares)
    base = top + HEIGHT - MARGIN
    for number, (name, pair) in enumerate(shares):
        for which, share in enumerate(pair):
            x, height = left + MARGIN + number * step + which * step * 0.4, share / most * (HEIGHT - 2 * MARGIN)
            out.append(f'<rect x="{x:.1f}" y="{base - height:.1f}" width="{step * 0.38:.1f}" height="{height:.1f}" fill="{COLOURS[which]}"/>')
        middle = left + MARGIN + (number + 0.4) * step
        out.append(f'<text x="{middle:.1f}" y="{base + 14}" text-anchor="middle">{name}</text>')
        out.append(f'<text x="{middle:.1f}" y="{base + 27}" text-anchor="middle">{pair[0]:.1%}</text>')
    return out


def ranks(counts):
    """Rank and value where they matter on a logarithmic axis."""
    values = counts.sort_values(ascending=False).tolist()
    picked = sorted({min(len(values) - 1, int(1.15**power)) for power in range(120)} | {0})
    return [(rank + 1, values[rank]) for rank in picked]


def distribution(gaps):
    gaps = gaps[gaps > 0].sort_values().tolist()
    return [(gaps[int(part / 200 * (len(gaps) - 1))], part / 200) for part in range(201)]


def main(capture, made, target):
    traces = [pandas.read_parquet(path).dropna(subset=["qname"]) for path in (capture, made)]
    names = [trace["qname"].str.lower().value_counts() for trace in traces]
    types = [trace["qtype"].value_counts(normalize=True) for trace in traces]
    shares = [(name, tuple(kinds.get(name, 0) for kinds in types)) for name in types[0].index[:7]]
    gaps = [trace["time"].astype("int64").diff() / 1e6 for trace in traces]
    out = panel(0, 30, "Clients", "rank of the client", "queries", [ranks(trace["src"].value_counts()) for trace in traces], True, True)
    out += panel(WIDTH, 30, "Gaps", "ms from one query to the next", "share of the gaps", [distribution(each) for each in gaps], True, False)
    out += bars(0, 30 + HEIGHT, "Types", shares)
    out += panel(WIDTH, 30 + HEIGHT, "Names", "rank of the name", "queries", [ranks(each) for each in names], True, True)
    legend = [f'<text x="{MARGIN + at * 150}" y="20" fill="{COLOURS[at]}" font-weight="bold">{word}</text>' for at, word in enumerate(("capture", "made by the model"))]
    write(target, 2 * WIDTH, 30 + 2 * HEIGHT, legend + out)


if __name__ == "__main__":
    main(*sys.argv[1:4])
