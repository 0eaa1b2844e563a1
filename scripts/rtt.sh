#!/usr/bin/env bash
# How many round trips an answer takes over each transport: on a fresh connection, a resumed one, with early data, and on one in use.
# Usage: scripts/rtt.sh [RTT_MS ...]   (20 80 120 without an argument; 0 is measured along)
# Unbound answers over UDP, TCP, DoT and DoH, dnsdist over DoT, dnsproxy in front of Unbound over DoQ and DoH/3, over the wire of a testbed.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin
[ $# -gt 0 ] || set -- 20 80 120
cargo build --release --locked -q -p ldplayer -p ldplayer-bench
bin=$(realpath "${CARGO_TARGET_DIR:-target}/release")
dnsproxy=$(scripts/build-server.sh dnsproxy)
for program in unbound dnsdist openssl python3; do
  command -v $program >/dev/null || { echo "$program is missing" >&2; exit 3; }
done

work=$(mktemp -d)
name=rtt-$$
trap '"$bin/ldplayer" testbed down --name "$name" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
source scripts/servers.sh
certificate
at=10.53.0.2 dns=53 tls=853 https=443 unbound_conf "incoming-num-tcp: 1000"
at=10.53.0.2 dns=5353 tls=8854 https='' dnsdist_conf
# Each client asks twice, half a second apart: on a new connection, and on it, or on another where clients close at once.
"$bin/ldplayer-bench" make-trace --gap 5ms --seconds 1s --clients 100 -o "$work/trace.pcap"

ask() { # name, options ...: the medians of a run in milliseconds, by what the connection was
  local name_of=$1; shift
  "$bin/ldplayer" testbed exec --name "$name" clients -- "$bin/ldplayer" replay "$work/trace.pcap" --server 10.53.0.2 --sources original \
    --allow-target 10.53.0.2/32 --tls-ca "$work/cert.pem" --tls-name dns.example "$@" -o "$work/run" --force --json >"$work/out.json" 2>"$work/err" ||
    [ $? -eq 1 ] || { cat "$work/err" >&2; return 3; }
  python3 - "$work/out.json" "$rtt" "$name_of" >>"$work/table" <<'PYTHON'
import json, sys
summary = json.load(open(sys.argv[1]))
summary = summary.get("summary", summary)
classes = dict(summary["latency_ms"].get("by_connection") or {})
if not classes:
    classes = {"": summary["latency_ms"]["from_sent"]}
for kind, tail in classes.items():
    if tail["queries"]:
        print(sys.argv[2], sys.argv[3], kind.replace("_", " "), tail["p50"], summary["queries"]["answered"], summary["queries"]["trace"], sep="\t")
PYTHON
}

for rtt in 0 "$@"; do
  "$bin/ldplayer" testbed up --name "$name" --rtt "${rtt}ms" >/dev/null
  "$bin/ldplayer" testbed exec --name "$name" resolver -- unbound -d -c "$work/unbound.conf" 2>"$work/unbound.log" &
  "$bin/ldplayer" testbed exec --name "$name" resolver -- "$dnsproxy" -l 10.53.0.2 -p 0 --quic-port 8853 --https-port 8443 --http3 \
    --tls-crt "$work/cert.pem" --tls-key "$work/key.pem" -u 10.53.0.2:53 >"$work/dnsproxy.log" 2>&1 &
  "$bin/ldplayer" testbed exec --name "$name" resolver -- dnsdist --supervised --disable-syslog -C "$work/dnsdist.conf" >"$work/dnsdist.log" 2>&1 &
  sleep 2
  ask udp --transport udp
  ask tcp --transport tcp
  for transport in dot doh2; do
    ask $transport --transport $transport
    ask $transport --transport $transport --idle-timeout 0
  done
  ask "dot, dnsdist" --transport dot --tls-port 8854
  ask "dot, dnsdist" --transport dot --tls-port 8854 --idle-timeout 0
  ask "dot, TLS 1.2" --transport dot --tls-version 1.2
  for transport in doq doh3; do
    port=$([ $transport = doq ] && echo 8853 || echo 8443)
    ask $transport --transport $transport --tls-port $port
    ask $transport --transport $transport --tls-port $port --idle-timeout 0
    ask $transport --transport $transport --tls-port $port --idle-timeout 0 --early-data on --doh-method get
  done
  "$bin/ldplayer" testbed down --name "$name" >/dev/null
  wait
done

# The time at no distance is the machine's own; what is above it is divided by the round trip.
python3 - "$work/table" <<'PYTHON'
import sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
base = {(name, kind): float(p50) for rtt, name, kind, p50, *_ in rows if rtt == "0"}
rtts = sorted({int(row[0]) for row in rows})
cells = {(name, kind, int(rtt)): (float(p50), answered, trace) for rtt, name, kind, p50, answered, trace in rows}
print("| transport | connection |" + "".join(f" {rtt} ms |" for rtt in rtts) + " round trips |")
print("|---|---|" + "---|" * (len(rtts) + 1))
for name, kind in dict.fromkeys((row[1], row[2]) for row in rows):
    shown, trips = [], []
    for rtt in rtts:
        cell = cells.get((name, kind, rtt))
        shown.append("–" if cell is None else f"{cell[0]:.1f}" + ("" if cell[1] == cell[2] else f" ({cell[1]} of {cell[2]})"))
        if cell and rtt and (name, kind) in base:
            trips.append((cell[0] - base[name, kind]) / rtt)
    told = f"{min(trips):.2f}–{max(trips):.2f}" if trips else "–"
    print(f"| {name} | {kind or '–'} | " + " | ".join(shown) + f" | {told} |")
PYTHON
