#!/bin/bash
# Packs OUT/rangekeeper-VERSION.tgz, the npm package of ledgers for JavaScript, with the library as WebAssembly. The
# same commit has the same bytes, in whatever folder it is built.
#
#   release/npm.sh OUT
set -euo pipefail
out=$(realpath -m "${1:?usage: release/npm.sh OUT}")
cd "$(dirname "$0")/.."
. release/release.sh
go-bindings/purego.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/package"
install -m 644 ffi/js/package.json ffi/js/rangekeeper.js ffi/js/rangekeeper.d.ts LICENSE "$work/package"
install -m 644 target/wasm/wasm32-unknown-unknown/release/ledger.wasm "$work/package/rangekeeper.wasm"
release/notices.sh "$work/package/THIRD_PARTY_NOTICES"
pack_tar "$work" "$out/rangekeeper-$version.tgz"
