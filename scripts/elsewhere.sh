#!/usr/bin/env bash
# Checks that the code compiles for systems that are not Linux: scripts/elsewhere.sh [TARGET…]. There, commands that need Linux say so.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/need.sh cargo
targets=("$@")
if [ ${#targets[@]} = 0 ]; then targets=(x86_64-unknown-freebsd aarch64-apple-darwin); fi
CC=$PWD/scripts/no-cc.sh
AR=$CC

for target in "${targets[@]}"; do
    # A toolchain of a distribution has no other targets.
    if ! [ -e "$(rustc --print sysroot)/lib/rustlib/$target" ] && ! timeout 180 rustup target add "$target" >&2; then
        echo "elsewhere: not checked: there is no standard library for $target (rustup target add $target)" >&2
        continue
    fi
    name=${target//-/_}
    env "CC_$name=$CC" "AR_$name=$AR" cargo check --locked --target "$target" --package ldplayer
done
