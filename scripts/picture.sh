#!/usr/bin/env bash
# Takes the README's picture of a report, docs/figures/report.png, of a run of `ldplayer demo`: scripts/picture.sh [RUN]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh chromium

picture=docs/figures/report.png
run=${1:-}
if [ -z "$run" ]; then
    run=$(mktemp -d)/demo
    trap 'rm -rf "$(dirname "$run")"' EXIT
    cargo build --release --locked --package ldplayer
    # A failed verdict makes a picture as well.
    "${CARGO_TARGET_DIR:-target}/release/ldplayer" demo -o "$run" >/dev/null || [ $? = 1 ]
fi
for browser in "${CHROMIUM:-}" chromium-headless-shell chromium google-chrome google-chrome-stable; do
    [ -n "$browser" ] && command -v "$browser" >/dev/null && break
done
# The head of the page, as a screen shows it; the figures are drawn by scripts, which take a moment.
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --force-color-profile=srgb \
    --window-size=1400,900 --virtual-time-budget=10000 --screenshot="$PWD/$picture" "file://$(realpath "$run")/report.html" 2>/dev/null
bytes=$(stat -c %s "$picture")
echo "$picture: $bytes bytes"
[ "$bytes" -lt 200000 ] || { echo "scripts/picture.sh: more than 200 kB" >&2; exit 1; }
