#!/bin/sh
# dnsproxy in the place of dnsdist, which an experiment starts as: dnsdist … -C FILE. DNSPROXY says where it is; scripts/build-server.sh builds it.
here=$(dirname "$0")
case $1 in --version) sed -n 's/.*dnsproxy v/dnsproxy /p' "$here/../../scripts/build-server/dnsproxy/go.mod" && exit ;; esac
for last; do :; done
exec "$DNSPROXY" --config-path="$last"
