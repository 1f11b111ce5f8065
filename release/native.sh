#!/bin/bash
# Builds the libraries in C of all platforms into OUT/lib/PLATFORM: librangekeeper.a, and librangekeeper.so for those
# with glibc. The same commit has the same bytes, in whatever folder it is built.
#
#   release/native.sh OUT
set -euo pipefail
out=$(realpath -m "${1:?usage: release/native.sh OUT}")
cd "$(dirname "$0")/.."
glibc=2.17
declare -A targets=(
	[linux-amd64]=x86_64-unknown-linux-gnu [linux-amd64-musl]=x86_64-unknown-linux-musl
	[linux-arm64]=aarch64-unknown-linux-gnu [linux-arm64-musl]=aarch64-unknown-linux-musl
)
sysroot=$(rustc --print sysroot)
host=$(rustc -vV | sed -n 's/^host: //p')
# rustc's own, which knows all architectures.
objcopy() { LD_LIBRARY_PATH=$sysroot/lib "$sysroot/lib/rustlib/$host/bin/rust-objcopy" "$@"; }

release/zig.sh
for target in "${targets[@]}"; do
	if [[ ! -d $sysroot/lib/rustlib/$target ]]; then
		command -v rustup >/dev/null || { echo "native.sh: the Rust target $target is missing" >&2; exit 1; }
		rustup target add "$target"
	fi
done

build() { # PLATFORM
	local platform=$1 target=${targets[$1]} variable remaps kinds arguments lib newest
	# In a folder of its own: the linkers below are part of what cargo compares, and it would compile all of
	# target/release again.
	local built=target/native/${platform%-musl}
	variable=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$target")
	# Messages of panics name source files.
	remaps="'--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=crates', '--remap-path-prefix=$PWD=rangekeeper'"
	export "${variable}_LINKER=$PWD/target/zig/$platform"
	kinds=staticlib,cdylib
	arguments=()
	if [[ $platform == *-musl ]]; then
		# Rust's unwinder becomes part of the library: not every C compiler for musl has one.
		kinds=staticlib
		arguments=(-L "native=$sysroot/lib/rustlib/$target/lib/self-contained" -l static=unwind)
	fi
	"${CARGO:-cargo}" rustc --config "target.$target.rustflags = [$remaps]" --release --locked --target "$target" --target-dir "$built" -p rangekeeper-ffi --crate-type "$kinds" -- "${arguments[@]}"
	ffi/localise.sh "$built/$target/release/librangekeeper.a"
	lib=$out/lib/$platform
	rm -rf "$lib"
	mkdir -p "$lib"
	release/notices.sh "$lib/THIRD_PARTY_NOTICES"
	objcopy --strip-debug "$built/$target/release/librangekeeper.a" "$lib/librangekeeper.a"
	[[ $kinds == *cdylib ]] || return 0
	objcopy --strip-all "$built/$target/release/librangekeeper.so" "$lib/librangekeeper.so"
	newest=$(objdump -T "$lib/librangekeeper.so" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
	printf '%s\n' "$newest" "GLIBC_$glibc" | sort -CV || { echo "native.sh: $lib/librangekeeper.so needs $newest" >&2; exit 1; }
	if readelf -d "$lib/librangekeeper.so" | grep libgcc_s; then echo "native.sh: $lib/librangekeeper.so needs libgcc_s" >&2; exit 1; fi
}

# Two at a time: link-time optimisation works in one thread.
(build linux-arm64; build linux-arm64-musl) &
other=$!
build linux-amd64
build linux-amd64-musl
wait "$other"
