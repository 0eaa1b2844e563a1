#!/usr/bin/env bash
# Measures ldplayer against the bare limits of this machine and against dnsperf, in one run, as ratios.
# Usage: scripts/bench.sh [decode|mutate|construct|send|answer|tcp|tcp_servers|tls|https|quic|serve|zones|living|wire|timing|packets ...]   (all of them without an argument)
# RUNS=5 SECONDS_EACH=10 are the defaults; BIN is a directory with both programs, which are built otherwise. OTHER is the directory of another build of ldplayer, which takes turns with it in `send` and `answer`. Needs a quiet machine with two cores; generator on core 0, server on core 1.
set -euo pipefail
cd "$(dirname "$0")/.."

RUNS=${RUNS:-5}
SECONDS_EACH=${SECONDS_EACH:-10}
export PATH=$PATH:/usr/sbin
bin=${BIN:-${CARGO_TARGET_DIR:-target}/release}
[ -n "${BIN:-}" ] || cargo build --release --locked -q -p ldplayer -p ldplayer-bench
ldplayer=$(realpath "$bin/ldplayer")
bench=$(realpath "$bin/ldplayer-bench")
other=${OTHER:+$(realpath "$OTHER/ldplayer")}
dnsproxy=${dnsproxy:-}
case " $* " in *" quic "* | "  ") [ -n "$dnsproxy" ] || dnsproxy=$(scripts/build-server.sh dnsproxy) || true ;; esac
export dnsproxy

if [ $# -eq 0 ]; then set -- decode mutate construct send answer tcp tcp_servers tls https quic serve zones living wire timing packets; fi

# Everything but decoding runs inside one namespace in which all addresses are local; nothing can be fetched there.
if [ -z "${LDPLAYER_BENCH_INSIDE:-}" ]; then
  echo "# $(date -u +%F), kernel $(uname -r), $(nproc) cores, $RUNS runs each"
  if [ "$1" = decode ]; then
    shift
    echo; echo "### Decoding, rules, models (criterion)"; echo
    cargo bench --locked -q -p ldplayer-trace -p ldplayer-workload | grep -E 'time:|thrpt:'
  fi
  if [ $# -eq 0 ]; then exit 0; fi
  exec "$ldplayer" testbed run -- env LDPLAYER_BENCH_INSIDE=1 bash "$0" "$@"
fi

work=$(mktemp -d)
# Addresses of clients. Beside the link to the server, recorded ones are not all local, and one address alone has too few ports: after 28,000
# connections in a minute, the kernel searches for each.
many=pool:172.16.0.0/12
proxy= # what stands before the server
far= # the process that holds the namespace of the server
link= held=() # the process that holds the namespace for frames, and responders there
at=10.9.0.2 dns=5300 # where servers answer that stand in a namespace of their own
source scripts/servers.sh
source scripts/bench-packets.sh
trap 'stop; for pid in "${held[@]}" $link; do kill "$pid" 2>/dev/null || true; done; [ -z "$proxy" ] || kill "$proxy" 2>/dev/null || true; [ -z "$far" ] || kill "$far" 2>/dev/null || true; rm -rf "$work"' EXIT

field() { sed -n "s/.*\"$1\": *\(-\{0,1\}[0-9.]*\).*/\1/p" | head -n 1; }
stats() { sort -g | awk '{v[NR]=$1} END {m=(NR%2)?v[(NR+1)/2]:(v[NR/2]+v[NR/2+1])/2; printf "%.4g [%.4g–%.4g]", m, v[1], v[NR]}'; }
median() { sort -g | awk '{v[NR]=$1} END {print (NR%2)?v[(NR+1)/2]:(v[NR/2]+v[NR/2+1])/2}'; }
row() { # name, file of values, file of reference values
  awk -v n="$1" -v s="$(stats <"$2")" -v a="$(median <"$2")" -v b="$(median <"$3")" 'BEGIN {printf "| %s | %s | %.2f |\n", n, s, a/b}'
}
server=
pinned=(taskset -c 0) # one core for all threads of the generator, where rates are compared
from=() # the namespace to replay from, if it is another one
start() { # command ...: starts a server and waits until it listens
  "$@" >"$work/server.log" 2>&1 &
  server=$!
  for _ in $(seq 100); do
    if ! kill -0 "$server" 2>/dev/null; then cat "$work/server.log" >&2; exit 3; fi
    if grep -q "^listening\|^serving\|\"listening\"" "$work/server.log" || [ -e "$work/server.pid" ]; then sleep 0.5; return; fi
    sleep 0.1
  done
}
stop() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  server=
  rm -f "$work/server.pid"
}
replay() { # options ...: replays with its worker on core 0 and leaves the report in $work/out.json
  "${pinned[@]}" "${from[@]}" "$ldplayer" replay "$@" --no-probe --workers 1 --cores 0 -o "$work/run" --force --json >"$work/out.json" 2>"$work/err" || [ $? -eq 1 ] || { cat "$work/err" >&2; exit 1; }
}
# The same with the other build, if there is one.
other() { [ -z "$other" ] || ldplayer=$other "$@"; }
other_row() { [ -z "$other" ] || row "$@"; }
rate() { # answered queries per second of the last replay, from the first due to the last outcome
  awk -v n="$(field "$1" <"$work/out.json")" -v s="$(field elapsed_s <"$work/out.json")" 'BEGIN {printf "%.0f\n", n/s}'
}

# Wall seconds, CPU seconds and peak memory in MB of a command.
cost() {
  python3 - "$@" <<'PYTHON'
import resource, subprocess, sys, time
start = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
PYTHON
}

# Whole commands, files included; QUERIES=137000000 is the size of the paper's B-Root-16.
bench_mutate() {
  local queries=${QUERIES:-5000000} name run
  printf '[[rule]]\nwhere = "not do"\ndo = true\n' >"$work/do.toml"
  printf '[[rule]]\nqname-prefix = "u{n}"\n' >"$work/names.toml"
  for run in $(seq "$RUNS"); do
    for name in generate do names; do
      case $name in
        generate) cost "$ldplayer" generate root-like --queries "$queries" -o "$work/root.parquet" --force ;;
        *) cost "$ldplayer" mutate "$work/root.parquet" --rules "$work/$name.toml" -o "$work/out.parquet" --force ;;
      esac >"$work/cost"
      awk -v n="$queries" '{print n / $1}' "$work/cost" >>"$work/$name.rate"
      awk -v n="$queries" '{print n / $2}' "$work/cost" >>"$work/$name.cpu"
      awk '{print $3}' "$work/cost" >>"$work/$name.rss"
    done
  done
  echo; echo "### Traces of $queries queries, Parquet to Parquet, $(nproc) cores"; echo
  echo "| what | queries/s | queries per second of CPU time | peak memory, MB |"; echo "|---|---|---|---|"
  for name in generate do names; do
    echo "| $name | $(stats <"$work/$name.rate") | $(stats <"$work/$name.cpu") | $(stats <"$work/$name.rss") |"
  done
}

bench_send() {
  echo; echo "### Sending from 65,536 addresses to a hole (queries/s, one sending core)"; echo
  echo "| what | median [min–max] | ratio |"; echo "|---|---|---|"
  "$bench" make-trace --gap 1us --seconds 2s --clients 65536 -o "$work/send.pcap"
  start "$bench" hole --listen 127.0.0.1:5300
  pinned=() # the sending worker has core 0; reader and recorder are left to the scheduler, since the hole needs no core
  for _ in $(seq "$RUNS"); do
    "$bench" bare-send --to 127.0.0.1:5300 --core 0 --count 2000000 | field per_second >>"$work/send.bare"
    replay "$work/send.pcap" --server 127.0.0.1:5300 --timing fast --max-outstanding 200000 --query-timeout 0.1
    field qps_mean <"$work/out.json" >>"$work/send.ours"
    other replay "$work/send.pcap" --server 127.0.0.1:5300 --timing fast --max-outstanding 200000 --query-timeout 0.1
    field qps_mean <"$work/out.json" >>"$work/send.other"
  done
  stop
  row "bare sendmmsg + IP_PKTINFO" "$work/send.bare" "$work/send.bare"
  row "ldplayer replay --timing fast, recorded" "$work/send.ours" "$work/send.bare"
  other_row "the same of the other build" "$work/send.other" "$work/send.bare"
}

# A namespace for the server, joined by a veth pair: all that is sent crosses a device, as between hosts.
link_up() {
  unshare --net sleep infinity &
  far=$!
  # Until it has a namespace of its own, the other end would come to this one.
  while [ "$(readlink "/proc/$far/ns/net")" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
  ip link delete near 2>/dev/null || true
  until ip link add near type veth peer name far netns "$far" 2>/dev/null; do sleep 0.1; done
  ip address add 10.9.0.1/24 dev near
  ip link set near up
  inside=(nsenter --net=/proc/"$far"/ns/net)
  "${inside[@]}" ip address add 10.9.0.2/24 dev far
  "${inside[@]}" ip link set lo up
  "${inside[@]}" ip link set far up
  "${inside[@]}" ip route add default via 10.9.0.1
}

bench_answer_of() { # title, server command ...
  local title=$1; shift
  local against=(--server $at:5300 --allow-target $at/32 --timing fast)
  echo; echo "### Answered queries/s against $title over veth (generator one core, server one core)"; echo
  echo "| what | median [min–max] | ratio to dnsperf |"; echo "|---|---|---|"
  rm -f "$work"/answer.*
  start "${inside[@]}" taskset -c 1 "$@"
  for _ in $(seq "$RUNS"); do
    taskset -c 0 dnsperf -s $at -p 5300 -d "$work/names" -l 3 -c 100 -q 1000 -D 2>/dev/null |
      sed -n 's/.*Queries per second: *\([0-9.]*\).*/\1/p' >>"$work/answer.dnsperf"
    replay "$work/questions.pcap" "${against[@]}"
    rate answered >>"$work/answer.ours"
    other replay "$work/questions.pcap" "${against[@]}"
    rate answered >>"$work/answer.ours.other"
    replay "$work/questions.parquet" "${against[@]}" --sources pool:10.9.0.1/32
    rate answered >>"$work/answer.pool"
    other replay "$work/questions.parquet" "${against[@]}" --sources pool:10.9.0.1/32
    rate answered >>"$work/answer.pool.other"
    "$bench" bare-ask --to $at:5300 --core 0 --count 1000000 | field per_second >>"$work/answer.bare"
  done
  stop
  row "dnsperf -c 100 -q 1000 -D" "$work/answer.dnsperf" "$work/answer.dnsperf"
  row "ldplayer replay --timing fast, one address as dnsperf's, trace in Parquet, matched and recorded" "$work/answer.pool" "$work/answer.dnsperf"
  other_row "the same of the other build" "$work/answer.pool.other" "$work/answer.dnsperf"
  row "ldplayer replay --timing fast, 65,536 addresses, trace in pcap, matched and recorded" "$work/answer.ours" "$work/answer.dnsperf"
  other_row "the same of the other build" "$work/answer.ours.other" "$work/answer.dnsperf"
  row "bare asker, one socket, matched only" "$work/answer.bare" "$work/answer.dnsperf"
}

bench_answer() {
  pinned=(taskset -c 0)
  command -v dnsperf >/dev/null || { echo "dnsperf is missing: apt-get install dnsperf" >&2; exit 3; }
  command -v ip >/dev/null || { echo "ip is missing: apt-get install iproute2" >&2; exit 3; }
  command -v nsd >/dev/null || { echo "nsd is missing: apt-get install nsd" >&2; exit 3; }
  "$bench" make-trace --gap 1us --seconds 1500ms --clients 65536 -o "$work/questions.pcap"
  "$ldplayer" convert "$work/questions.pcap" -o "$work/questions.parquet" 2>/dev/null
  for i in $(seq 0 9999); do printf 'q%08d.example A\n' "$i"; done >"$work/names"
  link_up
  bench_answer_of "the echo responder" "$bench" echo --listen $at:5300
  nsd_conf "server-count: 1"
  bench_answer_of "NSD with the root zone" nsd -d -c "$work/nsd.conf"
  kill "$far"
}

# Servers take turns within each round, so that an hour of the host is the same for all of them.
bench_serve() {
  local kind server_kind names asked
  command -v knotd >/dev/null || { echo "knotd is missing: apt-get install knot" >&2; exit 3; }
  link_up
  nsd_conf "server-count: 1"
  knot_conf "udp-workers: 1"
  mkdir "$work/zones"
  cp "$work/root.zone" "$work/zones"
  for i in $(seq 0 9999); do printf 'q%08d.example A\n' "$i"; done >"$work/absent"
  awk '$4 == "NS" && $1 != "." {print "www.example." $1 " A"}' "$work/root.zone" | sort -u | shuf --random-source=<(yes) >"$work/referral"
  for _ in $(seq "$RUNS"); do
    for server_kind in nsd knot serve; do
      case $server_kind in
        nsd) start "${inside[@]}" taskset -c 1 nsd -d -c "$work/nsd.conf" ;;
        knot) start "${inside[@]}" taskset -c 1 knotd -c "$work/knot.conf" ;;
        serve) start "${inside[@]}" taskset -c 1 "$ldplayer" serve "$work/zones" --workers 1 --all-zones-everywhere --listen $at:5300 ;;
      esac
      sleep 1
      for names in absent referral; do
        asked=$("$bench" bare-ask --to $at:5300 --core 0 --count 1000000 --names "$work/$names")
        echo "$asked" | field per_second >>"$work/serve.$names.$server_kind"
        taskset -c 0 dnsperf -s $at -p 5300 -d "$work/$names" -l 3 -c 100 -q 1000 -D 2>/dev/null |
          sed -n 's/.*Queries per second: *\([0-9.]*\).*/\1/p' >>"$work/serve.$names.$server_kind.dnsperf"
      done
      stop
    done
  done
  kill "$far"
  for names in absent referral; do
    for kind in "" .dnsperf; do
      echo; echo "### Answers/s over the root zone, names: $names, with DO, one core, client: $([ -n "$kind" ] && echo dnsperf || echo "bare asker")"; echo
      echo "| server | median [min–max] | ratio to NSD |"; echo "|---|---|---|"
      for server_kind in nsd knot serve; do
        row "$server_kind" "$work/serve.$names.$server_kind$kind" "$work/serve.$names.nsd$kind"
      done
    done
  done
}

# Sets of 10 to 100,000 zones beside NSD and BIND; SIZES=10,100 for fewer, TURNS=serve for what an answer costs and nothing else.
bench_zones() {
  python3 scripts/zones.py --ldplayer "$ldplayer" --bench "$bench" --runs "$RUNS" --sizes "${SIZES:-10,100,1000,10000,100000}" \
    ${TURNS:+--turns-only --turns "$TURNS"}
}

# What versions of record sets and rules of faults cost.
bench_living() {
  python3 scripts/living.py --ldplayer "$ldplayer" --bench "$bench" --runs "$RUNS" --size "${SIZE:-100000}"
}

bench_wire() {
  local what
  for _ in $(seq "$RUNS"); do
    "$bench" wire-rate --core 0 | field packets_per_s >>"$work/wire.rate"
    "$bench" wire-rate --core 0 --rtt 20ms | field packets_per_s >>"$work/wire.rate_rtt"
    "$bench" wire-delay --poisson 20000 --core 0 --sender-core 1 >"$work/wire.json"
    for what in p50 p99 p999; do field $what <"$work/wire.json" >>"$work/wire.$what"; done
  done
  echo; echo "### The wire, one thread"; echo
  echo "| what | median [min–max] |"; echo "|---|---|"
  echo "| packets/s without delay | $(stats <"$work/wire.rate") |"
  echo "| packets/s with an RTT of 20 ms | $(stats <"$work/wire.rate_rtt") |"
  for what in p50 p99 p999; do
    echo "| delay less the 10 ms asked for at 20,000 packets/s, $what, µs | $(stats <"$work/wire.$what") |"
  done
}

bench_timing() {
  pinned=() # reader and recorder are left to the scheduler, as in any run
  local gaps run precision before after spin options
  raw=$(mktemp --suffix=.tsv -t ldplayer-timing.XXXXXX)
  for gaps in "--poisson 20000" "--gap 100us" "--gap 1ms" "--gap 10ms" "--gap 100ms"; do
    # shellcheck disable=SC2086 # the options are two words
    "$bench" make-trace $gaps --seconds "$SECONDS_EACH" --clients 65536 -o "$work/timing.pcap"
    for run in $(seq "$RUNS"); do
      # shellcheck disable=SC2086
      "$bench" bare-spin $gaps --seconds "$SECONDS_EACH" --core 0 >"$work/spin.json"
      spin=$(field p999 <"$work/spin.json")
      timing_row "$gaps" "bare spin" "$run" "$spin" <"$work/spin.json"
      for precision in high normal watched; do # watched: high, and telemetry of the receiver taken, too
        # shellcheck disable=SC2086
        start "$bench" receive --listen 127.0.0.1:5300 $gaps --seconds "$SECONDS_EACH" --core 1
        before=$(cut -d' ' -f16,17 "/proc/$$/stat" | tr ' ' '+')
        options=(--precision "$precision")
        [ "$precision" != watched ] || options=(--precision high --watch-pid "$server")
        replay "$work/timing.pcap" --server 127.0.0.1:5300 "${options[@]}" --query-timeout 0.05
        after=$(cut -d' ' -f16,17 "/proc/$$/stat" | tr ' ' '+')
        wait "$server"
        server=
        tail -n 1 "$work/server.log" | timing_row "$gaps" "$precision" "$run" "$spin" "$(((after) - (before)))"
      done
    done
  done
  timing_table
  echo; echo "Each run for itself (tab-separated): $raw"
}

# One row of the raw file: trace, what, run, then the columns of the table; `-` where there is none.
timing_row() { # trace, what, run, p99.9 of the bare loop in the same run, CPU ticks; the JSON on stdin
  local line; line=$(cat)
  value() { printf '%s' "$line" | field "$1"; }
  awk -v OFS='\t' -v start="$1"$'\t'"$2"$'\t'"$3" -v p25="$(value p25)" -v p75="$(value p75)" -v p99="$(value p99)" \
    -v p999="$(value p999)" -v max="$(value max)" -v spin="$4" -v within="$(value within_0_1_percent)" \
    -v count="$(value count)" -v drift="$(value drift_us)" -v received="$(value received)" -v due="$(value due)" \
    -v ticks="${5:--}" -v hz="$(getconf CLK_TCK)" -v seconds="$SECONDS_EACH" '
    function share(part, all) { return all > 0 ? part * 100 / all : "-" }
    function least(us) { return us < 1 ? 1 : us } # below a microsecond the ratio would be one of rounding
    BEGIN {
      print start, p25, p75, p99, p999, max, least(p999) / least(spin), share(within, count),
        drift == "" ? "-" : drift, share(received, due), ticks == "-" ? "-" : ticks * 100 / hz / seconds
    }' >>"$raw"
}

# The raw rows as a table: for each trace and way of waiting, the median of the runs with the least and the most.
timing_table() {
  echo; echo "### Timing seen by a receiver with kernel stamps (µs, median taken for 0), $SECONDS_EACH s each, $RUNS runs: median [min–max]"; echo
  echo "| trace | what | p25 | p75 | p99 | p99.9 | max | p99.9 ÷ bare spin's (each 1 µs at least) | windows within ±0.1 %, % | drift µs | received % | CPU % |"
  echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
  awk -F'\t' '
    function cell(key, n,   i, j, v, t) {
      if (n == 0) return "–"
      for (i = 1; i <= n; i++) {
        t = values[key, i]
        for (j = i - 1; j > 0 && v[j] > t; j--) v[j + 1] = v[j]
        v[j + 1] = t
      }
      t = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
      return v[1] == v[n] ? sprintf("%.4g", t) : sprintf("%.4g [%.4g–%.4g]", t, v[1], v[n])
    }
    {
      row = $1 " | " $2
      if (!(row in seen)) { seen[row] = 1; rows[++count] = row }
      for (column = 4; column <= NF; column++)
        if ($column != "-") values[row, column, ++number[row, column]] = $column + 0
    }
    END {
      for (r = 1; r <= count; r++) {
        line = "| " rows[r]
        for (column = 4; column <= 13; column++) line = line " | " cell(rows[r] SUBSEP column, number[rows[r], column])
        print line " |"
      }
    }' "$raw"
}

# Both generators may have ten queries outstanding on a connection; dnsperf gets one, too, and what it does best counts. One of its threads
# has 256 connections at most, whatever `-c` says.
bench_tcp_of() { # title, connections opened at once, server command ...
  local title=$1 at_once=$2 clients times; shift 2
  local against=(--server $at:5300 --allow-target $at/32 --timing fast --transport tcp --sources $many)
  rm -f "$work"/tcp.*
  start "${inside[@]}" taskset -c 1 "$@"
  for _ in $(seq "$RUNS"); do
    for clients in 100 1000 10000; do
      for times in 1 2 10; do
        dnsperf_rate -m tcp -s $at -p 5300 -c $clients -T $(((clients + 255) / 256)) -q $((clients * times > 65000 ? 65000 : clients * times))
      done | sort -g | tail -n 1 >>"$work/tcp.$clients.dnsperf"
      for times in 1 2 10; do
        replay "$work/tcp$clients.pcap" "${against[@]}" --max-outstanding $((clients * times))
        rate answered
      done | sort -g | tail -n 1 >>"$work/tcp.$clients.ours"
    done
    dnsperf_rate -m tcp -s $at -p 5300 -c $at_once -q $at_once -O num-queries-per-conn=1 >>"$work/tcp.new.dnsperf"
    replay "$work/new.pcap" "${against[@]}" --max-outstanding $at_once --queries-per-connection 1
    rate answered >>"$work/tcp.new.ours"
    "$bench" bare-connect --to $at:5300 --from 10.0.0.0 --core 0 --count 30000 | field per_second >>"$work/tcp.new.bare"
  done
  stop
  echo; echo "### Answers/s over TCP from $title over veth (generator one core, server one core)"; echo
  echo "| what | median [min–max] | ratio to dnsperf |"; echo "|---|---|---|"
  for clients in 100 1000 10000; do
    row "dnsperf -m tcp, $clients connections" "$work/tcp.$clients.dnsperf" "$work/tcp.$clients.dnsperf"
    row "ldplayer replay --transport tcp, $clients connections" "$work/tcp.$clients.ours" "$work/tcp.$clients.dnsperf"
  done
  row "dnsperf -m tcp, a connection for each query" "$work/tcp.new.dnsperf" "$work/tcp.new.dnsperf"
  row "ldplayer replay --queries-per-connection 1" "$work/tcp.new.ours" "$work/tcp.new.dnsperf"
  row "bare loop of connect, write, read, close" "$work/tcp.new.bare" "$work/tcp.new.dnsperf"
}

dnsperf_rate() { # options ...: answers per second of three seconds, names with DO
  taskset -c 0 timeout 30 dnsperf -d "$work/names" -l 3 -D "$@" 2>/dev/null |
    sed -n 's/.*Queries per second: *\([0-9.]*\).*/\1/p' | grep . || echo 0
}

tcp_traces() {
  local clients
  for clients in 100 1000 10000; do
    "$bench" make-trace --gap 1us --seconds 200ms --clients $clients -o "$work/tcp$clients.pcap"
  done
  "$bench" make-trace --gap 1us --seconds 60ms --clients 65536 -o "$work/new.pcap"
  for i in $(seq 0 9999); do printf 'q%08d.example A\n' "$i"; done >"$work/names"
  link_up
}

bench_tcp() {
  tcp_traces
  bench_tcp_of "the echo responder" 100 "$bench" echo-tcp --listen $at:5300
  kill "$far"
}

bench_tcp_servers() {
  tcp_traces
  # Without a limit of connections or of their age that would be met here.
  nsd_conf "server-count: 1" "tcp-count: 20000" "tcp-timeout: 60"
  bench_tcp_of "NSD with the root zone" 100 nsd -d -c "$work/nsd.conf"
  knot_conf "udp-workers: 1" "tcp-workers: 1" "tcp-max-clients: 20000" "tcp-idle-timeout: 60"
  # Its queue of connections to accept takes ten; what finds no room there comes again after a second.
  bench_tcp_of "Knot DNS with the root zone" 10 knotd -c "$work/knot.conf"
  kill "$far"
}

# Servers that answer by themselves, so that nothing but the transport is measured.
tls_conf() {
  certificate
  dns=5399 tls=5300 https=5301 unbound_conf "num-threads: 1" "incoming-num-tcp: 2000" "tcp-idle-timeout: 60000" \
    "http-query-buffer-size: 64m" "http-response-buffer-size: 64m" "http-max-streams: 1000"
  dns=5399 tls=5300 https=5301 dnsdist_conf maxInFlight=1000
}

bench_tls_of() { # title, server command ...
  local title=$1; shift
  local against=(--server $at:5300 --allow-target $at/32 --timing fast --transport dot --tls-insecure --sources $many)
  rm -f "$work"/tls.*
  start "${inside[@]}" taskset -c 1 "$@"
  sleep 1
  for _ in $(seq "$RUNS"); do
    dnsperf_rate -m dot -s $at -p 5300 -c 100 -q 1000 >>"$work/tls.many.dnsperf"
    replay "$work/questions.pcap" "${against[@]}" --max-outstanding 1000
    rate answered >>"$work/tls.many.ours"
    dnsperf_rate -m dot -s $at -p 5300 -c 100 -q 100 -O num-queries-per-conn=1 >>"$work/tls.new.dnsperf"
    replay "$work/tlsnew.pcap" "${against[@]}" --max-outstanding 100 --queries-per-connection 1 --resumption off
    rate answered >>"$work/tls.new.ours"
    replay "$work/tlsresume.pcap" "${against[@]}" --max-outstanding 100 --queries-per-connection 1
    rate answered >>"$work/tls.resumed.ours"
    field resumed <"$work/out.json" >>"$work/tls.resumed.count"
  done
  stop
  echo; echo "### Over TLS 1.3, from $title over veth (generator one core, server one core)"; echo
  echo "| what | median [min–max] | ratio to dnsperf |"; echo "|---|---|---|"
  row "dnsperf -m dot, 100 connections, answers/s" "$work/tls.many.dnsperf" "$work/tls.many.dnsperf"
  row "ldplayer replay --transport dot, 100 connections, answers/s" "$work/tls.many.ours" "$work/tls.many.dnsperf"
  row "dnsperf -m dot, a connection for each query, new connections/s" "$work/tls.new.dnsperf" "$work/tls.new.dnsperf"
  row "ldplayer replay, full handshakes/s" "$work/tls.new.ours" "$work/tls.new.dnsperf"
  row "ldplayer replay, $(median <"$work/tls.resumed.count") of 5,000 handshakes resumed, handshakes/s" "$work/tls.resumed.ours" "$work/tls.new.dnsperf"
}

bench_tls() {
  command -v dnsdist >/dev/null || { echo "dnsdist is missing: apt-get install dnsdist" >&2; exit 3; }
  "$bench" make-trace --gap 1us --seconds 100ms --clients 100 -o "$work/questions.pcap"
  "$bench" make-trace --gap 1us --seconds 5ms --clients 5000 -o "$work/tlsnew.pcap"
  "$bench" make-trace --gap 1us --seconds 5ms --clients 500 -o "$work/tlsresume.pcap"
  for i in $(seq 0 9999); do printf 'q%08d.example A\n' "$i"; done >"$work/names"
  link_up
  tls_conf
  bench_tls_of "the echo responder" "$bench" echo-tcp --listen $at:5300 --certificate "$work/cert.pem" --key "$work/key.pem"
  bench_tls_of "Unbound" unbound -d -c "$work/unbound.conf"
  bench_tls_of "dnsdist" dnsdist --supervised --disable-syslog -C "$work/dnsdist.conf"
  kill "$far"
}

bench_https_of() { # title, server command ...
  local title=$1; shift
  local against=(--server $at:5301 --allow-target $at/32 --timing fast --transport doh2 --tls-insecure --max-outstanding 1000 --sources $many)
  rm -f "$work"/https.*
  start "${inside[@]}" taskset -c 1 "$@"
  sleep 1
  for _ in $(seq "$RUNS"); do
    dnsperf_rate -m doh -s $at -p 5301 -c 100 -q 1000 -O doh-uri=https://$at:5301/dns-query -O doh-method=POST >>"$work/https.dnsperf"
    replay "$work/questions.pcap" "${against[@]}"
    rate answered >>"$work/https.ours"
  done
  stop
  echo; echo "### Over HTTPS, HTTP/2, POST, from $title over veth (generator one core, server one core)"; echo
  echo "| what | median [min–max] | ratio to dnsperf |"; echo "|---|---|---|"
  row "dnsperf -m doh, 100 connections, answers/s" "$work/https.dnsperf" "$work/https.dnsperf"
  row "ldplayer replay --transport doh2, 100 connections, answers/s" "$work/https.ours" "$work/https.dnsperf"
}

bench_quic_of() { # title, port, transport
  rm -f "$work"/quic.many "$work"/quic.new
  for _ in $(seq "$RUNS"); do
    replay "$work/quic.pcap" --server "$at:$2" --allow-target $at/32 --timing fast --transport "$3" --tls-insecure --max-outstanding 1000
    rate answered >>"$work/quic.many"
    replay "$work/quicnew.pcap" --server "$at:$2" --allow-target $at/32 --timing fast --transport "$3" --tls-insecure \
      --max-outstanding 100 --queries-per-connection 1 --resumption off
    rate answered >>"$work/quic.new"
  done
  echo "| $1, $3, 100 connections, answers/s | $(stats <"$work/quic.many") |"
  echo "| $1, $3, full handshakes/s | $(stats <"$work/quic.new") |"
}

bench_https() {
  command -v dnsdist >/dev/null || { echo "dnsdist is missing: apt-get install dnsdist" >&2; exit 3; }
  "$bench" make-trace --gap 1us --seconds 200ms --clients 100 -o "$work/questions.pcap"
  for i in $(seq 0 9999); do printf 'q%08d.example A\n' "$i"; done >"$work/names"
  link_up
  tls_conf
  bench_https_of "Unbound" unbound -d -c "$work/unbound.conf"
  bench_https_of "dnsdist" dnsdist --supervised --disable-syslog -C "$work/dnsdist.conf"
  kill "$far"
}

bench_quic() {
  [ -x "$dnsproxy" ] || { echo "dnsproxy is missing: scripts/build-server.sh dnsproxy" >&2; exit 3; }
  "$bench" make-trace --gap 1us --seconds 50ms --clients 100 -o "$work/quic.pcap"
  "$bench" make-trace --gap 1us --seconds 3ms --clients 3000 -o "$work/quicnew.pcap"
  link_up
  tls_conf
  echo; echo "### ldplayer replay over QUIC over veth (generator one core, server one core)"; echo
  echo "| server | median [min–max] |"; echo "|---|---|"
  start "${inside[@]}" taskset -c 1 "$bench" echo-quic --listen $at:5302 --certificate "$work/cert.pem" --key "$work/key.pem"
  bench_quic_of "echo responder" 5302 doq
  stop
  # No server of Debian speaks QUIC. dnsproxy's own limit, with Unbound on the same core, is what shows.
  start "${inside[@]}" taskset -c 1 unbound -d -c "$work/unbound.conf"
  "${inside[@]}" taskset -c 1 "$dnsproxy" -l $at -p 0 --quic-port 5302 --https-port 5303 --http3 --tls-crt "$work/cert.pem" \
    --tls-key "$work/key.pem" -u $at:5399 --cache >"$work/dnsproxy.log" 2>&1 &
  proxy=$!
  sleep 2
  bench_quic_of dnsproxy 5302 doq
  bench_quic_of dnsproxy 5303 doh3
  kill "$proxy"
  stop
  kill "$far"
}

bench_construct() {
  echo; echo "### Zones of a million responses, one thread (zones build)"; echo
  echo "| what | median [min–max] |"; echo "|---|---|"
  "$bench" make-upstream --zones 1000 --responses 1000000 -o "$work/upstream.pcap"
  for _ in $(seq "$RUNS"); do
    rm -rf "$work/built"
    # Seconds and peak memory in kB, as the kernel counts them for a child.
    read -r seconds kilobytes < <(taskset -c 0 python3 -c '
import resource, subprocess, sys, time
start = time.monotonic()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(round(time.monotonic() - start, 3), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
' "$ldplayer" zones build "$work/upstream.pcap" -o "$work/built")
    echo "$seconds" >>"$work/construct.s"; echo "$kilobytes" | awk '{print $1 / 1024}' >>"$work/construct.mb"
    awk -v s="$seconds" 'BEGIN {print 1000000 / s}' >>"$work/construct.rate"
  done
  echo "| seconds for all, reading and writing included | $(stats <"$work/construct.s") |"
  echo "| responses/s | $(stats <"$work/construct.rate") |"
  echo "| memory at the peak, MB | $(stats <"$work/construct.mb") |"
}

for part in "$@"; do "bench_$part"; done
