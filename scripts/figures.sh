#!/usr/bin/env bash
# Makes the figures of the papers and talks again: scripts/figures.sh [--full] [--output DIR] [NAME ...], or --list; see experiments/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin
cargo build --release --locked -q -p ldplayer -p ldplayer-bench
PYTHONPATH=experiments exec "$(scripts/python.sh)" -m figures "$@"
