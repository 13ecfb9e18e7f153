#!/bin/sh
# Looks for what wattio is built with: packaging/needs.sh CARGO_VERSION [--library]
#
# With --library, for what libwattio_io and its writer are built with: no Python.
#
# Names the one `apt install` line that brings what is missing; as root on Debian it runs that line,
# after saying so. Exit code 2 where something stays missing.
set -u
cargo_needed=$1
what=${2:-all}

have_cargo() {
    command -v cargo >/dev/null 2>&1 || return 1
    have=$(cargo --version 2>/dev/null | cut -d' ' -f2)
    [ -n "$have" ] && [ "$(printf '%s\n' "$cargo_needed" "$have" | sort -V | head -n1)" = "$cargo_needed" ]
}

have_python() {
    python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null
}

missing() {
    have_cargo || echo "cargo $cargo_needed or newer"
    command -v cc >/dev/null 2>&1 || echo "a C linker"
    if [ "$what" = all ]; then
        have_python || echo "Python 3.11 to 3.14 as python3"
        python3 -c 'import venv, ensurepip' 2>/dev/null || echo "venv of python3"
    fi
    [ -s /etc/ssl/certs/ca-certificates.crt ] || [ ! -e /etc/debian_version ] || echo "certificates"
}

found=$(missing | paste -sd, - | sed 's/,/, /g')
[ -z "$found" ] && exit 0

# Debian 12 and 13 have a new cargo under another name, for the browsers that are built there.
cargo=cargo
if [ -r /etc/os-release ] && grep -qE '^VERSION_CODENAME=(bookworm|trixie)' /etc/os-release; then
    cargo=cargo-web
fi
python=
[ "$what" = all ] && python=" python3-venv"
line="apt install make gcc ca-certificates$python $cargo"

echo "wattio needs $found; on Debian 12 and newer: $line" >&2
if [ "$(id -u)" -ne 0 ] || [ ! -e /etc/debian_version ] || ! command -v apt-get >/dev/null; then
    exit 2
fi
echo "as root on Debian, running it now: $line" >&2
packages=${line#apt install }
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # words of the line are packages
apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages >/dev/null || {
    echo "wattio: apt-get failed; see above" >&2
    exit 2
}
hash -r
found=$(missing | paste -sd, - | sed 's/,/, /g')
[ -z "$found" ] || {
    echo "wattio still needs $found: another one comes first on PATH" >&2
    exit 2
}
