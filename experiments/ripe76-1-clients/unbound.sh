#!/bin/sh
# Unbound on cores of its own: as many as it has threads, from core 1 on. Where there are not so many, on all cores, those of the clients too.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
for argument; do configuration=$argument; done
threads=$(sed -n 's/^ *num-threads: *//p' "$configuration" 2>/dev/null)
last=$(($(getconf _NPROCESSORS_ONLN) - 1))
cores=1-${threads:=1}
[ "$threads" -le "$last" ] || cores=0-$last
# The namespace of a run is its own. Hosts that pace each connection by a timer (BBR) are slow with many of them; theirs did not.
if [ -f "$configuration" ]; then
  for control in cubic reno; do (echo "$control" >/proc/sys/net/ipv4/tcp_congestion_control) 2>/dev/null && break; done
fi
exec taskset -c "$cores" "${UNBOUND:-unbound}" "$@"
