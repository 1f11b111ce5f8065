#!/bin/bash
# Builds etcd-rs and checks it against a real etcd, alone and beside a Go store on the same key.
set -euo pipefail
cd "$(dirname "$0")/../.."
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make --silent examples-rust
check=$PWD/examples/etcd-rs/check.go
cd controlplane
$go vet "$check"
$go build -o "$work/check" "$check"
"$work/check" ../target/debug/etcd-rs make --silent -C .. examples-rust-tests TESTS=store
