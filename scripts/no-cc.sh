#!/usr/bin/env bash
# Stands in for the C compiler and the archiver of another system where Rust code is only checked and nothing is linked: makes empty files.
set -euo pipefail
wants_name=
for argument in "$@"; do
    if [ -n "$wants_name" ]; then : >"$argument"; fi
    if [ "$argument" = -o ]; then wants_name=yes; else wants_name=; fi
    case $argument in *.a) : >"$argument" ;; esac
done
