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
sed -i -E 's|href="\.\./([^"#]*)\.html|href="../\1.md|g' book/*.html
sed -i -E 's|href="\.\./\.\./([^"#]*)\.html|href="../../\1.md|g' book/*/*.html
# README.md is index.html in the book, but not in links.
sed -i -E 's|(href="([^":#]*/)?)README\.html|\1index.html|g' book/*.html book/*/*.html

# What was built, too: print.html and 404.html are mdbook's own affair.
broken=0
for page in book/*.html book/papers/*.html; do
    case $page in book/print.html | book/404.html) continue ;; esac
    while read -r target; do
        [ -e "$(dirname "$page")/$target" ] || { echo "$page: $target leads nowhere" >&2; broken=1; }
    done < <(grep -oE '(href|src)="[^"#:]+["#]' "$page" | cut -d'"' -f2 | tr -d '#' | sort -u)
done
[ "$broken" = 0 ]
echo "book: file://$PWD/book/index.html"
