#!/usr/bin/env bash
# Which stock servers answer ldplayer over which transport, resume its sessions and take its early data: the table of docs/transports.md.
# Usage: scripts/interop.sh [SERVER ...]   (all of them without an argument: nsd knot bind unbound dnsdist haproxy dnsproxy; only dnsproxy may be missing)
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin
[ $# -gt 0 ] || set -- nsd knot bind unbound dnsdist haproxy dnsproxy

if [ -z "${LDPLAYER_INTEROP_INSIDE:-}" ]; then
  cargo build --release --locked -q -p ldplayer -p ldplayer-bench
  bin=$(realpath "${CARGO_TARGET_DIR:-target}/release")
  dnsproxy=$(scripts/build-server.sh dnsproxy || true)
  exec "$bin/ldplayer" testbed run -- env LDPLAYER_INTEROP_INSIDE=1 BIN="$bin" DNSPROXY="$dnsproxy" bash "$0" "$@"
fi

work=$(mktemp -d)
started=()
trap 'stop; rm -rf "$work"' EXIT
stop() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
  started=()
}
at=127.0.0.1 dns=53 tls=853 https=443
source scripts/servers.sh
certificate
# Each client asks twice, a quarter of a second apart.
"$BIN/ldplayer-bench" make-trace --gap 5ms --seconds 500ms --clients 50 -o "$work/trace.pcap"

nsd_run() { nsd_conf; exec nsd -d -c "$work/nsd.conf"; }
knot_run() { knot_conf; exec knotd -c "$work/knot.conf"; }
bind_run() { bind_conf; exec named -g -c "$work/named.conf"; }
unbound_run() { unbound_conf "incoming-num-tcp: 1000"; exec unbound -d -c "$work/unbound.conf"; }
dnsdist_run() { dnsdist_conf; exec dnsdist --supervised --disable-syslog -C "$work/dnsdist.conf"; }
# In front of NSD, since it knows no answers itself.
haproxy_run() { haproxy_conf; exec haproxy -db -f "$work/haproxy.conf"; }
# In front of Unbound, for the same reason.
dnsproxy_run() {
  exec "$DNSPROXY" -l $at -p 5353 --tls-port 8853 --https-port 8443 --http3 --quic-port 8853 \
    --tls-crt "$work/cert.pem" --tls-key "$work/key.pem" -u $at:$dns
}

version() {
  case $1 in
    nsd) nsd -v 2>&1 | sed -n 's/NSD version /NSD /p' ;;
    knot) knotd -V | sed 's/.*version /Knot DNS /' ;;
    bind) named -v | sed 's/BIND \([0-9.]*\).*/BIND \1/' ;;
    unbound) unbound -V | sed -n 's/Version /Unbound /p' ;;
    dnsdist) dnsdist --version | sed -n 's/^dnsdist \([0-9.]*\).*/dnsdist \1/p' ;;
    haproxy) haproxy -v | sed -n 's/HAProxy version \([0-9.]*\).*/HAProxy \1 before NSD/p' ;;
    dnsproxy) sed -n 's/.*AdguardTeam\/dnsproxy v\([0-9.]*\).*/dnsproxy \1/p' scripts/build-server/dnsproxy/go.mod ;;
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
  local server=$1 transport=$2 answered all resumed opened early shown=- taken=-; shift 2
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
    haproxy) tls="" serve nsd; serve haproxy; row haproxy dot ;;
    dnsproxy)
      [ -n "$DNSPROXY" ] || continue
      serve unbound; serve dnsproxy
      for transport in dot doq; do row dnsproxy $transport --tls-port 8853; done
      for transport in doh2 doh3; do row dnsproxy $transport --tls-port 8443; done ;;
    *) echo "$server: not one of nsd, knot, bind, unbound, dnsdist, haproxy, dnsproxy" >&2; exit 2 ;;
  esac
  stop
done
