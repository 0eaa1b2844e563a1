#!/bin/sh
# Starts the servers of the study at an address, at ports from 5301 on, with files in a folder: servers.sh LDPLAYER ADDRESS FOLDER. From the root of the repository.
set -eu
ldplayer=$1 at=$2 work=$3
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
mkdir -p "$work/zones" "$work/knot"

cat >"$work/zones/example.zone" <<ZONE
example. 60 SOA ns.example. h.example. 1 2 3 4 5
example. 60 NS ns.example.
ns.example. 60 A 192.0.2.1
ZONE

# NSD at a port, with so many TCP connections at once.
nsd_at() {
  mkdir -p "$work/nsd$1"
  cat >"$work/nsd$1.conf" <<CONF
server:
  ip-address: $at@$1
  username: ""
  zonesdir: "$work/zones"
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
  nsd -d -c "$work/nsd$1.conf" &
}

cat >"$work/named.conf" <<CONF
options { directory "$work"; listen-on port 5302 { $at; }; listen-on-v6 { none; }; pid-file none; session-keyfile none; recursion no; tcp-clients 1000; };
controls { };
zone "example." { type primary; file "zones/example.zone"; };
CONF

cat >"$work/knot.conf" <<CONF
server:
  rundir: $work/knot
  listen: $at@5303
database:
  storage: $work/knot
template:
  - id: default
    storage: $work/zones
    zonefile-sync: -1
zone:
  - domain: example.
    file: example.zone
CONF

cat >"$work/unbound.conf" <<CONF
server:
  interface: $at@5305
  directory: "$work"
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  incoming-num-tcp: 1000
  access-control: 0.0.0.0/0 allow
  module-config: "iterator"
  local-zone: "example." static
  local-data: "example. 60 SOA ns.example. h.example. 1 2 3 4 5"
remote-control:
  control-enable: no
CONF

nsd_at 5301 1000
named -f -n 1 -c "$work/named.conf" &
knotd -c "$work/knot.conf" >/dev/null &
"$ldplayer" serve "$work/zones" --all-zones-everywhere --listen "$at:5304" >/dev/null &
unbound -c "$work/unbound.conf" &
nsd_at 5306 10
nsd_at 5307 100
exec python3 scripts/split-length.py "$at" 5308
