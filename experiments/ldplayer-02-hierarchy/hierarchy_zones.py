"""A made-up hierarchy of zones: root, top-level domains, domains below them, each with the servers that it has; the same every time.

Every server has addresses of its own out of 198.18.0.0/15 and 2001:db8::/32, which are for tests. Zones have glue in and out of
bailiwick, aliases into each other, wildcards, empty non-terminals, children on the servers of their parents, and shared providers.
"""

import ipaddress
from dataclasses import dataclass, field

PROVIDERS = 6
# Every which domain is of a kind: at a provider, with a child on its own servers, signed, signed with NSEC3.
AT_PROVIDER, WITH_CHILD, SIGNED, SIGNED_NSEC3 = 4, 5, 2, 6
FIRST_V4, FIRST_V6 = ipaddress.ip_address("198.18.0.1"), ipaddress.ip_address("2001:db8::1")
HEAD = "$TTL {ttl}\n$ORIGIN {apex}\n@ SOA {server} hostmaster.{server} 1 3600 900 604800 300\n"


@dataclass
class Server:
    """A server, or several of one operator that serve the same zones: names with their addresses."""

    names: list
    addresses: dict
    zones: list = field(default_factory=list)


@dataclass
class Zone:
    apex: str
    server: Server
    lines: list
    signed: str = ""


class Hierarchy:
    def __init__(self, tlds, domains):
        self.zones, self.servers, self.questions = {}, [], []
        self.root = self._zone(".", self._server("root-servers.net.", ["a", "b"]), "nsec")
        gtld = self._server("gtld-servers.net.", ["a", "b"])
        for apex in ("com.", "net."):
            self._delegate(".", apex, gtld, "nsec" if apex == "com." else "nsec3")
        self._delegate("net.", "gtld-servers.net.", gtld, "")
        self._delegate("net.", "root-servers.net.", self.root.server, "")
        self.tlds = ["com.", "net.", *(self._tld(number) for number in range(tlds - 2))]
        self.providers = [self._provider(number) for number in range(PROVIDERS)]
        for number in range(domains):
            self._domain(number)

    def write(self, folder):
        """Zone files, the root hints, and questions, a name a line."""
        (folder / "plain").mkdir(parents=True, exist_ok=True)
        for zone in self.zones.values():
            name = "root.zone" if zone.apex == "." else f"{zone.apex}zone"
            head = HEAD.format(ttl=86400 if zone.apex.count(".") < 2 else 7200, apex=zone.apex, server=zone.server.names[0])
            (folder / "plain" / name).write_text(head + "\n".join(zone.lines) + "\n", encoding="utf-8")
        root = [f". 3600000 NS {name}" for name in self.root.server.names] + glue(self.root.server, 3600000)
        (folder / "root.hints").write_text("\n".join(root) + "\n", encoding="utf-8")
        (folder / "questions.txt").write_text("\n".join(mixed(self.questions)) + "\n", encoding="utf-8")

    def _server(self, domain, labels, has_v6=False):
        names = [f"{label}.{domain}" for label in labels]
        taken = sum(len(server.names) for server in self.servers)
        addresses = {name: [FIRST_V4 + taken + at] + ([FIRST_V6 + taken + at] if has_v6 else []) for at, name in enumerate(names)}
        self.servers.append(Server(names, addresses))
        return self.servers[-1]

    def _zone(self, apex, server, signed):
        zone = Zone(apex, server, [f"@ NS {name}" for name in server.names] + [line for line in glue(server) if below(line.split()[0], apex)], signed)
        self.zones[apex] = zone
        server.zones.append(zone)
        return zone

    def _delegate(self, parent, apex, server, signed):
        """A zone with its delegation, and glue where the parent has to have it, or may."""
        self._add(parent, [f"{apex} NS {name}" for name in server.names] + [line for line in glue(server) if below(line.split()[0], parent)])
        return self._zone(apex, server, signed)

    def _add(self, apex, lines):
        there = self.zones[apex].lines
        there += [line for line in lines if line not in there]

    def _tld(self, number):
        apex = f"t{number:02}."
        self._delegate(".", apex, self._server(f"nic.{apex}", ["a", "b"], has_v6=number % 2 == 0), ("nsec", "nsec3", "")[number % 3])
        return apex

    def _provider(self, number):
        apex = f"provider{number}.net."
        server = self._server(apex, ["ns1", "ns2"], has_v6=number % 2 == 1)
        self._delegate("net.", apex, server, "")
        return server

    def _domain(self, number):
        parent = self.tlds[number * 7 % len(self.tlds)]
        apex = f"d{number:03}.{parent}"
        signed = "" if number % SIGNED or not self.zones[parent].signed else "nsec3" if number % SIGNED_NSEC3 == 0 else "nsec"
        at_provider = number % AT_PROVIDER == 2
        server = self.providers[number % PROVIDERS] if at_provider else self._server(apex, ["ns1", "ns2"][: 1 + number % 2], has_v6=number % 3 == 0)
        self._delegate(parent, apex, server, signed)
        other = f"d{max(number - 1, 0):03}.{self.tlds[max(number - 1, 0) * 7 % len(self.tlds)]}"
        self._add(apex, hosts(number, other))
        self.questions += [f"{label}{apex}" for label in LABELS]
        if number % WITH_CHILD == 0:
            child = f"sub.{apex}"
            self._delegate(apex, child, server, "" if number % 2 else signed)
            self._add(child, ["www A 192.0.2.77", "*.any TXT \"any name below any\""])
            self.questions += [f"{label}{child}" for label in ("www.", "x.any.", "none.")]


# What is asked below a domain. Not there are `none`, `www.none` and, as an empty non-terminal, `ent`.
LABELS = ("", "www.", "www.", "www.", "mail.", "alias.", "chain.", "away.", "x1.wild.", "x2.wild.", "deep.ent.", "ent.", "none.", "www.none.")


def hosts(number, other):
    v4, v6 = f"192.0.2.{number % 250 + 1}", f"2001:db8:ffff::{number + 1:x}"
    return [
        "@ MX 10 mail", "@ TXT \"domain of a test\"", f"www A {v4}", f"www AAAA {v6}", f"mail A {v4}", "alias CNAME www", "chain CNAME alias",
        f"away CNAME www.{other}", f"*.wild A {v4}", f"deep.ent A {v4}",
    ]  # fmt: skip


def glue(server, ttl=""):
    return [f"{name} {ttl} {'A' if address.version == 4 else 'AAAA'} {address}" for name in server.names for address in server.addresses[name]]


def below(name, apex):
    return apex == "." or name == apex or name.endswith(f".{apex}")


def mixed(questions):
    """An order in which neighbours are of different domains: the popularity of a name goes by its place."""
    return [name for _, name in sorted((hash_of(name, at), name) for at, name in enumerate(questions))]


def hash_of(name, at):
    value = 2166136261
    for octet in f"{name}{at}".encode():
        value = (value ^ octet) * 16777619 % 2**32
    return value
