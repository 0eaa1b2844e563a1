#!/usr/bin/env bash
# What the length of a quota's period does: Knot DNS with a fifth of a core, as 1 ms of each 5 ms and as 2 ms of each 10 ms, in turns, RUNS times each
# at each of RATES queries a second for SECONDS_EACH. Needs root, a quiet machine and control groups (version 1 or 2).
# Usage: scripts/quota.sh [ROWS.tsv]; prints a row for each rate and period: answered, lost at the server's sockets, latency.
set -euo pipefail
cd "$(dirname "$0")/.."

RUNS=${RUNS:-5}
RATES=${RATES:-"4000 8000 12000"}
SECONDS_EACH=${SECONDS_EACH:-5}
export PATH=$PATH:/usr/sbin
ldplayer=$(realpath "${ldplayer:-target/release/ldplayer}")
work=$(mktemp -d)
rows=$(realpath -m "${1:-$work/rows.tsv}")
groups=/sys/fs/cgroup
[ -e $groups/cgroup.controllers ] || groups=/sys/fs/cgroup/cpu
group=$groups/quota-$$
server=
stop() {
  [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
  server=
  rmdir "$group" 2>/dev/null || true
}
trap 'stop; rm -rf "$work"' EXIT

cat >"$work/example.zone" <<ZONE
example. 60 SOA ns.example. h.example. 1 2 3 4 5
example. 60 NS ns.example.
ns.example. 60 A 192.0.2.1
ZONE
cat >"$work/knot.conf" <<CONF
server:
  listen: 127.0.0.1@5300
  rundir: "$work"
  udp-workers: 1
database:
  storage: "$work"
zone:
  - domain: example.
    file: "$work/example.zone"
CONF
printf 'ns.example. A\nexample. SOA\nexample. NS\n' >"$work/queries.txt"

start() { # quota and period in microseconds
  mkdir "$group"
  if [ -e "$group/cpu.max" ]; then
    echo "$1 $2" >"$group/cpu.max"
  else
    echo "$2" >"$group/cpu.cfs_period_us"
    echo "$1" >"$group/cpu.cfs_quota_us"
  fi
  knotd -c "$work/knot.conf" >"$work/log" 2>&1 &
  server=$!
  echo "$server" >"$group/cgroup.procs"
  until grep -q 'server started\|loaded, serial' "$work/log"; do sleep 0.1; done
  sleep 0.5
}

drops() { # at the server's sockets
  awk '$2 ~ /:14B4$/ { sum += $NF } END { print sum + 0 }' /proc/net/udp
}

measure() { # rate, quota, period
  start "$2" "$3"
  "$ldplayer" replay "$work/queries.txt" --server 127.0.0.1:5300 --watch-pid "$server" --rate "$1" --clients 50 --for "${SECONDS_EACH}s" \
    --query-timeout 1s --quiet --force -o "$work/run" >/dev/null 2>&1 || true
  lost=$(drops)
  python3 - "$1" "$2 of $3 µs" "$lost" "$work/run/run.json" >>"$rows" <<'PY'
import json, sys
summary = json.load(open(sys.argv[4]))["summary"]
tail, queries = summary["latency_ms"]["from_sent"], summary["queries"]
print(*sys.argv[1:3], queries["answered"] / queries["sent"], sys.argv[3], tail["p50"], tail["p99"] or "", sep="\t")
PY
  stop
}

: >"$rows"
for run in $(seq "$RUNS"); do
  for rate in $RATES; do
    measure "$rate" 1000 5000
    measure "$rate" 2000 10000
  done
done

python3 - "$rows" <<'PY'
import sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
def shown(texts, form):
    values = sorted(float(text) if text else float("inf") for text in texts)
    one = lambda value: "unanswered" if value == float("inf") else form.format(value)
    return f"{one(values[len(values) // 2])} [{one(values[0])}–{one(values[-1])}]"
print("| queries/s | quota | runs | answered | lost at the server's socket | p50, ms | p99, ms |\n|---|---|---|---|---|---|---|")
for key in dict.fromkeys((row[0], row[1]) for row in rows):
    those = [row for row in rows if (row[0], row[1]) == key]
    columns = zip(("{:.2%}", "{:,.0f}", "{:.2f}", "{:.1f}"), range(2, 6))
    print(f"| {int(key[0]):,} | {key[1]} | {len(those)} |", " | ".join(shown([row[at] for row in those], form) for form, at in columns), "|")
PY
