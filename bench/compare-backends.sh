#!/bin/bash
# Runs the benchmarks of the Go binding with both back ends in turn, and prints the medians of five runs in nanoseconds.
set -euo pipefail
cd "$(dirname "$0")/../go-bindings"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"${GO:-go}" test -c -tags rangekeeper_native -o "$out/native" .
"${GO:-go}" test -c -o "$out/pure" .
for _ in 1 2 3 4 5; do
	for name in native pure; do
		"$out/$name" -test.run '^$' -test.bench "${1:-.}" -test.benchtime 0.5s |
			awk -v name="$name" '/ns\/op/ { for (i = 3; i <= NF; i++) if ($i == "ns/op") print $1, name, $(i - 1) }' >> "$out/times"
	done
done
sort -k1,2 -k3,3g "$out/times" | awk '
	{ count[$1, $2]++; time[$1, $2, count[$1, $2]] = $3; if (!seen[$1]++) names[++n] = $1 }
	END {
		printf "%-55s %14s %14s %6s\n", "", "native", "pure Go", "ratio"
		for (i = 1; i <= n; i++) {
			native = time[names[i], "native", 3]; pure = time[names[i], "pure", 3]
			printf "%-55s %14.1f %14.1f %6.2f\n", names[i], native, pure, pure / native
		}
	}'
