"""One run of the hierarchy: its Internet in a testbed, a cold resolver, clients, and what the wire carried."""

import json
import os
import shutil
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import duckdb

RESOLVER, CLIENTS_ASK = ("10.53.0.2", "fd53::2"), "10.53.0.2"
PATIENCE_S = 600
TYPES = {1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 15: "MX", 16: "TXT", 28: "AAAA", 43: "DS", 48: "DNSKEY"}
# Options of the replay of the clients' questions, and of those of the resolver. Servers are at addresses for tests, and nobody else is asked.
TO_RESOLVER = ("--server", CLIENTS_ASK, "--allow-target", f"{CLIENTS_ASK}/32", "--sources", "original", "--query-timeout", "8s")
TO_SERVERS = ("--server", "recorded", "--allow-target", "198.18.0.0/15,2001:db8::/32", "--sources", "ports", "--timing", "rate:300", "--compare-answers", "recorded")

UNBOUND = """server:
  interface: 10.53.0.2
  directory: "{work}"
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  logfile: ""
  do-daemonize: no
  num-threads: 1
  access-control: 0.0.0.0/0 allow
  module-config: "validator iterator"
  trust-anchor-file: "{anchor}"
  root-hints: "{hints}"
  # So that the same questions follow from the same questions: no addresses asked for in advance, and no early retries.
  target-fetch-policy: "0 0 0 0 0"
  unknown-server-time-limit: 10000
  trust-anchor-signaling: no
remote-control:
  control-enable: no
"""
KNOT_RESOLVER = """log_target('stderr')
cache.open(100 * MB, 'lmdb://.')
net.listen('10.53.0.2', 53, {{ kind = 'dns' }})
modules = {{ 'hints > iterate' }}
hints.root_file('{hints}')
trust_anchors.remove('.')
trust_anchors.add_file('{anchor}', true)
"""
RESOLVERS = {"unbound": (UNBOUND, ["unbound", "-d", "-p", "-c"]), "knot-resolver": (KNOT_RESOLVER, ["kresd", "-n", "-c"])}

NSD = """server:
{addresses}
  username: ""
  chroot: ""
  zonesdir: "{work}"
  database: ""
  pidfile: "{work}/nsd.pid"
  xfrdfile: "{work}/xfrd.state"
  xfrdir: "{work}"
  zonelistfile: "{work}/zone.list"
  cookie-secret-file: "{work}/cookies"
  server-count: 1
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
  rrl-size: 1000
remote-control:
  control-enable: no
"""
# How its zones are served: by a server for each set of addresses, by one, by BIND with views behind proxies, and by one in the plain way.
MANY, ONE, VIEWS, PLAIN = "many", "one", "views", "plain"
IS_THERE = {MANY: "nsd", VIEWS: "named"}


class Run:
    """What a run leaves: exchanges of the resolver, its answers as compared, the processes and memory of the servers."""

    def __init__(self, how, folder, hierarchy):
        self.how, self.folder = how, folder
        at = {str(address): server.names[0] for server in hierarchy.servers for each in server.addresses.values() for address in each}
        self.asked = exchanges(folder / "capture.parquet")
        self.by_address = Counter(self.asked)
        self.by_server = Counter((at.get(address, address), *rest) for address, *rest in self.asked)
        self.summary, self.upstream = summary(folder / "replay"), summary(folder / "upstream")
        self.facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))

    @property
    def validated(self):
        """How many answers to the clients have the AD flag."""
        return duckdb.sql(f"select count(*) from '{self.folder}/replay/queries/*.parquet' where ad").fetchall()[0][0]

    def at_level(self, level):
        """How many were asked of the servers of the root, of top-level domains, and of those below."""
        return sum(count for (server, *_), count in self.by_server.items() if level_of(server) == level)

    @property
    def matched(self):
        """The share of clients' questions that were answered as expected; None where nothing was."""
        compared = self.summary["answers_compared"]
        return compared["match"] / compared["compared"] if compared and compared["compared"] else None


def summary(directory):
    file = directory / "run.json"
    return json.loads(file.read_text(encoding="utf-8"))["summary"] if file.exists() else None


def level_of(server):
    if server.endswith("root-servers.net."):
        return "root"
    return "top-level" if ".nic.t" in server or server.endswith("gtld-servers.net.") else "below"


def exchanges(parquet):
    """What the resolver asked and was answered: address, name, type, transport. What got no answer was asked again, and counts once."""
    query = f"select dst, response, transport from '{parquet}' where src in {RESOLVER} and response is not null"
    return [(address, *question(response), transport) for address, response, transport in duckdb.sql(query).fetchall()]


def question(message):
    """Name and type that a message asks for. Proxies change the addresses of queries, so they are taken from responses."""
    labels, at = [], 12
    while message[at]:
        labels.append(message[at + 1 : at + 1 + message[at]].decode("latin-1").lower() + ".")
        at += 1 + message[at]
    number = int.from_bytes(message[at + 1 : at + 3], "big")
    return "".join(labels) or ".", TYPES.get(number, f"TYPE{number}")


class Testbed:
    """A testbed of `ldplayer`, with everything in it ended when it is left."""

    def __init__(self, stage, name, folder):
        self.stage, self.name, self.folder, self.processes = stage, name, folder, []
        self.ldplayer = str(stage.binaries / "ldplayer")

    def up(self, *options):
        self.stage.ldplayer("testbed", "up", "--name", self.name, *options, stdout=subprocess.DEVNULL)

    def command(self, host, *command, wait_for=None):
        waits = ["--wait-for", wait_for] if wait_for else []
        return [self.ldplayer, "testbed", "exec", "--name", self.name, *waits, host, "--", *map(str, command)]

    def start(self, host, *command):
        log = (self.folder / f"{host}.log").open("w")
        self._tell("testbed", "exec", host, "--", *command)
        self.processes.append(subprocess.Popen(self.command(host, *command), stdout=log, stderr=log, cwd=self.folder))
        return self.processes[-1].pid

    def wait_for(self, addresses):
        subprocess.run(self.command("clients", "true", wait_for=",".join(addresses)), check=True, timeout=PATIENCE_S)

    def replay(self, trace, out, *options):
        """A replay from the clients' host. Its verdict on times is no matter here."""
        self._tell("testbed", "exec", "clients", "--", "ldplayer", "replay", trace, "-o", out, *options)
        done = subprocess.run(self.command("clients", self.ldplayer, "replay", trace, "-o", out, "--force", "-q", *options), check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"the replay of {trace} ended with {done.returncode}")

    def _tell(self, *words):
        self.stage.commands.append(" ".join(["ldplayer", *(self.stage.short(word) for word in words)]))

    def down(self):
        subprocess.run([self.ldplayer, "testbed", "down", "--name", self.name], check=False, stdout=subprocess.DEVNULL)
        for process in self.processes:
            process.wait(timeout=PATIENCE_S)

    def status(self):
        command = [self.ldplayer, "testbed", "status", "--name", self.name, "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@contextmanager
def testbed(stage, folder):
    bed = Testbed(stage, f"hierarchy-{os.getpid()}", folder)
    try:
        yield bed
    finally:
        bed.down()


def run(stage, hierarchy, how, resolver, repeat, trace, *options, upstream=None):
    """Makes a run. `upstream` is a trace of questions to servers, with answers, which are asked for afterwards."""
    folder = stage.out / "runs" / f"{resolver}-{how}-{repeat}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    zones = stage.out / "zones"
    with testbed(stage, folder) as bed:
        began = time.monotonic()
        pid = bring_up(bed, hierarchy, how, zones, folder)
        facts = {"up_s": time.monotonic() - began, "memory_mb": megabytes(pid), "processes": len(list(processes(pid)))}
        start_resolver(bed, resolver, zones, folder)
        bed.replay(trace, folder / "replay", *TO_RESOLVER, *options)
        if upstream:
            bed.replay(upstream, folder / "upstream", *TO_SERVERS)
        facts["leaked"] = bed.status()["wire"]["dropped"]["leaked"]
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    stage.ldplayer("convert", folder / "capture.pcap", "-o", folder / "capture.parquet", "--force", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return Run(how, folder, hierarchy)


def bring_up(bed, hierarchy, how, zones, folder):
    """Starts the Internet and returns the process that is, or began, its servers."""
    capture = ["--capture", folder / "capture.pcap"]
    first = [str(each[0]) for each in hierarchy.root.server.addresses.values()]
    if how == ONE:
        bed.up("--zones", zones / "signed", *capture)
        bed.wait_for(first)
        return bed.status()["holder"]
    if how == VIEWS:
        bed.up("--zones", zones / "signed", "--proxies", *capture)
        bed.stage.ldplayer("zones", "views", zones / "signed", "-o", folder / "bind", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pid = bed.start("internet", "sh", "-c", f"cd '{folder}/bind' && exec named -g -c named.conf")
        bed.wait_for(["10.53.0.3"])
        return pid
    bed.up(*capture)
    if how == PLAIN:
        addresses = first
        pid = bed.start("internet", bed.ldplayer, "serve", zones / "signed", "--all-zones-everywhere")
    else:
        addresses = [str(address) for server in hierarchy.servers if server.zones for each in server.addresses.values() for address in each]
        pid = bed.start("internet", "sh", start_script(hierarchy, zones, folder))
    bed.wait_for(addresses)
    return pid


def start_script(hierarchy, zones, folder):
    """A script that starts an NSD for each set of addresses."""
    lines = []
    for number, server in enumerate(server for server in hierarchy.servers if server.zones):
        work = folder / "nsd" / str(number)
        work.mkdir(parents=True)
        addresses = "\n".join(f"  ip-address: {address}@53" for each in server.addresses.values() for address in each)
        text = NSD.format(addresses=addresses, work=work)
        for zone in server.zones:
            text += f'zone:\n  name: "{zone.apex}"\n  zonefile: "{zones}/signed/{"root." if zone.apex == "." else zone.apex}zone"\n'
        (work / "nsd.conf").write_text(text, encoding="utf-8")
        lines.append(f"nsd -d -c '{work}/nsd.conf' &")
    path = folder / "start.sh"
    path.write_text("\n".join([*lines, "wait", ""]), encoding="utf-8")
    return path


def start_resolver(bed, kind, zones, folder):
    template, command = RESOLVERS[kind]
    work = folder / "resolver"
    work.mkdir()
    shutil.copy(zones / "signed" / "trust-anchors.ds", work / "anchor.ds")
    anchors = (work / "anchor.ds").read_text(encoding="utf-8").splitlines()
    # Of the root alone: zones below unsigned parents stay insecure, as on the Internet.
    (work / "anchor.ds").write_text("\n".join(line for line in anchors if line.startswith(". ")) + "\n", encoding="utf-8")
    (work / "conf").write_text(template.format(work=work, anchor=work / "anchor.ds", hints=zones / "root.hints"), encoding="utf-8")
    bed.start("resolver", "sh", "-c", f"cd '{work}' && exec {' '.join(command)} '{work}/conf'")
    bed.wait_for([CLIENTS_ASK])


def processes(pid):
    """A process and all that it has begun."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from processes(int(child))


def megabytes(pid):
    """What processes hold, shared pages counted once."""
    lines = [line for each in processes(pid) for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def program(name):
    """Where a server is; None where it is not."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin")


def version(name):
    """What a server says of itself, in its first line."""
    said = subprocess.run([program(name), "-v" if name in ("nsd", "named") else "-V"], capture_output=True, text=True, check=False)
    return (said.stdout + said.stderr).strip().splitlines()[0]


def upstream_trace(run, out):
    """What the resolver asked in a run, each question once, with the answer that it got: a trace that others can be asked."""
    query = f"""copy (select * from '{run.folder}/capture.parquet' where src in {RESOLVER} and response is not null and transport = 'udp'
        qualify row_number() over (partition by dst, lower(qname), qtype order by time) = 1 order by time) to '{out}' (format parquet)"""
    duckdb.sql(query)
    return out
