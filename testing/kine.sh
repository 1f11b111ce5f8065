#!/bin/bash
# Builds kine, the store of k3s, as bin/kine: for the tests of its SQLite database and of its refusals.
set -euo pipefail
cd "$(dirname "$0")/.."
# In a folder of its own, and then at once, as a test may run another make's.
mkdir -p bin
work=$(mktemp -d bin/kine.XXXXXX)
trap 'rm -rf "$work"' EXIT
[[ ! -e bin/kine ]] || cp -p bin/kine "$work" # Go does not link it again if it is up to date
GOBIN=$PWD/$work CGO_ENABLED=0 "${GO:-go}" install github.com/k3s-io/kine@v0.17.5
mv "$work/kine" bin/kine
