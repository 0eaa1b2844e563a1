"""Runs over a testbed's wire with all packets captured: what an experiment does not keep."""

import contextlib
import os
import re
import subprocess

SERVER = "10.53.0.2"
STOPS_WITHIN = 10


@contextlib.contextmanager
def testbed(stage, rtt, capture):
    """A testbed with this round-trip time whose packets go to a file; yields its name."""
    name = f"{stage.name}-{os.getpid()}"
    stage.ldplayer("testbed", "up", "--name", name, "--rtt", rtt, "--capture", capture, stdout=subprocess.DEVNULL)
    try:
        yield name
    finally:
        stage.ldplayer("testbed", "down", "--name", name, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def server(stage, name, program, configuration):
    """A server on the host `resolver` of a testbed, ended with the block."""
    command = [stage.binaries / "ldplayer", "testbed", "exec", "--name", name, "resolver", "--", program, "-d", "-c", configuration]
    stage.commands.append(" ".join(["ldplayer", *map(stage.short, command[1:]), "&"]))
    with open(configuration.with_suffix(".log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            # Asked on its own host: from another, an answer may take longer than one try.
            stage.ldplayer("testbed", "exec", "--name", name, "--wait-for", SERVER, "resolver", "--", "true")
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def kept_configuration(run, folder):
    """The configuration that the server of a run of an experiment had, made to work in a folder of our own."""
    kept = next(run.directory.with_name(f"{run.directory.name}.server").glob("*-configuration"))
    folder.mkdir(parents=True, exist_ok=True)
    text = re.sub(r'"[^"]*/ldplayer-\w+/[^/"]+', lambda _: f'"{folder}', kept.read_text(encoding="utf-8"))
    path = folder / "nsd.conf"
    path.write_text(text, encoding="utf-8")
    return path


def again(stage, name, run, out, *options):
    """Makes a run of an experiment once more, from the host `clients` of a testbed."""
    replay = [stage.binaries / "ldplayer", "replay", "--again", run.directory, "-o", out, "--force", "--quiet", *options]
    stage.ldplayer("testbed", "exec", "--name", name, "clients", "--", *replay, status=(0, 1), stdout=subprocess.DEVNULL)
