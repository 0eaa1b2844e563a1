#!/usr/bin/env bash
# Measures replays on several hosts, on this one: how fast queries are distributed, what it does to timing, how far starts are apart, and what the control
# traffic of very many agents takes. Usage: scripts/agents.sh [distribute|timing|control ...]   (all of them without an argument)
# RUNS=5 SECONDS_EACH=15 RATE=20000 are the defaults. Needs a quiet machine with two cores, and nats-server.
set -euo pipefail
cd "$(dirname "$0")/.."

RUNS=${RUNS:-5}
SECONDS_EACH=${SECONDS_EACH:-15}
RATE=${RATE:-20000}
export PATH=$PATH:/usr/sbin
cargo build --release --locked -q -p ldplayer -p ldplayer-bench
cargo build --release --locked -q -p ldplayer-cluster --examples
bin=${CARGO_TARGET_DIR:-target}/release
ldplayer=$bin/ldplayer bench=$bin/ldplayer-bench
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

if [ $# -eq 0 ]; then set -- distribute timing control; fi
stats() { sort -g | awk '{v[NR]=$1} END {m=(NR%2)?v[(NR+1)/2]:(v[NR/2]+v[NR/2+1])/2; printf "%.4g [%.4g–%.4g]", m, v[1], v[NR]}'; }
median() { sort -g | awk '{v[NR]=$1} END {print (NR%2)?v[(NR+1)/2]:(v[NR/2]+v[NR/2+1])/2}'; }
# A figure of a report, by its path of keys, or of a line of JSON.
figure() { python3 -c 'import functools, json, sys; print(functools.reduce(lambda at, key: at[int(key)] if isinstance(at, list) else at[key], sys.argv[2].split("."), json.load(open(sys.argv[1]))))' "$1" "$2"; }

bench_distribute() {
  echo; echo "### Distribution: queries in memory to agents that discard them, over one NATS server, all on this host (queries/s)"; echo
  echo "| agents | median [min–max] |"; echo "|---|---|"
  for agents in 1 2 4; do
    for _ in $(seq "$RUNS"); do
      "$bin/examples/distribute" "$agents" >"$work/line"
      figure "$work/line" per_second
    done >"$work/distribute.$agents"
    echo "| $agents | $(stats <"$work/distribute.$agents") |"
  done
}

replay() { # name, options ...: replays at the rate, and notes the timing
  local name=$1
  shift
  "$ldplayer" replay "$work/trace.pcap" --server 127.0.0.1:5300 --timing "rate:$RATE" --transport udp --workers 1 --cores 0 --precision high \
    --query-timeout 1s -o "$work/run" --force --quiet "$@" || [ $? -eq 1 ]
  for key in p50 p99 p999; do figure "$work/run/run.json" "summary.timing.error_us.$key" >>"$work/$name.$key"; done
  figure "$work/run/run.json" summary.queries.answered >>"$work/$name.answered"
  case $name in
    agent*) for key in skew_start_us skew_us; do figure "$work/run/run.json" "agents.0.$key" >>"$work/$name.$key"; done ;;
  esac
}

bench_timing() {
  "$bench" make-trace --gap "$((1000000000 / RATE))ns" --seconds "${SECONDS_EACH}s" --clients 1000 -o "$work/trace.pcap"
  taskset -c 1 "$bench" echo --listen 127.0.0.1:5300 --seconds 3600 >/dev/null &
  server=$!
  sleep 1
  for _ in $(seq "$RUNS"); do
    replay local
    replay agent --nats embedded --agents 1
  done
  kill "$server"; wait "$server" 2>/dev/null || true; server=
  echo; echo "### Timing at $RATE queries/s, one worker on core 0 (µs late; clocks: how far an agent's may be from the controller's at most)"; echo
  echo "| what | p50 | p99 | p99.9 | answered | clock at the start | over the run |"; echo "|---|---|---|---|---|---|---|"
  for name in local agent; do
    echo "| $name | $(stats <"$work/$name.p50") | $(stats <"$work/$name.p99") | $(stats <"$work/$name.p999") | $(median <"$work/$name.answered") | $([ $name = local ] || stats <"$work/$name.skew_start_us") | $([ $name = local ] || stats <"$work/$name.skew_us") |"
  done
  awk -v a="$(median <"$work/agent.p99")" -v b="$(median <"$work/local.p99")" 'BEGIN {printf "\np99 of the agent over that of the local replay: %.2f\n", a / b}'
}

bench_control() {
  echo; echo "### Control traffic: agents that only answer, with a real NATS server, all on this host"; echo
  echo "| agents | found, s | clocks compared, s | error of a clock, µs | told their parts, s | told the start, s | asked how far they are, s | longest, s | bytes/s meanwhile |"
  echo "|---|---|---|---|---|---|---|---|---|"
  for agents in 10 100 1000; do
    "$bin/examples/control" "$agents" >"$work/line"
    printf '| %s |' "$agents"
    for key in found_s clocks_s clock_error_us prepare_s start_s progress_s progress_longest_s progress_bytes_a_second; do printf ' %s |' "$(figure "$work/line" $key)"; done
    echo
  done
}

echo "# $(date -u +%F), kernel $(uname -r), $(nproc) cores, $RUNS runs each"
for part in "$@"; do "bench_$part"; done
