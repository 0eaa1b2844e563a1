#!/usr/bin/env bash
# Makes sure that programs are there: scripts/need.sh cc nsd chromium
#
# What is missing is installed from the distribution's packages when the caller may (root, or sudo without a password);
# otherwise the command that installs it is printed and the exit status is 3. No service is started by an installation,
# nor at the next boot. The device /dev/net/tun is opened to all users only with OPEN_TUN=1 or CI=true.
set -euo pipefail
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
policy=/usr/sbin/policy-rc.d
saved=$policy.before-ldplayer

say() { echo "scripts/need.sh: $*" >&2; }

# The programs that satisfy a need, any of them. chromium-browser is not among them: on Ubuntu it installs a snap.
programs_of() {
    case $1 in
        cc) echo cc ;;
        cargo) echo cargo ;;
        nsd) echo nsd ;;
        knot) echo knotd ;;
        bind) echo named ;;
        bind-utils) echo dnssec-verify ;;
        delv) echo delv ;;
        ldns) echo ldns-verify-zone ;;
        unbound) echo unbound ;;
        knot-resolver) echo kresd ;;
        pdns-recursor) echo pdns_recursor ;;
        powerdns) echo pdns_server ;;
        haproxy) echo haproxy ;;
        dnsmasq) echo dnsmasq ;;
        dnsperf) echo dnsperf ;;
        dnsdist) echo dnsdist ;;
        kxdpgun) echo kxdpgun ;;
        tcpreplay) echo tcpreplay ;;
        dnsjit) echo dnsjit ;;
        drool) echo drool ;;
        ip) echo ip ;;
        tun) echo /dev/net/tun ;;
        python) echo python3 ;;
        openssl) echo openssl ;;
        curl | promtool | mandoc | zsh | fish | lintian | mmdebstrap | buildah | ethtool | ruby) echo "$1" ;;
        rpm) echo rpmbuild ;;
        musl) echo musl-gcc ;;
        cares) echo /usr/include/ares.h ;;
        xz) echo xz ;;
        qemu) echo qemu-aarch64-static ;;
        nix) echo nix-instantiate ;;
        binutils-aarch64) echo aarch64-linux-gnu-objcopy ;;
        nats) echo nats-server ;;
        go) echo go /usr/local/go/bin/go ;;
        chromium) echo "${CHROMIUM:-} chromium-headless-shell chromium google-chrome google-chrome-stable" ;;
        *) say "$1: unknown; known are cc, cargo, curl, nsd, knot, bind, bind-utils, delv, ldns, unbound, knot-resolver, pdns-recursor, powerdns, haproxy, dnsmasq, dnsperf, dnsdist, kxdpgun, tcpreplay, dnsjit, drool, ip, tun, python, openssl, promtool, mandoc, zsh, fish, lintian, mmdebstrap, buildah, rpm, ethtool, musl, cares, xz, qemu, binutils-aarch64, ruby, nix, nats, go and chromium"; exit 2 ;;
    esac
}

# The packages that bring one; nothing where the distribution has none.
packages_of() {
    case $1 in
        cc) echo gcc libc6-dev ;;
        knot-resolver | pdns-recursor | dnsjit | drool) first_known "$1" ;;
        nsd | knot | unbound | haproxy | dnsperf | dnsdist | tcpreplay | openssl) echo "$1" ;;
        bind) echo bind9 ;;
        kxdpgun) echo knot-dnsutils ;;
        powerdns) echo pdns-server pdns-backend-bind ;;
        bind-utils) echo bind9-utils ;;
        delv) echo bind9-dnsutils ;;
        dnsmasq) echo dnsmasq-base ;;
        ldns) echo ldnsutils ;;
        ip) echo iproute2 ;;
        python) echo python3 python3-venv ;;
        promtool) echo prometheus ;;
        curl | mandoc | zsh | fish | lintian | buildah | rpm | ethtool | ruby) echo "$1" ;;
        nix) echo nix-bin ;;
        mmdebstrap) echo mmdebstrap debian-archive-keyring ;;
        musl) echo musl-tools ;;
        cares) echo libc-ares-dev ;;
        xz) echo xz-utils ;;
        qemu) echo qemu-user-static ;;
        binutils-aarch64) echo binutils-aarch64-linux-gnu ;;
        nats) echo nats-server ;;
        go) echo golang-go ;;
        chromium) first_known chromium-headless-shell chromium ;;
    esac
}

# The services that these packages would start.
services_of() {
    case $1 in
        nsd | knot | haproxy | dnsdist | pdns-recursor) echo "$1" ;;
        nats) echo nats-server ;;
        promtool) echo prometheus ;;
        bind) echo named ;;
        powerdns) echo pdns ;;
        unbound) echo unbound unbound-resolvconf ;;
        knot-resolver) echo kresd.target kres-cache-gc ;;
    esac
}

# What to do about a need that no package of the distribution meets.
advice_for() {
    case $1 in
        cargo) echo "install Rust as https://rustup.rs says" ;;
        tun) echo "testbeds without root need /dev/net/tun open to all users, as udev has it: modprobe tun; chmod 666 /dev/net/tun; or let this script do so: OPEN_TUN=1 make test" ;;
        knot-resolver | pdns-recursor | dnsjit | drool) echo "no package here has it, so what is tested with it is left out and says so" ;;
        chromium) echo "no package here has it: install Google Chrome from its maker's .deb, or set CHROMIUM to a Chromium" ;;
        *) echo "install the program $(programs_of "$1") with your system's package manager" ;;
    esac
}

# Whether every user may open the TUN device, as udev has it (mode 666) and testbeds without root need it.
tun_is_open() { [ "$(stat -c %A /dev/net/tun 2>/dev/null | cut -c8-9)" = rw ]; }

# Who else uses this machine is the caller's to know.
may_open_tun() { [ "${OPEN_TUN:-}" = 1 ] || [ "${CI:-}" = true ]; }

# Whether the caller may use it, and nobody else.
tun_is_for_root() { [ "$(id -u)" = 0 ] && [ -e /dev/net/tun ] && ! may_open_tun; }

# A machine without udev leaves the device to root, or has none.
open_tun() {
    say "opening /dev/net/tun to all users (mode 666, was $(stat -c %a /dev/net/tun 2>/dev/null || echo missing)), as udev does; it stays so until the next boot"
    if [ ! -e /dev/net/tun ]; then as_root mkdir -p /dev/net && as_root mknod /dev/net/tun c 10 200 || return 1; fi
    as_root chmod 666 /dev/net/tun
}

is_there() {
    local program
    if [ "$1" = tun ]; then tun_is_open; return; fi
    for program in $(programs_of "$1"); do
        if command -v "$program" >/dev/null; then return 0; fi
        # A header of a library is no program.
        case $program in /*) if [ -e "$program" ]; then return 0; fi ;; esac
    done
    return 1
}

# The first of these packages that can be installed; nothing when none can.
first_known() {
    local package policy_text
    for package in "$@"; do
        # Not through a pipe: `grep -q` ends at the first match, and the signal that apt-cache then gets would count as
        # a failure of the pipe.
        policy_text=$(apt-cache policy "$package" 2>/dev/null) || continue
        if grep -q 'Candidate: [^(]' <<<"$policy_text"; then echo "$package"; return; fi
    done
}

# Non-interactive, and without restarting other services on the way (needrestart). Not by sudo's --preserve-env, which
# not every sudoers permits.
as_root() {
    local quiet=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1)
    if [ "$(id -u)" = 0 ]; then "${quiet[@]}" "$@"; else sudo -n "${quiet[@]}" "$@"; fi
}

may_be_root() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }

may_install() { command -v apt-get >/dev/null && may_be_root; }

# Whether a policy that forbids every start is in force (the policy-rc.d interface of invoke-rc.d: 101 forbids).
services_are_forbidden() {
    local status=0
    as_root "$policy" ldplayer start >/dev/null 2>&1 || status=$?
    [ $status = 101 ]
}

# Keeps a freshly installed server from starting; an administrator's own policy is put back at the end.
forbid_services() {
    if services_are_forbidden; then return; fi
    trap allow_services EXIT
    if [ -e "$policy" ]; then as_root mv "$policy" "$saved" || return 1; fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null || return 1
    as_root chmod 755 "$policy" || return 1
    services_are_forbidden
}

allow_services() {
    as_root rm -f "$policy"
    if [ -e "$saved" ]; then as_root mv "$saved" "$policy"; fi
}

# Ours is the installation, so ours is the service: it is not to run, now or after the next boot. Without systemd
# running there is none to stop.
quieten_services() {
    local service
    if ! command -v systemctl >/dev/null; then return; fi
    for service in "$@"; do
        as_root systemctl disable --quiet "$service" 2>/dev/null || true
        if as_root systemctl is-active --quiet "$service" 2>/dev/null; then
            say "stopping $service, which its installation started"
            as_root systemctl stop "$service" || say "$service still runs; end it with: sudo systemctl stop $service"
        fi
    done
}

install() {
    say "installing $*"
    if ! forbid_services; then
        say "cannot keep new services from starting ($policy cannot be written), so nothing is installed"
        return 1
    fi
    as_root apt-get install -y -q --no-install-recommends "$@" >&2
}

missing=()
for need in "$@"; do
    programs_of "$need" >/dev/null
    if is_there "$need"; then continue; fi
    if [ "$need" = tun ] && may_open_tun && may_be_root && open_tun && tun_is_open; then continue; fi
    if [ "$need" = tun ] && tun_is_for_root; then
        say "/dev/net/tun is root's alone, so what is tested of testbeds as an ordinary user is left out; to test it, too: OPEN_TUN=1 make test"
        continue
    fi
    missing+=("$need")
done
if [ ${#missing[@]} = 0 ]; then exit 0; fi

# Whether any package may bring what is missing: a device, or Rust as its own installer has it, comes by none.
have_packages() {
    local need
    for need in "$@"; do
        case $need in tun | cargo) ;; *) return 0 ;; esac
    done
    return 1
}

# A list that cannot be fetched is no reason to stop: the packages may be known from before.
if have_packages "${missing[@]}" && may_install && ! as_root apt-get update -q >&2; then say "apt-get update failed; going on with the lists there are"; fi

packages=() services=() without=()
for need in "${missing[@]}"; do
    read -ra more <<<"$(packages_of "$need" | tr '\n' ' ')"
    if [ ${#more[@]} = 0 ]; then without+=("$need"); fi
    packages+=("${more[@]}")
    read -ra more <<<"$(services_of "$need" | tr '\n' ' ')"
    services+=("${more[@]}")
done
for need in "${without[@]}"; do say "$need is missing: $(advice_for "$need")"; done
# Others of its kind are there, and not every distribution has these.
without=($(printf '%s\n' "${without[@]}" | grep -vx -e knot-resolver -e pdns-recursor -e dnsjit -e drool || true))
if [ ${#packages[@]} != 0 ]; then
    if ! may_install || ! install "${packages[@]}"; then
        say "missing: ${missing[*]}; install with: sudo apt-get install ${packages[*]}"
        exit 3
    fi
    quieten_services "${services[@]}"
fi
if [ ${#without[@]} != 0 ]; then exit 3; fi
for need in "${missing[@]}"; do
    if [ -z "$(packages_of "$need")" ]; then continue; fi
    if ! is_there "$need"; then
        say "$need: still no $(programs_of "$need" | xargs | tr ' ' '/') after installing ${packages[*]}"
        exit 3
    fi
done
