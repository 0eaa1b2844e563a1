#!/usr/bin/env bash
# Runs the unit tests of the crates that open no sockets on an emulated aarch64: scripts/aarch64.sh [CRATE…]
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-musl
scripts/need.sh cargo qemu
rustup target add "$target" >&2
read -r compiler archiver <<<"$(scripts/zig.sh aarch64-linux-musl)"
export CC_aarch64_unknown_linux_musl=$compiler AR_aarch64_unknown_linux_musl=$archiver
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64-static
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="-C linker=rust-lld -C linker-flavor=ld.lld"
crates=("$@")
if [ ${#crates[@]} = 0 ]; then crates=(core columnar trace workload zone stack results); fi
cargo test --locked --lib --target "$target" "${crates[@]/#/--package=ldplayer-}"
