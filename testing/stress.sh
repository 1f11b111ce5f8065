#!/bin/bash
# Runs the Go tests that start servers, each program RUNS (20) times beside a busy loop on each processor, three at a
# time, to find tests that fail without a fault. Prints each failure and the file with its output.
#
#   testing/stress.sh [RUNS [MODULE/PACKAGE...]]    such as: testing/stress.sh 20 controlplane/e2e
#   TESTS='^TestKine$'                              runs only these
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-20}
shift || true
packages=("$@")
if [[ ! $runs =~ ^[1-9][0-9]*$ ]]; then
	echo "testing/stress.sh: RUNS is $runs, expected a whole number above 0" >&2
	exit 2
fi
if ((${#packages[@]} == 0)); then
	# Those of etcdstore are run in an etcd that is not theirs.
	mapfile -t packages < <(git grep -lE 'internal/(apiservertest|etcdtest|child|cli/clitest)"|/embedded"|localcluster"|etcd3/testing"|etcd/client/v3"' \
		-- '*_test.go' ':!go-bindings' ':!kube-apiserver/*/overlay' | xargs -n 1 dirname | sort -u)
fi
out=$PWD/target/stress
rm -rf "$out"
mkdir -p "$out"

for package in "${packages[@]}"; do
	program=$out/${package//\//-}.test
	.ci/patiently.sh "$package" "${GO:-go}" -C "$package" test -c -vet=off -o "$program" .
	[[ -e $program ]] || { echo "testing/stress.sh: $package has no tests" >&2; exit 2; }
done

busy=()
for ((i = 0; i < $(nproc); i++)); do
	while :; do :; done &
	busy+=($!)
done
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT

# Runs the tests of a package once.
once() { # PACKAGE RUN
	local name=${1//\//-}
	local log=$out/$name.$2
	if (cd "$1" && "$out/$name.test" -test.timeout 30m -test.run "${TESTS:-.}") >"$log" 2>&1 </dev/null; then
		if grep -qx 'testing: warning: no tests to run' "$log"; then
			printf 'FAILED  %s has no tests %s\n' "$1" "$TESTS"
			return
		fi
		rm "$log"
	else
		printf 'FAILED  %s, run %d: %s\n' "$1" "$2" "$log"
		grep -A 12 -E '^ *--- FAIL|^panic:' "$log" | tail -n 40
	fi
}
export -f once
export out
for ((run = 1; run <= runs; run++)); do
	for package in "${packages[@]}"; do printf '%s %d\n' "$package" "$run"; done
done | xargs -P 3 -L 1 bash -c 'once "$@"' -

failed=$(find "$out" -type f ! -name '*.test' | wc -l)
echo "$((runs * ${#packages[@]})) runs of ${#packages[@]} packages: $failed failed"
((failed == 0))
