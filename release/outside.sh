#!/bin/bash
# Uses the Go modules of DIST (dist), which `make dist` fills, as a program outside of the repository does. Everything
# happens in an empty folder, with an empty module cache and a module proxy in DIST:
#
#   - pure Go, with no other program in PATH than go: get, vet, test, vendor, and builds for six platforms, or those in
#     CROSS;
#   - etcdstore and the command, whose dependencies come from this machine's module cache;
#   - the library in C: linked dynamically and statically, with glibc and musl, on amd64 and arm64. Each program runs.
#
#   release/outside.sh [DIST]
set -euo pipefail
dist=$(realpath "${1:-$(dirname "$0")/../dist}")
cd "$(dirname "$0")/.."
checkout=$PWD
. release/release.sh
version=v$version
module=github.com/rangekeeper/rangekeeper
goroot=$(go env GOROOT)
[[ -e $dist/proxy ]] || { echo "outside.sh: $dist/proxy is missing: run \`make dist\` first" >&2; exit 1; }
.ci/setup.sh release
release/zig.sh

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/program" "$work/store" "$work/compat" "$work/empty"
ln -s "$goroot/bin/go" "$work/bin/go"
failed=0

check() { # NAME COMMAND...
	if "${@:2}" >"$work/log" 2>&1; then
		echo "ok      $1"
	else
		echo "FAILED  $1"
		tail -n 30 "$work/log" | sed 's/^/        /'
		failed=1
	fi
}

# With these flags the machine's build cache has the packages, whatever folder they were compiled in.
outside=(env -i HOME="$work/home" GOPATH="$work/gopath" GOMODCACHE="$work/modules" GOCACHE="$(go env GOCACHE)" GOFLAGS="-trimpath -tags=grpcnotrace" GOTOOLCHAIN=local GOSUMDB=off
	GOPROXY="file://$dist/proxy")
alone=("${outside[@]}" PATH="$work/bin" CGO_ENABLED=0)
within() { (cd "$1" && "${@:2}"); } # FOLDER COMMAND...
program() { within "$work/program" "${alone[@]}" "$@"; }

cp examples/go/main.go "$work/program"
sed 's/^package .*/package main_test/; s/ExampleAudit/Example_audit/' go-bindings/example_test.go >"$work/program/example_test.go"
gunzip -c testing/testdata/kube-1.32-dual-stack/clean-serviceips.bin.gz >"$work/stored"

get() { program go mod init example.com/program && program go get "$module/go-bindings@$version"; }
no_dependencies() {
	program go mod tidy && ! grep replace "$work/program/go.mod" &&
		diff <(program go list -m -f '{{.String}}' all) <(printf '%s\n' example.com/program "$module/go-bindings $version")
}
runs() { program go build -o "$work/program.bin" && "$work/program.bin" <"$work/stored" >"$work/written" && ! cmp "$work/stored" "$work/written"; }
no_library() { ! find "$work/modules" "$work/program" -path '*/go-bindings/native*' -o -name '*.a' | grep .; }
vendored() {
	program go mod vendor && no_library &&
		within "$work/program" "${alone[@]}" GOPROXY=off GOMODCACHE="$work/empty" go build -mod=vendor -o "$work/vendored.bin" &&
		"$work/vendored.bin" <"$work/stored" >/dev/null && rm -r "$work/program/vendor"
}
# Without optimisation, which takes half of the time.
cross() {
	within "$work/program" "${alone[@]}" GOOS="${1%/*}" GOARCH="${1#*/}" \
		go build -gcflags="$module/go-bindings/internal/wasm/...=-N -l" -o "$work/cross.bin"
}
needs_cgo() { ! program go build -tags rangekeeper_native >"$work/errors" 2>&1 && grep "need cgo: set CGO_ENABLED=1" "$work/errors"; }

no_replace() { ! grep -r --include='*.mod' '^replace\|=>' "$dist/proxy"; }
check "no module replaces another" no_replace
check "go get $module/go-bindings@$version" get
check "go vet" program go vet ./...
check "go list -m all: the module has no dependency" no_dependencies
check "the program runs" runs
check "go test of the program" program go test -count=1 ./...
check "go test of the module" program go test -count=1 "$module/go-bindings/..."
check "go vet of the module" program go vet -unreachable=false "$module/go-bindings/..."
check "go mod vendor, and a build of it alone; no library in C was downloaded" vendored
for platform in ${CROSS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64}; do
	check "go build for $platform" cross "$platform"
done
check "the tag rangekeeper_native without cgo is an error that says so" needs_cgo

# The dependencies are brought into the machine's module cache, unless they are there.
within controlplane go list -deps ./cmd/rangekeeper >/dev/null
within go-bindings/etcdstore go list -deps -test . >/dev/null
within compat go list -deps -test . >/dev/null
machine=("${alone[@]}" GOPROXY="file://$dist/proxy,file://$(go env GOMODCACHE)/cache/download")
cp go-bindings/etcdstore/example_test.go "$work/store"
store() {
	within "$work/store" "${machine[@]}" go mod init example.com/store &&
		within "$work/store" "${machine[@]}" go get "$module/go-bindings/etcdstore@$version" &&
		! grep replace "$work/store/go.mod" && grep -q "$module/go-bindings/etcdstore $version" "$work/store/go.mod" &&
		within "$work/store" "${machine[@]}" go test -c -o "$work/store.test"
}
sed 's/^package .*/package main_test/' compat/example_test.go >"$work/compat/example_test.go"
compat() {
	within "$work/compat" "${machine[@]}" go mod init example.com/compat &&
		within "$work/compat" "${machine[@]}" go get "$module/compat@$version" &&
		within "$work/compat" "${machine[@]}" go test -mod=mod -count=1 . &&
		! grep -E "replace|k8s.io/kubernetes " "$work/compat/go.mod"
}
command() {
	within "$work/empty" "${machine[@]}" GOBIN="$work" go install "$module/controlplane/cmd/rangekeeper@$version" &&
		"$work/rangekeeper" show serviceips --etcd-snapshot testing/testdata/kube-1.32-dual-stack/clean.db.gz
}
check "a program with go-bindings/etcdstore" store
check "a program with compat, without k8s.io/kubernetes" compat
check "go install $module/controlplane/cmd/rangekeeper@$version" command

# Programs that link the library in C. The program imports it for the tag rangekeeper_native only.
native=("${outside[@]}" PATH="$PATH" CGO_ENABLED=1)
no_import() {
	! within "$work/program" "${native[@]}" go build -tags rangekeeper_native >"$work/errors" 2>&1 && grep "librangekeeper.a" "$work/errors"
}
check "the tag rangekeeper_native without an import of go-bindings/native: the linker names the missing library" no_import
printf '//go:build rangekeeper_native\n\npackage main\n\nimport _ "%s"\n' "$module/go-bindings/native" >"$work/program/native.go"
check "go get $module/go-bindings/native@$version" program go get "$module/go-bindings/native@$version"

# link builds and runs the program's tests: NAME PLATFORM CC TAGS EXTLDFLAGS [EMULATOR...]
link() {
	local binary=$work/$1.test architecture=${2#linux-}
	within "$work/program" "${native[@]}" CC="$3" GOARCH="${architecture%-musl}" \
		go test -c -tags "rangekeeper_native$4" -ldflags "-extldflags '$5'" -o "$binary" || return
	readelf -sW "$binary" | grep rk_allocator_new >/dev/null || { echo "the library is not in $binary"; return 1; }
	if readelf -dW "$binary" | grep libgcc_s; then return 1; fi
	if [[ $1 == *-static ]] && readelf -dW "$binary" | grep NEEDED; then return 1; fi
	if [[ $1 != *-static ]] && ! readelf -dW "$binary" | grep NEEDED; then return 1; fi
	# The unwinder in the library for musl finds its tables by this header.
	if [[ $2 == *-musl ]] && ! readelf -lW "$binary" | grep GNU_EH_FRAME; then return 1; fi
	"${@:6}" "$binary" -test.v | grep -- '--- PASS: Example_audit'
}
oldest_glibc() { # NAME
	local newest
	newest=$(objdump -T "$work/$1.test" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
	echo "the newest version is $newest"
	[[ $newest == GLIBC_* ]] && printf '%s\n' "$newest" GLIBC_2.17 | sort -CV
}
arm64=(qemu-aarch64-static -L /usr/aarch64-linux-gnu)
zig=$checkout/target/zig
# Debian's wrapper for musl does not ask for the header.
eh=-Wl,--eh-frame-hdr
check "link amd64, glibc, dynamic" link amd64 linux-amd64 cc "" ""
check "link amd64, glibc, static" link amd64-static linux-amd64 cc "" -static
check "link amd64, the oldest glibc" link amd64-oldest linux-amd64 "$zig/linux-amd64" "" ""
check "link amd64, musl, dynamic" link amd64-musl linux-amd64-musl musl-gcc ,musl "$eh"
check "link amd64, musl, static" link amd64-musl-static linux-amd64-musl musl-gcc ,musl "-static $eh"
check "link amd64, musl, static, by zig" link amd64-zig-static linux-amd64-musl "$zig/linux-amd64-musl" ,musl -static
check "link arm64, glibc, dynamic" link arm64 linux-arm64 aarch64-linux-gnu-gcc "" "" "${arm64[@]}"
check "link arm64, glibc, static" link arm64-static linux-arm64 aarch64-linux-gnu-gcc "" -static "${arm64[@]}"
check "link arm64, the oldest glibc" link arm64-oldest linux-arm64 "$zig/linux-arm64" "" "" "${arm64[@]}"
check "link arm64, musl, static, by zig" link arm64-zig-static linux-arm64-musl "$zig/linux-arm64-musl" ,musl -static "${arm64[@]}"
check "programs for the oldest glibc need 2.17 or older on amd64" oldest_glibc amd64-oldest
check "programs for the oldest glibc need 2.17 or older on arm64" oldest_glibc arm64-oldest
native_vendored() {
	within "$work/program" "${native[@]}" go mod vendor &&
		within "$work/program" "${native[@]}" GOPROXY=off GOMODCACHE="$work/empty" \
			go build -mod=vendor -tags rangekeeper_native -o "$work/vendored.bin" &&
		"$work/vendored.bin" <"$work/stored" >/dev/null
}
check "go mod vendor keeps the libraries" native_vendored
exit $failed
