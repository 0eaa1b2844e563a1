#!/usr/bin/env python3
"""Zone sets of growing size in ldplayer serve, NSD and BIND: load, memory, answers, reload. Called by scripts/bench.sh zones.

Each zone has ten records: SOA, two NS, their addresses and five hosts. All questions go to one address, which all zones are
at, and ask for hosts of all zones, in an order that no cache foresees. BIND with a view for each zone: scripts/memory.sh.

What an answer costs is compared between servers of all sizes that are up at once and asked by turns, so that the hours of the
host are in all of them alike; with --turns-only nothing else is measured.
"""
import argparse, json, os, random, signal, socket, struct, subprocess, tempfile, time
from pathlib import Path

PORT = 5300
PATIENCE = 300
HOSTS = 5
ANSWERS = 400_000


def zone_text(name, serial):
    hosts = "".join(f"h{host} A 192.0.2.{host}\n" for host in range(HOSTS))
    return (
        f"$ORIGIN {name}.\n$TTL 3600\n@ SOA ns1 hostmaster {serial} 3600 900 604800 60\n"
        f"@ NS ns1\n@ NS ns2\nns1 A 127.0.0.1\nns2 A 127.0.0.1\n{hosts}"
    )


def names_of(count):
    return [f"z{number:06d}.test" for number in range(count)]


def write_set(folder, names, serial):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / f"{name}.zone").write_text(zone_text(name, serial))


def question(name):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">6H", 7, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 6, 1)


def serial_of(name, port):
    """The serial number that the server has for a zone; None while it does not answer for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(0.5)
        try:
            asker.connect(("127.0.0.1", port))  # refused at once while nobody listens
            asker.send(question(name))
            answer = asker.recv(4096)
        except OSError:
            return None
    if answer[3] & 15 or not answer[2] & 4 or struct.unpack(">H", answer[6:8])[0] != 1:
        return None
    return struct.unpack(">I", answer.split(b"\x0ahostmaster")[1][2:6])[0]


def wait_for(server, names, serial, port=PORT):
    """Until the server has the serial number for the first zones, the last ones and some between."""
    start, probes = time.monotonic(), {names[0], names[-1], *random.Random(3).sample(names, min(20, len(names)))}
    for name in probes:
        while serial_of(name, port) != serial:
            if server.poll() is not None:
                raise SystemExit(f"{server.args}: ended with {server.returncode}")
            if time.monotonic() - start > PATIENCE:
                raise SystemExit(f"{server.args}: {name} has no serial number {serial} after {PATIENCE} s")
            time.sleep(0.002)
    return time.monotonic() - start


def processes(pid):
    """A process and all that it has begun."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from processes(int(child))


def megabytes(pid):
    """What a server's processes hold, shared pages counted once."""
    pss = 0
    for each in processes(pid):
        lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        pss += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return pss / 1024


def processor_seconds(pid):
    """User's and kernel's time that a server's processes have taken."""
    ticks, taken = os.sysconf("SC_CLK_TCK"), [0, 0]
    for each in processes(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        taken = [taken[0] + int(fields[11]) / ticks, taken[1] + int(fields[12]) / ticks]
    return taken


class Servers:
    def __init__(self, arguments, work, port=PORT):
        self.arguments, self.work, self.port, self.zones = arguments, work, port, work / "zones"

    def command(self, kind, names):
        if kind == "serve":
            options = ["--workers", "1", "--listen", f"127.0.0.1:{self.port}"]
            return [self.arguments.ldplayer, "serve", str(self.zones), *options]
        if kind == "nsd":
            return ["nsd", "-d", "-c", self.nsd_conf(names)]
        return ["named", "-f", "-n", "1", "-c", self.named_conf(names)]

    def nsd_conf(self, names):
        path = self.work / "nsd.conf"
        zones = "".join(f"zone:\n  name: {name}\n  zonefile: {name}.zone\n" for name in names)
        path.write_text(
            f'server:\n  ip-address: 127.0.0.1@{self.port}\n  server-count: 1\n  username: ""\n  chroot: ""\n  zonesdir: "{self.zones}"\n'
            f'  pidfile: "{self.work}/nsd.pid"\n  xfrdfile: ""\n  zonelistfile: "{self.work}/zone.list"\n  database: ""\n'
            f'  logfile: "{self.work}/nsd.log"\n  rrl-ratelimit: 0\nremote-control:\n  control-enable: no\n{zones}'
        )
        return str(path)

    def named_conf(self, names):
        path = self.work / "named.conf"
        zones = "".join(f'zone "{name}" {{ type primary; file "{self.zones}/{name}.zone"; }};\n' for name in names)
        path.write_text(
            f'options {{ directory "{self.work}"; pid-file "{self.work}/named.pid"; session-keyfile "{self.work}/session.key";\n'
            f"  recursion no; listen-on port {self.port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; }};\ncontrols {{ }};\n{zones}"
        )
        return str(path)

    def start(self, command):
        log = (self.work / "server.log").open("w")
        return subprocess.Popen(["taskset", "-c", "1", *command], stdout=log, stderr=log)


def write_questions(work, names):
    path, order = work / "names", random.Random(5)
    asked = [f"h{order.randrange(HOSTS)}.{order.choice(names)} A\n" for _ in range(max(20_000, 2 * len(names)))]
    path.write_text("".join(asked))
    return path


def ask(arguments, path, port=PORT):
    """Answers a second to a bare asker that has them in flight by batches."""
    command = [arguments.bench, "bare-ask", "--to", f"127.0.0.1:{port}", "--core", "0", "--count", str(ANSWERS), "--names", str(path)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["per_second"]


def end(server):
    server.send_signal(signal.SIGTERM)
    server.wait()


def measure(arguments, work, kind, size):
    servers, names = Servers(arguments, work), names_of(size)
    write_set(servers.zones, names, 1)
    server = servers.start(servers.command(kind, names))
    load = wait_for(server, names, 1)
    held, asked = megabytes(server.pid), write_questions(work, names)
    rates = sorted(ask(arguments, asked) for _ in range(arguments.runs))
    # Files are read anew where they are younger than what is served, to the second.
    time.sleep(1.1)
    write_set(servers.zones, names, 2)
    server.send_signal(signal.SIGHUP)
    reload = wait_for(server, names, 2)
    end(server)
    median = rates[len(rates) // 2]
    answers = f"{median / 1e3:.0f} k [{rates[0] / 1e3:.0f}–{rates[-1] / 1e3:.0f}]"
    print(f"| {size:,} | {kind} | {load:.2f} | {held:.0f} | {answers} | {reload:.2f} |", flush=True)
    return median


def range_of(values, form="{:.0f}"):
    """Median, least and most."""
    values = sorted(values)
    return "{} [{}–{}]".format(*(form.format(values[at]) for at in (len(values) // 2, 0, -1)))


def by_turns(arguments, kind, sizes):
    """What an answer costs with zone sets of these sizes: all servers are up, and are asked by turns."""
    with tempfile.TemporaryDirectory() as work:
        started = []
        for number, size in enumerate(sizes):
            folder, port, names = Path(work) / str(size), PORT + number, names_of(size)
            folder.mkdir()
            servers = Servers(arguments, folder, port)
            write_set(servers.zones, names, 1)
            server = servers.start(servers.command(kind, names))
            wait_for(server, names, 1, port)
            started.append((server, port, write_questions(folder, names), []))
        for _ in range(arguments.runs):
            for server, port, asked, rounds in started:
                before, rate = processor_seconds(server.pid), ask(arguments, asked, port)
                user, system = (now - then for now, then in zip(processor_seconds(server.pid), before))
                rounds.append((rate, 1e6 * user / ANSWERS, 1e6 * system / ANSWERS, 1e6 * (user + system) / ANSWERS))
        for server, *_ in started:
            end(server)
        # Before the files of the sets are removed, which takes longer than to ask.
        print_turns(kind, sizes, [rounds for *_, rounds in started])


def print_turns(kind, sizes, all_rounds):
    for size, rounds in zip(sizes, all_rounds):
        rates, user, system, cost = zip(*rounds)
        ratios = [of_round[3] / smallest[3] for of_round, smallest in zip(rounds, all_rounds[0])]
        figures = [range_of([rate / 1e3 for rate in rates], "{:.0f} k"), range_of(user, "{:.2f}"), range_of(system, "{:.2f}")]
        print(f"| {size:,} | {kind} | {' | '.join(figures)} | {range_of(cost, '{:.2f}')} | {range_of(ratios, '{:.2f}')} |", flush=True)


def compare_by_turns(arguments, sizes):
    print("\n### What an answer costs by size of the set, sizes asked by turns\n")
    print(f"| zones | server | answers/s | own, µs | kernel, µs | both, µs | ÷ {sizes[0]:,} zones |\n|---|---|---|---|---|---|---|")
    for kind in arguments.turns.split(","):
        by_turns(arguments, kind, sizes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ldplayer", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sizes", default="10,100,1000,10000,100000")
    parser.add_argument("--turns", default="serve,nsd")
    parser.add_argument("--turns-only", action="store_true")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    compare_by_turns(arguments, sizes)
    if not arguments.turns_only:
        measure_each(arguments, sizes)


def measure_each(arguments, sizes):
    print("\n### Zone sets by size, ten records a zone, one server thread on one core\n")
    print("| zones | server | load, s | memory, MB | answers/s | reload, s |\n|---|---|---|---|---|---|")
    rates = {}
    for size in sizes:
        for kind in ("serve", "nsd", "named"):
            with tempfile.TemporaryDirectory() as work:
                rates[kind, size] = measure(arguments, Path(work), kind, size)
    for kind in ("serve", "nsd", "named"):
        print(f"\nanswers/s of {kind}, {sizes[-1]:,} zones ÷ {sizes[0]:,}: {rates[kind, sizes[-1]] / rates[kind, sizes[0]]:.2f}")


if __name__ == "__main__":
    main()
