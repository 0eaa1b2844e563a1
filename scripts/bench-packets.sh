# Clients without kernel sockets (`--path packets`) beside the same clients with sockets and beside kxdpgun: five tables. To be sourced by bench.sh.
# Sockets have a namespace with a veth pair before the server, packets that of `ldplayer testbed run --packets`, and they take turns: a server is started for each turn.
# TABLES chooses among them. Also to be set: PACKETS (queries of a turn), CONNECTIONS, KXDPGUN_QPS and KXDPGUN_TCP_QPS (rates offered, the best of
# which counts), HELD (connections held at once), HELD_ASKED, and KEEP (a folder for the last run of the table of held connections).
# shellcheck shell=bash disable=SC2154 # variables and functions of bench.sh

PACKETS=${PACKETS:-2000000}
CONNECTIONS=${CONNECTIONS:-60000} # opened in a turn, each for one query
KXDPGUN_QPS=${KXDPGUN_QPS:-150000 250000 400000}
KXDPGUN_TCP_QPS=${KXDPGUN_TCP_QPS:-20000 30000 40000 60000}
HELD=${HELD:-60000 1000000 2000000}
HELD_ASKED=${HELD_ASKED:-1000000} # queries once all connections are open
nobody=02:00:00:00:00:99 # no interface's: the kernel drops what goes there without a look at it
clients=02:6c:64:70:00:03 # that of all clients
wire=02:6c:64:70:00:01 # that of the server's end of the link, where ldplayer sends frames to

# The namespace for frames; what runs with "${framed[@]}" is on the server's side of its link, and ldplayer finds the clients' side.
packets_up() {
  # The parent's setting becomes the size of the table of connections in the new namespace.
  echo 4194304 >/proc/sys/net/ipv4/tcp_child_ehash_entries 2>/dev/null || true
  "$ldplayer" testbed run --packets -- sleep infinity &
  link=$!
  framed=(nsenter --net=/proc/"$link"/ns/net)
  for _ in $(seq 100); do
    if "${framed[@]}" ip link show clients0 up 2>/dev/null | grep -q UP; then
      # As in the namespace of the other contenders: the kernel looks longer for the source of an answer that no interface has.
      "${framed[@]}" ip address add $at/32 dev lo
      return
    fi
    kill -0 "$link" 2>/dev/null || break
    sleep 0.1
  done
  echo "ldplayer testbed run --packets made no link" >&2
  exit 3
}

packets_down() {
  [ -z "$link" ] || { kill "$link" 2>/dev/null || true; wait "$link" 2>/dev/null || true; }
  link=
}

need() { # program, package
  command -v "$1" >/dev/null || { echo "$1 is missing: apt-get install $2" >&2; exit 3; }
}

# A server at $at:5300 on core 1 for clients on this path; as `reflect` one that answers without a socket; as `nowhere` none, and the kernel drops each
# frame as it arrives.
serve_on() { # packets|sockets, command ...
  local path=$1 device=far also=() prefix=("${inside[@]}"); shift
  if [ "$path" = packets ]; then prefix=("${framed[@]}") device=wire0 also=(--also queries0); fi
  case "$1 $path" in
    "reflect packets" | "nowhere packets") server_mac $nobody ;;
    "reflect sockets" | "nowhere sockets") ip neighbour replace $at lladdr $nobody dev near nud permanent ;;
  esac
  case $1 in
    reflect) start "${prefix[@]}" "$bench" reflect --interface $device "${also[@]}" --port 5300 --xdp --core 1 ;;
    nowhere) ;;
    *) start "${prefix[@]}" taskset -c 1 "$@" ;;
  esac
}

stop_on() { # packets|sockets, command ...
  stop
  case $2 in reflect | nowhere) ;; *) return 0 ;; esac
  if [ "$1" = packets ]; then
    server_mac $wire
  else
    ip neighbour delete $at dev near 2>/dev/null || true
  fi
}

server_mac() { # MAC address of the interfaces by which queries come
  local device
  for device in wire0 queries0; do
    "${framed[@]}" ip link set $device address "$1"
    # The kernel forgets the clients' neighbours when an interface has another address.
    "${framed[@]}" ip neighbour replace 169.254.53.1 lladdr $clients dev $device nud permanent
    "${framed[@]}" ip neighbour replace fe80::53 lladdr $clients dev $device nud permanent
  done
}

replay_on() { # packets|veth|sockets|xdp, options ...: as replay, by this path
  local path=$1; shift
  case $path in
    packets) from=("${framed[@]}"); replay "$@" --path packets ;;
    veth) # without the TAP device: AF_PACKET
      "${framed[@]}" ip link set queries0 down
      from=("${framed[@]}"); replay "$@" --path packets
      "${framed[@]}" ip link set queries0 up
      ;;
    xdp) from=("${framed[@]}"); replay "$@" --path packets:xdp ;;
    sockets) from=(); replay "$@" --path sockets --allow-target $at/32 ;;
  esac
  from=()
}

# One turn of a contender against a server; prints its rate.
turn() { # contender, server command ...
  local contender=$1 path=packets; shift
  case $contender in *.sockets | dnsperf | kxdpgun*) path=sockets ;; esac
  serve_on $path "$@"
  contend "$contender"
  stop_on $path "$@"
}

contend() { # contender
  case $1 in
    hole.bare.sockets) "$bench" bare-send --to $at:5300 --core 0 --count "$PACKETS" | field per_second ;;
    hole.bare.tap) "${framed[@]}" "$bench" bare-frames --tap --to $at:5300 --core 0 --count "$PACKETS" | field per_second ;;
    hole.bare.packets) "${framed[@]}" "$bench" bare-frames --to $at:5300 --core 0 --count "$PACKETS" | field per_second ;;
    hole.bare.xdp) "${framed[@]}" "$bench" bare-frames --xdp --to $at:5300 --core 0 --count "$PACKETS" | field per_second ;;
    hole.*)
      pinned=() # the sending worker has core 0; reader and recorder are left to the scheduler, since the hole needs no core
      replay_on "${1#hole.}" "$work/udp.pcap" --server $at:5300 --timing fast --max-outstanding 20000 --query-timeout 0.02
      pinned=(taskset -c 0)
      field qps_mean <"$work/out.json"
      ;;
    udp.* | few.*) replay_on "${1#*.}" "$work/${1%%.*}.parquet" --server $at:5300 --timing fast; rate answered ;;
    tcp.bare.sockets) "$bench" bare-connect --to $at:5300 --from 10.0.0.0 --core 0 --count "$CONNECTIONS" | field per_second ;;
    tcp.* | fewtcp.*)
      replay_on "${1#*.}" "$work/${1%%.*}.pcap" --server $at:5300 --timing fast --transport tcp --queries-per-connection 1 --max-outstanding 100
      rate answered
      ;;
    ask.bare.sockets) "$bench" bare-ask --to $at:5300 --core 0 --count "$PACKETS" | field per_second ;;
    dnsperf) dnsperf_rate -s $at -p 5300 -c 100 -q 1000 ;;
    kxdpgun) kxdpgun_best "$KXDPGUN_QPS" -b 64 ;;
    kxdpgun-tcp) kxdpgun_best "$KXDPGUN_TCP_QPS" -T ;;
  esac
}

kxdpgun_best() { # rates offered, options ...: the most replies per second of three seconds
  local offered rates=$1; shift
  for offered in $rates; do
    kxdpgun -t 3 -Q "$offered" -F 0 -I near -l 10.0.0.0/16 -p 5300 -i "$work/questions" "$@" $at 2>&1 |
      sed -n 's/^total replies: *[0-9]* (\([0-9]*\) pps).*/\1/p' | grep . || echo 0
  done | sort -g | tail -n 1
}

# All contenders in turns, RUNS times, and the table of what they reached: each against the first.
contest() { # title, server command; contenders with their names, one a line on stdin
  local title=$1 command=("${@:2}") contender name contenders
  mapfile -t contenders < <(grep .)
  rm -f "$work"/turn.*
  for _ in $(seq "$RUNS"); do
    for contender in "${contenders[@]}"; do
      turn "${contender%%|*}" "${command[@]}" >>"$work/turn.${contender%%|*}" </dev/null
    done
  done
  echo; echo "### $title (generator one core, server one core)"; echo
  echo "| what | median [min–max] | ratio to the first |"; echo "|---|---|---|"
  for contender in "${contenders[@]}"; do
    name=${contender#*|}
    row "$name" "$work/turn.${contender%%|*}" "$work/turn.${contenders[0]%%|*}"
  done
}

# Who receives at the server's end of both links: the core that sends, as usual, or a thread of the kernel's, on the other core as this one is busy. The
# kernel gives it only frames of a device that leaves segmentation to nobody. A network namespace has a /sys of its own.
received_by() { # sender|thread
  # Threads are given up first: the kernel refuses that of a device that has none any more, as without GRO.
  if [ "$1" = sender ]; then receive_threads 0; fi
  if [ "$1" = sender ]; then receive_offloads off on; else receive_offloads on off; fi
  if [ "$1" = thread ]; then receive_threads 1; fi
}

receive_offloads() { # of the server's end, of the clients' end: on|off
  ethtool -K near tso "$2"
  "${inside[@]}" ethtool -K far gro "$1"
  "${framed[@]}" ethtool -K clients0 tso "$2"
  "${framed[@]}" ethtool -K wire0 gro "$1"
}

receive_threads() { # 0|1
  "${inside[@]}" unshare --mount sh -c "mount -t sysfs none /sys && echo $1 >/sys/class/net/far/threaded"
  "${framed[@]}" unshare --mount sh -c "mount -t sysfs none /sys && echo $1 >/sys/class/net/wire0/threaded"
}

bench_packets_send() {
  local contenders
  contenders=$(
    cat <<LIST
hole.bare.sockets|bare sendmmsg + IP_PKTINFO
hole.sockets|ldplayer, sockets, recorded
hole.packets|ldplayer, packets, recorded
hole.veth|ldplayer, packets by AF_PACKET, recorded
hole.xdp|ldplayer, packets by AF_XDP, recorded
hole.bare.tap|bare writes into a TAP device, frames made beforehand
hole.bare.packets|bare AF_PACKET, frames made beforehand
hole.bare.xdp|bare AF_XDP, frames made beforehand
LIST
  )
  contest "Frames/s from 65,536 addresses to a hole, a socket that is not read" "$bench" hole --listen $at:5300 <<<"$contenders"
  contest "Frames/s from 65,536 addresses to nobody, dropped as they arrive" nowhere <<<"$contenders"
  received_by thread
  contest "Frames/s from 65,536 addresses to a hole, received by a thread of its own, over veth" "$bench" hole --listen $at:5300 \
    < <(grep -v 'tap|\|packets,' <<<"$contenders")
  received_by sender
}

bench_packets_answer() {
  local against=("udp.packets|ldplayer, packets, matched and recorded" "udp.xdp|ldplayer, packets by AF_XDP, matched and recorded" "udp.sockets|ldplayer, sockets, matched and recorded")
  nsd_conf "server-count: 1"
  contest "Answers/s over UDP from NSD with the root zone, to 65,536 clients but for the first lines" nsd -d -c "$work/nsd.conf" <<LIST
kxdpgun|kxdpgun, neither matched nor timed: one address for 63,536 queries, then the next
few.packets|ldplayer, packets, 16 addresses, matched and recorded
few.xdp|ldplayer, packets by AF_XDP, 16 addresses, matched and recorded
$(printf '%s\n' "${against[@]}")
dnsperf|dnsperf -c 100 -q 1000 -D
LIST
  contest "Answers/s over UDP from a responder without a socket" reflect <<LIST
ask.bare.sockets|bare asker, one socket, matched only
$(printf '%s\n' "${against[@]}")
LIST
}

bench_packets_tcp() {
  local contenders
  contenders=$(
    cat <<LIST
tcp.bare.sockets|bare loop of connect, write, read, close
tcp.packets|ldplayer, packets, recorded
tcp.xdp|ldplayer, packets by AF_XDP, recorded
tcp.sockets|ldplayer, sockets, recorded
fewtcp.packets|ldplayer, packets, 16 addresses, recorded
fewtcp.xdp|ldplayer, packets by AF_XDP, 16 addresses, recorded
kxdpgun-tcp|kxdpgun -T, few addresses
LIST
  )
  nsd_conf "server-count: 1" "tcp-count: 20000" "tcp-timeout: 60"
  contest "Answers/s over TCP, a connection for each query, from NSD with the root zone" nsd -d -c "$work/nsd.conf" <<<"$contenders"
  contest "Answers/s over TCP, a connection for each query, from the echo responder" "$bench" echo-tcp --listen $at:5300 <<<"$contenders"
}

bench_packets_timing() {
  local path side quantile prefix
  "$bench" make-trace --poisson 20000 --seconds "$SECONDS_EACH" --clients 65536 -o "$work/timing.pcap"
  rm -f "$work"/timing.{sockets,packets}.*
  pinned=() # reader and recorder are left to the scheduler, as in any run
  for _ in $(seq "$RUNS"); do
    for path in sockets packets; do
      prefix=("${inside[@]}")
      [ $path = sockets ] || prefix=("${framed[@]}")
      start "${prefix[@]}" "$bench" receive --listen $at:5300 --poisson 20000 --seconds "$SECONDS_EACH" --core 1
      replay_on $path "$work/timing.pcap" --server $at:5300 --precision high --query-timeout 0.05
      wait "$server"
      server=
      tail -n 1 "$work/server.log" >"$work/received.json"
      quantiles error_us "$work/received.json" "$work/run/run.json" >>"$work/timing.$path.receiver"
      quantiles summary.timing.error_us "$work/out.json" >>"$work/timing.$path.sender"
    done
  done
  pinned=(taskset -c 0)
  echo; echo "### Sending error at 20,000 queries/s (Poisson), $SECONDS_EACH s each, µs"; echo
  echo "| path, seen by | p1 | p25 | p50 | p75 | p99 | p99.9 |"; echo "|---|---|---|---|---|---|---|"
  for path in sockets packets; do
    for side in sender receiver; do
      echo -n "| $path, stamps of the $side |"
      for quantile in 1 2 3 4 5 6; do echo -n " $(cut -d' ' -f$quantile "$work/timing.$path.$side" | stats) |"; done
      echo
    done
  done
}

# Of a receiver, whose median is zero, with the run that it received: the time from when a query was due to when it arrived.
quantiles() { # path of keys, file, run.json of what a receiver received
  python3 - "$@" <<'PYTHON'
import datetime, json, re, sys
value = json.load(open(sys.argv[2]))
median = 0
if len(sys.argv) > 3:
    second, nanoseconds = re.match(r"(.*)\.(\d{9})Z", json.load(open(sys.argv[3]))["started"]).groups()
    started = int(datetime.datetime.fromisoformat(second + "+00:00").timestamp()) * 10**9 + int(nanoseconds)
    median = (value["began_ns"] - started) / 1000
keys = sys.argv[1].split(".")
if keys[0] not in value:
    keys = keys[1:]
for key in keys:
    value = value[key]
print(*(round(value[key] + median, 3) for key in ("p1", "p25", "p50", "p75", "p99", "p999")))
PYTHON
}

# Connections that stay open, each client's own: opened as fast as it goes, then asked on in turn. The kernel's memory is that of
# the server alone, since the clients have no sockets.
bench_packets_held() {
  local connections each column pid
  ulimit -n "$(ulimit -Hn)"
  echo; echo "### Connections held open, one a client, answered by the echo responder"; echo
  echo "| connections | opened/s | queries/s | of them answered | bytes of ldplayer a connection | … of the kernel | … of the responder |"
  echo "|---|---|---|---|---|---|---|"
  each=$(($(ulimit -n) - 1024))
  for connections in $HELD; do
    "$bench" make-trace --clients "$connections" --opening "$connections"us --gap 1us --seconds "$HELD_ASKED"us -o "$work/held.pcap"
    "$ldplayer" convert "$work/held.pcap" -o "$work/held.parquet" --force >&2
    rm -f "$work/held.rows" "$work/held.pcap"
    for _ in $(seq "$RUNS"); do
      held_up
      for _ in $(seq $(((connections + each - 1) / each))); do
        "${framed[@]}" "$bench" echo-tcp --listen $at:5300 --core 1 --nap 10ms >"$work/server.log" &
        held+=($!)
      done
      until grep -qs "^listening" "$work/server.log"; do sleep 0.1; done
      sleep 1
      held_sample 0 "${held[@]}" >"$work/samples"
      "${framed[@]}" taskset -c 0 "$ldplayer" replay "$work/held.parquet" --path packets --server $at:5300 --transport tcp --timing fast \
        --idle-timeout 1h --max-outstanding 2000 --workers 1 --cores 0 -o "$work/run" --force --json >"$work/out.json" 2>"$work/err" &
      while kill -0 $! 2>/dev/null; do
        held_sample $! "${held[@]}" >>"$work/samples"
        sleep 0.25
      done
      wait $! || [ $? -eq 1 ] || { cat "$work/err" >&2; exit 1; }
      for pid in "${held[@]}"; do kill "$pid"; wait "$pid" 2>/dev/null || true; done
      held=()
      held_figures "$connections" >>"$work/held.rows"
      [ -z "${KEEP:-}" ] || { rm -rf "$KEEP" && cp -r "$work/run" "$KEEP"; }
    done
    echo -n "| $connections |"
    for column in 1 2 3 4 5 6; do echo -n " $(cut -d' ' -f$column "$work/held.rows" | stats) |"; done
    echo
  done
}

# A namespace without the sockets of an earlier turn, which would wait for clients that are gone; it lasts a while until their memory is free.
held_up() {
  local before=0 now=1000000
  held_looked=-5 held_whole=0
  packets_down
  packets_up
  "${framed[@]}" sh -c 'echo 65535 >/proc/sys/net/core/somaxconn; echo 65535 >/proc/sys/net/ipv4/tcp_max_syn_backlog
    echo reno >/proc/sys/net/ipv4/tcp_congestion_control; echo 1 >/proc/sys/net/ipv4/tcp_no_metrics_save' 2>/dev/null || true
  # Under pressure the kernel would free these caches, and the growth of the slabs be told too small.
  { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null || true
  while [ $((now - before)) -gt 1000 ] || [ $((before - now)) -gt 1000 ]; do # kB
    before=$now
    sleep 1
    now=$(awk '/^Slab:/ {print $2}' /proc/meminfo)
  done
}

# Time, open connections, bytes of TCP's buffers and of the kernel's slabs, of ldplayer and of the responders.
# Bytes of the kernel's objects: those of /proc/slabinfo where it may be read, by their number, as slabs of earlier sockets are kept. Whoever lists the
# descriptors of a process makes an inode and a dentry of /proc for each, which the kernel gives up when it wants the memory: these do not count.
held_slabs() {
  awk 'NR > 2 {share = $6 * 4096 / $5}
    $1 == "proc_inode_cache" {listed = $2; next}
    NR > 2 {bytes += $2 * share}
    $1 == "dentry" || $1 == "lsm_inode_cache" {each += share}
    END {if (!NR) exit 1; printf "%.0f", bytes - listed * each}' /proc/slabinfo 2>/dev/null || awk '/^Slab:/ {printf "%.0f", $2 * 1024}' /proc/meminfo
}

# One process for each sample: more would take the time of what is measured. Time, connections, bytes of their buffers and of the kernel's objects, and what
# is ldplayer's and the responders' alone. The kernel takes a while to tell its objects, in which little else is done: they are looked at every five
# seconds while connections open, and a last time when all are open, so that nothing is held up while these are asked.
held_sample() { # ldplayer or 0, responders ...
  local pid name count open=0 files=(/proc/"$link"/net/sockstat)
  for pid in "$@"; do [ ! -e "/proc/$pid/status" ] || files+=("/proc/$pid/status"); done
  while read -r name _ count _; do [ "$name" != TCP: ] || open=$count; done <"${files[0]}"
  if [ "$1" -eq 0 ] || { [ "$held_whole" -lt "$connections" ] && { [ "$open" -ge "$connections" ] || [ $((SECONDS - held_looked)) -ge 5 ]; }; }; then
    held_looked=$SECONDS held_whole=$open held_slab=$(held_slabs)
  fi
  awk -v now="$EPOCHREALTIME" -v slab="$held_slab" -v ldplayer="/proc/$1/status" '
    /^TCP:/ {sockets = $3 " " $NF * 4096}
    /^RssAnon:/ {if (FILENAME == ldplayer) own = $2 * 1024; else responders += $2 * 1024}
    END {print now, sockets, slab, own + 0, responders + 0}' "${files[@]}" 2>/dev/null || true
}

held_figures() { # connections; prints opened/s, queries/s, share answered in percent, bytes a connection of ldplayer, kernel, responder
  python3 - "$work" "$1" <<'PYTHON'
import datetime, json, re, sys
work, wanted = sys.argv[1], int(sys.argv[2])
run = json.load(open(f"{work}/run/run.json"))
summary, queries = run["summary"], run["summary"]["queries"]
began = datetime.datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", run["started"]).replace("Z", "+00:00")).timestamp()
samples = [tuple(map(float, line.split())) for line in open(f"{work}/samples")]
samples = [sample for sample in samples if len(sample) == 6]
# The last of those with most connections while ldplayer was there: what the kernel has for all of them was looked at by then.
most = max((sample for sample in reversed(samples) if sample[4] > 0), key=lambda sample: sample[1])
# At the end connections are closed, so that few of them says nothing by itself.
before = [sample for sample in samples if sample[1] < wanted / 100 and sample[0] < most[0]][-1]
# While they open: the rate between the first and the last sample, and from it the time at which all were open.
opening = [sample for sample in samples if wanted / 100 <= sample[1] <= 0.999 * wanted and sample[0] <= most[0]] or [most]
first = opening[0] if len(opening) > 1 else (began, 0)
opened = (opening[-1][1] - first[1]) / (opening[-1][0] - first[0])
all_open = opening[-1][0] + (wanted - opening[-1][1]) / opened
asked = (queries["trace"] - wanted) / max(began + summary["elapsed_s"] - all_open, 1e-9)
each = [(most[at] - before[at]) / most[1] for at in range(2, 6)]
print(round(opened), round(asked), round(100 * queries["answered"] / queries["trace"], 3),
      round(each[2]), round(each[0] + each[1]), round(each[3]))
PYTHON
}

bench_packets() {
  local tables=${TABLES:-send answer tcp timing held} table trace
  need ip iproute2
  need nsenter util-linux
  pinned=(taskset -c 0)
  link_up
  packets_up
  "$bench" make-trace --gap 1us --seconds "$PACKETS"us --clients 65536 -o "$work/udp.pcap"
  "$bench" make-trace --gap 1us --seconds "$PACKETS"us --clients 16 -o "$work/few.pcap"
  for trace in udp few; do "$ldplayer" convert "$work/$trace.pcap" -o "$work/$trace.parquet" 2>/dev/null; done
  "$bench" make-trace --gap 1us --seconds "$CONNECTIONS"us --clients 65536 -o "$work/tcp.pcap"
  "$bench" make-trace --gap 1us --seconds "$CONNECTIONS"us --clients 16 -o "$work/fewtcp.pcap"
  for i in $(seq 0 9999); do printf 'q%08d.example A\n' "$i"; done >"$work/names"
  sed 's/$/ D/' "$work/names" >"$work/questions"
  case " $tables " in *" answer "* | *" tcp "*) need nsd nsd; need kxdpgun knot-dnsutils; need dnsperf dnsperf ;; esac
  case " $tables " in *" send "*) need ethtool ethtool ;; esac
  for table in $tables; do "bench_packets_$table"; done
  packets_down
  kill "$far"
}
