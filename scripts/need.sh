#!/usr/bin/env bash
# Makes sure that programs are there: scripts/need.sh cc nsd chromium
#
# What is missing is installed from the distribution's packages when the caller may (root, or sudo without a password);
# otherwise the command that installs it is printed and the exit status is 3. No service is started by an installation.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
policy=/usr/sbin/policy-rc.d

# The programs that satisfy a need, any of them, and the packages that bring one, the best first.
programs_of() {
    case $1 in
        cc) echo cc ;;
        cargo) echo cargo ;;
        nsd) echo nsd ;;
        dnsperf) echo dnsperf ;;
        chromium) echo "${CHROMIUM:-} chromium-headless-shell chromium" ;;
        *) echo "scripts/need.sh: $1: unknown; known are cc, cargo, nsd, dnsperf and chromium" >&2; exit 2 ;;
    esac
}

packages_of() {
    case $1 in
        cc) echo gcc libc6-dev ;;
        nsd) echo nsd ;;
        dnsperf) echo dnsperf ;;
        chromium) first_known chromium-headless-shell chromium ;;
    esac
}

is_there() {
    local program
    for program in $(programs_of "$1"); do
        if command -v "$program" >/dev/null; then return 0; fi
    done
    return 1
}

# The first of these packages that the package lists know; the first of all when they know none.
first_known() {
    local package
    for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then echo "$package"; return; fi
    done
    echo "$1"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n --preserve-env=DEBIAN_FRONTEND "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

# Keeps a freshly installed server from starting: 101 forbids it (the policy-rc.d interface of invoke-rc.d).
forbid_services() {
    if [ -e "$policy" ]; then return; fi
    trap 'as_root rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
}

install() {
    echo "scripts/need.sh: installing $*" >&2
    forbid_services
    as_root apt-get install -y -q --no-install-recommends "$@" >&2
}

missing=()
for need in "$@"; do
    programs_of "$need" >/dev/null
    if is_there "$need"; then continue; fi
    if [ "$need" = cargo ]; then
        echo "scripts/need.sh: cargo is missing: install Rust as https://rustup.rs says" >&2
        exit 3
    fi
    missing+=("$need")
done
if [ ${#missing[@]} = 0 ]; then exit 0; fi

if may_install; then as_root apt-get update -q >&2; fi
packages=()
for need in "${missing[@]}"; do
    read -ra more <<<"$(packages_of "$need" | tr '\n' ' ')"
    packages+=("${more[@]}")
done
if ! may_install || ! install "${packages[@]}"; then
    echo "scripts/need.sh: missing: ${missing[*]}; install with: sudo apt-get install ${packages[*]}" >&2
    exit 3
fi
for need in "${missing[@]}"; do
    if ! is_there "$need"; then
        echo "scripts/need.sh: $need: still no $(programs_of "$need" | tr ' ' '/') after installing ${packages[*]}" >&2
        exit 3
    fi
done
