#!/usr/bin/env bash
# Builds the book of docs/ into book/, and checks that every link of the pages leads somewhere: scripts/docs.sh
set -euo pipefail
version=0.5.4
root=${CARGO_TARGET_DIR:-target}/tools
cd "$(dirname "$0")/.."

mdbook=$(command -v mdbook || echo "$root/bin/mdbook")
if [ ! -x "$mdbook" ]; then
    echo "scripts/docs.sh: building mdbook $version (once, a few minutes)" >&2
    # Its server and its watcher are left out. A debug build makes the same book and takes a fraction of the time.
    cargo install --quiet --locked --debug "mdbook@$version" --root "$root" --target-dir "$root/build" --no-default-features --features search
fi
cargo test --quiet --locked --package ldplayer-testkit --test links
"$mdbook" build
# mdbook takes every link to a page for one within the book; those that lead out of it go to the page as it is written.
find book -name '*.html' -exec sed -i -E 's|href="((\.\./)+)([^"#]*)/index\.html|href="\1\3/README.md|g' {} +
echo "book: file://$PWD/book/index.html"
