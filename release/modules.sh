#!/bin/bash
# Fills OUT/proxy, a module proxy in a folder, with the Go modules for programs outside of the checkout. OUT/lib has the
# libraries in C, which release/native.sh builds. The same commit has the same bytes, in whatever folder it is built.
#
#   release/modules.sh OUT
set -euo pipefail
out=$(realpath -m "${1:?usage: release/modules.sh OUT}")
cd "$(dirname "$0")/.."
go-bindings/purego.sh
root=$PWD
cd release
"${GO:-go}" run ./modules "$root" "$out"
