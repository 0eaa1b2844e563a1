#!/usr/bin/env bash
# Memory and load time of `ldplayer serve` beside those of BIND with a view for each set of name server addresses.
#
# Zones of nine records, each on two addresses of its own; resident memory once all are loaded and one answer was given, and
# the seconds until then.
# BIND is left out (-) where, by what the size before took, it would need more than half of the memory that is available:
#   scripts/memory.sh target/release/ldplayer [ZONES...]
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
ldplayer=$(realpath "${1:?usage: scripts/memory.sh LDPLAYER [ZONES...]}")
shift
[ $# != 0 ] || set -- 10 100 1000 10000
command -v named >/dev/null || { echo "named is missing: apt-get install bind9" >&2; exit 3; }
work=$(mktemp -d)
server=
stop() { if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi; server=; }
trap 'stop; rm -rf "$work"' EXIT

make_zones() {
    mkdir -p "$work/zones"
    awk -v count="$1" -v dir="$work/zones" 'BEGIN {
        for (n = 0; n < count; n++) {
            zone = "zone" n ".example."; file = dir "/zone" n ".example.zone"
            printf "$TTL 3600\n$ORIGIN %s\n@ SOA ns1 h 1 2 3 4 5\n@ NS ns1\n@ NS ns2\n", zone > file
            printf "ns1 A 10.%d.%d.1\nns2 A 10.%d.%d.2\n", n / 256 + 1, n % 256, n / 256 + 1, n % 256 > file
            for (h = 0; h < 5; h++) printf "h%d A 192.0.2.%d\n", h, h > file
            close(file)
        }
    }'
}

# Waits for the answer of a server on a port of loopback, then prints the resident memory of the process in MB and the seconds that took.
measure() {
    python3 - "$1" "$server" "$started" <<'PYTHON'
import socket, sys, time
port, pid = int(sys.argv[1]), sys.argv[2]
query = b"\0\1\0\0\0\1\0\0\0\0\0\0\7example\0\0\6\0\1"
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
    asker.settimeout(0.5)
    for _ in range(6000):
        try:
            asker.connect(("127.0.0.1", port))
            asker.send(query)
            asker.recv(512)
            break
        except OSError:
            time.sleep(0.01)
    else:
        sys.exit("no answer")
seconds = time.time() - float(sys.argv[3])
for line in open(f"/proc/{pid}/status"):
    if line.startswith("VmRSS"):
        print(int(line.split()[1]) // 1024, f"{seconds:.2f}")
PYTHON
}

printf '%8s %16s %16s\n' zones 'serve MB, s' 'BIND views MB, s'
each=0 # kB a view
for count in "$@"; do
    rm -rf "$work"/*
    make_zones "$count"
    started=$(date +%s.%N)
    "$ldplayer" serve "$work/zones" --listen 127.0.0.1:5398 --workers 1 >/dev/null 2>&1 &
    server=$!
    ours=$(measure 5398)
    stop
    available=$(awk '/MemAvailable/ {print $2}' /proc/meminfo)
    if [ $((each * count * 2)) -gt "$available" ]; then printf '%8d %16s %16s\n' "$count" "$ours" -; continue; fi
    "$ldplayer" zones views "$work/zones" -o "$work/bind" --listen 127.0.0.1:5399 >/dev/null 2>&1
    started=$(date +%s.%N)
    (cd "$work/bind" && exec named -g -n 1 -c named.conf >named.log 2>&1) &
    server=$!
    theirs=$(measure 5399) || { tail -3 "$work/bind/named.log" >&2; theirs=failed; }
    stop
    [ "$theirs" = failed ] || each=$((${theirs% *} * 1024 / count))
    printf '%8d %16s %16s\n' "$count" "$ours" "$theirs"
done
