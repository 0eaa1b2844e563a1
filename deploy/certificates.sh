#!/usr/bin/env bash
# Makes the certificate by which the NATS servers of a cluster know each other: deploy/certificates.sh DIR NAME...
#
# DIR then has ca.crt, tls.crt and tls.key. Names are host names or addresses, such as nats-0.nats or 10.0.0.1. The key of the CA is not
# kept: for other names, make all of them anew.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: deploy/certificates.sh DIR NAME..." >&2; exit 2; }
directory=$1
shift
mkdir -p "$directory"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
umask 077

names=
for name in "$@"; do
    if [[ $name =~ ^[0-9.]+$|: ]]; then kind=IP; else kind=DNS; fi
    names+=${names:+,}$kind:$name
done
key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
openssl req -x509 "${key[@]}" -days 3650 -subj "/CN=ldplayer NATS cluster" -addext basicConstraints=critical,CA:TRUE \
    -addext keyUsage=critical,keyCertSign -keyout "$scratch/ca.key" -out "$scratch/ca.crt" 2>/dev/null
openssl req "${key[@]}" -subj "/CN=nats" -keyout "$scratch/tls.key" -out "$scratch/tls.csr" 2>/dev/null
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$names" >"$scratch/extensions"
openssl x509 -req -in "$scratch/tls.csr" -CA "$scratch/ca.crt" -CAkey "$scratch/ca.key" -CAcreateserial -days 3650 \
    -extfile "$scratch/extensions" -out "$scratch/tls.crt" 2>/dev/null
mv "$scratch/ca.crt" "$scratch/tls.crt" "$scratch/tls.key" "$directory"
