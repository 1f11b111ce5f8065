#!/bin/bash
# Runs every fuzz target for SECONDS (60), two at a time: testing/fuzz/run.sh [SECONDS]
# Fails if a target finds a fault, or runs too few inputs to find one.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
floor=1000

if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
	echo "testing/fuzz/run.sh: SECONDS is $seconds, expected a whole number above 0" >&2
	exit 2
fi
missing=()
cargo --version >/dev/null 2>&1 || missing+=("the compiler of testing/fuzz/rust-toolchain.toml: rustup toolchain install, in testing/fuzz")
cargo fuzz --version >/dev/null 2>&1 || missing+=("cargo-fuzz: cargo install --locked cargo-fuzz@0.13.2")
command -v c++ >/dev/null || missing+=("a C++ compiler, for libFuzzer")
if [ ${#missing[@]} -gt 0 ]; then
	printf 'testing/fuzz/run.sh needs %s\n' "${missing[@]}" >&2
	exit 2
fi
echo "$(cargo fuzz --version), $(cargo --version)"

./seeds.sh
# cargo fuzz has no --locked of its own.
cargo metadata --locked --format-version 1 >/dev/null
cargo fuzz build --fuzz-dir .

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# Runs one target and keeps what it says.
run() {
	mkdir -p "corpus/$1"
	cargo fuzz run --fuzz-dir . "$1" -- -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
		>"$logs/$1" 2>&1 && touch "$logs/$1.passed"
}

mapfile -t targets < <(cargo fuzz list --fuzz-dir .)
for target in "${targets[@]}"; do
	while [ "$(jobs -rp | wc -l)" -ge 2 ]; do
		wait -n || true
	done
	run "$target" &
done
wait

failed=0
for target in "${targets[@]}"; do
	executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$target")
	if [ ! -e "$logs/$target.passed" ]; then
		# What went wrong, and the input with the commands that reproduce it; without the stack of the fuzzer.
		grep -m 1 -A 4 -E 'panicked at|ERROR: |error: ' "$logs/$target" || true
		sed -n '/^Failing input:/,/^Stack backtrace/p' "$logs/$target" | head -n 120
		echo "FAILED  $target: see above"
		failed=1
	elif [ "${executions:-0}" -lt $floor ]; then
		echo "FAILED  $target: ${executions:-0} executions, fewer than $floor"
		failed=1
	else
		echo "ok      $target: $executions executions"
	fi
done
exit $failed
