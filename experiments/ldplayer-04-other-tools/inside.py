"""Runs every tool on every capture in turns, inside `ldplayer testbed run`, with a receiver for each run: inside.py PLAN, a JSON file."""

import json
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
V4, V6 = "10.9.9.9", "fd09::9"


def main(plan):
    plan = json.loads(Path(plan).read_text(encoding="utf-8"))
    accept_injected_packets()
    servers = [server(plan, "echo", V4), server(plan, "echo", f"[{V6}]"), server(plan, "echo-tcp", V4), server(plan, "echo-tcp", f"[{V6}]")]
    try:
        for repeat in range(1, plan["repeats"] + 1):
            for capture in plan["captures"]:
                # The order turns, so that no tool always comes behind the same one.
                turn = repeat % len(plan["tools"])
                for tool in plan["tools"][turn:] + plan["tools"][:turn]:
                    one(plan, tool, capture, repeat)
            over_tcp(plan, repeat)
    finally:
        for process in servers:
            process.terminate()
            process.wait()


def accept_injected_packets():
    """Packets that tcpreplay injects into loopback come from addresses of this host; without this they are stamped and then dropped."""
    for device in ("all", "lo"):
        try:
            Path(f"/proc/sys/net/ipv4/conf/{device}/accept_local").write_text("1", encoding="ascii")
        except OSError as error:
            print(f"accept_local of {device}: {error}", file=sys.stderr)


def server(plan, part, ip):
    bench = Path(plan["binaries"]) / "ldplayer-bench"
    return subprocess.Popen([bench, part, "--listen", f"{ip}:53"], stdout=subprocess.DEVNULL)


def one(plan, tool, capture, repeat):
    """One replay, stamped by a receiver of its own. What the tool says is kept beside the stamps."""
    out = Path(plan["out"]) / capture["name"] / str(repeat)
    out.mkdir(parents=True, exist_ok=True)
    receiver = subprocess.Popen([sys.executable, "-m", "figures.receiver", "--into", out / f"{tool}.stamps"], stdout=subprocess.PIPE)
    receiver.stdout.readline()
    try:
        with open(out / f"{tool}.log", "w", encoding="utf-8") as log:
            done = subprocess.run(command(plan, tool, capture, out), stdout=log, stderr=log, timeout=plan["seconds"] + 30, check=False)
            log.write(f"\nexit status {done.returncode}\n")
        # The receiver looks at its ring every 10 ms: what came last is taken before it ends.
        time.sleep(0.1)
    finally:
        receiver.terminate()
        receiver.wait()


def command(plan, tool, capture, out):
    file = capture["file"]
    return {
        "ldplayer": replay(plan, file, out / "ldplayer", "udp"),
        "tcpreplay": ["tcpreplay", "--intf1=lo", "--preload-pcap", file],
        "dnsjit": ["dnsjit", HERE / "replay.lua", file, V4, "53"],
        "drool": ["drool", "replay", "--timing", "keep", "--no-responses", "--no-tcp", file, V4, "53"],
        "dnsperf": ["dnsperf", "-s", V4, "-p", "53", "-d", capture["text"], "-n", "1", "-Q", str(capture["qps"]), "-c", "1", "-q", "1000"],
    }[tool]


def replay(plan, file, out, transport):
    return [Path(plan["binaries"]) / "ldplayer", "replay", file, "--server", V4, "--server", V6, "--transport", transport,
            "--precision", "high", "--query-timeout", "1s", "-o", out, "--force", "--quiet", "--no-probe"]  # fmt: skip


def over_tcp(plan, repeat):
    """The question that other tools leave open: all of it over TCP."""
    capture = plan["captures"][0]
    out = Path(plan["out"]) / capture["name"] / str(repeat) / "ldplayer-tcp"
    subprocess.run(replay(plan, capture["file"], out, "tcp"), check=False)


main(sys.argv[1])
