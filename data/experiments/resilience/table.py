"""The table and the picture of the experiment resilience: table.py DIR

For each resolver and fault: the share of lookups that failed (no answer within the timeout, or another code than NOERROR), the median time
of those that were answered, and queries to the servers of zones for each lookup. Prints the table as Markdown, and writes resilience.svg into DIR.
"""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt


def figures(run):
    """What a run says: share of failed lookups in percent, median time in ms, queries upstream for each lookup."""
    summary = json.loads((run / "run.json").read_text())["summary"]
    asked, good = summary["queries"]["sent"], summary["rcodes"].get("NOERROR", 0)
    coverage = json.loads((run.parent / f"{run.name}.server" / "internet-coverage.json").read_text())
    upstream = coverage["queries"] + coverage["dropped"]
    return 100 * (1 - good / asked), summary["latency_ms"]["answered_only"].get("p50"), upstream / asked


def cells(folder):
    """The runs by fault and resolver, in the order of the file."""
    record = json.loads((folder / "experiment.json").read_text())
    found = {}
    for cell in record["cells"]:
        keys = {key: value for key, value in cell["keys"].items()}
        fault = Path(str(keys["faults"])).stem
        found.setdefault(fault, {})[keys["server"]] = figures(folder / cell["name"] / "1")
    return found


def draw(found, servers, file):
    """A field for each resolver and fault: the darker, the more lookups fail."""
    shares = [[found[fault][server][0] for server in servers] for fault in found]
    figure, axes = plt.subplots(figsize=(7, 4.2))
    image = axes.imshow(shares, cmap="Greys", vmin=0, vmax=100, aspect="auto")
    axes.set_xticks(range(len(servers)), servers)
    axes.set_yticks(range(len(found)), list(found))
    for row, fault in enumerate(found):
        for column, server in enumerate(servers):
            share, _, upstream = found[fault][server]
            colour = "white" if share > 55 else "black"
            axes.text(column, row, f"{share:.0f} % · {upstream:.1f}", ha="center", va="center", color=colour, fontsize=8)
    axes.set_title("lookups that failed · queries upstream for each lookup", fontsize=9, loc="left")
    figure.colorbar(image, label="lookups that failed (%)")
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main(folder):
    found = cells(folder)
    servers = list(next(iter(found.values())))
    print("| fault | " + " | ".join(servers) + " |")
    print("|---|" + "---|" * len(servers))
    for fault, row in found.items():
        told = [
            f"{share:.1f} %, {'–' if median is None else f'{median:.0f} ms'}, {upstream:.1f}"
            for share, median, upstream in (row[server] for server in servers)
        ]
        print(f"| {fault} | " + " | ".join(told) + " |")
    draw(found, servers, folder / "resilience.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
