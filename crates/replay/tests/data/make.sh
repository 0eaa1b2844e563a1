#!/usr/bin/env bash
# Makes the certificates of the tests anew: a CA, a server signed by it, the same expired, and one signed by itself. The keys
# protect nothing.
set -euo pipefail
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
cat >"$scratch/ca.conf" <<EOF
[ca]
default_ca = this
[this]
database = $scratch/index
new_certs_dir = $scratch
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
email_in_dn = no
[any]
commonName = supplied
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[server]
basicConstraints = CA:FALSE
subjectAltName = DNS:dns.test,IP:127.0.0.1,IP:198.51.100.1,IP:::1
EOF
touch "$scratch/index"
key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
request() { openssl req -new -key "$1" -subj "/CN=$2" -out "$scratch/csr"; }
# Arguments: certificate to write, section of extensions, end of its time, and who signs.
sign() {
    openssl ca -batch -notext -config "$scratch/ca.conf" -in "$scratch/csr" -out "$1" -extensions "$2" \
        -startdate 20000101000000Z -enddate "$3" "${@:4}" 2>/dev/null
}
key "$scratch/ca.key"
request "$scratch/ca.key" 'Test CA'
sign ca.pem authority 21000101000000Z -selfsign -keyfile "$scratch/ca.key"
key server.key
request server.key dns.test
sign server.pem server 21000101000000Z -cert ca.pem -keyfile "$scratch/ca.key"
sign expired.pem server 20010101000000Z -cert ca.pem -keyfile "$scratch/ca.key"
sign stranger.pem server 21000101000000Z -selfsign -keyfile server.key
