#!/bin/sh
# Installs header, libraries, pkg-config file and CMake package: install.sh PREFIX
# DESTDIR is put before PREFIX where files go. LIBDIR is the folder of libraries below PREFIX (lib). BUILT is where the
# built libraries are (target/release); without a shared library there, the static one is installed alone.
set -eu
prefix=${1:?usage: install.sh PREFIX}
case $prefix in
/*) ;;
*) echo "install.sh: PREFIX must be an absolute path, not $prefix" >&2; exit 1 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
built=${BUILT:-$root/target/release}
libdir=${LIBDIR:-lib}
into=${DESTDIR-}$prefix
number() { sed -n "s/^#define $1 //p" "$root/include/rangekeeper.h"; }
abi=$(number RK_ABI_VERSION)
version=$(number RK_VERSION_MAJOR).$(number RK_VERSION_MINOR).$(number RK_VERSION_PATCH)
# The ABI's number comes first in the file's name, as the dynamic linker's tools expect.
case $version in
"$abi".*) file=librangekeeper.so.$version ;;
*) file=librangekeeper.so.$abi.$version ;;
esac
filled() { sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@VERSION@|$version|" "$root/ffi/$1.in" >"$into/$libdir/$2/$1"; }

install -d "$into/include" "$into/$libdir/pkgconfig" "$into/$libdir/cmake/rangekeeper"
install -m 644 "$root/include/rangekeeper.h" "$into/include/"
install -m 644 "$built/librangekeeper.a" "$into/$libdir/"
if [ -e "$built/librangekeeper.so" ]; then
	install -m 755 "$built/librangekeeper.so" "$into/$libdir/$file"
	ln -sfn "$file" "$into/$libdir/librangekeeper.so.$abi"
	ln -sfn "librangekeeper.so.$abi" "$into/$libdir/librangekeeper.so"
fi
filled rangekeeper.pc pkgconfig
filled rangekeeper-config.cmake cmake/rangekeeper
filled rangekeeper-config-version.cmake cmake/rangekeeper
