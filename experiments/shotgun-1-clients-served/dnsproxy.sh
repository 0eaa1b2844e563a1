#!/bin/sh
# dnsproxy in the place of dnsdist, which is started as: … -C FILE. DNSPROXY says where it is; scripts/dnsproxy.sh builds it.
DNSPROXY=${DNSPROXY:-$(dirname "$0")/../../target/tools/dnsproxy/dnsproxy}
for last; do :; done
# As it is built, it does not know its own version.
case $1 in --version) exec sed -n 's/^require.*dnsproxy v/dnsproxy /p' "$(dirname "$0")/../../scripts/dnsproxy/go.mod" ;; esac
exec "$DNSPROXY" --config-path="$last"
