"""The runs of an experiment: its cells by their keys, the figures of run.json, and rows by DuckDB."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb


# Cores that other programs may use on a machine that is called quiet.
NO_NEIGHBOUR = 0.05


class Run:
    """A run directory, or one attempt at a cell of an experiment."""

    def __init__(self, directory, record=None):
        self.directory = Path(directory)
        self.record = record or {}

    @cached_property
    def json(self):
        return json.loads((self.directory / "run.json").read_text(encoding="utf-8"))

    @property
    def summary(self):
        return self.json["summary"]

    def get(self, path):
        """A figure of the summary by its keys, as `latency_ms.from_sent.p50`; None where it has none."""
        value = self.summary
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    @property
    def is_faithful(self):
        return bool(self.json["verdict"]["ok"])

    @property
    def failed_checks(self):
        return [check["name"] for check in self.json["verdict"]["checks"] if not check["ok"]]

    def is_good(self, percentile):
        """Whether the host cannot have changed a percentile of latency from sent, as `p50`; of one without a mark, whether the replay was faithful."""
        good = (self.get("latency_ms.from_sent.good") or {}).get(percentile)
        return self.is_faithful if good is None else good

    @property
    def only_waited(self):
        """Whether the replay was faithful but for cores that a side waited for, which none of another program had: that takes no processor time."""
        others = self.get("cpu_wait.others_cores")
        alone = others is not None and others < NO_NEIGHBOUR
        return self.is_faithful or (alone and set(self.failed_checks) <= {"server_wait", "client_wait"})

    def rows(self, sql):
        """What a query says of the rows: `{rows}` in it stands for them. A list of tuples."""
        files = str(self.directory / "queries" / "*.parquet").replace("'", "''")
        return duckdb.sql(sql.replace("{rows}", f"read_parquet('{files}')")).fetchall()

    def telemetry(self, name, side="server"):
        """The samples of a figure: (seconds of the run, value), without those that could not be read."""
        file = str(self.directory / "telemetry.parquet").replace("'", "''")
        query = f"select at_ns / 1e9, value from '{file}' where name = ? and side = ? and value is not null order by at_ns"
        return duckdb.execute(query, [name, side]).fetchall()

    def percentiles(self, expression, quantiles, where="true"):
        """Nearest-rank quantiles of an expression over the rows, as a list."""
        found = self.rows(f"select quantile_disc({expression}, {list(quantiles)}) from {{rows}} where {where}")
        return found[0][0]


@dataclass(frozen=True)
class Cell:
    """A cell of the matrix: its keys, and the runs that count, in the order of their repeats."""

    name: str
    keys: dict
    runs: list

    @property
    def faithful(self):
        """The runs whose replay was faithful, or all of a run without times, which nothing is late in."""
        return [run for run in self.runs if run.is_faithful]

    def good(self, percentile):
        """The runs of which a percentile of latency counts."""
        return [run for run in self.runs if run.is_good(percentile)]

    def values(self, path, faithful=True):
        """A figure of each run that counts."""
        return [run.get(path) for run in (self.faithful if faithful else self.runs)]


class Runs:
    """The cells of an experiment's directory."""

    def __init__(self, directory):
        self.directory = Path(directory)
        record = json.loads((self.directory / "experiment.json").read_text(encoding="utf-8"))
        self.record = record
        self.versions = record["versions"]
        self.cells = [self._cell(cell) for cell in record["cells"]]

    def _cell(self, cell):
        # Of each repeat the last attempt that ended counts; runs that died are told, and count for nothing here.
        last = {}
        for record in self.record["runs"]:
            if record["cell"] == cell["name"] and record["state"] in ("done", "disturbed"):
                last[record["repeat"]] = record
        runs = [Run(self.directory / last[repeat]["directory"], last[repeat]) for repeat in sorted(last)]
        return Cell(cell["name"], {key: str(value) for key, value in cell["keys"].items()}, runs)

    def trials(self, search):
        """The trials of a search that count: (load, whether its criteria held)."""
        found = []
        for file in sorted((self.directory / search["cell"]).glob("*/run.json")):
            verdict = json.loads(file.read_text(encoding="utf-8"))["verdict"]
            found.append((int(file.parent.name.split("-")[0]), all(check["ok"] for check in verdict["server"]["checks"])))
        # Those that failed and that the host may have made fail.
        for discarded in search["discarded"]:
            for _ in range(discarded["trials"] * discarded["missed"]):
                found.remove((discarded["load"], False))
        return found

    def cell(self, **keys):
        """The one cell with these values, written as in the file."""
        found = self.having(**keys)
        if len(found) != 1:
            raise LookupError(f"{len(found)} cells have {keys}: {[cell.name for cell in found]}")
        return found[0]

    def having(self, **keys):
        """All cells with these values."""
        return [cell for cell in self.cells if all(cell.keys.get(key) == str(value) for key, value in keys.items())]

    def told(self):
        """What of the runs does not count, in a sentence each."""
        told = [f"{record['cell']}, repeat {record['repeat']}: {record['state']} ({record['reason']})"
                for record in self.record["runs"] if record["state"] in ("failed", "server_died")]
        for cell in self.cells:
            lacking = [run for run in cell.runs if not run.is_faithful]
            if lacking:
                checks = sorted({check for run in lacking for check in run.failed_checks})
                told.append(f"{cell.name}: {len(lacking)} of {len(cell.runs)} replays were not faithful ({', '.join(checks)})")
        return told
