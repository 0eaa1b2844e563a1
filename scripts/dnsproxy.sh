#!/usr/bin/env bash
# Makes dnsproxy, the server of the tests of DNS over QUIC and HTTP/3, once in the build folder; prints where it is.
#
# It is built from the Go module proxy: no package of Debian 12 or Ubuntu 24.04 speaks these as a server. Where Go is older
# than dnsproxy asks for, a Go that is new enough comes from the same place.
set -euo pipefail
cd "$(dirname "$0")/.."
place=${1:-${CARGO_TARGET_DIR:-target}/tools/dnsproxy}
toolchain=v0.0.1-go1.22.12
PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin
# Tests ask for it at the same time.
mkdir -p "$place"
place=$(cd "$place" && pwd)
exec 9>"$place/.lock"
flock 9

say() { echo "scripts/dnsproxy.sh: $*" >&2; }

# Whether the module file's version of Go is at most that of the command given.
is_new_enough() {
    local wanted have
    wanted=$(sed -n 's/^go //p' scripts/dnsproxy/go.mod)
    have=$("$1" env GOVERSION | sed 's/^go//; s/ .*//')
    [ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -1)" = "$wanted" ]
}

if [ ! -x "$place/dnsproxy" ] || [ scripts/dnsproxy/go.sum -nt "$place/dnsproxy" ]; then
    go=$(command -v go) || { say "no Go: scripts/need.sh go installs it or says how"; exit 3; }
    export GOPATH=$place/go GOFLAGS="-mod=mod -modcacherw -buildvcs=false" GOTOOLCHAIN=local
    if ! is_new_enough "$go"; then
        version=$toolchain.linux-$("$go" env GOARCH)
        say "fetching Go ${toolchain#*go} (once), as $("$go" env GOVERSION) is too old"
        (cd "$place" && "$go" mod download "golang.org/toolchain@$version")
        root=$GOPATH/pkg/mod/golang.org/toolchain@$version
        # Archives of modules keep no permissions.
        chmod -R u+x "$root/bin" "$root/pkg/tool"
        go=$root/bin/go
        export GOROOT=$root
    fi
    say "building dnsproxy $(sed -n 's/.*dnsproxy v/v/p' scripts/dnsproxy/go.mod) (once)"
    mkdir -p "$place/module"
    cp scripts/dnsproxy/go.mod scripts/dnsproxy/go.sum "$place/module"
    (cd "$place/module" && "$go" build -trimpath -o "$place/dnsproxy" github.com/AdguardTeam/dnsproxy >&2)
    rm -rf "$place/go" "$place/module"
fi
echo "$place/dnsproxy"
