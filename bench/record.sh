#!/bin/bash
# Runs a measurement, and records what it prints in bench/record/DATE-MEASUREMENT.txt, with the commit, the machine and
# the versions.
#
#   bench/record.sh MEASUREMENT
#   MEASUREMENT is a target of the Makefile: compare, compare-backends, compare-store, ...
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:?usage: bench/record.sh MEASUREMENT, such as compare}
measurements="compare compare-backends compare-store compare-apiserver compare-growth measure-audit measure-snapshot"
[[ " $measurements " == *" $what "* ]] || { echo "record: $what is no measurement: expected one of $measurements" >&2; exit 2; }
[[ -z $(git status --porcelain) ]] || { echo "record: the tree has changes that no commit has; commit them first" >&2; exit 1; }
version() { sed -n "s/^\t\(require \)\{0,1\}${1//\//\\/} v\([^ ]*\).*/\2/p" "$2" | head -n 1; }
output=$(mktemp)
trap 'rm -f "$output"' EXIT
load=$(cut -d ' ' -f 1 /proc/loadavg)
make --silent --no-print-directory "$what" | tee "$output"
mkdir -p bench/record
file=bench/record/$(date -u +%F)-$what.txt
{
	echo "make $what, $(date -u +%F), commit $(git rev-parse --short=12 HEAD)"
	echo "CPU: $(nproc) of $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1); $(uname -sr), $(uname -m); load before it $load"
	echo "$(rustc --version); $(go version | cut -d ' ' -f 3); etcd $(version go.etcd.io/etcd/server/v3 controlplane/go.mod), Kubernetes $(version k8s.io/kubernetes kube-apiserver/compare/go.mod)"
	echo
	sed '/: built in [0-9]* s$/d; /: copying its source code$/d' "$output"
} >"$file"
echo "recorded in $file" >&2
