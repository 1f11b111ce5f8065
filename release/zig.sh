#!/bin/bash
# Installs Zig, a C compiler that has the C libraries of all platforms, into target/zig, unless it is there.
# target/zig/PLATFORM is then a C compiler for the platform: linux-amd64 or linux-arm64 with the oldest glibc, and with
# -musl for musl.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.17.1
# The oldest glibc that Rust supports.
glibc=2.17
zig=$PWD/target/zig

if [[ $("$zig/python/bin/python" -m ziglang version 2>/dev/null) != "$version" ]]; then
	rm -rf "$zig"
	python3 -c 'import ensurepip' 2>/dev/null || .ci/setup.sh release
	python3 -m venv "$zig/python"
	"$zig/python/bin/pip" install --quiet --disable-pip-version-check "ziglang==$version"
fi
compiler() { # PLATFORM TARGET
	# Zig compiles a C library when it is first used; its cache is kept for programs with another HOME.
	printf '#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR="%s"\nexec "%s" -m ziglang cc -target %s "$@"\n' "$zig/cache" "$zig/python/bin/python" "$2" >"$zig/$1"
	chmod +x "$zig/$1"
}
compiler linux-amd64 x86_64-linux-gnu.$glibc
compiler linux-arm64 aarch64-linux-gnu.$glibc
compiler linux-amd64-musl x86_64-linux-musl
compiler linux-arm64-musl aarch64-linux-musl
