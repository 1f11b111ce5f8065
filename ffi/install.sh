#!/bin/sh
# Installs header, libraries, pkg-config file and CMake package: install.sh PREFIX
# DESTDIR is put before PREFIX where files go, LIBDIR says where the built libraries are (target/release).
set -eu
prefix=${1:?usage: install.sh PREFIX}
case $prefix in
/*) ;;
*) echo "install.sh: PREFIX must be an absolute path, not $prefix" >&2; exit 1 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
built=${LIBDIR:-$root/target/release}
into=${DESTDIR-}$prefix
number() { sed -n "s/^#define $1 //p" "$root/include/rangekeeper.h"; }
abi=$(number RK_ABI_VERSION)
version=$(number RK_VERSION_MAJOR).$(number RK_VERSION_MINOR).$(number RK_VERSION_PATCH)
# The ABI's number comes first in the file's name, as the dynamic linker's tools expect.
case $version in
"$abi".*) file=librangekeeper.so.$version ;;
*) file=librangekeeper.so.$abi.$version ;;
esac

install -d "$into/include" "$into/lib/pkgconfig" "$into/lib/cmake/rangekeeper"
install -m 644 "$root/include/rangekeeper.h" "$into/include/"
install -m 644 "$built/librangekeeper.a" "$into/lib/"
install -m 755 "$built/librangekeeper.so" "$into/lib/$file"
ln -sfn "$file" "$into/lib/librangekeeper.so.$abi"
ln -sfn "librangekeeper.so.$abi" "$into/lib/librangekeeper.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$root/ffi/rangekeeper.pc.in" > "$into/lib/pkgconfig/rangekeeper.pc"
install -m 644 "$root/ffi/rangekeeper-config.cmake" "$into/lib/cmake/rangekeeper/"
sed -e "s|@VERSION@|$version|" "$root/ffi/rangekeeper-config-version.cmake.in" > "$into/lib/cmake/rangekeeper/rangekeeper-config-version.cmake"
