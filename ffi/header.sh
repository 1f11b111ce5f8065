#!/bin/sh
# Rewrites include/rangekeeper.h from the sources and inline.h, and from it the Go side of the C ABI; with --check, only reports
# whether they are up to date.
# Needs cbindgen in exactly this version: cargo install --locked cbindgen@0.29.4
set -eu
cd "$(dirname "$0")"
cbindgen=${CBINDGEN:-cbindgen}
if [ "$("$cbindgen" --version)" != "cbindgen 0.29.4" ]; then
	echo "header.sh: cbindgen 0.29.4 is needed: cargo install --locked cbindgen@0.29.4" >&2
	exit 1
fi
config=$(mktemp)
trap 'rm -f "$config"' EXIT
{ printf "trailer = '''"; cat inline.h; printf "'''\n"; cat cbindgen.toml; } > "$config"
case ${1-} in
--check) check=--verify go_check=-check ;;
*) check= go_check= ;;
esac
"$cbindgen" --quiet --config "$config" $check --output ../include/rangekeeper.h .
cd ../go-bindings && "${GO:-go}" run ./internal/rk/generate $go_check ../include/rangekeeper.h ../ffi/exchange.h internal/rk
