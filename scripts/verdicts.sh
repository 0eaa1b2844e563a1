#!/usr/bin/env bash
# How often runs with and without a neighbour are called disturbed: NSD on loopback, asked at RATE queries a second for SECONDS_EACH, RUNS times alone
# and RUNS times with a busy loop that takes 30 % of one core (3 ms of each 10), of the first and of the second in turns.
# Usage: scripts/verdicts.sh [ROWS.tsv]; prints a row for each situation, and what other limits of the wait would have said. Needs a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."

RUNS=${RUNS:-40}
RATE=${RATE:-2000}
SECONDS_EACH=${SECONDS_EACH:-5}
TRANSPORT=${TRANSPORT:-udp}
export PATH=$PATH:/usr/sbin
ldplayer=$(realpath "${ldplayer:-target/release/ldplayer}")
work=$(mktemp -d)
rows=$(realpath -m "${1:-$work/rows.tsv}")
neighbour=
trap '[ -z "$neighbour" ] || kill "$neighbour" 2>/dev/null || true; rm -rf "$work"' EXIT

cat >"$work/example.zone" <<ZONE
example. 60 SOA ns.example. h.example. 1 2 3 4 5
example. 60 NS ns.example.
ns.example. 60 A 192.0.2.1
ZONE
cat >"$work/nsd.conf" <<CONF
server:
  ip-address: 127.0.0.1@5300
  username: ""
  zonesdir: "$work"
  database: ""
  pidfile: ""
  zonelistfile: "$work/zones"
  xfrdfile: "$work/xfrd"
  xfrdir: "$work"
  cookie-secret-file: "$work/cookies"
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: example.
  zonefile: example.zone
CONF
printf 'ns.example. A\nexample. SOA\nexample. NS\n' >"$work/queries.txt"

busy() { # core: takes 30 % of it until it is killed
  exec taskset -c "$1" python3 -c '
import time
while True:
    end = time.perf_counter() + 0.003
    while time.perf_counter() < end: pass
    time.sleep(0.007)'
}

measure() { # situation
  "$ldplayer" replay "$work/queries.txt" --server 127.0.0.1:5300 --start-server "nsd -d -c $work/nsd.conf" --rate "$RATE" --clients 50 \
    --for "${SECONDS_EACH}s" --transport "$TRANSPORT" --quiet --force -o "$work/run" >/dev/null 2>&1 || true
  python3 - "$1" "$work/run/run.json" >>"$rows" <<'PY'
import json, sys
run = json.load(open(sys.argv[2]))
summary, wait = run["summary"], run["summary"]["cpu_wait"]
tail, side = summary["latency_ms"]["from_sent"], lambda name: (wait[name] or {}).get("share", 0)
server = summary["telemetry"]["server"]
beyond_10_us = max(server["cpu_wait_s"] - 10e-6 * server["cpu_runs"], 0) / (server["to_s"] - server["from_s"])
failed = ",".join(check["name"] for check in run["verdict"]["checks"] if not check["ok"])
print(sys.argv[1], run["verdict"]["replay"], side("server"), side("client"), wait["others_cores"], tail["p50"], tail["p90"], tail["p99"],
      tail["p999"], summary["timing"]["error_us"]["p99"], failed or "-", server["cpu_wake_us"] or 0, beyond_10_us, sep="\t")
PY
}

: >"$rows"
for run in $(seq "$RUNS"); do
  measure alone
  busy $((run % 2)) &
  neighbour=$!
  sleep 0.3
  measure neighbour
  kill "$neighbour" && wait "$neighbour" 2>/dev/null || true
  neighbour=
done

python3 - "$rows" <<'PY'
import sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
def median(values):
    return sorted(values)[len(values) // 2]
print("| situation | runs | faithful | harmless | disturbed | server's wait, median [min–max] | p50 | p99, median [min–max] |")
print("|---|---|---|---|---|---|---|---|")
for situation in ("alone", "neighbour"):
    those = [row for row in rows if row[0] == situation]
    count = lambda word: sum(row[1] == word for row in those)
    wait, p50, p99 = ([float(row[at]) for row in those] for at in (2, 5, 7))
    print(f"| {situation} | {len(those)} | {count('faithful')} | {count('harmless')} | {count('disturbed')} "
          f"| {median(wait):.2%} [{min(wait):.2%}–{max(wait):.2%}] | {median(p50):.3f} ms | {median(p99):.3f} ms [{min(p99):.3f}–{max(p99):.3f}] |")
print("\n| situation | waking up mostly took, median [min–max] | runs beyond 0.5 % with 10 µs as its price |\n|---|---|---|")
for situation in ("alone", "neighbour"):
    wake, fixed = ([float(row[at]) for row in rows if row[0] == situation] for at in (11, 12))
    print(f"| {situation} | {median(wake):.1f} µs [{min(wake):.1f}–{max(wake):.1f}] | {sum(share > 0.005 for share in fixed)} of {len(fixed)} |")
print("\n| limit of the server's wait | runs alone beyond it | with a neighbour |\n|---|---|---|")
for limit in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05):
    share = [sum(float(row[2]) > limit for row in rows if row[0] == which) for which in ("alone", "neighbour")]
    print(f"| {limit:.1%} | {share[0]} | {share[1]} |")
PY
