"""Reads the files of a figure in both forms, as `ldplayer experiment` reads them, and runs nothing."""

import subprocess
import tempfile
from pathlib import Path

import tomli_w

from .stage import ROOT, Stage

FORMS = ("small", "full")
# Stands in for what is only made when a figure is: traces and zones.
TRACE, ZONES = ROOT / "data/l-root-20161006.pcap.xz", ROOT / "data/root-2016100801.zone.xz"


def check(figure):
    """What is wrong with it, a line each; empty where nothing is."""
    missing = [f"{figure.name}: no {what}" for what in ("TITLE", "SOURCE", "SCALE", "claims") if not hasattr(figure.module, what)]
    missing += [f"{figure.name}: SCALE has no {form}" for form in FORMS if form not in getattr(figure.module, "SCALE", {})]
    if not (figure.folder / "about.md").exists():
        missing.append(f"{figure.name}: no about.md")
    with tempfile.TemporaryDirectory() as out:
        forms = [*FORMS, *(["long"] if figure.form("long") == "long" else [])]
        return "\n".join(missing + [error for form in forms for error in refused(figure, form, Path(out))])


def refused(figure, form, out):
    """What `ldplayer experiment --dry-run` says of the experiments that it does not take."""
    for file in sorted(figure.folder.glob("*.toml")):
        if file.stem.split(".")[-1] in ("small", "long"):
            continue
        stage = Stage(figure.folder, form, out)
        text = stage.merged(file.stem)
        if "version" not in text:  # a model, a rule, a template
            continue
        stand_in(text, out)
        path = out / f"{form}-{file.name}"
        path.write_text(tomli_w.dumps(text), encoding="utf-8")
        command = [stage.binaries / "ldplayer", "experiment", path, "--dry-run", "--yes"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            yield f"{figure.name}: {file.name}, {form} form: {done.stderr.strip()}"


def stand_in(text, out):
    """Puts files that are there in the place of those that are made with the figure."""
    if "generate" not in text and not traces(text):
        text["trace"] = str(TRACE)
        text.get("find", {}).update(start=1)
    for name in traces(text):
        path = out / name
        if not path.exists() and not (ROOT / name).exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(TRACE)
            # It has fewer clients than the trace of the figure, and a search must be able to begin.
            text.get("find", {}).update(start=1)
    for server in text.get("server", {}).values() if isinstance(text.get("server"), dict) else ():
        if server.get("kind") != "address" and "backend" not in server and "zones" not in text:
            server.setdefault("zones", str(ZONES))


def traces(text):
    """The traces that an experiment names, at its top or in its matrix."""
    named = text.get("trace", text.get("matrix", {}).get("trace", []))
    return [named] if isinstance(named, str) else named
