"""The other commands: traces made and changed, zones built and served, experiments, testbeds."""

import itertools
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Union, cast

from . import _toml
from ._program import LdplayerError, Word, call, check, options, program, texts, watched
from ._results import Experiment, PathLike, Run

# A server that has not answered for so long will not.
PATIENCE_S = 30.0


def start_replay(given: Dict[str, Any]) -> Run:
    """Runs `ldplayer replay` with these keywords, of which some are not keys of a run."""
    trace, progress = given.pop("trace"), given.pop("progress")
    output = given.pop("output") or free_directory()
    watched(["replay", *options({**given, "output": output, "json": True}), *texts(trace)], progress)
    return Run(output)


def free_directory() -> Path:
    """A directory below `runs` that there is not, called by the time of day."""
    now = time.strftime("%Y-%m-%dT%H-%M-%S")
    names = (now if number == 1 else f"{now}-{number}" for number in itertools.count(1))
    return next(path for name in names if not (path := Path("runs") / name).exists())


def experiment(spec: Union[PathLike, Mapping[str, Any]], output: Optional[PathLike] = None, progress: Optional[bool] = None, **given: Any) -> Experiment:
    """Runs an experiment, of a file or of a dictionary with the keys of one; other keywords are options of `ldplayer experiment`."""
    with file_of(spec) as file:
        name = Path(file).stem if not isinstance(spec, Mapping) else str(spec.get("name", "experiment"))
        directory = Path(output) if output is not None else Path("runs") / name
        watched(["experiment", *options({"output": directory, "yes": True, **given}), file], progress)
    return Experiment(directory)


def generate(spec: Union[PathLike, Mapping[str, Any]], output: PathLike, **given: Any) -> Path:
    """Writes a trace by a model: a preset such as "root-like", a file, or a dictionary. Keywords are options of `ldplayer generate`:
    `queries`, `clients`, `qps`, `duration`, `seed`, `force` …"""
    with file_of(spec) as file:
        call(["generate", *options({"output": output, **given}), file])
    return Path(output)


def mutate(trace: Union[Word, Iterable[Word]], output: PathLike, **given: Any) -> Path:
    """Writes a trace changed by rules. Keywords are options of `ldplayer mutate`: `rules="do.toml"`, `set={"transport": "tcp"}`, `seed=1` …"""
    changes = given.pop("set", None)
    if isinstance(changes, Mapping):
        changes = [f"{key}={value}" for key, value in changes.items()]
    call(["mutate", *options({"output": output, "set": changes, **given}), *texts(trace)])
    return Path(output)


def zones_build(captures: Union[Word, Iterable[Word]], output: PathLike, **given: Any) -> Dict[str, Any]:
    """Makes zone files of the responses in captures, and returns what was found. Keywords are options of `ldplayer zones build`."""
    said = call(["zones", "build", *options({"output": output, "json": True, **given}), *texts(captures)])
    return cast(Dict[str, Any], json.loads(said))


class Server:
    """A server that runs until the `with` ends."""

    def __init__(self, process: "subprocess.Popen[bytes]", address: str) -> None:
        self.process = process
        #: IP address and port, as `replay(server=…)` takes it.
        self.address = address

    @property
    def pid(self) -> int:
        """Its process, as `replay(watch_pid=…)` takes it."""
        return self.process.pid


@contextmanager
def serve(zones: PathLike, port: Optional[int] = None, **given: Any) -> Iterator[Server]:
    """Serves a folder of zones on 127.0.0.1, on a free port unless one is named, every zone on that address. Keywords are options of
    `ldplayer serve`.

        with ldplayer.serve("zones") as server:
            run = ldplayer.replay("queries.tsv", server=server.address, rate=1000)
    """
    address = f"127.0.0.1:{port if port is not None else free_port()}"
    words = [program(), "serve", *options({"listen": address, "all_zones_everywhere": True, **given}), str(zones)]
    # A pipe that nobody reads would hold the server up once it is full.
    with tempfile.TemporaryFile() as said, subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said) as process:
        try:
            wait_for(process, address, said)
            yield Server(process, address)
        finally:
            process.terminate()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses over UDP or TCP."""
    for _ in range(100):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            udp.bind(("127.0.0.1", 0))
            port = cast(int, udp.getsockname()[1])
            try:
                tcp.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise LdplayerError("127.0.0.1 has no free port", 3)


def wait_for(process: "subprocess.Popen[bytes]", address: str, said: IO[bytes]) -> None:
    """Waits until connections are accepted, or says why that cannot be."""
    host, port = address.rsplit(":", 1)
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if process.poll() is not None:
            said.seek(0)
            check(process.returncode or 1, said.read().decode(errors="replace"))
            raise LdplayerError("the server ended at once", process.returncode)
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise LdplayerError(f"no server answers at {address} after {PATIENCE_S:.0f} s", 3)


class Testbed:
    """Hosts for clients, a resolver and the Internet, that are there until the `with` ends."""

    def __init__(self, name: str) -> None:
        self.name = name

    def command(self, host: str, *words: Word) -> List[str]:
        """A command as one of the host `clients`, `resolver` or `internet`, for `subprocess`."""
        return [program(), "testbed", "exec", f"--name={self.name}", host, "--", *texts(words)]

    def run(self, host: str, *words: Word) -> str:
        """Runs a command on a host to its end. Returns its standard output."""
        done = subprocess.run(self.command(host, *words), capture_output=True, text=True, check=False)
        if done.returncode:
            raise LdplayerError(f"{words[0]} on {host} ended with status {done.returncode}: {done.stderr.strip()}", done.returncode)
        return done.stdout

    @contextmanager
    def start(self, host: str, *words: Word) -> "Iterator[subprocess.Popen[bytes]]":
        """Runs a command on a host, and ends it where the `with` ends."""
        process = subprocess.Popen(self.command(host, *words))
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()

    def status(self) -> str:
        """What the wire has done."""
        return call(["testbed", "status", f"--name={self.name}"])


@contextmanager
def testbed(name: Optional[str] = None, **given: Any) -> Iterator[Testbed]:
    """Makes a testbed, which takes root; keywords are options of `ldplayer testbed up`: `zones="zones"`, `rtt="20ms"`, `loss="1%"` …"""
    name = name or f"python-{os.getpid()}-{os.urandom(3).hex()}"
    call(["testbed", "up", *options({"name": name, **given})])
    try:
        yield Testbed(name)
    finally:
        call(["testbed", "down", f"--name={name}"])


@contextmanager
def file_of(spec: Union[PathLike, Mapping[str, Any]]) -> Iterator[str]:
    """The name of a file, or a file of a dictionary, which is there until the `with` ends. Paths in it are those of this folder."""
    if not isinstance(spec, Mapping):
        yield str(spec)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(_toml.document(spec))
        file.flush()
        yield file.name
