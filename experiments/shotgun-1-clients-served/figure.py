"""Clients that a resolver serves over each protocol, and what each protocol costs it: DNS Shotgun's tables."""

from pathlib import Path

from figures import draw
from figures.claim import ALIKE, NO, OPEN, YES, Claim, joined, judged, missing, more, not_theirs
from figures.interval import Interval
from figures.programs import dnsproxy
from figures.runs import Runs
from figures.sessions import Population, made

TITLE = "Clients served over UDP, TCP, TLS, HTTPS and QUIC"
SOURCE = "DNS Shotgun, Scaling DNS resolvers (2020), tables of clients served and of performance loss"
SCALE = {
    "small": "Unbound and Knot Resolver, one thread each, on the cores of client and network. 6 s instead of 120 s: clients ask 20 times as "
    "often, and the idle limit is 0.5 s instead of 10 s, so that as many queries share a connection. Searches of less than a minute, of a resolver "
    "that has a fifth of a core (server_cpu), each load tried once; costs of 200 clients (100 over QUIC), three repeats.",
    "long": "BIND, Knot Resolver, PowerDNS Recursor and Unbound, one thread each, on the cores of client and network. 6 s instead of 120 s: clients "
    "ask 20 times as often, and the idle limit is 0.5 s instead of 10 s, so that as many queries share a connection. Searches to 10 %, of a resolver "
    "that has a fifth of a core (server_cpu), three trials of five at a load; pairs that are close together are searched again, one after the other, with "
    "more trials; costs as in the small form, with eight repeats, of Knot Resolver, too, which is searched by key without resumption as well.",
    "full": "BIND, Knot Resolver, PowerDNS Recursor and Unbound, one thread each (the source: 8 cores), 120 s as there, up to 600,000 clients; "
    "searches to 10 %, two trials of three; costs of 20,000 clients (10,000 by key type and over QUIC), five repeats. It takes more than a day, "
    "and needs room for 400,000 open files in each process.",
}
POPULATION = {
    "small": Population(6_000, roll_call=1, duration=6, gap=1.5),
    "long": Population(24_000, roll_call=1, duration=6, gap=1.5),
    "full": Population(600_000, roll_call=10, duration=120, gap=30),
}
NAMES = {
    "udp": "UDP",
    "tcp": "TCP, idle 10 s",
    "tcp 0s": "TCP, no idle",
    "dot": "TLS P-256, idle 10 s",
    "dot 0s": "TLS P-256, no idle",
    "doh2": "HTTP/2 + TLS, idle 10 s",
    "doq": "QUIC, idle 10 s",
    "rsa-2048": "TLS RSA-2048",
    "rsa-3072": "TLS RSA-3072",
    "p-256": "TLS P-256",
    "ed25519": "TLS Ed25519",
    "rsa-2048 anew": "TLS RSA-2048, not resumed",
    "rsa-3072 anew": "TLS RSA-3072, not resumed",
    "p-256 anew": "TLS P-256, not resumed",
    "ed25519 anew": "TLS Ed25519, not resumed",
}
SERVERS = {"bind": "BIND", "knot-resolver": "Knot Resolver", "powerdns": "PowerDNS Recursor", "unbound": "Unbound"}
# Thousands of clients served there, on 8 cores; their TLS has Ed25519 keys, as fast as P-256.
SERVED = {
    "bind": {"udp": 160, "tcp 0s": 80, "tcp": 120},
    "knot-resolver": {"udp": 400, "tcp 0s": 180, "tcp": 250, "dot": 140, "dot 0s": 40, "doh2": 120, "rsa-2048": 80, "rsa-3072": 20, "p-256": 140, "ed25519": 140},
    "powerdns": {"udp": 250, "tcp 0s": 120, "tcp": 140},
    "unbound": {"udp": 450, "tcp 0s": 250, "tcp": 300, "dot": 160, "doh2": 140},
}
# What loses more than what, and how many times as much there (of Knot Resolver, which has all of them).
ORDER = [("tcp", "udp"), ("tcp 0s", "tcp"), ("dot", "tcp"), ("dot 0s", "dot"), ("doh2", "dot")]
ORDER_OF_KEYS = [("rsa-2048", "p-256"), ("rsa-3072", "rsa-2048")]
# Where the points of the picture of penalties are, how they look, and what they are.
MARKS = {
    "theirs": (-0.2, {"marker": "o", "markerfacecolor": "none"}, "theirs: clients served"),
    "searched": (0, {"marker": "s"}, "ours: clients served, searched"),
    "cost": (0.2, {"marker": "D"}, "ours: processor time of a client"),
}
# A search is believed from this confidence on, in percent.
SURE = 95
# Pairs of searches that five trials at a load do not tell apart: searched again in the long form, one after the other, with ten. By experiment.
CLOSE_FIND = {"duration_sum": "70s", "max_time": "8m"}
CLOSE = {
    "experiment": {
        "matrix": {"server": ["bind", "knot-resolver", "powerdns"], "rules": [f"experiments/shotgun-1-clients-served/over-{which}.toml" for which in ("udp", "tcp")]},
        "exclude": [
            {"rules": "experiments/shotgun-1-clients-served/over-udp.toml", "idle_timeout": "0s"},
            {"server": "bind", "rules": "experiments/shotgun-1-clients-served/over-tcp.toml", "idle_timeout": "0s"},
            {"server": "knot-resolver", "rules": "experiments/shotgun-1-clients-served/over-tcp.toml"},
            {"server": "powerdns", "rules": "experiments/shotgun-1-clients-served/over-tcp.toml", "idle_timeout": "500ms"},
        ],
        "find": CLOSE_FIND | {"start": 400},
    },
    "keys": {"matrix": {"tls_key": ["rsa-3072"]}, "find": CLOSE_FIND | {"start": 60}},
}
COST = "processor time of the resolver for a client; the source counted clients"
RESUMED = {
    "": f"{COST}; the key takes part in the first handshake of a client alone, as sessions are resumed",
    " anew": f"{COST}; no session is resumed, so that the key takes part in each handshake; whether the source's clients resumed is not said",
}


def measure(stage):
    names = ["cost", "key-cost"] + ["keys"] * (stage.form != "small") + ["doq"] * bool(dnsproxy())
    return Found(stage, made(stage, POPULATION[stage.form]), names)


class Found(Runs):
    """The searches, and the experiments of fixed numbers of clients."""

    def __init__(self, stage, keys, names):
        super().__init__(stage.experiment(keys))
        self.others = {name: Runs(stage.experiment(keys, name)) for name in names}
        self.versions = {name: version for runs in (self, *self.others.values()) for name, version in runs.versions.items()}
        searched = [self, *([self.others["keys"]] if "keys" in self.others else [])]
        self.searches = by_protocol(searched)
        self.close = close(stage, keys) if stage.form == "long" else {}

    def told(self):
        ends = [f"search, {SERVERS[server]}, {NAMES[which]}: ended by {record['ended']} ({record['reason']})"
                for (server, which), record in self.searches.items() if record.get("reason")]  # fmt: skip
        return ends + [line for runs in self.fixed() for line in (*runs.told(), *unsound(runs))]

    def fixed(self):
        """The experiments with fixed numbers of clients."""
        return [runs for name, runs in self.others.items() if name != "keys"]

    def costs(self):
        """Milliseconds of the processor for a client: {(server, protocol): [user and system, by run]}."""
        cells = [cell for runs in self.fixed() for cell in runs.cells]
        # A query that is late by milliseconds costs no other time of the processor: such runs count.
        return {(cell.keys.get("server", "dnsproxy"), protocol(cell.keys)): [cost(run) for run in cell.runs if is_sound(run)] for cell in cells}


def by_protocol(searched):
    """The searches of experiments with their trials: {(server, protocol): search}."""
    records = [record | {"made": runs.trials(record)} for runs in searched for record in runs.record["searches"]]
    return {(record["keys"]["server"], protocol(record["keys"])): record for record in records}


def close(stage, keys):
    """The searches of the close pairs, as `by_protocol`."""
    return by_protocol([Runs(stage.experiment(keys | changes, f"close-{name}", of=name)) for name, changes in CLOSE.items()])


def protocol(keys):
    """The word for what a cell asks over: as in NAMES."""
    if "tls_key" in keys:
        return keys["tls_key"] + (" anew" if str(keys.get("resumption")).lower() == "false" else "")
    over = Path(keys["rules"]).stem.removeprefix("over-")
    return f"{over} 0s" if keys.get("idle_timeout") == "0s" else over


def is_sound(run):
    """Whether the resolver served all, and the client was not what held the run up."""
    codes = {warning["code"] for warning in run.json["warnings"]}
    return run.get("queries.answered") >= 0.99 * run.get("queries.sent") and "client_bottleneck" not in codes


def unsound(runs):
    """What of the costs does not count, in a sentence each."""
    for cell in runs.cells:
        lacking = sum(not is_sound(run) for run in cell.runs)
        if lacking:
            yield f"{cell.name}: {lacking} of {len(cell.runs)} runs left 1 % of the queries unanswered, or were held up by the client: they tell no cost"


def cost(run):
    clients = run.get("clients.total")
    return tuple(1e3 * run.get(f"telemetry.server.{part}") / clients for part in ("cpu_user_s", "cpu_system_s"))


def claims(found, stage):
    costs = {key: [sum(parts) for parts in values] for key, values in found.costs().items()}
    draw_costs(found.costs(), stage.out)
    draw_served(found.searches, stage.out)
    draw_penalties(found.searches, costs, stage.out)
    return [
        *served(found, stage),
        *penalties(costs),
        *order(costs),
        *keys(costs),
        *quic(costs),
        *similar(costs, found.searches),
    ]


# Searches.


def served(found, stage):
    """A row for each resolver and protocol that was searched, and one for those of the full form alone."""
    rows = [searched(found.close if (server, which) in found.close else found.searches, server, which) for server, which in found.searches if which != "udp"]
    if stage.form == "small":
        theirs = "BIND 160, 120, 80; PowerDNS 250, 140, 120 thousand over UDP, TCP with 10 s, TCP without idle"
        rows.append(missing("clients served by BIND and PowerDNS Recursor", theirs, "searched in the long and the full form: each search takes minutes"))
    return rows


def searched(searches, server, which):
    """The loss to UDP by searches: from the bounds of both."""
    udp, other = searches[server, "udp"], searches[server, which]
    thousands = SERVED[server]
    theirs = f"{loss_there(server, which)} ({thousands['udp']} k to {thousands[which]} k)" if which in thousands else loss_there(server, which)
    low, high = quotient(udp["lower"], other["upper"]), quotient(udp["upper"], other["lower"])
    range_ = " to ".join("?" if bound is None else f"{bound:.2g}" for bound in (low, high))
    ours = f"{range_} times fewer ({bounds(udp)} to {bounds(other)} clients)"
    factor = thousands["udp"] / thousands[which.removesuffix(" anew")] if which.removesuffix(" anew") in thousands else 1
    same, why = sure(low, high, udp, other, factor)
    return Claim(f"{SERVERS[server]}: fewer clients over {NAMES[which]} than over UDP", theirs, ours, same, why)


def sure(low, high, udp, other, factor):
    """Whether there are fewer, from the bounds of the searches, and how sure that is by the trials of both. There are not, either, where there are a fifth fewer
    at most, while the source has `factor` times fewer."""
    bounds = min(search["confidence_percent"] or 0 for search in (udp, other))
    is_near = high is not None and high <= ALIKE[1] < factor
    ways = (
        (YES, other, udp, 1, (low or 0) >= 1, ""),
        (NO, udp, other, 1, high is not None and high <= 1, ""),
        (NO, udp, other, ALIKE[1], is_near, "a fifth fewer at most"),
    )
    for same, less, more, margin, apart, how in ways:
        fails, holds, percent = separated([(at / margin, held) for at, held in less["made"]], more["made"], more["lower"]) if apart else (0, 0, 0)
        if percent >= SURE:
            trials = f"{fails} trials of the one failed at loads up to {f'{margin} times ' if margin > 1 else ''}those that held in {holds} of the other"
            return same, joined(how, f"searched; sure to {percent:.1f} %: {trials}")
    ends = {search["ended"] for search in (udp, other)}
    return OPEN, f"searched; bounds sure to {bounds:.0f} %, ended by {', '.join(sorted(ends))}"


def separated(less, more, load):
    """Trials that failed of what serves fewer at up to this load, those of the other that held from it on, and how sure it is, in percent, that the
    order is not made by spoilt trials alone: that all trials on one side were spoilt, each as likely as trials contradict the order."""
    fails = sum(at <= load and not held for at, held in less)
    holds = sum(at >= load and held for at, held in more)
    against = sum(at >= load and held for at, held in less) + sum(at <= load and not held for at, held in more)
    spoilt = (against + 0.5) / (fails + holds + against + 1)
    return fails, holds, max(0, 100 * (1 - spoilt**fails - spoilt**holds))


def bounds(search):
    low, high = search["lower"], search["upper"]
    if low is None:
        return "?" if high is None else f"less than {high:,}"
    return f"{low:,} or more" if high is None else f"{low:,}–{high:,}"


def quotient(above, below):
    return above / below if above and below else None


# Costs.


def ratio(costs, server, one, other):
    return Interval.ratio(costs.get((server, one), []), costs.get((server, other), []))


def measured_servers(costs):
    return [server for server in SERVERS if (server, "udp") in costs]


def penalties(costs):
    """The loss over each protocol, of the time that a client costs."""
    for server in measured_servers(costs):
        # P-256 among the types of keys is what TLS has among the protocols.
        for which in [key for owner, key in costs if owner == server and key != "udp" and not key.startswith("p-256")]:
            found = ratio(costs, server, which, "udp")
            yield judged(f"{SERVERS[server]}: loss over {NAMES[which]}", loss_there(server, which), found, "times the cost", at_least=1, why=COST)


def loss_there(server, which):
    """How many times fewer clients there were than over UDP: of this resolver, or else of the one that has all protocols."""
    served, which = SERVED[server], which.removesuffix(" anew")
    of_it = "" if which in served else " (Knot Resolver)"
    served = served if which in served else SERVED["knot-resolver"]
    return f"{served['udp'] / served[which]:.1f} times fewer clients{of_it}" if which in served else "not measured"


def order(costs):
    """UDP < TCP with idle connections < without < TLS …, each against the one before."""
    for server in measured_servers(costs):
        for one, other in ORDER:
            if (server, one) in costs:
                found = ratio(costs, server, one, other)
                what = f"{SERVERS[server]}: {NAMES[one]} loses more than {NAMES[other]}"
                yield more(what, f"{there(one, other):.1f} times (Knot Resolver)", found, there(one, other), "times", COST)


def there(one, other):
    """How many times as much one loses as the other there."""
    knot = SERVED["knot-resolver"]
    return knot[other] / knot[one]


def keys(costs):
    """RSA against curves, with sessions resumed and without."""
    for server in [server for server in SERVERS if (server, "p-256") in costs]:
        for anew, why in RESUMED.items():
            for one, other in ORDER_OF_KEYS:
                found = ratio(costs, server, one + anew, other + anew)
                what = f"{SERVERS[server]}: {NAMES[one + anew]} loses more than {NAMES[other + anew]}"
                yield more(what, f"{there(one, other):.1f} times (Knot Resolver)", found, there(one, other), "times", why)
            alike = ratio(costs, server, "ed25519" + anew, "p-256" + anew)
            what = f"{SERVERS[server]}: {NAMES['ed25519' + anew]} and {NAMES['p-256' + anew]} are alike"
            yield judged(what, "1 time", alike, "times", at_least=ALIKE[0], at_most=ALIKE[1], why=why)


def quic(costs):
    """QUIC, which the source does not have."""
    if ("dnsproxy", "doq") not in costs:
        return [missing("loss over QUIC", "not measured", "no resolver of Debian speaks it, and dnsproxy is not built: scripts/build-server.sh dnsproxy")]
    found = ratio(costs, "dnsproxy", "doq", "udp")
    why = "dnsproxy before Unbound, over QUIC against UDP; its own processor time alone"
    return [not_theirs(judged("QUIC loses clients, too", "not measured", found, "times the cost", at_least=1, why=why))]


def similar(costs, searches):
    """Whether the penalty is a matter of the protocol rather than of the resolver."""
    theirs = "TLS 2.9 (Knot Resolver) and 2.8 (Unbound), TCP 1.6 and 1.5"
    what = "penalties are similar across implementations"
    both = [server for server in measured_servers(costs) if (server, "dot") in costs]
    if len(both) < 2:
        return [missing(what, theirs, "costs of one resolver alone in the small form; what the searches say is in the picture of penalties")]
    one, other = [[value / mean(costs[server, "udp"]) for value in costs[server, "dot"]] for server in ("knot-resolver", "unbound")]
    return [judged(what, theirs, Interval.ratio(one, other), "times Unbound's loss over TLS", at_least=1 / 1.5, at_most=1.5)]


def mean(values):
    return sum(values) / len(values) if values else None


# Pictures.


def draw_costs(costs, out):
    """Processor time of a client, in the program and in the kernel."""
    shown = [(key, values) for key, values in costs.items() if values]
    labels = [f"{SERVERS.get(server, 'dnsproxy')}, {NAMES[which]}" for (server, which), _ in shown]
    user, system = ([mean([value[part] for value in values]) for _, values in shown] for part in (0, 1))
    with draw.picture(out, "cost", "Processor time of the resolver for a client", size=(9, 1.4 + 0.3 * len(shown))) as axes:
        axes.barh(labels, user, label="program")
        axes.barh(labels, system, left=user, label="kernel, on its behalf")
        for at, (_, values) in enumerate(shown):
            axes.plot([sum(value) for value in values], [at] * len(values), ".", color="black", markersize=4, label="a run" if at == 0 else None)
        axes.set_xlabel("ms a client")
        axes.invert_yaxis()
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    draw.table(out, "cost", ("server", "protocol", "user_ms", "system_ms"), [(*key, *value) for key, values in shown for value in values])


def draw_served(searches, out):
    """The bounds of the searches: bars up to what holds, lines up to what does not."""
    servers = list(dict.fromkeys(server for server, _ in searches))
    kinds = list(dict.fromkeys(which for _, which in searches))
    width = 0.8 / len(servers)
    with draw.picture(out, "served", "Clients served, by search") as axes:
        for number, server in enumerate(servers):
            of = {which: searches[server, which] for which in kinds if (server, which) in searches}
            places = [kinds.index(which) + (number - (len(servers) - 1) / 2) * width for which in of]
            low = [search["lower"] or 0 for search in of.values()]
            more = [max((search["upper"] or bottom) - bottom, 0) for search, bottom in zip(of.values(), low)]
            axes.bar(places, low, width * 0.9, yerr=([0] * len(low), more), capsize=4, label=SERVERS[server])
            for place, search, bottom in zip(places, of.values(), low):
                axes.annotate("" if search["upper"] else "or more", (place, bottom), ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(kinds)), [NAMES[which].replace(", ", "\n") for which in kinds])
        axes.set_ylabel("clients: bar holds, line's end does not")
        axes.legend()
    rows = [(server, which, found["lower"], found["upper"], found["confidence_percent"], found["ended"]) for (server, which), found in searches.items()]
    draw.table(out, "served", ("server", "protocol", "lower", "upper", "confidence_percent", "ended"), rows)


def draw_penalties(searches, costs, out):
    """Loss to UDP: theirs, that of the searches, and that of the costs."""
    kinds = [which for which in NAMES if which != "udp" and any(key[1] == which for key in (*searches, *costs))]
    rows = []
    with draw.picture(out, "penalty", "Loss to UDP, theirs and ours", size=(9.5, 5)) as axes:
        for colour, server in zip(draw.COLOURS, (*SERVERS, "dnsproxy")):
            points = list(penalty_points(searches, costs, server, kinds))
            for name, which, value, low, high in points:
                offset, mark, _ = MARKS[name]
                error = None if name == "theirs" else ([value - low], [high - value])
                axes.errorbar(value, kinds.index(which) + offset, xerr=error, color=colour, capsize=3, linestyle="none", **mark)
            axes.plot([], [], color=colour, marker="o", label=SERVERS.get(server, server), linestyle="none")
            rows += [(server, *point) for point in points]
        for _, mark, label in MARKS.values():
            axes.plot([], [], color="grey", linestyle="none", label=label, **mark)
        axes.set_xscale("log")
        axes.set_xticks((1, 2, 3, 5, 10, 20), ("1", "2", "3", "5", "10", "20"))
        axes.set_xlabel("times fewer clients, or times the processor time")
        axes.set_yticks(range(len(kinds)), [NAMES[which] for which in kinds])
        axes.invert_yaxis()
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    draw.table(out, "penalty", ("server", "by", "protocol", "times", "low", "high"), rows)


def penalty_points(searches, costs, server, kinds):
    """(by, protocol, value, low, high) of a server."""
    for which in kinds:
        knows = SERVED.get(server, {})
        if which in knows:
            value = knows["udp"] / knows[which]
            yield "theirs", which, value, value, value
        search = [searches.get((server, key)) for key in ("udp", which)]
        if all(found and found["lower"] and found["upper"] for found in search):
            udp, other = search
            yield "searched", which, udp["lower"] / other["lower"], udp["lower"] / other["upper"], udp["upper"] / other["lower"]
        found = ratio(costs, server, which, "udp")
        if found.value:
            yield "cost", which, found.value, found.low or found.value, found.high or found.value
