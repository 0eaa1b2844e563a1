#!/usr/bin/env bash
# Shows that two builds of one commit give the same packages: scripts/reproducible.sh [STEP…] makes those of scripts/package.sh twice, in clones in
# other folders with build folders of their own, and compares their hashes. It takes twice the time of a release.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
commit=$(git rev-parse HEAD)
steps=("$@")
if [ ${#steps[@]} = 0 ]; then steps=(binary deb rpm wheel sbom); fi
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

for name in first second/deeper; do
    mkdir -p "$place/$name"
    git clone --quiet "$source" "$place/$name/clone"
    git -C "$place/$name/clone" checkout --quiet --detach "$commit"
    (cd "$place/$name/clone" && CARGO_TARGET_DIR=$place/$name/build scripts/package.sh "${steps[@]}") >&2
    cp "$place/$name/build/package/SHA256SUMS" "$place/sums-${name%/*}"
done
if ! diff "$place/sums-first" "$place/sums-second" >&2; then
    echo "reproducible: the packages of $commit differ" >&2
    exit 1
fi
echo "twice the same, $commit by $(rustc --version):"
cat "$place/sums-first"
