"""Finds the program and runs it: options from keywords, progress, errors as exceptions."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

Word = Union[str, int, float, "os.PathLike[str]"]

# Exit statuses: a verdict or a gate that failed, or one that is undecided, is a result and no error.
RESULTS = (0, 1, 4)
INTERRUPTED = 130


class LdplayerError(Exception):
    """What ldplayer says in one line when it cannot do what was asked for.

    `status` is its exit status: 2 for bad usage or input, 3 for what this machine or user cannot do."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def program() -> str:
    """The program: that of the variable LDPLAYER, that of this Python's environment, or the first on the path."""
    told = os.environ.get("LDPLAYER")
    if told:
        return told
    own = Path(sysconfig.get_path("scripts")) / "ldplayer"
    found = str(own) if own.exists() else shutil.which("ldplayer")
    if found is None:
        raise LdplayerError("there is no program ldplayer: install it, or say in the variable LDPLAYER where it is", 3)
    return found


def version() -> str:
    """The version of the program."""
    return call(["--version"]).split()[-1]


def options(given: Mapping[str, Any]) -> List[str]:
    """Keywords as options: `query_timeout="2s"` is `--query-timeout 2s`, True is an option alone, a list is one for each item."""
    words: List[str] = []
    for key, value in given.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(name)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            words += [f"{name}={text(item)}" for item in value]
        else:
            words.append(f"{name}={text(value)}")
    return words


def text(word: Word) -> str:
    return os.fspath(word) if isinstance(word, os.PathLike) else str(word)


def texts(words: Union[Word, Iterable[Word]]) -> List[str]:
    """One word or several."""
    if isinstance(words, (str, int, float, os.PathLike)):
        return [text(words)]
    return [text(word) for word in words]


def call(arguments: Sequence[str]) -> str:
    """Runs the program to its end without progress. Returns its standard output."""
    done = subprocess.run([program(), *arguments], capture_output=True, text=True, check=False)
    check(done.returncode, done.stderr)
    return done.stdout


def watched(arguments: Sequence[str], progress: Optional[bool]) -> Tuple[int, str]:
    """Runs the program to its end and shows what it says meanwhile. Returns exit status and standard output."""
    show = shown(progress)
    said: List[str] = []
    words = [program(), *arguments, f"--progress={'plain' if show else 'off'}"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        reader = threading.Thread(target=listen, args=(running.stderr, said, show))
        reader.start()
        try:
            output = running.stdout.read() if running.stdout else ""
            status = running.wait()
        except KeyboardInterrupt:
            # The run ends with all that was measured.
            running.send_signal(signal.SIGINT)
            running.wait()
            raise
        finally:
            reader.join()
    check(status, "\n".join(said))
    return status, output


def listen(stream: Optional[Iterable[str]], said: List[str], show: Any) -> None:
    for line in stream or ():
        said.append(line.rstrip("\n"))
        if show:
            show(said[-1])


def shown(progress: Optional[bool]) -> Any:
    """What shows a line of progress: in a notebook in place of the one before, on a terminal too; None where it is not wanted."""
    in_notebook = "ipykernel" in sys.modules
    if progress is False or (progress is None and not in_notebook and not sys.stderr.isatty()):
        return None
    if in_notebook:
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        show: Any = display
        handle = show({"text/plain": ""}, raw=True, display_id=True)
        return lambda line: handle.update({"text/plain": line}, raw=True)
    return lambda line: print(line, file=sys.stderr)


def check(status: int, said: str) -> None:
    """Raises what the program said last, unless it has a result."""
    if status in RESULTS:
        return
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    lines = [line for line in said.splitlines() if line.startswith(("ldplayer: ", "error: "))]
    message = lines[-1].split(": ", 1)[1] if lines else said.strip() or f"ldplayer ended with status {status}"
    raise LdplayerError(message, status)
