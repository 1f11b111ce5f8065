#!/bin/sh
# Rewrites include/rangekeeper.h from the sources and inline.h, and from it the Go side of the C ABI; with --check, only
# reports whether they are up to date. Needs cbindgen in exactly this version: cargo install --locked cbindgen@0.29.4
set -eu
cd "$(dirname "$0")"
cbindgen=${CBINDGEN:-cbindgen}
if [ "$("$cbindgen" --version)" != "cbindgen 0.29.4" ]; then
	echo "header.sh: cbindgen 0.29.4 is needed: cargo install --locked cbindgen@0.29.4" >&2
	exit 1
fi
header=../include/rangekeeper.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$cbindgen" --quiet --config cbindgen.toml --output "$work/generated.h" .
"${GO:-go}" run header/main.go "$work/generated.h" src inline.h > "$work/rangekeeper.h"
case ${1-} in
--check)
	go_check=-check
	cmp -s "$work/rangekeeper.h" $header || { echo "header.sh: include/rangekeeper.h is not up to date: run make header" >&2; exit 1; } ;;
*)
	go_check=
	cp "$work/rangekeeper.h" $header ;;
esac
cd ../go-bindings && "${GO:-go}" run ./internal/rk/generate $go_check ../include/rangekeeper.h ../ffi/exchange.h internal/rk
