#!/bin/bash
# Builds axum-rs, and plays replicas of it over a real etcd and over SQLite; `rangekeeper audit` judges what they store.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

make --silent -C .. build restored-etcd >&2
# All examples, so that cargo compiles their dependencies once.
$cargo build --quiet --locked
RANGEKEEPER=$(realpath ../bin/rangekeeper)
export RANGEKEEPER
test=("$cargo" test --quiet --locked --test axum --test kv)
"${test[@]}" --no-run
if ! output=$(../target/restored-etcd ../testing/testdata/kube-1.32-dual-stack/clean.db.gz "${test[@]}" -- --include-ignored 2>&1); then
	echo "FAILED  axum-rs"
	echo "$output"
	exit 1
fi
echo "ok      axum-rs: replicas over etcd and SQLite, late writes, histories of other control planes"
