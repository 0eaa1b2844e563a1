#!/usr/bin/env bash
# Holds very many connections open and asks on all of them: what one costs, in ldplayer, in the kernel and in processor time.
# Usage: scripts/scale.sh tcp|dot|doq|doq-dnsproxy [CONNECTIONS [OPENED_PER_SECOND [QUERIES_PER_SECOND]]]
# On a machine with nothing else to do. A million TCP connections take some 12 GB,
# both ends included. A process has no more of them than its limit of open files, a replay that many for each worker.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:?tcp, dot, doq or doq-dnsproxy}
case $what in
  tcp) usual=(1000000 6000 50000) ;;
  dot) usual=(100000 1500 10000) ;;
  doq) usual=(20000 300 2000) ;;          # from the echo responder
  doq-dnsproxy) usual=(20000 300 500) ;;  # with 2,000 it is full
  *) echo "$what: tcp, dot, doq or doq-dnsproxy" >&2; exit 2 ;;
esac
connections=${2:-${usual[0]}} opened=${3:-${usual[1]}} qps=${4:-${usual[2]}}
seconds=${SECONDS_ASKED:-30}

if [ -z "${LDPLAYER_SCALE_INSIDE:-}" ]; then
  cargo build --release --locked -q -p ldplayer -p ldplayer-bench
  ulimit -n "$(ulimit -Hn)"
  bin=${CARGO_TARGET_DIR:-target}/release
  dnsproxy=
  [ "$what" != doq-dnsproxy ] || dnsproxy=$(scripts/build-server.sh dnsproxy)
  export dnsproxy
  # The namespace gets a table of connections of its own, since in one that is too small each packet is looked for in long lists.
  exec unshare --net sh -c 'echo 4194304 >/proc/sys/net/ipv4/tcp_child_ehash_entries; exec "$@"' - \
    "$bin/ldplayer" testbed run -- env LDPLAYER_SCALE_INSIDE=1 BIN="$(realpath "$bin")" bash "$0" "$what" "$connections" "$opened" "$qps"
fi

work=$(mktemp -d)
source scripts/servers.sh
servers=() sampler=
trap 'for pid in "${servers[@]}" $sampler; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
echo 65535 >/proc/sys/net/core/somaxconn
echo 65535 >/proc/sys/net/ipv4/tcp_max_syn_backlog
echo reno >/proc/sys/net/ipv4/tcp_congestion_control # BBR paces each connection by a timer
echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save
options=(--transport tcp)
served=()
if [ "$what" != tcp ]; then
  certificate
  served=(--certificate "$work/cert.pem" --key "$work/key.pem")
  options=(--transport "${what%-*}" --tls-ca "$work/cert.pem" --tls-name dns.example)
fi
"$BIN/ldplayer-bench" make-trace --clients "$connections" --opening "$((connections / opened))s" --poisson "$qps" --seconds "${seconds}s" -o "$work/trace.pcap"
# Each worker and each server has the whole limit of open files: as many of them as it takes.
each=$(($(ulimit -n) - 1024))
workers=$(((connections + each - 1) / each))
case $what in doq*) workers=1 ;; esac # whose connections share sockets
if [ "$what" = doq-dnsproxy ]; then
  at=127.0.0.1 dns=5399 unbound_conf
  PATH=$PATH:/usr/sbin unbound -d -c "$work/unbound.conf" 2>"$work/server.log" &
  servers+=($!)
  "$dnsproxy" -l 127.0.0.1 -p 0 --quic-port 5300 --tls-crt "$work/cert.pem" --tls-key "$work/key.pem" -u 127.0.0.1:5399 --cache >"$work/server.log" 2>&1 &
  servers+=($!)
else
  for _ in $(seq $workers); do
    "$BIN/ldplayer-bench" "$([ "$what" = doq ] && echo echo-quic || echo echo-tcp)" --listen 127.0.0.1:5300 "${served[@]}" >"$work/server.log" &
    servers+=($!)
  done
fi
sleep 2

# Open connections (of QUIC, which the kernel does not know, those that should be open), octets of the kernel's slabs, resident octets of ldplayer and of the server: once a second.
sample() {
  local opening=0
  while sleep 1; do
    opening=$((opening + opened > connections ? connections : opening + opened))
    awk -v slab="$(awk '/^Slab:/ {print $2 * 1024}' /proc/meminfo)" \
      -v pages="$(awk '/^TCP:/ {print $3, $NF}' /proc/net/sockstat)" \
      -v client="$(awk '/^RssAnon:/ {print $2 * 1024}' "/proc/$client/status" 2>/dev/null || echo 0)" \
      -v server="$(for pid in "${servers[@]}"; do cat "/proc/$pid/status"; done | awk '/^RssAnon:/ {sum += $2 * 1024} END {print sum}')" \
      -v quic="$([ "${what%-*}" = doq ] && echo $opening || echo 0)" \
      'BEGIN {split(pages, tcp, " "); print quic ? quic : int(tcp[1] / 2), slab + tcp[2] * 4096, client, server}'
  done
}
"$BIN/ldplayer" replay "$work/trace.pcap" --server 127.0.0.1:5300 --sources original "${options[@]}" --idle-timeout 1h \
  --workers "$workers" --precision "$([ "$workers" = 1 ] && echo normal || echo low)" --connect-timeout 20s --handshake-timeout 20s -o "$work/run" --json >"$work/report.json" 2>"$work/log" &
client=$!
sample >"$work/samples" &
sampler=$!
wait $client || { status=$?; [ $status -eq 1 ] || { cat "$work/log"; exit $status; }; }
kill $sampler
sampler=

python3 - "$work" "$connections" <<'PYTHON'
import json, sys
work, wanted = sys.argv[1], int(sys.argv[2])
report = json.load(open(f"{work}/report.json"))
summary = report.get("summary", report)
samples = [tuple(map(float, line.split())) for line in open(f"{work}/samples")]
samples = [sample for sample in samples if sample[2] > 0]
low = min(samples, key=lambda sample: abs(sample[0] - wanted / 10))
full = [sample for sample in samples if sample[0] >= 0.999 * wanted] or [max(samples, key=lambda sample: sample[0])]
more = full[0][0] - low[0]
# What grows once all are open is the record: rows wait in memory until there are enough of them for a file.
rows = summary["queries"]["trace"] - wanted
row = max(0, (full[-1][2] - full[0][2]) / rows) if len(full) > 1 and rows > 0 else 0
each = (full[0][2] - low[2]) / more
print("workers", report["config"]["workers"])
print("connections", summary["connections"])
print("queries", {k: summary["queries"][k] for k in ("trace", "sent", "answered", "timed_out", "failed", "not_sent")})
print(f"octets a connection, {low[0]:.0f} to {full[0][0]:.0f} of them: kernel, both ends {(full[0][1] - low[1]) / more:.0f}; "
      f"ldplayer {each:.0f}, of which {min(each, row):.0f} are its row; server {(full[0][3] - low[3]) / more:.0f}")
print("resident at most, MB: ldplayer %.0f, server %.0f" % (max(s[2] for s in samples) / 1e6, max(s[3] for s in samples) / 1e6))
print("error_us", summary["timing"]["error_us"])
print("latency_ms", summary["latency_ms"]["by_connection"])
PYTHON

# What the kernel lets through at all: as many connections, and as much asked on them as there are answers.
if [ "$what" = tcp ]; then
  "$BIN/ldplayer-bench" bare-tcp --to 127.0.0.1:5300 --connections "$connections" --threads "$workers" --opening "$((connections / opened))s" --seconds 20s
fi
