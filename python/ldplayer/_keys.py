"""The keys of a run as arguments of `replay`. Made from their table: `cargo test -p ldplayer-run --lib keys` prints it where it differs."""

import os
from typing import Optional, Sequence, Union

from ._results import PathLike, Run

Word = Union[str, int, float, "os.PathLike[str]"]
Words = Union[Word, Sequence[Word]]


def replay(
    trace: Words = (),
    *,
    output: Optional[PathLike] = None,
    force: bool = False,
    spec: Optional[PathLike] = None,
    again: Optional[PathLike] = None,
    progress: Optional[bool] = None,
    server: Optional[Words] = None,
    map: Optional[Words] = None,
    allow_target: Optional[Words] = None,
    start_server: Optional[Word] = None,
    server_cpu: Optional[Word] = None,
    server_cpus: Optional[Words] = None,
    watch_pid: Optional[Word] = None,
    watch_unit: Optional[Word] = None,
    expect: Optional[Words] = None,
    clients: Optional[Word] = None,
    transport: Optional[Word] = None,
    transport_shares: Optional[Word] = None,
    sources: Optional[Word] = None,
    path: Optional[Word] = None,
    interface: Optional[Word] = None,
    next_hop: Optional[Words] = None,
    rtt: Optional[Word] = None,
    jitter: Optional[Word] = None,
    loss: Optional[Word] = None,
    bandwidth: Optional[Word] = None,
    rules: Optional[Words] = None,
    rate: Optional[Word] = None,
    speed: Optional[Word] = None,
    timing: Optional[Word] = None,
    for_: Optional[Word] = None,
    loop: Optional[Word] = None,
    start: Optional[Word] = None,
    stop: Optional[Word] = None,
    precision: Optional[Word] = None,
    max_lag: Optional[Word] = None,
    max_outstanding: Optional[Word] = None,
    query_timeout: Optional[Word] = None,
    tls_ca: Optional[Word] = None,
    tls_insecure: bool = False,
    tls_name: Optional[Word] = None,
    tls_port: Optional[Word] = None,
    doh_port: Optional[Word] = None,
    doh_method: Optional[Word] = None,
    doh_path: Optional[Word] = None,
    compare_answers: Optional[Word] = None,
    compare_ignore: Optional[Words] = None,
    keep_responses: bool = False,
    metrics: Optional[Word] = None,
    workers: Optional[Word] = None,
    cores: Optional[Words] = None,
    seed: Optional[Word] = None,
    stamp_sends: bool = False,
    count_segments: bool = False,
    telemetry_interval: Optional[Word] = None,
    capture_port: Optional[Words] = None,
    role: Optional[Words] = None,
    drop_duplicates: bool = False,
    recorded_retries: Optional[Word] = None,
    dependencies: Optional[Word] = None,
    text_format: Optional[Word] = None,
    max_input: Optional[Word] = None,
    client: Optional[Word] = None,
    idle_timeout: Optional[Word] = None,
    queries_per_connection: Optional[Word] = None,
    pipeline: Optional[Word] = None,
    connect_timeout: Optional[Word] = None,
    handshake_timeout: Optional[Word] = None,
    tc_fallback: Optional[Word] = None,
    nagle: Optional[Word] = None,
    fast_open: Optional[Word] = None,
    tls_version: Optional[Word] = None,
    resumption: Optional[Word] = None,
    early_data: Optional[Word] = None,
    padding: Optional[Word] = None,
) -> Run:
    r"""Replays a trace against a server, and returns the run, whatever its verdicts are.

    trace: Trace to replay, or a list of queries; `-` is standard input
    output: Run directory [default: below `runs`, by the time of day]
    force: Replace the run in that directory
    spec: File with keys of a run; arguments come before it
    again: Repeat the run of this directory; arguments come before it
    progress: Show progress [default: on a terminal and in a notebook]
    server: Server to ask: an address or a name, with or without a port
    map: With --server recorded: ask another server in place of a recorded one
    allow_target: Allow sending to these addresses of other hosts
    start_server: Start this server first, where every address is local
    server_cpu: Processor time that the started server may use: cores or percent of one, such as 0.2 or 20% [default: no limit]
    server_cpus: Processors that the started server may run on, such as 1 or 0,2 [default: all]
    watch_pid: Record what this process and its children use [default: those of --start-server]
    watch_unit: Record what the processes of this systemd unit use
    expect: Expect this of the server: `answered >= 99 %`, `p99 <= 20ms`, …
    clients: The first N clients of a trace, or N clients for a list of queries
    transport: udp, tcp, dot, doh2 (or doh), doh3, doq, or shares such as udp=60,dot=40 [default: as-recorded, the transport of each query in the trace]
    transport_shares: File with classes of clients: share, transport and connection policy of each
    sources: original, ports (a port for each client) or pool:CIDR,… [default: original where every address is local, as in a testbed, and ports elsewhere]
    path: sockets, packets (frames made by ldplayer), packets:xdp, or auto [default: auto, which is packets in such a namespace, and sockets elsewhere]
    interface: With --path packets: send and receive frames on this interface
    next_hop: With --interface: router that leads to the servers, one for each family [default: the servers themselves are on the link]
    rtt: With --path packets: round-trip time of each client: 20ms, normal:20ms,5ms, lognormal:20ms,0.5 …
    jitter: With --path packets: jitter of the round-trip time: 2ms, or a distribution; `,reorder` lets packets overtake each other
    loss: With --path packets: packet loss in each direction: 1%, or ge:P,R for bursts (Gilbert-Elliott)
    bandwidth: With --path packets: bandwidth of each client in each direction: 10Mbit, or with the length of its queue: 10Mbit,50ms
    rules: Rules that change the queries on their way, as `ldplayer mutate` applies them
    rate: Send this many queries per second, at even gaps: 500, 20k, 1.5M
    speed: Speed of the trace's clock: 2 is twice as fast
    timing: original, scaled:X, rate:QPS, poisson:QPS, ramp:FROM-TO/TIME or fast [default: original]
    for_: End the run after this time
    loop: Replay the trace N times, or forever [default: 1]
    start: Skip this much of the trace at its start (seconds, or with a unit)
    stop: Stop at this time of the trace, counted from its start
    precision: Processor time spent on precision: low, normal or high [default: normal]
    max_lag: Do not send queries that are overdue by more than this [default: 1s]
    max_outstanding: With --timing fast: in-flight queries per worker [default: 1000]
    query_timeout: Give up on an answer after this time [default: 5s]
    tls_ca: Trust the certificates in this PEM file [default: the system's]
    tls_insecure: Trust any certificate
    tls_name: Name in the server's certificate, which the server is asked for [default: its address]
    tls_port: Port for DNS over TLS, QUIC and HTTPS [default: 853, and 443 over HTTPS]
    doh_port: Port for DNS over HTTPS, if it differs from --tls-port
    doh_method: HTTP method: post or get [default: post]
    doh_path: Path of HTTPS requests [default: /dns-query]
    compare_answers: Compare each answer with the recorded one, or with the answer of another server
    compare_ignore: Leave this out of the comparison: aa, ad, additional, `type == SOA`, …
    keep_responses: Keep the responses in RUN/responses.parquet, a trace of its own
    metrics: Serve figures of the run to Prometheus while it lasts, at `http://ADDR/metrics`
    workers: Worker threads [default: one less than there are cores]
    cores: Pin the workers to these cores
    seed: Seed of every random choice [default: 1]
    stamp_sends: Record when the kernel sent each query over UDP (`sent_ns` of the rows)
    count_segments: Record the TCP segments of each response, and those sent again
    telemetry_interval: Interval of telemetry, 100ms to 1s [default: 500ms]
    capture_port: Port that carries DNS in captures; several times for several ports [default: 53]
    role: Roles to take from dnstap and C-DNS: auth, resolver, client, forwarder, stub, tool, update
    drop_duplicates: Leave out datagrams that a capture has twice: of two interfaces, VLANs, or directions of a mirror
    recorded_retries: What becomes of the retries in the trace: keep, drop or mark [default: keep, and drop where a client reacts]
    dependencies: Which queries wait for answers: none, chain or client [default: none]
    text_format: Format of text without a header line: ldplayer or dnsperf [default: what most of its first lines are]
    max_input: Refuse a trace of more than SIZE, decompressed, such as 10GB [default: no limit]
    client: What a client does when no answer comes, or a bad one: open (nothing), glibc, android, musl, go, c-ares, windows or custom, each with settings as in glibc:timeout=1s,attempts=3: MODEL [default: open]
    idle_timeout: Idle timeout: clients close a connection with no query in flight for this long; 0 closes it after its last answer: DURATION [default: 20s]
    queries_per_connection: Maximum queries per connection; the client then closes it: N [default: unlimited]
    pipeline: Maximum in-flight queries per connection; further queries open another connection: N [default: 32768]
    connect_timeout: Connect timeout: DURATION [default: 5s]
    handshake_timeout: TLS and QUIC handshake timeout, counted from the server's first packet: DURATION [default: 5s]
    tc_fallback: Retry truncated answers over TCP, as a stub resolver does; both attempts count as one query: on|off [default: off]
    nagle: Use Nagle's algorithm: delay small segments until earlier ones are acknowledged: on|off [default: off]
    fast_open: Use TCP Fast Open: send the first query in the SYN, where the server allows it: on|off [default: off]
    tls_version: TLS version of connections over TCP: 1.2|1.3 [default: 1.3]
    resumption: Resume TLS sessions; each client resumes only its own: on|off [default: on]
    early_data: Send queries as early data (0-RTT) of resumed sessions, where the server allows it; never updates or zone transfers: on|off [default: off]
    padding: Pad queries over encrypted transports to a multiple of this many bytes; on means 128 (RFC 8467). Queries without EDNS are not padded: on|off|N [default: 128]
    """
    given = dict(locals())
    from ._commands import start_replay

    return start_replay(given)
