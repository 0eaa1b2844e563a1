#!/usr/bin/env bash
# Makes a C compiler for another machine, in the build folder: scripts/zig.sh aarch64-linux-musl prints the paths of compiler and archiver. It is that of
# Zig, which brings the headers of each system along and comes from PyPI.
set -euo pipefail
cd "$(dirname "$0")/.."
machine=$1
place=$(realpath -m "${CARGO_TARGET_DIR:-target}/tools/zig")
version=0.15.2
zig=$place/$version/ziglang/zig
mkdir -p "$place"
exec 9>"$place/.lock"
flock 9

if ! "$zig" version >/dev/null 2>&1; then
    echo "scripts/zig.sh: fetching zig $version from PyPI (once)" >&2
    scripts/need.sh python >&2
    rm -rf "${place:?}/$version" "$place/fetching"
    python3 -m venv "$place/pip"
    "$place/pip/bin/pip" install --quiet --disable-pip-version-check --target "$place/fetching" "ziglang==$version" >&2
    mv "$place/fetching" "$place/$version"
fi

# The names of machines are cargo's when cargo calls it, and other ones for Zig. It would look for undefined behaviour at run time.
cat >"$place/cc-$machine" <<END
#!/usr/bin/env bash
arguments=()
for argument in "\$@"; do case \$argument in --target=*) ;; *) arguments+=("\$argument") ;; esac; done
exec "$zig" cc -target $machine -fno-sanitize=all "\${arguments[@]}"
END
printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$zig" >"$place/ar"
chmod +x "$place/cc-$machine" "$place/ar"
echo "$place/cc-$machine $place/ar"
