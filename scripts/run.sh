#!/bin/bash
# The main job on real input: a damaged cluster's etcd snapshot is repaired and audited again. What is left is what only
# the owners of Services can mend.
set -euo pipefail
cd "$(dirname "$0")/.."
rangekeeper=bin/rangekeeper
damaged=testdata/kube-1.32-dual-stack/drift.db.gz
mkdir -p target
rm -f target/repaired.db

say() { printf '\n== %s\n' "$*"; }

# Findings are what this run is about, so exit code 1 is expected; anything above is a failure.
findings_expected() {
	local status=0
	"$@" || status=$?
	[ "$status" -le 1 ] || exit "$status"
}

say "What is wrong in $damaged, and its repair into target/repaired.db"
findings_expected $rangekeeper repair --etcd-snapshot $damaged --output target/repaired.db

say "The occupancy map of the damaged cluster: target/occupancy.svg"
findings_expected $rangekeeper audit --etcd-snapshot $damaged -o svg >target/occupancy.svg

say "target/repaired.db audited: only what an owner must mend is left"
findings_expected $rangekeeper audit --etcd-snapshot target/repaired.db
