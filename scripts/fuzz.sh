#!/usr/bin/env bash
# Fuzzes each target for FUZZ_SECONDS (600 unless told otherwise), or only those named: scripts/fuzz.sh pcap rules
#
# cargo-fuzz is installed from the registry of crates where it is missing. The compiler is the stable one: RUSTC_BOOTSTRAP lets it
# take the flags that count branches, and no sanitizer is asked for, which would need another. What was found stays in
# fuzz/corpus, what broke a target in fuzz/artifacts; the first target that breaks ends the script with its status.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-600}
export RUSTC_BOOTSTRAP=1

command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
fuzz() { cargo fuzz run --sanitizer none "$@"; }

# Real responses, from the bundled captures, for what is made of responses.
seed_responses() {
    mkdir -p fuzz/corpus/responses
    cargo run --quiet --release --manifest-path fuzz/Cargo.toml --bin seeds -- \
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
