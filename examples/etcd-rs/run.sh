#!/bin/bash
# Builds etcd-rs and checks it against a real etcd, alone and beside a Go store on the same key.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
go=${GO:-go}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# All examples, so that cargo compiles their dependencies once.
$cargo build --quiet --locked
test=("$cargo" test --quiet --locked --test store --manifest-path "$PWD/Cargo.toml")
"${test[@]}" --no-run
check=$PWD/etcd-rs/check.go
cd ../controlplane
$go vet "$check"
$go build -o "$work/check" "$check"
"$work/check" "$target/debug/etcd-rs" "${test[@]}" -- --include-ignored
