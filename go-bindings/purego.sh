#!/bin/bash
# Translates the C ABI's crate to Go, go-bindings/internal/wasm: compiled to WebAssembly and translated by wasm2go, it
# is what the Go binding is built of. Three modules are linked from the one crate, as few programs need the bootstrap
# controller, which is half of the code, or ledgers. The same sources have the same bytes, in whatever folder they are
# built.
set -euo pipefail
cd "$(dirname "$0")/.."
# Where two of these scripts run at once, the second one finds that all is there.
[[ ${LOCKED:-} == purego ]] || { mkdir -p target; LOCKED=purego exec flock --close target/purego.lock go-bindings/purego.sh; }
wasm2go=v0.4.20
out=go-bindings/internal/wasm
target=wasm32-unknown-unknown

if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$target ]]; then
	command -v rustup >/dev/null || { echo "purego.sh: the Rust target $target is missing" >&2; exit 1; }
	rustup target add $target
fi
# Messages of panics name source files: those of dependencies without this machine's folders.
# With less inlining the code is a sixth smaller, and as fast as Go (go test -bench=. in this folder).
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=crates -Cllvm-args=-inline-threshold=75"
# The linker strips what debuggers read.
export CARGO_PROFILE_RELEASE_DEBUG=false
# In a folder of its own, so that it does not wait for a build of the library in C.
.ci/patiently.sh "the library" "${CARGO:-cargo}" rustc --target-dir target/wasm --release --locked --target $target -p rangekeeper-ffi --crate-type staticlib
linker=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld/wasm-ld

translate() { # PACKAGE STACK-SIZE FUNCTION...
	local package=$1 stack=$2 exports=() name
	shift 2
	for name in "$@"; do exports+=("--export=$name"); done
	mkdir -p "$out/$package"
	local wasm=target/wasm/$target/release/$package.wasm
	# The stack comes first, so that its overflow is a trap; Go restores its pointer after one.
	"$linker" --no-entry --gc-sections --strip-all --stack-first -z "stack-size=$stack" --export=__stack_pointer --export=__heap_base \
		--export=rk_memory_allocate --export=rk_memory_free --export=rk_memory_keep_faults --export=rk_memory_fault "${exports[@]}" \
		target/wasm/$target/release/librangekeeper.a -o "$wasm.new"
	cmp -s "$wasm.new" "$wasm" || mv "$wasm.new" "$wasm" # at once, as another make may pack it
	local made="$wasm2go $(cat go-bindings/internal/joinlines/main.go "$wasm" | sha256sum)"
	[[ $(cat "$out/$package/made" 2>/dev/null) == "$made" ]] && return
	.ci/patiently.sh "the library as Go" "${GO:-go}" run "github.com/ncruces/wasm2go@$wasm2go" -unsafe -pkg "$package" -o "$out/$package/new" "$wasm"
	"${GO:-go}" -C go-bindings run ./internal/joinlines < "$out/$package/new" > "$out/$package/joined"
	mv "$out/$package/joined" "$out/$package/$package.go"
	rm "$out/$package/new"
	echo "$made" > "$out/$package/made"
}

mapfile -t functions < <(grep -o '\brk_[a-z0-9_]*' ffi/symbols.txt | sort -u)
# The steps that a repair pass and a committer take together have parts, as each is in an instance of its own.
mapfile -t exchange < <(grep -o '\brk_exchange_[a-z_]*' ffi/exchange.h)
mapfile -t bootstrap < <(printf '%s\n' "${functions[@]}" | grep '^rk_bootstrap_')
mapfile -t ledger < <(printf '%s\n' "${functions[@]}" | grep '^rk_\(shared_\)\?ledger_')
mapfile -t core < <(printf '%s\n' "${functions[@]}" | grep -v '^rk_bootstrap_\|^rk_\(shared_\)\?ledger_')
# There may be an instance for each object of the core, and for each ledger. Their deepest calls take 7 KiB of stack
# (TestStack). With more of it there would be no room for a first object beside the data in the 64 KiB that an instance
# begins with.
translate core 15360 "${core[@]}" "${exchange[@]}"
translate ledger 15360 "${ledger[@]}"
translate bootstrap 1048576 "${bootstrap[@]}"
# Functions of wasm2go are part of what it writes.
licence="$("${GO:-go}" list -m -f '{{.Dir}}' "github.com/ncruces/wasm2go@$wasm2go")/LICENSE"
cmp -s "$licence" "$out/LICENSE.wasm2go" || install -m 644 "$licence" "$out/LICENSE.wasm2go"
