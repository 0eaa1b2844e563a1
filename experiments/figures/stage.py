"""What a figure measures with: its form, its folder, and the programs of this repository."""

import contextlib
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import tomli_w

ROOT = Path(__file__).resolve().parents[2]


class Stage:
    """The making of one figure in one form."""

    def __init__(self, folder, form, out):
        self.name, self.form, self.source = folder.name, form, folder
        self.out = Path(out).resolve() / folder.name
        self.out.mkdir(parents=True, exist_ok=True)
        built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "release"
        self.binaries = Path(os.environ.get("LDPLAYER_BINARIES", built))
        self.commands = []

    @property
    def is_full(self):
        return self.form == "full"

    def ldplayer(self, *arguments, status=(0,), **options):
        """Runs ldplayer, and keeps the command line for the page."""
        return self.run(self.binaries / "ldplayer", *arguments, status=status, **options)

    def run(self, program, *arguments, status=(0,), **options):
        """Runs a program from the root of the repository; an exit status that is not among `status` is an error."""
        command = [str(program), *map(str, arguments)]
        self.commands.append(" ".join([Path(program).name, *(shlex.quote(self.short(argument)) for argument in command[1:])]))
        done = subprocess.run(command, cwd=ROOT, text=True, check=False, **options)
        if done.returncode not in status:
            said = (done.stderr or "").strip()
            raise RuntimeError(f"{self.name}: `{' '.join(command)}` ended with {done.returncode}. {said}")
        return done

    def trace(self, preset, **options):
        """The path of a trace that `ldplayer generate` makes of a preset or a model, once."""
        words = [f"--{key}={value}" for key, value in options.items()]
        name = "-".join([Path(preset).stem, *(f"{key}{value}" for key, value in options.items())])
        path = self.out / "traces" / f"{name}.parquet"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            self.ldplayer("generate", preset, *words, "-o", path, "--force", stdout=subprocess.DEVNULL)
        return path

    def experiment(self, changes=None, name="experiment", before=(), at_most_s=None, of=None):
        """Makes the runs of experiment.toml in this form, and returns their directory. Unfaithful runs (status 1) are told by the runs.

        Experiment `name` is the file of that name, or with its changes that of the name `of`. `before` is what ldplayer is called by, such as taskset with its arguments. After `at_most_s` it is ended; the runs made till then count.
        """
        text = self.merged(of or name)
        merge(text, changes or {})
        file = self.out / f"{name}.toml"
        file.write_text(tomli_w.dumps(text), encoding="utf-8")
        runs = self.out / ("runs" if name == "experiment" else f"runs-{name}")
        program, *words = [*before, self.binaries / "ldplayer"]
        options = {"status": (0, 1, 4), "stdout": subprocess.DEVNULL, "timeout": at_most_s}
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.run(program, *words, "experiment", file, "-o", runs, "--yes", "--progress", progress(), **options)
        return runs

    def short(self, argument):
        """A path as it is from the root of the repository, and a program of it by its name."""
        return str(argument).replace(f"{self.binaries}/", "").replace(f"{ROOT}/", "")

    def merged(self, name="experiment"):
        """The experiment of the full form, with what the small form has instead; the long form is the small one with changes of its own."""
        text = tomllib.loads((self.source / f"{name}.toml").read_text(encoding="utf-8"))
        for form in {"full": [], "small": ["small"], "long": ["small", "long"]}[self.form]:
            file = self.source / (f"{form}.toml" if name == "experiment" else f"{name}.{form}.toml")
            if file.exists():
                merge(text, tomllib.loads(file.read_text(encoding="utf-8")))
        return text


def merge(text, changes):
    """Changes tables key by key; everything else is replaced as a whole, and an empty text removes the key."""
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(text.get(key), dict):
            merge(text[key], value)
        elif value == "":
            text.pop(key, None)
        else:
            text[key] = value


def progress():
    return "plain" if not sys.stderr.isatty() else "auto"

