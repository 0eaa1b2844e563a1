#!/usr/bin/env bash
# Holds very many connections open and asks on all of them: what one costs, in ldplayer, in the kernel and in processor time.
# Usage: scripts/scale.sh tcp|dot [CONNECTIONS [OPENED_PER_SECOND [QUERIES_PER_SECOND]]]
# On a machine with nothing else to do. A million TCP connections take some 12 GB,
# both ends included. A process has no more of them than its limit of open files, a replay that many for each worker.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:?tcp or dot}
connections=${2:-$([ "$what" = tcp ] && echo 1000000 || echo 100000)}
opened=${3:-$([ "$what" = tcp ] && echo 6000 || echo 1500)}
qps=${4:-$([ "$what" = tcp ] && echo 50000 || echo 10000)}
seconds=${SECONDS_ASKED:-30}

if [ -z "${LDPLAYER_SCALE_INSIDE:-}" ]; then
  cargo build --release --locked -q -p ldplayer -p ldplayer-bench
  ulimit -n "$(ulimit -Hn)"
  bin=${CARGO_TARGET_DIR:-target}/release
  exec "$bin/ldplayer" testbed run -- env LDPLAYER_SCALE_INSIDE=1 BIN="$(realpath "$bin")" bash "$0" "$what" "$connections" "$opened" "$qps"
fi

work=$(mktemp -d)
servers=() sampler=
trap 'for pid in "${servers[@]}" $sampler; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
echo 65535 >/proc/sys/net/core/somaxconn
echo 65535 >/proc/sys/net/ipv4/tcp_max_syn_backlog
options=(--transport tcp)
served=()
if [ "$what" = dot ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=dns.example \
    -addext subjectAltName=DNS:dns.example -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
  served=(--certificate "$work/cert.pem" --key "$work/key.pem")
  options=(--transport dot --tls-ca "$work/cert.pem" --tls-name dns.example)
fi
"$BIN/ldplayer-bench" make-trace --clients "$connections" --opening "$((connections / opened))s" --poisson "$qps" --seconds "${seconds}s" -o "$work/trace.pcap"
# Each worker and each server has the whole limit of open files: as many of them as it takes.
each=$(($(ulimit -n) - 1024))
workers=$(((connections + each - 1) / each))
servers=()
for _ in $(seq $workers); do
  "$BIN/ldplayer-bench" echo-tcp --listen 127.0.0.1:5300 "${served[@]}" >"$work/server.log" &
  servers+=($!)
done
sleep 2

# Open sockets of this namespace, octets of the kernel's slabs, resident octets of ldplayer and of the server: once a second.
sample() {
  while sleep 1; do
    awk -v slab="$(awk '/^Slab:/ {print $2 * 1024}' /proc/meminfo)" \
      -v pages="$(awk '/^TCP:/ {print $3, $NF}' /proc/net/sockstat)" \
      -v client="$(awk '/^RssAnon:/ {print $2 * 1024}' "/proc/$client/status" 2>/dev/null || echo 0)" \
      -v server="$(for pid in "${servers[@]}"; do cat "/proc/$pid/status"; done | awk '/^RssAnon:/ {sum += $2 * 1024} END {print sum}')" \
      'BEGIN {split(pages, tcp, " "); print int(tcp[1] / 2), slab + tcp[2] * 4096, client, server}'
  done
}
"$BIN/ldplayer" replay "$work/trace.pcap" --server 127.0.0.1:5300 --sources original "${options[@]}" --idle-timeout 1h \
  --workers "$workers" --precision "$([ "$workers" = 1 ] && echo normal || echo low)" --connect-timeout 20s -o "$work/run" --json >"$work/report.json" 2>"$work/log" &
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
high = max(samples, key=lambda sample: sample[0])
more = high[0] - low[0]
print("workers", report["config"]["workers"] if "config" in report and "workers" in report["config"] else "")
print("connections", summary["connections"])
print("queries", {k: summary["queries"][k] for k in ("trace", "sent", "answered", "timed_out", "failed", "not_sent")})
print(f"octets a connection between {low[0]:.0f} and {high[0]:.0f} of them: "
      f"kernel, both ends {(high[1] - low[1]) / more:.0f}; ldplayer {(high[2] - low[2]) / more:.0f}; server {(high[3] - low[3]) / more:.0f}")
print("resident at most, MB: ldplayer %.0f, server %.0f" % (max(s[2] for s in samples) / 1e6, max(s[3] for s in samples) / 1e6))
print("error_us", summary["timing"]["error_us"])
print("latency_ms", summary["latency_ms"])
PYTHON
