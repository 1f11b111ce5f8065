#!/bin/bash
# Counts the instructions of the hottest operations under callgrind, and compares them with bench/instructions.txt: one
# that has risen by more than 3% fails. Then counts operations with inputs of one size, of twice, and of four times
# that: one whose instructions grow by more than 2.5 from an input to the next fails. Nothing is timed, so a busy
# machine does not matter.
#
#     bench/instructions.sh [--record]
#
# --record writes bench/instructions.txt. INSTRUCTIONS names another program than the one that it builds.
set -euo pipefail
cd "$(dirname "$0")/.."
recorded=bench/instructions.txt

if ! command -v valgrind >/dev/null; then
	echo "instructions.sh: valgrind is missing; install it: apt-get install valgrind" >&2
	exit 2
fi
program=${INSTRUCTIONS:-}
if [ -z "$program" ]; then
	"${CARGO:-cargo}" build --quiet --release --locked -p rangekeeper-bench --bin instructions
	program=${CARGO_TARGET_DIR:-target}/release/instructions
fi
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# count KIND NAME performs an operation, and prints the instructions of each call of `measured`, one per line. The
# program's own output goes to $temporary/times.
count() {
	rm -f "$temporary"/callgrind*
	# Without this the C library would choose how to copy memory by the processor.
	if ! GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-AVX2,-AVX512F,-AVX512VL,-ERMS \
		valgrind --tool=callgrind --toggle-collect=instructions::measured --dump-after=instructions::measured \
		--callgrind-out-file="$temporary/callgrind" "$program" "$1" "$2" >"$temporary/times" 2>"$temporary/log"; then
		cat "$temporary/log" >&2
		return 1
	fi
	# The part after the last call of `measured` has nothing.
	if [ ! -e "$temporary/callgrind.1" ]; then
		echo "instructions.sh: callgrind has not seen a call of instructions::measured for '$2'" >&2
		return 1
	fi
	grep -h '^totals: ' $(ls -v "$temporary"/callgrind.*) | awk '$2 > 0 { print $2 }'
}

# The compiler, the platform and the C library decide what a count can be compared with.
platform=$(rustc -vV | sed -n 's/^release: /rustc /p;s/^host: /target /p' | sort | paste -sd ' ')
platform+=", $(getconf GNU_LIBC_VERSION 2>/dev/null || echo 'another libc')"
header="# Instructions per operation, by bench/instructions.sh: $platform"

"$program" hot >"$temporary/names"
while read -r name <&3; do
	instructions=$(count hot "$name")
	awk -v name="$name" -v times="$(cat "$temporary/times")" '{ printf "%s\t%.0f\n", name, $1 / times }' <<<"$instructions"
done 3<"$temporary/names" >"$temporary/hot"

failed=0
if [ "${1:-}" = --record ]; then
	{ echo "$header" && cat "$temporary/hot"; } >"$recorded"
	awk -F '\t' '{ printf "%-45s %12d\n", $1, $2 }' "$temporary/hot"
elif [ "$(head -n 1 "$recorded")" != "$header" ]; then
	awk -F '\t' '{ printf "%-45s %12d\n", $1, $2 }' "$temporary/hot"
	echo "Not compared with $recorded, which is of$(head -n 1 "$recorded" | cut -d : -f 2-), and this is $platform."
else
	awk -F '\t' '
		FNR == NR { if (!/^#/) before[$1] = $2; next }
		!($1 in before) { printf "%-45s %12d    not recorded\n", $1, $2; failed = 1; next }
		{
			percent = ($2 / before[$1] - 1) * 100
			rises = percent > 3
			printf "%-45s %12d %+7.1f%%%s\n", $1, $2, percent, rises ? "  FAILED: more than 3%" : ""
			failed = failed || rises
			delete before[$1]
		}
		END {
			for (name in before) { printf "%-45s      missing\n", name; failed = 1 }
			exit failed
		}' "$recorded" "$temporary/hot" || failed=1
	if [ $failed = 1 ]; then
		echo "instructions.sh: the counts differ from $recorded. If that is meant: make instructions-record" >&2
	fi
fi

echo
"$program" growth >"$temporary/names"
while read -r name <&3; do
	count growth "$name" | paste -sd '\t' | awk -F '\t' -v name="$name" '
		NF != 3 { printf "%-45s counted %d sizes instead of 3\n", name, NF; exit 1 }
		{
			fails = $2 > 2.5 * $1 || $3 > 2.5 * $2
			printf "%-45s %12d %12d %12d %6.2f %6.2f%s\n", name, $1, $2, $3, $2 / $1, $3 / $2,
				fails ? "  FAILED: twice the input, more than 2.5 times the instructions" : ""
			exit fails
		}' || failed=1
done 3<"$temporary/names"
exit $failed
