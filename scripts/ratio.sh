#!/bin/sh
# The ratio study of five servers in one testbed: NSD, BIND, Knot DNS, NSD with ten TCP connections at most, and one that writes the
# length of a response in a segment of its own. Usage: scripts/ratio.sh DIR [options of `ldplayer ratio`]; the table of docs/ratio.md
# is made with no options.
set -eu
cd "$(dirname "$0")/.."
ldplayer=${ldplayer:-$PWD/target/release/ldplayer}
here=$PWD
out=$(mkdir -p "$1" && cd "$1" && pwd)
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
at=10.53.0.2
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

cat >"$work/example.zone" <<ZONE
example. 60 SOA ns.example. h.example. 1 2 3 4 5
example. 60 NS ns.example.
ns.example. 60 A 192.0.2.1
ZONE

# NSD at a port, with so many TCP connections.
nsd() {
  mkdir "$work/nsd$1"
  cat >"$work/nsd$1.conf" <<CONF
server:
  ip-address: $at@$1
  username: ""
  zonesdir: "$work"
  database: ""
  pidfile: ""
  zonelistfile: "$work/nsd$1/zones"
  xfrdfile: "$work/nsd$1/xfrd"
  xfrdir: "$work/nsd$1"
  cookie-secret-file: "$work/nsd$1/cookies"
  tcp-count: $2
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: example.
  zonefile: example.zone
CONF
}
nsd 5301 1000
nsd 5304 10

cat >"$work/named.conf" <<CONF
options { directory "$work"; listen-on port 5302 { $at; }; listen-on-v6 { none; }; pid-file none; session-keyfile none; recursion no; };
controls { };
zone "example." { type primary; file "example.zone"; };
CONF

mkdir "$work/knot"
cat >"$work/knot.conf" <<CONF
server:
  rundir: $work/knot
  listen: $at@5303
database:
  storage: $work/knot
template:
  - id: default
    storage: $work
    zonefile-sync: -1
zone:
  - domain: example.
    file: example.zone
CONF

cat >"$work/start.sh" <<START
nsd -d -c $work/nsd5301.conf &
named -f -n 1 -c $work/named.conf &
knotd -c $work/knot.conf >/dev/null &
nsd -d -c $work/nsd5304.conf &
exec python3 $here/scripts/split-length.py $at 5305
START

"$ldplayer" ratio nsd=$at:5301 bind=$at:5302 knot=$at:5303 ten-connections=$at:5304 split-length=$at:5305 --zone example. \
  --rtt uniform:20ms,160ms --clients 150 --pairs 10 --start-server "sh $work/start.sh" -o "$out" --force "$@"
