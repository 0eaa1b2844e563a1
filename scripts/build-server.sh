#!/usr/bin/env bash
# Builds a server of the tests that no package of Debian 12 or Ubuntu 24.04 has, once, and prints its path; or unpacks one
# that would change how this machine looks up names if it were installed:
# scripts/build-server.sh coredns|dnsproxy|hickory-dns|systemd-resolved [FOLDER]
#
# CoreDNS and dnsproxy come from the Go module proxy, Hickory DNS from crates.io. Where Go is older than the server asks
# for, a Go that is new enough comes from the same place.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "scripts/build-server.sh: $*" >&2; }

server=${1:-}
case $server in
    coredns) package=. ;;
    dnsproxy) package=github.com/AdguardTeam/dnsproxy ;;
    hickory-dns) version=0.26.3 features=https-ring,quic-ring ;;
    systemd-resolved) packages="systemd-resolved libsystemd-shared" ;;
    *) say "which server? coredns, dnsproxy, hickory-dns or systemd-resolved"; exit 2 ;;
esac
place=${2:-${CARGO_TARGET_DIR:-target}/tools/$server}
module=scripts/build-server/$server
toolchain=v0.0.1-go1.22.12
PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin
# Tests ask for it at the same time.
mkdir -p "$place"
place=$(cd "$place" && pwd)
exec 9>"$place/.lock"
flock 9

# Whether the module file's version of Go is at most that of the command given.
is_new_enough() {
    local wanted have
    wanted=$(sed -n 's/^go //p' "$module/go.mod")
    have=$("$1" env GOVERSION | sed 's/^go//; s/ .*//')
    [ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -1)" = "$wanted" ]
}

build_with_go() {
    local go version root
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
    cp -r "$module" "$place/module"
    (cd "$place/module" && "$go" build -trimpath -o "$place/$server" "$package" >&2)
    rm -rf "$place/go" "$place/module"
}

# Unoptimized, as tests need no speed of it. Its profile is not that of this workspace.
build_with_cargo() {
    (cd "$place" && env -u CARGO_TARGET_DIR cargo install "$server" --version "=$version" --locked --debug \
        --no-default-features --features "$features" --root "$place" --target-dir "$place/build" >&2)
    mv "$place/bin/$server" "$place/$server"
    rm -rf "$place/build" "$place/bin" "$place"/.crates*
}

# Its private library comes with it, for which LD_LIBRARY_PATH is to be this folder.
unpack() {
    command -v apt-get >/dev/null || { say "no packages of Debian or Ubuntu here"; exit 3; }
    mkdir -p "$place/unpacked"
    (cd "$place/unpacked" && { apt-get download -q $packages || { apt-get update -q && apt-get download -q $packages; }; } >&2
        for package in *.deb; do dpkg-deb -x "$package" .; done)
    find "$place/unpacked" \( -path "*/systemd/$server" -o -name 'libsystemd-shared-*.so' \) -exec mv {} "$place" \;
    rm -rf "$place/unpacked"
}

if [ ! -x "$place/$server" ] || { [ -d "$module" ] && [ "$module/go.sum" -nt "$place/$server" ]; }; then
    say "making $server (once)"
    if [ -d "$module" ]; then build_with_go; elif [ -n "${packages:-}" ]; then unpack; else build_with_cargo; fi
fi
echo "$place/$server"
