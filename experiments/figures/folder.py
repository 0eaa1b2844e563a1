"""A folder below experiments/: what its figure.py says, and the making of it."""

import datetime
import importlib.util
import json
import subprocess
import time

from .runs import Runs
from .stage import ROOT, Stage


class Figure:
    """One figure of a source. Its figure.py has

    TITLE, SOURCE           what it shows, and where it stands
    SCALE                   {"small": …, "full": …}: length, clients and rate, and how they scale down from the source's; "long", where two
                            cores with hours decide what the small form does not
    measure(stage)          optional: makes the runs and returns their directory, or whatever `claims` takes; else experiment.toml is run
    claims(runs, stage)     draws the pictures into stage.out, and returns a list of Claim
    """

    def __init__(self, folder):
        self.folder, self.name = folder, folder.name
        spec = importlib.util.spec_from_file_location(f"experiments.{self.name}", folder / "figure.py")
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.title, self.source = self.module.TITLE, self.module.SOURCE

    def form(self, asked):
        """The form that is made where this one is asked for: the small one is also the longest where it decides all that two cores can."""
        return asked if asked in self.module.SCALE else "small"

    def make(self, form, out):
        """Measures, draws, and writes what was found as claims.json. Returns it."""
        stage = Stage(self.folder, form, out)
        began = time.monotonic()
        measured = self.module.measure(stage) if hasattr(self.module, "measure") else Runs(stage.experiment())
        claims = self.module.claims(measured, stage)
        found = {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "form": form,
            "scale": self.module.SCALE[form],
            "date": datetime.date.today().isoformat(),
            "took_s": round(time.monotonic() - began),
            "versions": versions(measured, stage),
            "machine": machine(),
            "commands": stage.commands,
            "told": [line for runs in runs_in(measured) for line in runs.told()],
            "claims": [claim.as_dict() for claim in claims],
        }
        (stage.out / "claims.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return found


def all_figures(folder=ROOT / "experiments"):
    """Every figure of a folder, by name, in the order of the sources."""
    return {path.parent.name: Figure(path.parent) for path in sorted(folder.glob("*/figure.py"))}


def versions(measured, stage):
    said = subprocess.run([stage.binaries / "ldplayer", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    servers = {name: version for runs in runs_in(measured) for name, version in runs.versions.items()}
    return {"ldplayer": said, **servers, **getattr(stage, "versions", {})}


def runs_in(measured):
    """The runs of experiments in what was measured: one, or some beside other things."""
    parts = measured if isinstance(measured, (tuple, list)) else [measured]
    return [part for part in parts if isinstance(part, Runs)]


def machine():
    """The processor, its cores as this process may use them, memory and kernel."""
    lines = open("/proc/cpuinfo", encoding="utf-8").read().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")
    memory = int(next(line.split()[1] for line in open("/proc/meminfo", encoding="utf-8") if line.startswith("MemTotal")))
    kernel = open("/proc/sys/kernel/osrelease", encoding="utf-8").read().strip()
    cores = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{model}, {cores} cores, {memory / 2**20:.0f} GiB, Linux {kernel}"
