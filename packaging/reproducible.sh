#!/bin/bash
# Builds the release in DIST (dist) again, from a clone in another folder and with an empty cache of Go, and compares all bytes. With
# platforms, a short form: only programs for those are built again, with Go's cache as it is.
#
#   packaging/reproducible.sh [DIST [OS/ARCHITECTURE...]]
set -euo pipefail
dist=$(realpath "${1:-$(dirname "$0")/../dist}")
cd "$(dirname "$0")/.."
[[ -e $dist/checksums.txt ]] || { echo "reproducible.sh: $dist has no release: run \`make dist\` first" >&2; exit 1; }
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
git clone --quiet --no-local . "$work/another folder"
cd "$work/another folder"
[[ $# -gt 1 ]] || export GOCACHE=$work/cache
packaging/dist.sh "$work/release" "${@:2}"
# With fewer programs the manifest of the plugin is another one.
other=0
[[ $# -lt 2 ]] || other=' rangekeeper.yaml$'
compared=$(grep -c -v "$other" "$work/release/checksums.txt")
if grep -v "$other" "$work/release/checksums.txt" | grep -v -x -F -f "$dist/checksums.txt"; then
	echo "reproducible.sh: these files have other bytes in $dist" >&2
	exit 1
fi
echo "reproducible: $compared files have the same bytes"
