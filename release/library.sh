#!/bin/bash
# Packs the library in C of OUT/lib/PLATFORM, which has been built there: an archive for any Linux, and for those
# platforms with a shared library Debian packages, librangekeeperABI and librangekeeper-dev.
#
#   release/library.sh OUT PLATFORM
set -euo pipefail
out=$(realpath "${1:?usage: release/library.sh OUT PLATFORM}")
platform=${2:?usage: release/library.sh OUT PLATFORM}
cd "$(dirname "$0")/.."
. release/release.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export BUILT=$out/lib/$platform

name=librangekeeper_v${version}_$(tr - _ <<<"$platform")
DESTDIR=$work/archive/$name ffi/install.sh /usr/local
mv "$work/archive/$name/usr/local"/* "$work/archive/$name"
rm -r "$work/archive/$name/usr"
# The unwinder in the library for musl finds its tables by this header, which not every C compiler asks the linker for.
[[ $platform != *-musl ]] || sed -i '/^Libs.private:/s/$/ -Wl,--eh-frame-hdr/' "$work/archive/$name/lib/pkgconfig/rangekeeper.pc"
cp LICENSE "$work/archive/$name"
cp "$BUILT/THIRD_PARTY_NOTICES" "$work/archive/$name"
pack_tar "$work/archive" "$out/$name.tar.gz"
[[ -e $BUILT/librangekeeper.so ]] || exit 0

architecture=${platform#linux-}
case $architecture in
amd64) triplet=x86_64-linux-gnu ;;
arm64) triplet=aarch64-linux-gnu ;;
esac
abi=$(sed -n 's/^#define RK_ABI_VERSION //p' include/rangekeeper.h)
# The oldest C library that has all symbols that the shared one needs.
glibc=$(objdump -T "$BUILT/librangekeeper.so" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
needs="libc6 (>= ${glibc#GLIBC_})"
all=$work/all
DESTDIR=$all LIBDIR=lib/$triplet ffi/install.sh /usr

# package NAME DEPENDS SECTION SUMMARY moves the rest of the files, or those that the caller has moved, into a package.
package() {
	local root=$work/$1
	install -d "$root/DEBIAN" "$root/usr/share/doc/$1"
	cat >"$root/usr/share/doc/$1/copyright" <<-COPYRIGHT
	Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
	Upstream-Name: rangekeeper
	Source: $repository

	Files: *
	Copyright: 2025-2026 The Rangekeeper authors
	License: Apache-2.0
	 On Debian systems the text of the licence is in /usr/share/common-licenses/Apache-2.0.
	 The library contains code by others: their licences are in THIRD_PARTY_NOTICES.gz.
	COPYRIGHT
	gzip -9n <"$BUILT/THIRD_PARTY_NOTICES" >"$root/usr/share/doc/$1/THIRD_PARTY_NOTICES.gz"
	printf 'rangekeeper (%s) unstable; urgency=medium\n\n  * %s/blob/main/CHANGELOG.md lists the changes.\n\n -- The Rangekeeper authors <rangekeeper@localhost>  %s\n' \
		"$version" "$repository" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$root/usr/share/doc/$1/changelog.gz"
	(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
	cat >"$root/DEBIAN/control" <<-CONTROL
	Package: $1
	Source: rangekeeper
	Version: $version
	Architecture: $architecture
	Multi-Arch: same
	Maintainer: The Rangekeeper authors <rangekeeper@localhost>
	Installed-Size: $(find "$root/usr" -type f -printf '%s\n' | awk '{kib += int(($1 + 1023) / 1024)} END {print kib}')
	Depends: $2
	Section: $3
	Priority: optional
	Homepage: $repository
	Description: $4
	 Rangekeeper allocates Service ClusterIPs and node ports from ranges as
	 kube-apiserver does, and repairs drift between what is recorded and what
	 Services use.
	CONTROL
	chmod -R u=rwX,go=rX "$root"
	dpkg-deb --root-owner-group -Zxz --build "$root" "$out/${1}_${version}_$architecture.deb" >/dev/null
}

runtime=librangekeeper$abi
install -d "$work/$runtime/usr/lib/$triplet" "$work/$runtime/DEBIAN"
mv "$all/usr/lib/$triplet"/librangekeeper.so.* "$work/$runtime/usr/lib/$triplet"
chmod 644 "$work/$runtime/usr/lib/$triplet"/librangekeeper.so.*
echo "librangekeeper $abi $runtime" >"$work/$runtime/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$work/$runtime/DEBIAN/triggers"
package "$runtime" "$needs" libs "allocator of Kubernetes Services' addresses and ports (shared library)"
mv "$all" "$work/librangekeeper-dev"
package librangekeeper-dev "$runtime (= $version), libc6-dev" libdevel "allocator of Kubernetes Services' addresses and ports (development)"
