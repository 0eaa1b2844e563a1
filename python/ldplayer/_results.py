"""Runs and experiments: figures as numbers, rows and samples as Arrow tables, pages and pictures."""

import html
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union, cast

from ._program import LdplayerError, call, options

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,import-not-found,unused-ignore]

PathLike = Union[str, Path]

# Units of columns and figures by the ends of their names, written into the metadata of fields.
UNITS = {"_ns": "ns", "_us": "us", "_ms": "ms", "_s": "s", "_bytes": "B", "_percent": "percent"}
# Columns that `rows` has and files of rows do not: they come from the trace, or are the difference of two others.
MADE = ("qname", "qtype", "late_ns", "latency_ns")
# Figures of the page that a notebook shows.
SHOWN = ("throughput", "latency_tail")


@dataclass(frozen=True)
class Verdict:
    """Whether the replay was as asked for (`faithful`, `harmless` or `disturbed`), and whether the server met what was expected of it (None
    where nothing was)."""

    replay: str
    server: Optional[bool]

    def __bool__(self) -> bool:
        """Neither failed."""
        return self.replay != "disturbed" and self.server is not False


class _Directory:
    """What a run and an experiment have in common."""

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def report(self, page: Optional[PathLike] = None) -> Path:
        """Writes the page again, and says where it is."""
        call(["report", str(self.path), *options({"html": page})])
        return Path(page) if page else self.path / "report.html"

    def figures(self, directory: PathLike, *names: str, style: str = "screen", size: Optional[str] = None) -> Dict[str, Path]:
        """Writes figures as SVG, PDF, PNG and CSV with captions; all that have something to show where none is named. Returns the SVG of each.

        `style="paper"` has small letters, no titles, and dashes beside colours; `size` is a width, or width and height: "3.3in", "7x2.5in"."""
        return exported([str(self.path)], directory, names, style, size)

    def methods(self) -> str:
        """What was run, how it was measured and what is left out, in sentences for a paper."""
        return call(["report", str(self.path), "--methods"]).strip()


class Run(_Directory):
    """A run directory. What is read of it stays: make another object for a run that has gone on."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        self._report: Optional[Dict[str, Any]] = None

    @property
    def document(self) -> Dict[str, Any]:
        """All of run.json."""
        if self._report is None:
            self._report = cast(Dict[str, Any], json.loads(call(["report", str(self.path), "--json"])))
        return self._report

    @property
    def summary(self) -> Dict[str, Any]:
        """The figures: `run.summary["latency_ms"]["from_sent"]["p99"]`."""
        return cast(Dict[str, Any], self.document["summary"])

    @property
    def verdict(self) -> Verdict:
        """Both verdicts; true where neither failed."""
        found = self.document["verdict"]
        replay = found.get("replay") or ("faithful" if found["ok"] else "disturbed")
        return Verdict(replay, found["server"]["ok"])

    @property
    def warnings(self) -> List[str]:
        """What there is to doubt, each with a remedy."""
        return ["; ".join(filter(None, (one["text"], one.get("remedy")))) for one in self.document["warnings"]]

    def latency_ms(self, which: str = "p50") -> Optional[float]:
        """A figure of the latency from sending, over all queries sent: `mean`, `p50`, `p90`, `p95`, `p99`, `p999` or `max`. None where it is
        among unanswered queries, which count as endless."""
        return cast(Optional[float], self.summary["latency_ms"]["from_sent"][which])

    def rows(self, columns: Optional[Sequence[str]] = None, where: Optional[str] = None, trace: Optional[PathLike] = None) -> "pyarrow.Table":
        """Rows as an Arrow table, one for each query and each response that belongs to none in time: those of `queries/*.parquet` with
        `late_ns` and `latency_ns`, and `qname` and `qtype` out of the trace where they are named. `where` is a condition of `ldplayer rows`,
        such as `latency > 100ms and qname under example.org`."""
        if where is None and trace is None and columns is not None and not set(columns) & set(MADE):
            return with_units(stored(self.path / "queries", columns))
        words = ["rows", str(self.path), "--format=csv", *options({"columns": ",".join(columns or ["all"]), "where": where, "trace": trace})]
        return with_units(from_csv(call(words), stored(self.path / "queries", None, only_schema=True)))

    def telemetry(self) -> "pyarrow.Table":
        """Samples of what both ends used during the run."""
        parquet = needed("pyarrow.parquet")
        return with_units(parquet.read_table(self.path / "telemetry.parquet"))

    def names(self) -> Dict[str, Any]:
        """Which names, domains, types and clients were slow, failed or got no answer."""
        if self.summary["names"] is None:
            self._report = cast(Dict[str, Any], json.loads(call(["report", str(self.path), "--names", "--json"])))
        return cast(Dict[str, Any], self.summary["names"])

    def compare(self, other: "Union[Run, PathLike]", **given: Any) -> Dict[str, Any]:
        """What changes from this run to the other; keywords are options of `ldplayer compare`. A run each says nothing of chance."""
        words = ["compare", str(self.path), path_of(other), "--json", *options(given)]
        return cast(Dict[str, Any], json.loads(call(words)))

    def archive(self, output: Optional[PathLike] = None, **given: Any) -> Path:
        """Packs the run and its trace into one file, `NAME.tar.zst` where none is named. Keywords are options of `ldplayer archive`:
        `without_names=True`, `anonymise=True`, `key=`, `trace=`, `force=`."""
        path = Path(output) if output is not None else Path(f"{self.path.resolve().name}.tar.zst")
        call(["archive", str(self.path), *options({"output": path, **given})])
        return path

    def _repr_html_(self) -> str:
        """The single figures and two pictures, for notebooks."""
        queries, rate = self.summary["queries"], self.summary["rate"]
        answered = f"{100 * queries['answered'] / queries['sent']:.2f} %" if queries["sent"] else "–"
        served = {None: "not judged", True: "as expected", False: "not as expected"}[self.verdict.server]
        tiles = [
            ("answered", answered),
            ("answered per second", f"{rate['answered_qps']:,.0f}" if rate["answered_qps"] is not None else "–"),
            ("median latency", in_ms(self.latency_ms("p50"))),
            ("99th percentile", in_ms(self.latency_ms("p99"))),
            ("replay", {"harmless": "late, harmless", "disturbed": "not faithful"}.get(self.verdict.replay, self.verdict.replay)),
            ("server", served),
        ]
        return boxed(str(self.path), tiles, self.pictures())

    def pictures(self) -> List[str]:
        """The figures of a notebook as SVG, as far as there are any."""
        with tempfile.TemporaryDirectory() as folder:
            made = self.figures(folder, *SHOWN, size="460x260px")
            return [path.read_text(encoding="utf-8") for path in made.values()]

def extract(archive: PathLike, directory: Optional[PathLike] = None) -> Run:
    """Unpacks an archive of a run, to a directory of the run's name where none is named."""
    said = call(["archive", *options({"extract": archive, "output": directory})])
    return Run(said.rstrip("\n")[len("run: "):])


class Experiment(_Directory):
    """The directory of an experiment."""

    def __init__(self, path: PathLike) -> None:
        super().__init__(path)
        self._overview: Optional[Dict[str, Any]] = None

    @property
    def overview(self) -> Dict[str, Any]:
        """Cells, figures over repeats, comparisons and gates, as `ldplayer report DIR --json` has them."""
        if self._overview is None:
            self._overview = cast(Dict[str, Any], json.loads(call(["report", str(self.path), "--json"])))
        return self._overview

    def runs(self) -> Iterator[Tuple[Dict[str, Any], Run]]:
        """The keys of each run, with its `repeat`, and the run, whether it counts or not."""
        record = json.loads((self.path / "experiment.json").read_text(encoding="utf-8"))
        for run in record["runs"]:
            directory = self.path / run["directory"]
            if (directory / "run.json").exists():
                yield {**run["keys"], "repeat": run["repeat"]}, Run(directory)

    def rows(self, columns: Optional[Sequence[str]] = None, where: Optional[str] = None) -> "pyarrow.Table":
        """Rows of all runs behind the keys of their cells, `repeat`, and `counted`: whether the run counts."""
        words = ["rows", str(self.path), "--format=csv", *options({"columns": ",".join(columns or ["all"]), "where": where})]
        return with_units(from_csv(call(words), None))

    def compare(self, a: Sequence[str], b: Sequence[str], **given: Any) -> Dict[str, Any]:
        """Cells with these values (`["server=nsd"]`) against those with others."""
        words = ["compare", str(self.path), *options({"a": list(a), "b": list(b), **given}), "--json"]
        return cast(Dict[str, Any], json.loads(call(words)))

    def _repr_html_(self) -> str:
        """The medians of each cell."""
        cells = self.overview["cells"]
        tiles = [("cells", str(len(cells))), ("runs that count", str(sum(cell["runs"] for cell in cells)))]
        return boxed(self.overview["name"], tiles, [medians(self.overview)])


def figures(runs: "Sequence[Union[Run, PathLike]]", directory: PathLike, *names: str, style: str = "screen", size: Optional[str] = None) -> Dict[str, Path]:
    """Writes the figures that compare these runs, as [`Run.figures`] does those of one."""
    return exported([path_of(run) for run in runs], directory, names, style, size)


def path_of(run: "Union[Run, PathLike]") -> str:
    return str(run.path if isinstance(run, Run) else run)


def needed(module: str) -> Any:
    """A part of pyarrow."""
    try:
        return __import__(module, fromlist=["_"])
    except ImportError:
        raise LdplayerError("tables need pyarrow: pip install pyarrow", 3) from None


def stored(folder: Path, columns: Optional[Sequence[str]], only_schema: bool = False) -> Any:
    dataset = needed("pyarrow.dataset").dataset(folder, format="parquet")
    return dataset.schema if only_schema else dataset.to_table(columns=list(columns) if columns is not None else None)


def from_csv(said: str, schema: Any) -> Any:
    """A table of what `rows` printed, each column with its type in the files of rows."""
    arrow, csv = needed("pyarrow"), needed("pyarrow.csv")
    heads = said.split("\n", 1)[0].split(",")
    kinds = {name: schema.field(name).type for name in heads if schema is not None and name in schema.names}
    own = {name: kind.value_type if arrow.types.is_dictionary(kind) else kind for name, kind in kinds.items()}
    made = {"qname": arrow.string(), "qtype": arrow.string(), "late_ns": arrow.int64(), "latency_ns": arrow.int64()}
    kinds = {name: kind for name, kind in {**made, **own}.items() if name in heads}
    convert = csv.ConvertOptions(column_types=kinds, strings_can_be_null=True)
    return csv.read_csv(needed("io").BytesIO(said.encode()), convert_options=convert)


def with_units(table: Any) -> Any:
    """The table with the units of its columns in their metadata."""
    fields = []
    for field in table.schema:
        unit = next((unit for end, unit in UNITS.items() if field.name.endswith(end)), None)
        fields.append(field.with_metadata({**(field.metadata or {}), "unit": unit}) if unit else field)
    return table.cast(needed("pyarrow").schema(fields, metadata=table.schema.metadata))


def exported(paths: Sequence[str], directory: PathLike, names: Sequence[str], style: str, size: Optional[str]) -> Dict[str, Path]:
    given = {"export": directory, "figure": ",".join(names) or None, "style": style, "size": size}
    call(["report", *paths, *options(given)])
    # The folder may have figures of an earlier call; the captions are of this one.
    captions = (Path(directory) / "captions.txt").read_text(encoding="utf-8").splitlines()
    written = [line.split(": ", 1)[0] for line in captions if line]
    return {name: Path(directory) / f"{name}.svg" for name in written}


def in_ms(value: Optional[float]) -> str:
    return "unanswered" if value is None else f"{value:.3g} ms"


def boxed(title: str, tiles: Sequence[Tuple[str, str]], below: Sequence[str]) -> str:
    """Figures side by side below a title, and what stands below them."""
    tile = "<div style='border:1px solid #ccd;border-radius:6px;padding:6px 12px'><div style='font-size:1.3em'>{}</div><div style='opacity:.7'>{}</div></div>"
    row = "<div style='display:flex;flex-wrap:wrap;gap:8px;margin:6px 0'>{}</div>"
    shown = "".join(tile.format(html.escape(value), html.escape(name)) for name, value in tiles)
    return f"<div><b>{html.escape(title)}</b>{row.format(shown)}{row.format(''.join(below))}</div>"


def medians(overview: Dict[str, Any]) -> str:
    """A table: a row for each cell, a column for each figure."""
    quantities = overview["quantities"]
    head = "".join(f"<th>{html.escape(of['quantity'])} {html.escape(of['unit'])}</th>" for of in quantities)
    rows = []
    for at, cell in enumerate(overview["cells"]):
        found = [next((one["median"] for one in of["cells"] if one["cell"] == at), None) for of in quantities]
        values = "".join(f"<td>{'–' if value is None else f'{value:.4g}'}</td>" for value in found)
        rows.append(f"<tr><td>{html.escape(cell['name'])}</td>{values}</tr>")
    return f"<table><tr><th>cell</th>{head}</tr>{''.join(rows)}</table>"
