#!/usr/bin/env bash
# Fuzzes each target for FUZZ_SECONDS (600 unless told otherwise), or only those named: scripts/fuzz.sh pcap rules
# With --check it only sees that they compile without warnings, for which no fuzzer is needed.
#
# cargo-fuzz is installed from the registry of crates into the build directory, in the version below. The compiler is the stable one: RUSTC_BOOTSTRAP lets it
# take the flags that count branches, and no sanitizer is asked for, which would need another. What was found stays in
# fuzz/corpus, what broke a target in fuzz/artifacts; the first target that breaks ends the script with its status.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-600}
export RUSTC_BOOTSTRAP=1

if [ "${1:-}" = --check ]; then
    cargo fmt --manifest-path fuzz/Cargo.toml --check
    # The library of the fuzzer is C++, and only linked.
    CUSTOM_LIBFUZZER_PATH=$PWD/fuzz/libnone.a cargo clippy --quiet --manifest-path fuzz/Cargo.toml --bins --locked -- -D warnings
    exit
fi

version=0.13.1
root=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools/cargo-fuzz-$version
[ -x "$root/bin/cargo-fuzz" ] || cargo install --quiet --locked --root "$root" --version "$version" cargo-fuzz
# The libraries are those of fuzz/Cargo.lock; cargo-fuzz itself would change it silently.
cargo metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null
fuzz() { "$root/bin/cargo-fuzz" run --sanitizer none "$@"; }

# Real responses, from the bundled captures, for what is made of responses.
seed_responses() {
    mkdir -p fuzz/corpus/responses
    cargo run --quiet --release --locked --manifest-path fuzz/Cargo.toml --bin seeds -- \
        fuzz/corpus/responses data/l-root-20161006.pcap.xz data/clients-20160629.pcap.xz
}

targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    mapfile -t targets < <(cd fuzz/fuzz_targets && ls -- *.rs | sed 's/\.rs$//')
fi
for target in "${targets[@]}"; do
    if [ "$target" = responses ]; then seed_responses; fi
    echo "scripts/fuzz.sh: $target for $seconds s" >&2
    fuzz "$target" -- -max_total_time="$seconds"
done
