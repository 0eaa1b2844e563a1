"""Programs that a figure starts servers with: dnsproxy, and servers with something preloaded."""

import os
import shutil
import subprocess
from pathlib import Path

from .stage import ROOT


def dnsproxy():
    """Builds dnsproxy once and says where it is to dnsproxy.sh, which experiments start in its place; None where it cannot be had."""
    build = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "tools/dnsproxy"
    done = subprocess.run([ROOT / "scripts/build-server.sh", "dnsproxy", build], capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    os.environ["DNSPROXY"] = done.stdout.strip()
    return Path(done.stdout.strip())


def preloaded(stage, program, source, name, **environment):
    """A program that is another one with a library preloaded, which is compiled from C: its path, below the figure's output.

    What is there already stays: an experiment makes its runs anew when a program of it is newer."""
    folder = stage.out / "programs"
    folder.mkdir(exist_ok=True)
    library = folder / f"{source.stem}.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        stage.run("cc", "-O2", "-shared", "-fPIC", "-o", library, source)
    path = shutil.which(program, path=f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin")
    if path is None:
        raise RuntimeError(f"{stage.name}: {program} is not installed")
    told = " ".join(f"{key}={value}" for key, value in environment.items())
    wrapper = folder / name
    text = f'#!/bin/sh\n{told} LD_PRELOAD={library} exec {path} "$@"\n'
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
        wrapper.write_text(text, encoding="utf-8")
        wrapper.chmod(0o755)
    return wrapper
