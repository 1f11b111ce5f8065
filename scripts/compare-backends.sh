#!/bin/bash
# Runs the benchmarks of the Go binding with both back ends in turn, and prints the medians of five runs in nanoseconds.
set -euo pipefail
cd "$(dirname "$0")/../go-bindings"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for tag in rangekeeper_native rangekeeper_purego; do "${GO:-go}" test -c -tags "$tag" -o "$out/$tag" .; done
for _ in 1 2 3 4 5; do
	for tag in rangekeeper_native rangekeeper_purego; do
		"$out/$tag" -test.run '^$' -test.bench "${1:-.}" -test.benchtime 0.2s |
			awk -v tag="$tag" '/ns\/op/ { for (i = 3; i <= NF; i++) if ($i == "ns/op") print $1, tag, $(i - 1) }' >> "$out/times"
	done
done
sort -k1,2 -k3,3g "$out/times" | awk '
	{ count[$1, $2]++; time[$1, $2, count[$1, $2]] = $3; if (!seen[$1]++) names[++n] = $1 }
	END {
		printf "%-55s %14s %14s %6s\n", "", "native", "pure Go", "ratio"
		for (i = 1; i <= n; i++) {
			native = time[names[i], "rangekeeper_native", 3]; pure = time[names[i], "rangekeeper_purego", 3]
			printf "%-55s %14.1f %14.1f %6.2f\n", names[i], native, pure, pure / native
		}
	}'
