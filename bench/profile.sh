#!/bin/bash
# Records a bench with perf and draws a flame graph of it: bench/profile.sh NAME [FILTER]
# NAME is a file of bench/benches, FILTER a part of the names of its benches. Writes target/profile/NAME.svg.
# Needs perf; installs inferno, which draws, into target/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
inferno=0.12.8
name=${1:-}
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}

if [ ! -e "bench/benches/$name.rs" ]; then
	echo "profile.sh: BENCH is '$name', expected one of: $(basename -s .rs bench/benches/*.rs | paste -sd ' ')" >&2
	exit 2
fi
if ! perf --version >/dev/null 2>&1; then
	echo "profile.sh: perf is missing, or not of this kernel; install it: apt-get install linux-perf (Debian), linux-tools-$(uname -r) (Ubuntu)" >&2
	exit 2
fi
tools=$target/tools/inferno-$inferno
[ -x "$tools/bin/inferno-flamegraph" ] || "$cargo" install --locked --quiet --root "$tools" "inferno@$inferno"

program=$("$cargo" bench --locked -p rangekeeper-bench --bench "$name" --no-run 2>&1 | tee /dev/stderr |
	sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
mkdir -p target/profile
data=$(mktemp)
trap 'rm -f "$data"' EXIT
# Lines are in the debug information, frames in none, so the stack comes from that information, too.
if ! perf record --quiet --output "$data" --freq 997 --call-graph dwarf,16384 -- \
	"$program" --bench --profile-time 5 ${2:+"$2"}; then
	echo "profile.sh: perf cannot record; as root: sysctl kernel.perf_event_paranoid=1" >&2
	exit 1
fi
perf script --input "$data" 2>/dev/null | "$tools/bin/inferno-collapse-perf" |
	"$tools/bin/inferno-flamegraph" --title "$name${2:+, $2}" >"target/profile/$name.svg"
echo "target/profile/$name.svg"
