#!/usr/bin/env bash
# Makes packages in target/package, and tries each: scripts/package.sh [STEP…]
#
#   binary       static binary in an archive, with its line tables in another
#   man          manual pages
#   completions  completion scripts for bash, zsh and fish
#   deb          Debian package, installed in a clean Debian root
#   rpm          RPM package, installed in an empty root
#   wheel        Python wheel, installed by pip and run by uvx
#   container    container image from packaging/Containerfile
#   install      `cargo install --path`, into a scratch directory
#   sbom         bill of materials (CycloneDX)
#   homebrew     formula of the archives that are there; takes HOMEPAGE, the page that has the releases
#   flake        nothing: evaluates flake.nix
#   notes        release notes
#
# Without a step, all of them. What cannot be tried here is named at the end, and is no failure. PROFILE=dev takes
# a binary that is not optimized, which builds somewhat faster. MACHINE=aarch64 makes packages for another machine than
# this one, and tries its binary by qemu.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR=$target_dir
out=$target_dir/package
stage=$out/binary
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
machine=${MACHINE:-$(uname -m)}
rust_target=$machine-unknown-linux-musl
profile=${PROFILE:-dist}
# The folder of cargo's profile `dev` has a name of its own; packing well is not worth the time for it either.
if [ "$profile" = dev ]; then folder=debug level=0; else folder=$profile level=6; fi
built=$target_dir/$rust_target/$folder/ldplayer
name=ldplayer-$version-$machine-linux
# One commit, one package: times in archives are the commit's. Not for cargo to see, which would build all C code again
# after each commit.
epoch=${SOURCE_DATE_EPOCH:-$(git -c safe.directory="$root" log -1 --format=%ct 2>/dev/null || date +%s)}
unset SOURCE_DATE_EPOCH
# Who answers for a Debian package is whoever makes it.
maintainer=${MAINTAINER:-The ldplayer authors <ldplayer@localhost>}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
untried=()

# How programs of that machine run here, and the tools that read them.
emulator=()
binutils=
if [ "$machine" != "$(uname -m)" ]; then emulator=("qemu-$machine-static") binutils=$machine-linux-gnu-; fi

say() { echo "package: $*" >&2; }
fail() { say "$*"; exit 1; }
not_tried() { say "not tried: $*"; untried+=("$*"); }
# Programs for trying what was made. Without them it is made all the same.
may_have() { scripts/need.sh "$@" >&2; }
archive() { tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --use-compress-program="xz -$level" -cf "$1" -C "$2" "$3"; }
is_foreign() { [ ${#emulator[@]} != 0 ]; }
# What another machine's package would be tried with is of this one.
cannot_try() {
    is_foreign || return 1
    not_tried "$1 of another machine"
}
debian_name() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) echo "$1" ;; esac; }
# Runs a program in another root, with a /proc of its own and the devices of this one.
inside() {
    local place=$1 rights=()
    shift
    if is_foreign; then
        cp "$(command -v "${emulator[0]}")" "$place/emulator"
        set -- /emulator "$@"
    fi
    if [ "$(id -u)" != 0 ]; then rights=(--map-root-user); fi
    mkdir -p "$place/proc" "$place/dev"
    # The script between the quotes is for the inner shell.
    # shellcheck disable=SC2016
    unshare "${rights[@]}" --mount --pid --fork sh -c 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$@"' sh "$place" "$@"
}

# What every cargo of this script is told, so that none builds what another has built: no paths of this machine in the
# binary, an ID by which debuggers find its line tables, and these not yet stripped.
tell_cargo() {
    local build_id=-Wl,--build-id=sha1 linker='' name=${rust_target//-/_}
    if is_foreign; then
        build_id=--build-id=sha1
        linker="-C linker=rust-lld -C linker-flavor=ld.lld"
        read -r "CC_$name" "AR_$name" <<<"$(scripts/zig.sh "$machine-linux-musl")"
        export "CC_$name" "AR_$name"
    fi
    local registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
    # The build folder may be in the repository: what is named later takes precedence.
    local flags="$linker -C link-arg=$build_id --remap-path-prefix=$root=. --remap-path-prefix=$target_dir=target --remap-path-prefix=$registry=registry"
    export "CFLAGS_$name=-ffile-prefix-map=$root=. -ffile-prefix-map=$target_dir=target -ffile-prefix-map=$registry=registry"
    export "CARGO_TARGET_$(tr a-z- A-Z_ <<<"$rust_target")_RUSTFLAGS=$flags"
    export CARGO_PROFILE_DIST_STRIP=none
}

# The target's standard library comes from rustup, its C compiler from the distribution.
need_target() {
    scripts/need.sh cargo cc xz
    if is_foreign; then scripts/need.sh qemu "binutils-$machine"; else scripts/need.sh musl; fi
    if [ -e "$(rustc --print sysroot)/lib/rustlib/$rust_target" ]; then return; fi
    say "adding the target $rust_target"
    rustup target add "$rust_target" >&2 || fail "no standard library for $rust_target; install it with: rustup target add $rust_target"
}

# Builds, and puts into $stage what the packages hold.
prepare() {
    if [ -n "${prepared:-}" ]; then return; fi
    prepared=yes
    need_target
    tell_cargo
    cargo build --locked --profile "$profile" --target "$rust_target" --package ldplayer
    rm -rf "$stage"
    mkdir -p "$stage/man" "$stage/completions"
    "${binutils}objcopy" --only-keep-debug --compress-debug-sections "$built" "$stage/ldplayer.debug"
    # The link names the file that lies beside it, so it is made there.
    (cd "$stage" && "${binutils}objcopy" --strip-all --add-gnu-debuglink=ldplayer.debug "$built" ldplayer)
    chmod -x "$stage/ldplayer.debug"
    "${emulator[@]}" "$stage/ldplayer" man --out "$stage/man"
    "${emulator[@]}" "$stage/ldplayer" completions bash >"$stage/completions/ldplayer.bash"
    "${emulator[@]}" "$stage/ldplayer" completions zsh >"$stage/completions/_ldplayer"
    "${emulator[@]}" "$stage/ldplayer" completions fish >"$stage/completions/ldplayer.fish"
    packaging/third-party.py "$rust_target" >"$stage/THIRD-PARTY"
    cp LICENSE-MIT LICENSE-APACHE data/LICENSE.MPL-2.0 README.md CHANGELOG.md "$stage"
}

step_binary() {
    prepare
    is_static
    line_tables_are_found
    runs_in_an_empty_root
    mkdir -p "$scratch/$name" "$scratch/$name-debug"
    cp -r "$stage"/* "$scratch/$name"
    mv "$scratch/$name/ldplayer.debug" "$scratch/$name-debug"
    archive "$out/$name.tar.xz" "$scratch" "$name"
    archive "$out/$name-debug.tar.xz" "$scratch" "$name-debug"
}

is_static() {
    if readelf --program-headers "$stage/ldplayer" | grep -q INTERP; then fail "the binary is not static"; fi
    if grep -qF -e "$root/" -e "$target_dir/" -e "${CARGO_HOME:-$HOME/.cargo}/registry" "$stage/ldplayer" "$built"; then fail "the binary has paths of this machine in it"; fi
}

line_tables_are_found() {
    local address ids
    address=$("${binutils}nm" "$stage/ldplayer.debug" | awk '$3 ~ /8ldplayer4main/ && !found { found = $1 } END { print found }')
    "${binutils}addr2line" --exe "$stage/ldplayer.debug" "0x$address" | grep -q 'main\.rs:[1-9]' || fail "the debug file does not name the lines of main"
    ids=$(readelf --notes "$stage/ldplayer" "$stage/ldplayer.debug" | grep 'Build ID' | sort -u | wc -l)
    [ "$ids" = 1 ] || fail "binary and debug file do not have one build ID"
}

# Nothing there but the binary: no library, no file of the system.
runs_in_an_empty_root() {
    local place=$scratch/empty
    mkdir -p "$place/tmp" "$place/etc"
    cp "$stage/ldplayer" "$place/ldplayer"
    echo "127.0.0.7 name.test" >"$place/etc/hosts"
    if ! inside "$place" /ldplayer --version >&2; then not_tried "the binary in an empty root: this user may not make one"; return; fi
    if is_foreign; then reads_and_writes "$place"; return; fi
    inside "$place" /ldplayer demo --speed 10 --output demo >&2 || [ $? = 1 ] || fail "the demo fails in an empty root"
    [ -s "$place/demo/report.html" ] || fail "the demo leaves no report in an empty root"
    finds_names "$place"
}

# What takes no socket: qemu has not all options of theirs.
reads_and_writes() {
    inside "$1" /ldplayer generate syn-1 --queries 500 --output few.parquet >&2
    inside "$1" /ldplayer convert few.parquet --output few.tsv >&2
    [ "$(inside "$1" /ldplayer inspect few.tsv --json | grep -c '"transactions": 500')" = 1 ] || fail "a trace is not read as it was written"
    not_tried "replays by the binary of another machine"
}

# Nobody answers there, and the run says whom it asked.
finds_names() {
    local said
    inside "$1" /ldplayer generate syn-1 --queries 5 --output few.tsv >&2
    said=$(inside "$1" /ldplayer replay few.tsv --server name.test:5399 --query-timeout 100ms --output few 2>&1 || true)
    grep -qF "name.test is 127.0.0.7:5399" <<<"$said" || fail "a name of /etc/hosts is not found: $said"
}

step_man() {
    prepare
    local page
    if ! may_have mandoc; then not_tried "manual pages with mandoc"; return; fi
    for page in "$stage"/man/*.1; do
        mandoc -T lint -W error "$page" >&2 || fail "$page: mandoc finds a fault"
    done
}

step_completions() {
    prepare
    bash -n "$stage/completions/ldplayer.bash"
    if may_have zsh; then zsh -n "$stage/completions/_ldplayer"; else not_tried "completions with zsh"; fi
    if may_have fish; then fish --no-execute "$stage/completions/ldplayer.fish"; else not_tried "completions with fish"; fi
}

# Puts manual pages and completions into a folder `share`, where man and the shells look for them. Which folder zsh looks into
# depends on who installs: the distribution, or anybody else.
fill_share() {
    local share=$1 zsh=$2
    mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/$zsh" "$share/fish/vendor_completions.d"
    cp "$stage"/man/*.1 "$share/man/man1"
    cp "$stage/completions/ldplayer.bash" "$share/bash-completion/completions/ldplayer"
    cp "$stage/completions/_ldplayer" "$share/zsh/$zsh/_ldplayer"
    cp "$stage/completions/ldplayer.fish" "$share/fish/vendor_completions.d/ldplayer.fish"
}

step_deb() {
    prepare
    if ! command -v dpkg-deb >/dev/null; then not_tried "the Debian package: it takes dpkg-deb, of the package dpkg"; return; fi
    local tree=$scratch/deb architecture package
    architecture=$(debian_name "$machine")
    package=$out/ldplayer_${version}_$architecture.deb
    fill_deb "$tree"
    mkdir -p "$tree/DEBIAN"
    sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$(du -sk "$tree" | cut -f1)/; s/@MAINTAINER@/$maintainer/" \
        packaging/deb/control >"$tree/DEBIAN/control"
    (cd "$tree" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2 >DEBIAN/md5sums)
    chmod -R u+rwX,go+rX,go-w "$tree"
    rm -f "$out"/ldplayer_*.deb
    SOURCE_DATE_EPOCH=$epoch dpkg-deb --root-owner-group -Zxz -z"$level" --build "$tree" "$package" >&2
    lint_deb "$package"
    cannot_try "the Debian package" || try_deb "$package"
}

fill_deb() {
    local share=$1/usr/share doc=$1/usr/share/doc/ldplayer
    mkdir -p "$1/usr/bin" "$doc" "$share/lintian/overrides"
    install -m 755 "$stage/ldplayer" "$1/usr/bin/ldplayer"
    fill_share "$share" vendor-completions
    cp packaging/deb/lintian-overrides "$share/lintian/overrides/ldplayer"
    cp packaging/deb/copyright README.md CHANGELOG.md "$stage/THIRD-PARTY" "$doc"
    printf 'ldplayer (%s) unstable; urgency=medium\n\n  * What is new is in CHANGELOG.md.gz.\n\n -- %s  %s\n' \
        "$version" "$maintainer" "$(date --utc --rfc-email --date="@$epoch")" >"$doc/changelog"
    gzip -9n "$share"/man/man1/* "$doc/CHANGELOG.md" "$doc/THIRD-PARTY" "$doc/changelog"
}

lint_deb() {
    if ! may_have lintian; then not_tried "the Debian package with lintian"; return; fi
    # An address at localhost is no place for mail; MAINTAINER gives a better one.
    lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs "$1" >&2
}

# In a root that has what every Debian has, and apt.
try_deb() {
    local place=$scratch/debian suite
    suite=$(. /etc/os-release; [ "$ID" = debian ] && echo "${VERSION_CODENAME:-stable}" || echo stable)
    if ! may_have mmdebstrap || ! mmdebstrap --quiet --variant=apt "$suite" "$place" >&2; then
        not_tried "the Debian package in a clean root: mmdebstrap makes none here"
        return
    fi
    cp "$1" "$place/ldplayer.deb"
    inside "$place" apt-get install --yes -qq ./ldplayer.deb >&2
    inside "$place" ldplayer --version >&2
    inside "$place" ldplayer demo --speed 10 --output demo >&2 || [ $? = 1 ] || fail "the demo fails in a clean root"
    [ -s "$place/demo/report.html" ] || fail "the demo leaves no report in a clean root"
    inside "$place" apt-get purge --yes -qq ldplayer >&2
    [ ! -e "$place/usr/share/doc/ldplayer" ] || fail "the package leaves files behind when it is removed"
}

step_rpm() {
    prepare
    if ! may_have rpm; then not_tried "the RPM package: it takes rpmbuild, of the package rpm"; return; fi
    local tree=$scratch/rpm-tree made
    fill_rpm "$tree"
    sed -e "s|@VERSION@|$version|; s|@TREE@|$tree|" packaging/rpm/ldplayer.spec >"$scratch/ldplayer.spec"
    rm -f "$out"/ldplayer-*.rpm
    SOURCE_DATE_EPOCH=$epoch rpmbuild --quiet -bb --target "$machine" --define "_topdir $scratch/rpm" --define "_buildhost localhost" \
        --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" "$scratch/ldplayer.spec" >&2
    made=$(find "$scratch/rpm/RPMS" -name '*.rpm')
    cp "$made" "$out"
    cannot_try "the RPM package" || try_rpm "$out/$(basename "$made")"
}

fill_rpm() {
    local share=$1/usr/share doc=$1/usr/share/doc/ldplayer
    mkdir -p "$1/usr/bin" "$doc"
    install -m 755 "$stage/ldplayer" "$1/usr/bin/ldplayer"
    fill_share "$share" site-functions
    cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE data/LICENSE.MPL-2.0 "$stage/THIRD-PARTY" "$doc"
    gzip -9n "$share"/man/man1/*
    chmod -R u+rwX,go+rX,go-w "$1"
}

# In a root without anything, by rpm's own database: what it says is there, is, and runs, and nothing stays when it is removed.
try_rpm() {
    local place=$scratch/rpm-root rpm
    mkdir -p "$place/tmp"
    rpm=(rpm --root "$place" --dbpath /rpmdb --nosignature)
    # It changes its root to install.
    if [ "$(id -u)" != 0 ]; then not_tried "the RPM package in an empty root: it takes root"; return; fi
    "${rpm[@]}" --initdb && "${rpm[@]}" --install "$1" >&2 || fail "rpm does not install the package"
    "${rpm[@]}" --verify ldplayer >&2 || fail "rpm finds other files than the package has"
    if inside "$place" /usr/bin/ldplayer --version >&2; then :; else not_tried "the RPM package's binary in an empty root: this user may not make one"; fi
    "${rpm[@]}" --erase ldplayer >&2
    [ ! -e "$place/usr/bin/ldplayer" ] || fail "the package leaves files behind when it is removed"
}

step_sbom() { packaging/sbom.py "$rust_target" >"$out/$name.cdx.json"; }

step_wheel() {
    prepare
    local wheel
    if ! may_have python; then not_tried "the wheel: it takes python3 with venv"; return; fi
    rm -f "$out"/ldplayer_dns-*.whl
    fill_share "$scratch/wheel-share" site-functions
    wheel=$(SOURCE_DATE_EPOCH=$epoch packaging/wheel.py "$stage" "$scratch/wheel-share" "$out" "$machine")
    cannot_try "the wheel" || try_wheel "$wheel"
}

try_wheel() {
    local tools=$target_dir/tools/wheel
    python3 -m venv "$scratch/venv"
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check --no-index "$1" >&2
    cmp "$scratch/venv/bin/ldplayer" "$stage/ldplayer" || fail "pip installs another binary than the archive has"
    "$scratch/venv/bin/python" -c 'import ldplayer; print(ldplayer.version())' >&2 || fail "the wheel's package does not find its program"
    if python3 -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check uv >&2; then
        UV_CACHE_DIR=$scratch/uv UV_PYTHON_DOWNLOADS=never "$tools/bin/uvx" --offline --from "$1" ldplayer --version >&2
    else
        not_tried "the wheel with uvx: uv cannot be had from PyPI"
    fi
    wheel_brings_its_share "$scratch/venv"
}

# Every file that the packages have in `share` is there after the installation, and none after its end.
wheel_brings_its_share() {
    local expected=$scratch/wheel-share file
    (cd "$expected" && find . -type f) >"$scratch/share.list"
    while read -r file; do
        cmp "$expected/$file" "$1/share/$file" || fail "pip does not install share/$file"
    done <"$scratch/share.list"
    [ "$(grep -c '^./man/man1/' "$scratch/share.list")" -gt 10 ] || fail "the wheel has no page for each command"
    if command -v man >/dev/null; then
        MANPATH=$1/share/man man --where ldplayer-replay >&2 || fail "man does not find the pages of the wheel"
    fi
    "$1/bin/pip" uninstall --quiet --yes --disable-pip-version-check ldplayer-dns >&2
    while read -r file; do
        [ ! -e "$1/share/$file" ] || fail "pip leaves share/$file behind"
    done <"$scratch/share.list"
}

step_container() {
    prepare
    local image=$out/$name-oci.tar
    if ! may_have buildah; then not_tried "the container image: it takes buildah"; return; fi
    # Neither a daemon nor rights that a container lacks.
    local buildah=(buildah --root "$scratch/images" --runroot "$scratch/images-run" --storage-driver vfs)
    if ! "${buildah[@]}" bud --quiet --isolation chroot --arch "$(debian_name "$machine")" --format oci --timestamp "$epoch" --tag "ldplayer:$version" -f packaging/Containerfile "$stage" >&2; then
        not_tried "the container image: buildah builds none here"
        return
    fi
    rm -f "$image"
    "${buildah[@]}" push --quiet "ldplayer:$version" "oci-archive:$image:ldplayer:$version" >&2
    cannot_try "the container image" || try_container "${buildah[@]}"
}

# Status 1, a failed verdict, is a result of the demo. What there is of it is told at its end.
try_container() {
    local container run said
    container=$("$@" from "localhost/ldplayer:$version")
    run=("$@" run --isolation chroot --cap-add CAP_SYS_ADMIN --cap-add CAP_NET_ADMIN "$container" --)
    "${run[@]}" /usr/bin/ldplayer --version >&2 || fail "the container does not run"
    said=$("${run[@]}" /usr/bin/ldplayer demo --speed 10 2>&1 || true)
    grep ' · report: ' <<<"$said" >&2 || fail "the demo fails in the container: $said"
    "$@" rm --all >/dev/null
}

# With the profile and target of the packages, which are built already.
step_install() {
    if cannot_try "cargo install"; then return; fi
    prepare
    cargo install --quiet --locked --profile "$profile" --target "$rust_target" --path crates/cli --root "$scratch/installed"
    "$scratch/installed/bin/ldplayer" --version >&2
}

step_homebrew() {
    local formula=$out/ldplayer.rb
    if [ -z "${HOMEPAGE:-}" ]; then not_tried "the Homebrew formula: it takes HOMEPAGE"; return; fi
    formula_binaries >"$scratch/binaries"
    [ -s "$scratch/binaries" ] || fail "no archive in $out; make it with: scripts/package.sh binary"
    sed -e "s|@HOMEPAGE@|$HOMEPAGE|; s|@VERSION@|$version|" -e "/@BINARIES@/{r $scratch/binaries" -e 'd}' packaging/homebrew/ldplayer.rb >"$formula"
    if may_have ruby; then ruby -c "$formula" >&2; else not_tried "the Homebrew formula with ruby"; fi
    not_tried "the Homebrew formula with brew"
}

# Where each machine's archive will be, and its hash.
formula_binaries() {
    local pair archive
    for pair in "on_intel x86_64" "on_arm aarch64"; do
        archive=ldplayer-$version-${pair#* }-linux.tar.xz
        if ! [ -e "$out/$archive" ]; then continue; fi
        printf '\n  %s do\n    url "%s/releases/download/v%s/%s"\n    sha256 "%s"\n  end\n' \
            "${pair% *}" "$HOMEPAGE" "$version" "$archive" "$(sha256sum "$out/$archive" | cut -d ' ' -f 1)"
    done
}

step_flake() {
    if ! may_have nix; then not_tried "flake.nix: it takes nix-instantiate"; return; fi
    nix-instantiate --eval --strict packaging/nix/evaluated.nix >/dev/null || fail "flake.nix cannot be evaluated"
    not_tried "flake.nix with Nixpkgs"
}

step_notes() { scripts/release-notes.py "$version" >"$out/release-notes.md"; }

known=(binary man completions deb rpm wheel container install sbom homebrew flake notes)
steps=("$@")
if [ ${#steps[@]} = 0 ]; then steps=("${known[@]}"); fi
for step in "${steps[@]}"; do
    case " ${known[*]} " in
        *" $step "*) ;;
        *) say "$step: unknown; known are ${known[*]}"; exit 2 ;;
    esac
done
mkdir -p "$out"
for step in "${steps[@]}"; do
    say "$step"
    "step_$step"
done
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | LC_ALL=C sort | xargs -r sha256sum >SHA256SUMS)
(cd "$out" && find . -maxdepth 1 -type f -printf '%10s  %f\n' | LC_ALL=C sort -k 2)
for what in "${untried[@]}"; do say "not tried: $what"; done
