#!/usr/bin/env bash
# Which stock servers answer ldplayer over which transport, resume its sessions and take its early data: the table of docs/transports.md.
# Usage: scripts/interop.sh [SERVER ...]   (nsd knot bind unbound dnsdist dnsproxy without an argument; one that is missing is left out)
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin
[ $# -gt 0 ] || set -- nsd knot bind unbound dnsdist dnsproxy

if [ -z "${LDPLAYER_INTEROP_INSIDE:-}" ]; then
  cargo build --release --locked -q -p ldplayer -p ldplayer-bench
  bin=$(realpath "${CARGO_TARGET_DIR:-target}/release")
  dnsproxy=$(scripts/dnsproxy.sh || true)
  exec "$bin/ldplayer" testbed run -- env LDPLAYER_INTEROP_INSIDE=1 BIN="$bin" DNSPROXY="$dnsproxy" bash "$0" "$@"
fi

work=$(mktemp -d)
started=()
trap 'stop; rm -rf "$work"' EXIT
stop() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  started=()
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=dns.example \
  -addext subjectAltName=DNS:dns.example -addext basicConstraints=critical,CA:FALSE -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
chmod 755 "$work"; chmod 644 "$work/key.pem"
xz -dc data/root-2016100801.zone.xz >"$work/root.zone"
# Each client asks twice, a quarter of a second apart.
"$BIN/ldplayer-bench" make-trace --gap 5ms --seconds 500ms --clients 50 -o "$work/trace.pcap"

nsd_run() {
  cat >"$work/nsd.conf" <<CONF
server:
  ip-address: 127.0.0.1@53
  ip-address: 127.0.0.1@853
  tls-port: 853
  tls-service-key: "$work/key.pem"
  tls-service-pem: "$work/cert.pem"
  username: ""
  chroot: ""
  zonesdir: "$work"
  pidfile: "$work/nsd.pid"
  xfrdfile: ""
  zonelistfile: "$work/zone.list"
  database: ""
  logfile: "$work/nsd.log"
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: .
  zonefile: root.zone
CONF
  exec nsd -d -c "$work/nsd.conf"
}

knot_run() {
  cat >"$work/knot.conf" <<CONF
server:
  rundir: "$work"
  listen: 127.0.0.1@53
database:
  storage: "$work/knot"
zone:
  - domain: .
    storage: "$work"
    file: root.zone
    zonefile-sync: -1
CONF
  exec knotd -c "$work/knot.conf"
}

bind_run() {
  cat >"$work/named.conf" <<CONF
tls own { cert-file "$work/cert.pem"; key-file "$work/key.pem"; };
options {
  directory "$work"; pid-file "$work/named.pid"; session-keyfile "$work/session.key"; recursion no; listen-on-v6 { none; };
  listen-on port 53 { 127.0.0.1; };
  listen-on port 853 tls own { 127.0.0.1; };
  listen-on port 443 tls own http default { 127.0.0.1; };
};
controls { };
zone "." { type primary; file "$work/root.zone"; };
CONF
  exec named -g -c "$work/named.conf"
}

unbound_run() {
  cat >"$work/unbound.conf" <<CONF
server:
  interface: 127.0.0.1@53
  interface: 127.0.0.1@853
  interface: 127.0.0.1@443
  tls-service-key: "$work/key.pem"
  tls-service-pem: "$work/cert.pem"
  access-control: 0.0.0.0/0 allow
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "$work"
  pidfile: ""
  use-syslog: no
  incoming-num-tcp: 1000
  local-zone: "example." static
remote-control:
  control-enable: no
CONF
  exec unbound -d -c "$work/unbound.conf"
}

dnsdist_run() {
  cat >"$work/dnsdist.conf" <<CONF
setACL("0.0.0.0/0")
setLocal("127.0.0.1:53")
addTLSLocal("127.0.0.1:853", "$work/cert.pem", "$work/key.pem", {provider="openssl"})
addDOHLocal("127.0.0.1:443", "$work/cert.pem", "$work/key.pem", "/dns-query")
addAction(AllRule(), RCodeAction(DNSRCode.NXDOMAIN))
CONF
  exec dnsdist --supervised --disable-syslog -C "$work/dnsdist.conf"
}

# In front of Unbound, since it knows no answers itself.
dnsproxy_run() {
  exec "$DNSPROXY" -l 127.0.0.1 -p 5353 --tls-port 8853 --https-port 8443 --http3 --quic-port 8853 \
    --tls-crt "$work/cert.pem" --tls-key "$work/key.pem" -u 127.0.0.1:53
}

version() {
  case $1 in
    nsd) nsd -v 2>&1 | sed -n 's/NSD version /NSD /p' ;;
    knot) knotd -V | sed 's/.*version /Knot DNS /' ;;
    bind) named -v | sed 's/BIND \([0-9.]*\).*/BIND \1/' ;;
    unbound) unbound -V | sed -n 's/Version /Unbound /p' ;;
    dnsdist) dnsdist --version | sed -n 's/^dnsdist \([0-9.]*\).*/dnsdist \1/p' ;;
    dnsproxy) sed -n 's/.*AdguardTeam\/dnsproxy v\([0-9.]*\).*/dnsproxy \1/p' scripts/dnsproxy/go.mod ;;
  esac | head -n 1
}

ask() { # options ...: answered of all, resumed of opened, and queries taken as early data of one run
  "$BIN/ldplayer" replay "$work/trace.pcap" --server 127.0.0.1 --sources original --tls-ca "$work/cert.pem" --tls-name dns.example \
    --query-timeout 3 "$@" -o "$work/run" --force --json >"$work/out.json" 2>"$work/err" || [ $? -eq 1 ] || { sed 's/^/ /' "$work/err" >&2; echo "- - - - -"; return; }
  python3 -c '
import json, sys
summary = json.load(open(sys.argv[1]))
summary = summary.get("summary", summary)
queries, used = summary["queries"], summary.get("connections") or {}
early = ((summary["latency_ms"].get("by_connection") or {}).get("fresh_early_data") or {}).get("queries", 0)
print(queries["answered"], queries["trace"], used.get("resumed", 0), used.get("opened", 0), early)
' "$work/out.json"
}

row() { # server, transport, options ...
  local server=$1 transport=$2 answered all resumed opened early kept=- shown=- taken=-; shift 2
  read -r answered all _ _ _ < <(ask --transport "$transport" "$@")
  if [ "$answered" != - ] && [ "$answered" -gt 0 ] && [ "$transport" != udp ] && [ "$transport" != tcp ]; then
    read -r _ _ resumed opened _ < <(ask --transport "$transport" --idle-timeout 0 "$@")
    shown="$resumed of $opened"
    case $transport in
      dot | doq | doh3)
        # Requests by POST are not safe to go early (RFC 8470).
        read -r _ _ _ opened early < <(ask --transport "$transport" --idle-timeout 0 --early-data on --doh-method get "$@")
        taken="$early of $opened" ;;
    esac
  fi
  echo "| $(version "$server") | $transport | $answered of $all | $shown | $taken |"
}

serve() { # server: starts it and waits until it answers over UDP
  "$1_run" >"$work/$1.log" 2>&1 &
  started+=($!)
  sleep 2
}

echo "| server | transport | answered | resumed, of connections | early data, of connections |"
echo "|---|---|---|---|---|"
for server in "$@"; do
  case $server in
    nsd) serve nsd; row nsd udp; row nsd tcp; row nsd dot ;;
    knot) serve knot; row knot udp; row knot tcp ;;
    bind) serve bind; row bind udp; row bind tcp; row bind dot; row bind doh2 ;;
    unbound) serve unbound; row unbound udp; row unbound tcp; row unbound dot; row unbound doh2 ;;
    dnsdist) serve dnsdist; row dnsdist udp; row dnsdist tcp; row dnsdist dot; row dnsdist doh2 ;;
    dnsproxy)
      [ -n "$DNSPROXY" ] || continue
      serve unbound; serve dnsproxy
      for transport in dot doq; do row dnsproxy $transport --tls-port 8853; done
      for transport in doh2 doh3; do row dnsproxy $transport --tls-port 8443; done ;;
    *) echo "$server: not one of nsd, knot, bind, unbound, dnsdist, dnsproxy" >&2; exit 2 ;;
  esac
  stop
done
