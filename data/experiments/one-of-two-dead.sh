#!/bin/sh
# Two NSD with the root zone, at 192.0.2.1 and 192.0.2.2; the first one stops after five seconds: it takes queries and says nothing.
PATH=$PATH:/usr/sbin
work=$(mktemp -d) && trap 'rm -rf $work' EXIT && trap 'exit' TERM INT && xz -dc data/root-2016100801.zone.xz >$work/root.zone || exit
for ip in 192.0.2.1 192.0.2.2; do
  mkdir $work/$ip && cat >$work/$ip.conf <<END
server:
  ip-address: $ip
  username: ""
  chroot: ""
  zonesdir: "$work"
  database: ""
  pidfile: "$work/$ip/pid"
  xfrdfile: "$work/$ip/xfrd"
  xfrdir: "$work/$ip"
  zonelistfile: "$work/$ip/list"
  cookie-secret-file: "$work/$ip/cookies"
  rrl-ratelimit: 0
remote-control:
  control-enable: no
zone:
  name: "."
  zonefile: "root.zone"
END
done
family() { echo $1; for child in $(cat /proc/$1/task/*/children); do family $child; done; }
nsd -d -c $work/192.0.2.1.conf & dead=$!
nsd -d -c $work/192.0.2.2.conf & sleep 5
kill -STOP $(family $dead)
wait
