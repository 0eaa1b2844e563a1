"""What the figures of the documentation have in common: panels with axes and lines, as SVG. For scripts/*-figure.py."""
import math

WIDTH, HEIGHT, MARGIN = 380, 250, 48
COLOURS = ("#4269d0", "#ff725c", "#3ca951", "#a463f2", "#9c6b4e", "#efb118", "#6cc5b0", "#9498a0")


def scale(values, low, high, log):
    change = (lambda v: math.log10(max(v, low))) if log else (lambda v: v)
    first, span = change(low), (change(high) - change(low)) or 1
    return [(change(value) - first) / span for value in values]


def ticks(low, high, log):
    if log:
        return [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    return [low + (high - low) * part / 4 for part in range(5)]


def label(tick):
    """What is written at a tick: whole numbers from 10 on."""
    return f"{round(tick) if tick >= 10 else tick:g}"


def panel(left, top, title, across, up, series, log_x, log_y):
    """One panel; `series` are lists of (x, y)."""
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
        out.append(f'<text x="{at:.1f}" y="{py(0) + 14}" text-anchor="middle">{label(tick)}</text>')
    for tick in ticks(y0, y1, log_y):
        at = py(scale([tick], y0, y1, log_y)[0])
        out.append(f'<line x1="{px(0)}" x2="{px(1)}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        out.append(f'<text x="{px(0) - 5}" y="{at + 3:.1f}" text-anchor="end">{label(tick)}</text>')
    out.append(f'<text x="{px(0.5)}" y="{py(0) + 30}" text-anchor="middle">{across}</text>')
    out.append(f'<text x="{px(0)}" y="{py(1) - 6}">{up}</text>')
    for colour, line in zip(COLOURS, series):
        places = zip(scale([x for x, _ in line], x0, x1, log_x), scale([y for _, y in line], y0, y1, log_y))
        points = " ".join(f"{px(x):.1f},{py(y):.1f}" for x, y in places)
        out.append(f'<polyline points="{points}" stroke="{colour}" class="line"/>')
    return out


def write(target, width, height, body):
    """Writes the lines of a figure."""
    style = "text{font:11px sans-serif}.grid{stroke:#ddd}.line{fill:none;stroke-width:1.6}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    with open(target, "w", encoding="utf-8") as file:
        lines = [head, f"<style>{style}</style>", '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>"]
        file.write("\n".join(lines) + "\n")
