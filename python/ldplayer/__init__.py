"""Replays recorded DNS traffic, and reads what happened: the commands of ldplayer as functions, runs as Arrow tables.

    import ldplayer

    with ldplayer.serve("zones") as server:
        run = ldplayer.replay("queries.pcap", server=server.address)
    print(run.verdict, run.latency_ms("p99"))
    slow = run.rows(["qname", "latency_ns"], where="latency > 10ms")

Everything here calls the program `ldplayer`, and reads the files that it writes. Tables need pyarrow.
"""

from ._commands import Server, Testbed, experiment, generate, mutate, serve, testbed, zones_build
from ._keys import replay
from ._program import LdplayerError, version
from ._results import Experiment, Run, Verdict, extract, figures

__all__ = [
    "Experiment",
    "LdplayerError",
    "Run",
    "Server",
    "Testbed",
    "Verdict",
    "experiment",
    "extract",
    "figures",
    "generate",
    "mutate",
    "replay",
    "serve",
    "testbed",
    "version",
    "zones_build",
]
