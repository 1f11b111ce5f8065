#!/bin/sh
# Rewrites include/rangekeeper.h from the sources and inline.h; with --check, only reports whether it is up to date.
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
--check) "$cbindgen" --quiet --config "$config" --verify --output ../include/rangekeeper.h . ;;
*) "$cbindgen" --quiet --config "$config" --output ../include/rangekeeper.h . ;;
esac
