#!/bin/bash
# Builds bootstrap-rs and runs it beside real kube-apiservers, alone and beside a controller in Go.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
go=${GO:-go}

# The newest and the oldest one, unless RELEASES names others.
releases=${RELEASES:-$(echo $(sed -n '1p;$p' controlplane/releases/releases.txt))}
make --no-print-directory apiservers RELEASES="$releases"
$cargo build --quiet --locked -p bootstrap-rs
cd controlplane
export RANGEKEEPER_BOOTSTRAP_RS=$PWD/../target/debug/bootstrap-rs RANGEKEEPER_REQUIRE_APISERVER=$releases
if ! output=$($go test -count=1 -timeout 40m -run '^TestRust' ./bootstrap 2>&1); then
	echo "FAILED  bootstrap-rs"
	echo "$output"
	exit 1
fi
echo "ok      bootstrap-rs"
