#!/bin/bash
# Fills OUT/proxy, a module proxy in a folder, with the Go modules for programs outside of the checkout. OUT/lib has the libraries in C,
# which scripts/dist/native.sh builds. The same commit has the same bytes, in whatever folder it is built.
#
#   scripts/dist/modules.sh OUT
set -euo pipefail
out=$(realpath -m "${1:?usage: scripts/dist/modules.sh OUT}")
cd "$(dirname "$0")/../.."
scripts/purego.sh
root=$PWD
cd scripts/dist/modules
"${GO:-go}" run . "$root" "$out"
