"""LDplayer, figure 12: latency over the round-trip time, of the original load, all TCP and all TLS, and the packets that explain it."""

from figures import draw
from figures.claim import Claim, judged, missing, not_theirs
from figures.footprint import seconds
from figures.interval import Interval
from figures.programs import preloaded
from figures.runs import Run, Runs
from figures.packets import FIN, SYN, acknowledgements, conversations, exchanges
from figures.testbed import again, kept_configuration, server, testbed

TITLE = "Latency of a root server with all queries over TCP or TLS, over the round-trip time"
SOURCE = "LDplayer, figure 12"
SCALE = {
    "small": "8 s of root-like traffic, 400 queries/s of 2,320 clients, the last 4 s counted; a timeout of 4 s and clients that ask five times as often in "
    "place of 20 s (theirs: 20 minutes, 44,000 queries/s of 725,000 clients), so that as many queries find a connection open; RTT 0, 20, 120 ms; 3 repeats",
    "long": "12 s of root-like traffic, 400 queries/s of 2,320 clients, the last 8 s counted; a timeout of 4 s and clients that ask five times as often in "
    "place of 20 s (theirs: 20 minutes, 44,000 queries/s of 725,000 clients); RTT 0, 20, 40, 80, 120 ms; 6 repeats",
    "full": "5 min of root-like traffic, 5,000 queries/s of 145,000 clients, the last 280 s counted, timeout 20 s, RTT 0, 20, 40, 80, 120 ms, 3 repeats",
}
NAMES = {"as-recorded": "original (3 % TCP)", "tcp": "all TCP", "dot": "all TLS"}
SIDES = {"nsd": "", "nodelay": ", no Nagle at the server"}
WHISKERS = [0.05, 0.25, 0.5, 0.75, 0.95]
# Who asks less than this while a connection may be idle is not busy: 250 queries in 20 minutes at 20 s.
NOT_BUSY = 250 * 20 / 1200
FAR, NEAR = "120ms", "20ms"
FAR_S = 0.12
# A wait at the server that is more than its own work, and how soon after an acknowledgement what it released leaves.
WAIT_S, RELEASED_S = 0.01, 0.002
# Data of a full segment here (an MTU of 1,500 octets): Nagle's algorithm lets it leave at once.
FULL = 1400


def measure(stage):
    """The runs, and some of them once more over a wire whose packets are kept."""
    runs = made(stage)
    return runs, {which: captured(stage, runs, *which) for which in CAPTURED}


def made(stage):
    """The runs by themselves: figure 14 goes by them, too."""
    program = preloaded(stage, "nsd", stage.source / "nagle.c", "nsd-nodelay", NAGLE="off")
    return Runs(stage.experiment({"server": {"nodelay": {"program": str(program)}}}))


# Server, transport, and whether the client has Nagle's algorithm.
CAPTURED = [("nsd", "tcp", False), ("nodelay", "tcp", False), ("nsd", "tcp", True), ("nsd", "dot", False)]


def captured(stage, runs, which, transport, client):
    """One run at the longest distance: the run, and its connections as packets."""
    folder = stage.out / "packets" / f"{which}-{transport}{'-client-nagle' if client else ''}"
    cell = runs.cell(server=which, transport=transport, rtt=FAR)
    configuration = kept_configuration(cell.runs[0], folder)
    program = stage.out / "programs/nsd-nodelay" if which == "nodelay" else "nsd"
    capture = folder / "wire.pcap"
    with testbed(stage, FAR, capture) as name, server(stage, name, program, configuration) as process:
        again(stage, name, cell.runs[0], folder / "run", "--watch-pid", process.pid, "--nagle", "on" if client else "off")
    return Run(folder / "run"), conversations(capture, 853 if transport == "dot" else 53)


def claims(measured, stage):
    runs, packets = measured
    found = Found(runs, packets, stage)
    found.draw_latency()
    found.draw_nagle()
    found.draw_waits()
    found.draw_ladders()
    return [*found.ratios(), *found.non_busy(), *found.nagle(), *found.tls(), *found.waiting()]


class Found:
    """The runs, counted from when the first connections may have been closed for idleness."""

    def __init__(self, runs, packets, stage):
        self.runs, self.packets, self.out = runs, packets, stage.out
        spec = stage.merged()
        self.timeout, self.lasts = seconds(spec["server_idle_timeout"]), seconds(spec["generate"]["duration"])
        self.rtts = spec["matrix"]["rtt"]

    def rows(self, busy):
        """Queries that count, as SQL: those after a timeout, of all clients or of those that ask seldom."""
        most = NOT_BUSY * self.lasts / self.timeout
        asked = "(select client, count(*) n from {rows} where status not in ('stray', 'late') group by client)"
        return (
            "(select *, coalesce(answered_ns - submitted_ns, 1e18) / 1e6 as ms from {rows} join " + asked + " using (client)"
            f" where submitted_ns is not null and status not in ('stray', 'late') and intended_ns >= {self.timeout * 1e9:.0f}"
            + ("" if busy else f" and n < {most}") + ")"
        )  # fmt: skip

    def latency(self, run, at, busy=True, where="true"):
        """Nearest ranks in milliseconds; a query without an answer took for ever."""
        return run.rows(f"select quantile_disc(ms, {list(at)}) from {self.rows(busy)} where {where}")[0][0]

    def medians(self, transport, rtt, server="nsd", busy=True, where="true"):
        cell = self.runs.cell(server=server, transport=transport, rtt=rtt)
        return [self.latency(run, [0.5], busy, where)[0] for run in cell.good("p50")]

    def against_original(self, rtt):
        return Interval.ratio(self.medians("tcp", rtt), self.medians("as-recorded", rtt))

    def ratios(self):
        near, far = self.against_original(NEAR), self.against_original(FAR)
        udp = Interval.of([value / (FAR_S * 1000) for value in self.medians("as-recorded", FAR)])
        spread = Interval.ratio(
            [a / b for a, b in zip(self.medians("tcp", FAR), self.medians("as-recorded", FAR))],
            [a / b for a, b in zip(self.medians("tcp", NEAR), self.medians("as-recorded", NEAR))],
        )
        return [
            judged("at a low RTT the median over TCP is higher than that of the original load, and less than twice it", "50 to 60 % slower", near, "times",
                   at_least=1.01, at_most=1.99, why=f"at {NEAR}. Most queries find a connection open, and take one round trip as over UDP"),
            judged("at 120 ms the median over TCP is several times that of the original load", "7 times", far, "times", at_least=3,
                   why="bound: 3 times. The rows about Nagle's algorithm have where time goes"),
            judged("the median over TCP grows faster than the RTT", "from 1.5 to 7 times", spread, "times", at_least=1.05, why=f"{FAR} against {NEAR}"),
            judged("latency of the original load is the RTT and no more", "consistent at all RTTs", udp, "RTT", at_least=0.95, at_most=1.05, why=f"median at {FAR}"),
        ]  # fmt: skip

    def non_busy(self):
        tcp = Interval.of([value / (FAR_S * 1000) for value in self.medians("tcp", FAR, busy=False)])
        fresh = Interval.of([value / (FAR_S * 1000) for value in self.medians("tcp", FAR, where="connect_ns is not null")])
        return [
            judged("a single query over TCP takes two round trips", "2 RTTs", fresh, "RTT", at_least=1.9, at_most=2.2,
                   why=f"median at {FAR} of queries that open a connection"),
            judged("clients that are not busy wait for up to two round trips", "2 RTTs for a single query", tcp, "RTT", at_least=1.0, at_most=2.2,
                   why=f"median at {FAR} of clients with less than {NOT_BUSY:.1f} queries in the time of a timeout (250 in 20 minutes at 20 s)"),
        ]  # fmt: skip

    def nagle(self):
        ratio = Interval.ratio(self.medians("tcp", FAR, "nodelay"), self.medians("tcp", FAR))
        cells = {which: self.runs.cell(server=which, transport="tcp", rtt="0ms").good("p99") for which in SIDES}
        tails = {which: [self.latency(run, [0.99])[0] for run in of] for which, of in cells.items()}
        return [
            not_theirs(judged("without Nagle's algorithm at the server, TCP is faster at 120 ms", "proposed, not tried", ratio, "times", at_most=1,
                              why="median without it against with it, which is how NSD 4.6 leaves its sockets")),
            not_theirs(judged("Nagle's algorithm makes the tail at no distance", "not measured", Interval.ratio(tails["nodelay"], tails["nsd"]), "times", at_most=0.5,
                              why=f"99th percentile without it against with it: {Interval.of(tails['nodelay']).text('ms')}, {Interval.of(tails['nsd']).text('ms')}. "
                                  "With it an answer waits for the acknowledgement of the one before, which the client's kernel delays by up to 40 ms")),
        ]  # fmt: skip

    def tls(self):
        ratio = Interval.ratio(self.medians("dot", FAR), self.medians("as-recorded", FAR))
        fresh = "handshake_ns is not null and not resumed"
        trips = {which: Interval.of([value / (FAR_S * 1000) for value in self.medians("dot", FAR, which, where=fresh)]) for which in SIDES}
        return [
            judged("all TLS: the median at 120 ms is at most twice that of the original load", "in the paper of 2018; its figures are not at hand", ratio,
                   "times", at_most=2, why="all clients"),
            judged("all TLS: a new connection takes more than three round trips", "4 RTTs with TLS 1.2", trips["nsd"], "RTT", at_least=3.2,
                   why=f"TLS 1.3 needs 3: without Nagle's algorithm it takes {trips['nodelay'].text('RTT')}. With it NSD holds the answer until the client has "
                       "acknowledged its session ticket"),
        ]  # fmt: skip

    def waits(self, which):
        """How long each query over TCP waited at the server, and whether the answer left as Nagle's algorithm lets it: when earlier data was
        acknowledged, or when there was enough for a full segment."""
        for packets in self.packets[which][1].values():
            heard = acknowledgements(packets)
            for came, left, _, segment in exchanges(packets, FAR_S / 2):
                yield left - came, segment >= FULL or any(0 <= left - at <= RELEASED_S for at in heard if at > came)

    def answers_a_segment(self, which):
        """How many answers a segment with data of the server has."""
        connections = self.packets[which][1].values()
        segments = sum(packet.from_server and bool(packet.data) for packets in connections for packet in packets)
        return sum(len(exchanges(packets, 0)) for packets in connections) / max(1, segments)

    def waiting(self):
        """The row about what holds answers back."""
        text, theirs = "Nagle's algorithm and reassembly hold TCP's answers back", "blamed, from packet traces"
        waits = list(self.waits(CAPTURED[0]))
        if not waits:
            return [missing(text, theirs, "no packets were captured")]
        held = [released for wait, released in waits if wait > WAIT_S]
        without = [wait > WAIT_S for wait, _ in self.waits(CAPTURED[1])]
        merged = [self.answers_a_segment(which) for which in CAPTURED[:2]]
        ours = (
            f"{percent(len(held), len(waits))} of {len(waits):,} answers waited for more than {WAIT_S * 1000:.0f} ms at the server, and {percent(sum(held), len(held))} of these "
            f"left as earlier data was acknowledged or a segment was full; {merged[0]:.2f} answers a segment. "
            f"Without Nagle {percent(sum(without), len(without))} waited; {merged[1]:.2f} answers a segment"
        )
        explains = bool(held) and sum(held) > 0.9 * len(held) and len(held) / len(waits) > 2 * sum(without) / max(1, len(without))
        why = "packets of one run each at 120 ms. So both are part of TCP's latency; but a wait ends with the acknowledgement, a round trip and 40 ms later at most"
        return [Claim(text, theirs, ours, "yes" if explains else "not decided", why)]

    def draw_latency(self):
        """Figure 12: boxes by RTT and transport, of all clients and of those that are not busy."""
        rows = []
        with draw.picture(self.out, "latency", "Latency over the round-trip time (medians, quartiles, 5th and 95th percentiles)", columns=2, size=(11, 4.4)) as columns:
            for axes, busy in zip(columns, (True, False)):
                for number, transport in enumerate(NAMES):
                    found = [(place, self.pooled(transport, rtt, busy)) for place, rtt in enumerate(self.rtts)]
                    grouped(axes, [(place + (number - 1) * 0.26, q) for place, q in found], draw.COLOURS[number], NAMES[transport])
                    rows += [["all" if busy else "not busy", transport, self.rtts[place], *map(rounded, q)] for place, q in found]
                axes.set_xticks(range(len(self.rtts)), [rtt.removesuffix("ms") for rtt in self.rtts])
                axes.set(xlabel="round-trip time, ms", ylabel="latency, ms", yscale="log", title="all clients" if busy else "clients that are not busy")
                for place, rtt in enumerate(self.rtts):
                    axes.hlines([seconds(rtt) * 1000], place - 0.4, place + 0.4, color="#9498a0", linestyle=":", linewidth=1)
            columns[0].legend(loc="lower right")
        draw.table(self.out, "latency", ["clients", "transport", "rtt", "p5", "p25", "p50", "p75", "p95"], rows)

    def pooled(self, transport, rtt, busy, server="nsd"):
        """The median over the repeats of each quantile."""
        found = [self.latency(run, WHISKERS, busy) for run in self.runs.cell(server=server, transport=transport, rtt=rtt).runs]
        return [sorted(values)[len(values) // 2] for values in zip(*found)]

    def draw_nagle(self):
        """What share of the queries is answered within so many round trips, with and without Nagle's algorithm at the server."""
        points = []
        with draw.picture(self.out, "nagle", "Latency at 120 ms in round trips: NSD with and without Nagle's algorithm") as axes:
            for number, transport in enumerate(("tcp", "dot")):
                for which, style in (("nsd", "-"), ("nodelay", "--")):
                    run = self.runs.cell(server=which, transport=transport, rtt=FAR).runs[0]
                    values = [row[0] for row in run.rows(f"select ms / {FAR_S * 1000} from {self.rows(True)} where status = 'answered'")]
                    label = f"{NAMES[transport]}, {'as NSD is' if which == 'nsd' else 'without Nagle'}"
                    drawn = draw.cumulative(axes, values, label, color=draw.COLOURS[number + 1], linestyle=style)
                    points += [[transport, which, *map(rounded, point)] for point in drawn]
            axes.set(xlabel="latency, round trips", ylabel="share of the queries", ylim=(0, 1))
            axes.legend(loc="lower right")
        draw.table(self.out, "nagle", ["transport", "server", "round_trips", "share"], points)

    def draw_waits(self):
        """How long answers wait at the server, from packets."""
        points = []
        with draw.picture(self.out, "waits", "From the query's arrival at the server to the answer's departure, RTT 120 ms (packets)") as axes:
            for which, label in zip(CAPTURED, ("as NSD is", "without Nagle at the server", "Nagle at the client, too")):
                values = [1000 * wait for wait, _ in self.waits(which)]
                if values:
                    points += [[label, *map(rounded, point)] for point in draw.cumulative(axes, values, label)]
            axes.set(xlabel="ms at the server", ylabel="share of the answers", ylim=(0, 1), xlim=(-2, 200))
            axes.legend(loc="lower right")
        draw.table(self.out, "waits", ["server", "ms", "share"], points)

    def draw_ladders(self):
        """The packets of a connection over TCP on which an answer is held, and of a new one over TLS."""
        tcp, tls = held(self.packets[CAPTURED[0]][1]), opened(self.packets[CAPTURED[3]][1])
        rows = []
        with draw.picture(self.out, "packets", "Packets between a client and NSD, 120 ms apart", columns=2, size=(11, 6.4)) as columns:
            for axes, (title, packets) in zip(columns, (("TCP: answers wait for acknowledgements", tcp), ("TLS 1.3: a new connection", tls))):
                rows += [[title, *row] for row in ladder(axes, packets)]
                axes.set_title(title, fontsize=10)
        draw.table(self.out, "packets", ["connection", "left_ms", "came_ms", "from", "octets", "flags"], rows)


def held(connections):
    """Packets around the first answer that waited, on a connection with little else on it."""
    for packets in connections.values():
        for came, left, arrived, _ in exchanges(packets, FAR_S / 2):
            since = min(came - FAR_S, packets[0].at) if came - packets[0].at <= 2 * FAR_S else came - FAR_S
            near = [packet for packet in packets if since <= packet.at <= arrived + FAR_S / 2 + 0.05]
            if 0.02 < left - came and len(near) <= 12:
                return near
    return []


def opened(connections):
    """A new connection over TLS with one query, up to the third segment of the server's data: of those without anything sent again, the one in
    the middle by how long that took."""
    found = []
    for packets in connections.values():
        data = [packet for packet in packets if packet.from_server and packet.data][:3]
        near = [packet for packet in packets if len(data) == 3 and packet.at <= data[2].at + FAR_S / 4]
        asked = [packet.sequence for packet in near if packet.data and not packet.from_server]
        if near and near[0].flags & SYN and len({packet.sequence for packet in data}) == 3 and len(set(asked)) == len(asked) == 2:
            found.append((data[2].at - near[0].at, near))
    found.sort(key=lambda one: one[0])
    return found[len(found) // 2][1] if found else []


def ladder(axes, packets):
    """Draws packets as arrows from one side to the other, time downwards. Returns them as rows."""
    if not packets:
        axes.text(0.5, 0.5, "no such connection in this run", ha="center")
        return []
    begins, rows, labels = packets[0].at - FAR_S / 2, [], {}
    for packet in packets:
        came, left = 1000 * (packet.at - begins), 1000 * (packet.at - begins - FAR_S / 2)
        ends = (1, 0) if packet.from_server else (0, 1)
        colour = draw.COLOURS[1 if packet.from_server else 0] if packet.data else "#9498a0"
        axes.annotate("", xy=(ends[1], came), xytext=(ends[0], left), arrowprops={"arrowstyle": "->", "color": colour})
        label(labels, ends[0], left, said(packet), colour)
        rows.append([round(left, 2), round(came, 2), "server" if packet.from_server else "client", len(packet.data), packet.flags])
    for (side, _), (left, words, colour) in labels.items():
        axes.text(-0.02 if side == 0 else 1.02, left, " + ".join(words), fontsize=7, color=colour, ha="right" if side == 0 else "left", va="center")
    axes.set(xlim=(-0.3, 1.5), ylim=(max(row[1] for row in rows) + 15, -15), ylabel="ms")
    axes.set_xticks([0, 1], ["client", "server"])
    axes.grid(False, axis="x")
    return rows


def label(labels, side, left, word, colour):
    """Notes what a packet is; those that leave within 10 ms of each other share a line."""
    if not word:
        return
    place = next((key for key in labels if key[0] == side and abs(labels[key][0] - left) < 10), (side, left))
    known = labels.setdefault(place, (left, [], colour))
    known[1].append(word)


def said(packet):
    words = [word for bit, word in ((SYN, "SYN"), (FIN, "FIN")) if packet.flags & bit]
    return " ".join(words + ([f"{len(packet.data):,} octets"] if packet.data else []))


def grouped(axes, placed, colour, label):
    """Boxes at given places, of one colour."""
    stats = [{"whislo": q[0], "q1": q[1], "med": q[2], "q3": q[3], "whishi": q[4]} for _, q in placed]
    drawn = axes.bxp(stats, positions=[place for place, _ in placed], widths=0.2, showfliers=False, patch_artist=True, manage_ticks=False,
                     boxprops={"facecolor": colour, "alpha": 0.5}, medianprops={"color": "black"})  # fmt: skip
    drawn["boxes"][0].set_label(label)


def percent(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "none"


def rounded(value):
    return round(value, 4)
