#!/bin/bash
# Builds the release in DIST (dist) again, from a clone in another folder and with an empty cache of Go, and compares
# all bytes. With platforms, a short form: only programs for those are built again, with Go's cache as it is.
#
#   release/reproducible.sh [DIST [OS/ARCHITECTURE...]]
set -euo pipefail
dist=$(realpath "${1:-$(dirname "$0")/../dist}")
cd "$(dirname "$0")/.."
[[ -e $dist/checksums.txt ]] || { echo "reproducible.sh: $dist has no release: run \`make dist\` first" >&2; exit 1; }
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
git clone --quiet --no-local . "$work/another folder"
cd "$work/another folder"
[[ $# -gt 1 ]] || export GOCACHE=$work/cache
release/dist.sh "$work/release" "${@:2}"
# With fewer programs the manifest of the plugin is another one, and theirs are missing.
expected=$(<"$dist/checksums.txt")
if [[ $# -gt 1 ]]; then
	expected=$(grep -v -E ' rangekeeper.yaml$| (kubectl-)?rangekeeper_v[^/]*_(linux|darwin|windows)_[^/]*$' "$dist/checksums.txt")
	for platform in "${@:2}"; do expected+=$'\n'$(grep -E " (kubectl-)?rangekeeper_v[^/]*_${platform/\//_}\." "$dist/checksums.txt"); done
fi
missing=$(grep -v -x -F -f "$work/release/checksums.txt" <<<"$expected" || true)
if [[ -n $missing ]]; then
	printf 'reproducible.sh: these files of %s are not there or have other bytes when they are built again:\n%s\n' "$dist" "$missing" >&2
	exit 1
fi
echo "reproducible: $(wc -l <<<"$expected") files have the same bytes"
