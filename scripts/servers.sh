# Stock servers as the other scripts measure and try them: their configurations, and a certificate. To be sourced.
# They go to the directory $work. $at is the address that a server answers on, $dns, $tls and $https are its ports; a server
# leaves out what it has no port for. Options of a server's own follow as lines.
# shellcheck shell=bash disable=SC2154 # work and at are the caller's

certificate() { # cert.pem and key.pem of dns.example, which servers under users of their own may read
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=dns.example \
    -addext subjectAltName=DNS:dns.example -addext basicConstraints=critical,CA:FALSE -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
  chmod 755 "$work"
  chmod 644 "$work/key.pem"
}

root_zone() {
  [ -e "$work/root.zone" ] || xz -dc data/root-2016100801.zone.xz >"$work/root.zone"
}

nsd_conf() { # [line of the section server ...]
  root_zone
  cat >"$work/nsd.conf" <<CONF
server:
  ip-address: $at@$dns
$(own_tls "ip-address: $at@${tls:-}" "tls-port: ${tls:-}" "tls-service-key: \"$work/key.pem\"" "tls-service-pem: \"$work/cert.pem\"")
  username: ""
  chroot: ""
  zonesdir: "$work"
  pidfile: "$work/server.pid"
  xfrdfile: ""
  zonelistfile: "$work/zone.list"
  database: ""
  logfile: "$work/nsd.log"
  rrl-ratelimit: 0
$(indented "$@")
remote-control:
  control-enable: no
zone:
  name: .
  zonefile: root.zone
CONF
}

knot_conf() { # [line of the section server ...]
  root_zone
  cat >"$work/knot.conf" <<CONF
server:
  rundir: "$work"
  listen: $at@$dns
  pidfile: "$work/server.pid"
$(indented "$@")
database:
  storage: "$work/knot"
zone:
  - domain: .
    storage: "$work"
    file: root.zone
    zonefile-sync: -1
CONF
}

bind_conf() {
  root_zone
  cat >"$work/named.conf" <<CONF
tls own { cert-file "$work/cert.pem"; key-file "$work/key.pem"; };
options {
  directory "$work"; pid-file "$work/server.pid"; session-keyfile "$work/session.key"; recursion no; listen-on-v6 { none; };
  listen-on port $dns { $at; };
  listen-on port $tls tls own { $at; };
  listen-on port $https tls own http default { $at; };
};
controls { };
zone "." { type primary; file "$work/root.zone"; };
CONF
}

# It says by itself that what is asked of it does not exist.
unbound_conf() { # [line of the section server ...]
  cat >"$work/unbound.conf" <<CONF
server:
  interface: $at@$dns
$(own_tls "interface: $at@${tls:-}" "tls-port: ${tls:-}" "interface: $at@${https:-}" "https-port: ${https:-}" \
    "tls-service-key: \"$work/key.pem\"" "tls-service-pem: \"$work/cert.pem\"")
  access-control: 0.0.0.0/0 allow
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "$work"
  pidfile: "$work/server.pid"
  use-syslog: no
  local-zone: "example." static
$(indented "$@")
remote-control:
  control-enable: no
CONF
}

# It says so, too.
dnsdist_conf() { # [option of its DoT ...]
  cat >"$work/dnsdist.conf" <<CONF
setACL("0.0.0.0/0")
setLocal("$at:$dns")
addTLSLocal("$at:$tls", "$work/cert.pem", "$work/key.pem", {provider="openssl"$(printf ', %s' "$@" | sed 's/^, $//')})
addDOHLocal("$at:${https:-}", "$work/cert.pem", "$work/key.pem", "/dns-query")
addAction(AllRule(), RCodeAction(DNSRCode.NXDOMAIN))
CONF
  [ -n "${https:-}" ] || sed -i '/^addDOHLocal/d' "$work/dnsdist.conf"
}

# It ends TLS, early data included, in front of a server that speaks TCP.
haproxy_conf() {
  cat "$work/cert.pem" "$work/key.pem" >"$work/both.pem"
  cat >"$work/haproxy.conf" <<CONF
global
  tune.ssl.default-dh-param 2048
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen dot
  bind $at:$tls ssl crt $work/both.pem alpn dot allow-0rtt
  server behind $at:$dns
CONF
}

indented() { [ $# -eq 0 ] || printf '  %s\n' "$@"; }
own_tls() { [ -z "${tls:-}" ] || indented "$@"; }
