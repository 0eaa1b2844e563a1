#!/usr/bin/env bash
# Checks licences, bans and sources of every dependency (deny.toml). Advisories need a database from outside: not here.
set -euo pipefail
version=0.20.2
root=${CARGO_TARGET_DIR:-target}/tools

deny=$(command -v cargo-deny || echo "$root/bin/cargo-deny")
if [ ! -x "$deny" ]; then
    echo "scripts/deny.sh: building cargo-deny $version (once, a few minutes)" >&2
    # A debug build checks the same and takes a fraction of the time.
    cargo install --quiet --locked --debug "cargo-deny@$version" --root "$root" --target-dir "$root/build" --no-default-features
fi
exec "$deny" --log-level warn --workspace check --hide-inclusion-graph bans licenses sources
