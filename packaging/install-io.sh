#!/usr/bin/env bash
# Installs libwattio_io, its writer, its headers and the sources of its parts for MPI and Fortran below
# a folder, from a tree that has been built: packaging/install-io.sh BUILT PREFIX.
set -euo pipefail
cd "$(dirname "$0")/.."
built=$1 prefix=$2 from=crates/io
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

install -d "$prefix"/{bin,include,lib/cmake/wattio_io,lib/pkgconfig,share/wattio_io/damaris}
install -m 755 "$built/wattio-io-writer" "$prefix/bin/"
install -m 755 "$built/libwattio_io.so" "$prefix/lib/libwattio_io.so.0"
ln -sf libwattio_io.so.0 "$prefix/lib/libwattio_io.so"
install -m 644 $from/include/wattio_io.h "$prefix/include/"
install -m 644 $from/mpi/* $from/fortran/* "$prefix/share/wattio_io/"
install -m 644 $from/damaris/* "$prefix/share/wattio_io/damaris/"
install -m 644 $from/cmake/wattio_io-config.cmake "$prefix/lib/cmake/wattio_io/"
sed "s/@VERSION@/$version/" $from/cmake/wattio_io-config-version.cmake.in \
    >"$prefix/lib/cmake/wattio_io/wattio_io-config-version.cmake"
sed "s/@VERSION@/$version/" $from/cmake/wattio_io.pc.in >"$prefix/lib/pkgconfig/wattio_io.pc"
