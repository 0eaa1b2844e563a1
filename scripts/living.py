#!/usr/bin/env python3
"""What versions of record sets and rules of faults cost ldplayer serve: load, memory, answers. Called by scripts/bench.sh living.

The zones are those of scripts/zones.py; one host of each has three versions with times, subnets and a weight. The faults are ten rules of all kinds, none
of which fits a query. All servers are up at once and asked by turns, so that the hours of the host are in all of them alike.
"""
import argparse, json, shutil, tempfile, time
from pathlib import Path

import zones
from zones import PORT, ask, end, megabytes, names_of, processor_seconds, range_of, wait_for, write_questions, write_set

# What a server has, and its options.
VARIANTS = [
    ("zones alone", False, []),
    ("zones alone, ten rules of faults", False, ["--faults", "FAULTS"]),
    ("three versions, fixed", True, []),
    ("three versions, recorded", True, ["--answers", "recorded"]),
    ("three versions, rotate", True, ["--answers", "rotate"]),
    ("three versions, by-subnet", True, ["--answers", "by-subnet"]),
    ("three versions, recorded, ten rules of faults", True, ["--answers", "recorded", "--faults", "FAULTS"]),
]

FAULTS = """
[[fault]]
zone = "elsewhere."
answer = "none"
[[fault]]
under = ["n.o.where.", "no.where.else."]
answer = "servfail"
[[fault]]
server = "203.0.113.0/24"
answer = "refused"
[[fault]]
client = ["203.0.113.0/24", "2001:db8::/32"]
delay = "100ms"
[[fault]]
transport = "tcp"
answer = "reset"
[[fault]]
type = ["DNSKEY", "DS", "TXT"]
answer = "bogus"
[[fault]]
above = 4000
answer = "truncated"
[[fault]]
after = "100h"
answer = "lame"
[[fault]]
for = "0s"
answer = "wrong-id"
[[fault]]
share = "0 %"
answer = "expired"
"""


def versions_of(name):
    version = lambda number: {
        "ttl": 60 + number,
        "records": [f"192.0.2.{100 + number}"],
        "count": 1 + number,
        "from": [number * 20, 100 + number * 20],
        "subnets": [f"198.51.{100 + number}.0/24"],
    }
    return {"zone": f"{name}.", "name": f"h0.{name}.", "type": "A", "versions": [version(number) for number in range(3)]}


def start(arguments, folder, port, names, has_versions, options):
    folder.mkdir()
    servers = zones.Servers(arguments, folder, port)
    write_set(servers.zones, names, 1)
    if has_versions:
        content = {"start": "2026-01-31T12:00:00Z", "sets": [versions_of(name) for name in names]}
        (servers.zones / "versions.json").write_text(json.dumps(content))
    (folder / "faults.toml").write_text(FAULTS)
    options = [str(folder / "faults.toml") if option == "FAULTS" else option for option in options]
    began = time.monotonic()
    server = servers.start(servers.command("serve", names) + options)
    wait_for(server, names, 1, port)
    return server, time.monotonic() - began


def loads(arguments, work, names, has_versions, options):
    """How long a start takes, each with a new process; the last one stays."""
    taken = []
    for number in range(arguments.runs):
        folder = work / str(number)
        server, seconds = start(arguments, folder, PORT - 1, names, has_versions, options)
        taken.append(seconds)
        end(server)
        shutil.rmtree(folder)
    return taken


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ldplayer", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, default=100_000)
    arguments = parser.parse_args()
    names, rows = names_of(arguments.size), []
    with tempfile.TemporaryDirectory() as work:
        work, running = Path(work), []
        for number, (title, has_versions, options) in enumerate(VARIANTS):
            taken = loads(arguments, work, names, has_versions, options)
            server, _ = start(arguments, work / f"v{number}", PORT + number, names, has_versions, options)
            running.append((server, PORT + number))
            rows.append({"title": title, "load": taken, "memory": megabytes(server.pid), "rate": [], "cost": []})
        asked = write_questions(work, names)
        for _ in range(arguments.runs):
            for row, (server, port) in zip(rows, running):
                before, rate = sum(processor_seconds(server.pid)), ask(arguments, asked, port)
                row["rate"].append(rate / 1e3)
                row["cost"].append(1e6 * (sum(processor_seconds(server.pid)) - before) / zones.ANSWERS)
        for server, _ in running:
            end(server)
    print(f"\n### Versions and faults, {arguments.size:,} zones, one server thread on one core\n")
    print("| what | load, s | memory, MB | answers/s, k | of an answer, µs | ÷ zones alone |\n|---|---|---|---|---|---|")
    for row in rows:
        ratios = [cost / plain for cost, plain in zip(row["cost"], rows[0]["cost"])]
        figures = [range_of(row["load"], "{:.2f}"), f"{row['memory']:.0f}", range_of(row["rate"]), range_of(row["cost"], "{:.2f}")]
        print(f"| {row['title']} | {' | '.join(figures)} | {range_of(ratios, '{:.2f}')} |")


if __name__ == "__main__":
    main()
