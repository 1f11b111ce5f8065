#!/bin/bash
# Checks what a release depends on: licences and sources of the crates, and known vulnerabilities in crates and in the
# Go functions that are called. The databases of vulnerabilities are read over the network (GOVULNDB names another one
# for Go). Where one cannot be reached, the answer is unknown, and said to be so.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

cargo deny --log-level error check licenses bans sources

# answer NAME CODE UNREACHED prints the answer of a check of vulnerabilities, whose output is in the log.
answer() {
	if [[ $2 == 0 ]]; then
		echo "$1: no known vulnerability"
	elif grep -q -E "$3" "$log"; then
		echo "$1: unknown, the database cannot be reached: $(grep -m 1 -E "$3" "$log")"
	else
		echo "$1: FAILED"
		cat "$log"
		failed=1
	fi
}
code=0
cargo deny --log-level error check advisories >"$log" 2>&1 || code=$?
answer "crates" "$code" 'failed to fetch advisory database'
# The other Go modules that programs use are part of this one.
code=0
(cd release && "${GO:-go}" tool govulncheck ${GOVULNDB:+-db "$GOVULNDB"} -C ../controlplane ./...) >"$log" 2>&1 || code=$?
answer "Go modules" "$code" 'fetching vulnerabilities: '
exit $failed
