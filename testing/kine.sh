#!/bin/bash
# Builds kine, the store of k3s, as bin/kine: for the tests of its SQLite database and of its refusals.
set -euo pipefail
cd "$(dirname "$0")/.."
GOBIN=$PWD/bin CGO_ENABLED=0 exec "${GO:-go}" install github.com/k3s-io/kine@v0.17.5
