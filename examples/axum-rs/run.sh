#!/bin/bash
# Builds axum-rs, and plays replicas of it over a real etcd and over SQLite; `rangekeeper audit` judges what they store.
set -euo pipefail
cd "$(dirname "$0")/../.."

make --silent build restored-etcd examples-rust >&2
export RANGEKEEPER=$PWD/bin/rangekeeper
if ! output=$(target/restored-etcd testing/testdata/kube-1.32-dual-stack/clean.db.gz make --silent examples-rust-tests TESTS="axum kv" 2>&1); then
	echo "FAILED  axum-rs"
	echo "$output"
	exit 1
fi
echo "ok      axum-rs: replicas over etcd and SQLite, late writes, histories of other control planes"
