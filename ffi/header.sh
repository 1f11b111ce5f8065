#!/bin/sh
# Writes include/rangekeeper.h anew; with --check, only says whether it is up to date.
# Needs cbindgen in exactly this version: cargo install --locked cbindgen@0.29.4
set -eu
cd "$(dirname "$0")"
cbindgen=${CBINDGEN:-cbindgen}
if [ "$("$cbindgen" --version)" != "cbindgen 0.29.4" ]; then
	echo "header.sh: cbindgen 0.29.4 is needed: cargo install --locked cbindgen@0.29.4" >&2
	exit 1
fi
case ${1-} in
--check) exec "$cbindgen" --quiet --config cbindgen.toml --verify --output ../include/rangekeeper.h . ;;
*) exec "$cbindgen" --quiet --config cbindgen.toml --output ../include/rangekeeper.h . ;;
esac
