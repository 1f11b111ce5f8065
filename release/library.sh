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
. release/debian.sh
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

package() { # NAME DEPENDS SECTION SUMMARY
	debian_package "$work/$1" "$BUILT/THIRD_PARTY_NOTICES" "$architecture" "$2" "$3" "$4" "Multi-Arch: same" <<-DESCRIPTION
	Rangekeeper allocates Service ClusterIPs and node ports from ranges as
	kube-apiserver does, and repairs drift between what is recorded and what
	Services use.
	DESCRIPTION
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
