#!/bin/sh
# Builds wattiod and wattio-target as one static file each, and prints the folder that they are in:
# packaging/build/static.sh [x86_64|aarch64]
#
# For the other architecture than this machine's (Debian):
#   rustup target add aarch64-unknown-linux-gnu
#   apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross
set -eu
cd "$(dirname "$0")/../.."
here=$(uname -m)
machine=${1:-$here}
case $machine in
x86_64 | aarch64) target=$machine-unknown-linux-gnu ;;
*) echo "static.sh: $machine is neither x86_64 nor aarch64" >&2 && exit 2 ;;
esac
if [ "$machine" != "$here" ]; then
    linker=$machine-linux-gnu-gcc
    command -v "$linker" >/dev/null || {
        echo "static.sh: $linker is missing: apt install gcc-$(echo "$machine" | tr _ -)-linux-gnu" >&2
        exit 2
    }
    upper=$(echo "$target" | tr 'a-z-' 'A-Z_')
    export "CARGO_TARGET_${upper}_LINKER=$linker"
fi
# glibc's own resolver for names of hosts reads files and DNS without shared libraries since 2.34.
export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static -C strip=symbols"
cargo build --profile shipped --locked -p wattiod -p wattio-target --target "$target"
echo "${CARGO_TARGET_DIR:-target}/$target/shipped"
