#!/usr/bin/env bash
# Holds very many connections open and asks on all of them: what one costs, in ldplayer, in the kernel and in processor time.
# Usage: scripts/scale.sh tcp|dot [CONNECTIONS [OPENED_PER_SECOND [QUERIES_PER_SECOND]]]
# As root, on a machine with nothing else to do. A million TCP connections take some 12 GB, both ends included.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:?tcp or dot}
connections=${2:-$([ "$what" = tcp ] && echo 1000000 || echo 100000)}
opened=${3:-$([ "$what" = tcp ] && echo 10000 || echo 1500)}
qps=${4:-$([ "$what" = tcp ] && echo 50000 || echo 10000)}
seconds=${SECONDS_ASKED:-30}

if [ -z "${LDPLAYER_SCALE_INSIDE:-}" ]; then
  cargo build --release --locked -q -p ldplayer -p ldplayer-bench
  files=$((connections + 4096))
  if [ "$(cat /proc/sys/fs/nr_open)" -lt $files ]; then
    echo "raising fs.nr_open to $files, for this host"
    echo $files >/proc/sys/fs/nr_open
  fi
  ulimit -n $files || { echo "ulimit -n $files is refused: run this as root" >&2; exit 3; }
  bin=${CARGO_TARGET_DIR:-target}/release
  exec "$bin/ldplayer" testbed run -- env LDPLAYER_SCALE_INSIDE=1 BIN="$(realpath "$bin")" bash "$0" "$what" "$connections" "$opened" "$qps"
fi

work=$(mktemp -d)
server= sampler=
trap 'for pid in $server $sampler; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
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
"$BIN/ldplayer-bench" echo-tcp --listen 127.0.0.1:5300 --core 1 "${served[@]}" >"$work/server.log" &
server=$!
sleep 1

# Open sockets of this namespace, octets of the kernel's slabs, resident octets of ldplayer and of the server: once a second.
sample() {
  while sleep 1; do
    awk -v slab="$(awk '/^Slab:/ {print $2 * 1024}' /proc/meminfo)" \
      -v pages="$(awk '/^TCP:/ {print $5, $NF}' /proc/net/sockstat)" \
      -v client="$(awk '/^VmRSS:/ {print $2 * 1024}' "/proc/$client/status" 2>/dev/null || echo 0)" \
      -v server="$(awk '/^VmRSS:/ {print $2 * 1024}' "/proc/$server/status")" \
      'BEGIN {split(pages, tcp, " "); print int(tcp[1] / 2), slab + tcp[2] * 4096, client, server}'
  done
}
"$BIN/ldplayer" replay "$work/trace.pcap" --server 127.0.0.1:5300 --sources original "${options[@]}" --idle-timeout 1h \
  --workers 1 --cores 0 --connect-timeout 20s -o "$work/run" --json >"$work/report.json" 2>"$work/log" &
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
print("connections", summary["connections"])
print("queries", {k: summary["queries"][k] for k in ("trace", "sent", "answered", "timed_out", "failed", "not_sent")})
print(f"octets a connection between {low[0]:.0f} and {high[0]:.0f} of them: "
      f"kernel, both ends {(high[1] - low[1]) / more:.0f}; ldplayer {(high[2] - low[2]) / more:.0f}; server {(high[3] - low[3]) / more:.0f}")
print("resident at most, MB: ldplayer %.0f, server %.0f" % (max(s[2] for s in samples) / 1e6, max(s[3] for s in samples) / 1e6))
print("error_us", summary["timing"]["error_us"])
print("latency_ms", summary["latency_ms"])
PYTHON
