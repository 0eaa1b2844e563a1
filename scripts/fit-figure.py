#!/usr/bin/env python3
"""Draws a capture beside the trace of the model fitted to it, as SVG: scripts/fit-figure.py CAPTURE.parquet MADE.parquet OUT.svg

Four panels: queries of each client by rank, gaps between queries, types, queries for each name by rank. Needs pandas and pyarrow
(scripts/python.sh).
"""
import math
import sys

import pandas

WIDTH, HEIGHT, MARGIN = 380, 250, 48
COLOURS = ("#4269d0", "#ff725c")


def scale(values, low, high, log):
    change = (lambda v: math.log10(max(v, low))) if log else (lambda v: v)
    first, span = change(low), (change(high) - change(low)) or 1
    return [(change(value) - first) / span for value in values]


def ticks(low, high, log):
    if log:
        return [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    return [low + (high - low) * part / 4 for part in range(5)]


def panel(left, top, title, across, up, series, log_x, log_y):
    """One panel; `series` are two lists of (x, y)."""
    xs = [x for line in series for x, _ in line]
    ys = [y for line in series for _, y in line]
    (x0, x1), (y0, y1) = (min(xs), max(xs)), (min(ys) if log_y else 0, max(ys))
    inner_w, inner_h = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    px = lambda part: left + MARGIN + part * inner_w
    py = lambda part: top + HEIGHT - MARGIN - part * inner_h
    out = [f'<text x="{px(0)}" y="{top + 24}" font-weight="bold">{title}</text>']
    for tick in ticks(x0, x1, log_x):
        at = px(scale([tick], x0, x1, log_x)[0])
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{py(0)}" y2="{py(1)}" class="grid"/>')
        out.append(f'<text x="{at:.1f}" y="{py(0) + 14}" text-anchor="middle">{tick:g}</text>')
    for tick in ticks(y0, y1, log_y):
        at = py(scale([tick], y0, y1, log_y)[0])
        out.append(f'<line x1="{px(0)}" x2="{px(1)}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        out.append(f'<text x="{px(0) - 5}" y="{at + 3:.1f}" text-anchor="end">{tick:g}</text>')
    out.append(f'<text x="{px(0.5)}" y="{py(0) + 30}" text-anchor="middle">{across}</text>')
    out.append(f'<text x="{px(0)}" y="{py(1) - 6}">{up}</text>')
    for colour, line in zip(COLOURS, series):
        places = zip(scale([x for x, _ in line], x0, x1, log_x), scale([y for _, y in line], y0, y1, log_y))
        points = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in places)
        out.append(f'<polyline points="{points}" stroke="{colour}" class="line"/>')
    return out


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
    style = "text{font:11px sans-serif}.grid{stroke:#ddd}.line{fill:none;stroke-width:1.6}"
    size = f'viewBox="0 0 {2 * WIDTH} {30 + 2 * HEIGHT}" width="{2 * WIDTH}" height="{30 + 2 * HEIGHT}"'
    body = "\n".join(legend + out)
    with open(target, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{style}</style>\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n')


if __name__ == "__main__":
    main(*sys.argv[1:4])
