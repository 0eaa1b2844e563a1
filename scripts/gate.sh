#!/usr/bin/env bash
# How good the gate of docs/ci.md is: A against A, which it must let pass, and against servers made slower on purpose, which it must find.
# Usage: scripts/gate.sh [same|slow|proxy ...]   TRIES=20 REPEATS=5 SPEED=30 KINDS="nsd knot" are the defaults; about 40 s a try, and up to three times as long
# where repeats are added (UNDECIDED='"fail"' adds none), on a quiet machine with two cores. ldplayer=PATH is used in place of one that is built.
#
# `same`: NSD, and Knot DNS, each against itself. `slow`: NSD, Knot DNS and `ldplayer serve` against the same with a sleep of 1 ms before one
# in a hundred of its sends (scripts/gate/sleep.c). `proxy`: NSD behind a proxy against NSD behind the same proxy that delays 1 % of the
# answers by 1 ms (scripts/gate/relay.c; not dnsdist, whose own 99th percentile is 1.4 ms on two cores, so that the delay is lost in it).
set -euo pipefail
cd "$(dirname "$0")/.."
TRIES=${TRIES:-20}
REPEATS=${REPEATS:-5}
SPEED=${SPEED:-30}
KINDS=${KINDS:-nsd knot}
UNDECIDED=${UNDECIDED:-'["repeat:10", "warn"]'} # as in the templates
export PATH=$PATH:/usr/sbin
[ -n "${ldplayer:-}" ] || cargo build --release --locked -q -p ldplayer
ldplayer=$(realpath "${ldplayer:-${CARGO_TARGET_DIR:-target}/release/ldplayer}")
data=$(realpath data)
work=${WORK:-$(mktemp -d)}
mkdir -p "$work"

head() { # the experiment, but for its two servers
  cat <<TOML
trace = "$data/l-root-20161006.pcap.xz"
speed = $SPEED.0
repeats = $REPEATS
warm_up = "20s"
telemetry_interval = "100ms"
[gate]
baseline = "server=base"
undecided = $UNDECIDED
keep = ["answered >= 0.999 x", "p50 <= 1.15 x", "p99 <= 1.30 x", "cpu <= 1.15 x", "memory <= 1.15 x", "noerror = 1.00 x +- 0.1 %", "nxdomain = 1.00 x +- 0.1 %"]
TOML
}
server() { # name, kind, more lines
  printf '[server.%s]\nkind = "%s"\n%s\n' "$1" "$2" "${3:-zones = \"$data/root-2016100801.zone.xz\"}"
}
zones="zones = \"$data/root-2016100801.zone.xz\""

# A program that is another one with the sleep preloaded.
sleeping() { # program
  local path; path=$(command -v "$1")
  printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$work/sleep.so" "$path" >"$work/slow-$(basename "$1")"
  chmod +x "$work/slow-$(basename "$1")"
  echo "$work/slow-$(basename "$1")"
}

# The table of a proxy before NSD. It is started as dnsdist is, with a template of its own.
proxy() { # name, one answer in how many is late
  cat >"$work/relay-$1.conf" <<TEMPLATE
{% for at in listen %}listen {{ at.address }}
{% endfor %}{% for at in backends %}backend {{ at.address }}
{% endfor %}late_every $2
TEMPLATE
  server "$1" dnsdist "backend = \"nsd\"
program = \"$work/relay\"
configuration = \"$work/relay-$1.conf\""
}

try() { # name, number
  local status=0
  # 1: a replay was not faithful, or a gate is broken; 4: a gate is undecided. What the gates say is asked of compare.
  "$ldplayer" experiment "$work/$1.toml" -o "$work/$1-$2" --progress off >"$work/$1-$2.txt" 2>&1 || status=$?
  case $status in 0 | 1 | 4) status=0 ;; *) cat "$work/$1-$2.txt"; return "$status" ;; esac
  "$ldplayer" compare "$work/$1-$2" >"$work/$1-$2.compared" 2>&1 || status=$?
  printf '%-12s %2d  exit %d  %s\n' "$1" "$2" "$status" "$(grep -E '^gate +(BROKEN|UNDECIDED)' "$work/$1-$2.compared" | cut -c 12- | tr '\n' ';')"
}

for what in "${@:-same}" ; do
  case $what in
  same)
    for kind in $KINDS; do
      { head; server base "$kind"; server change "$kind"; } >"$work/same-$kind.toml"
      for number in $(seq "$TRIES"); do try "same-$kind" "$number"; done
    done
    ;;
  slow)
    cc -O2 -shared -fPIC -o "$work/sleep.so" scripts/gate/sleep.c
    for pair in nsd:nsd knot:knotd "meta:$ldplayer"; do
      kind=${pair%%:*}
      { head; server base "$kind"; server change "$kind" "$zones
program = \"$(sleeping "${pair#*:}")\""; } >"$work/slow-$kind.toml"
      try "slow-$kind" 1
    done
    ;;
  proxy)
    cc -O2 -o "$work/relay" scripts/gate/relay.c
    proxy base 0 >"$work/proxies.toml"
    proxy change 100 >>"$work/proxies.toml"
    { echo 'transport = "udp"'; head; server nsd nsd; cat "$work/proxies.toml"; } >"$work/slow-proxy.toml"
    try slow-proxy 1
    ;;
  *) echo "scripts/gate.sh: same, slow or proxy, not $what" >&2; exit 2 ;;
  esac
done
echo "kept in $work"
