#!/bin/bash
# Prints the packages of a Go module in which a file is not as the last commit has it, or in a clean checkout those that
# the last commit changed: none where its parent is not there, as in a shallow clone.
#
#   .ci/changed.sh MODULE
set -euo pipefail
cd "$(dirname "$0")/.."
changed() { git diff --name-only "$1" -- "$module" && git ls-files --others --exclude-standard -- "$module"; }
module=${1:?usage: .ci/changed.sh MODULE}
files=$(changed HEAD)
[[ -n $(git status --porcelain) ]] || ! git rev-parse --quiet --verify HEAD~1 >/dev/null || files=$(changed HEAD~1)
for folder in $(sed -n "s#^$module/#./#; s#/[^/]*\.go\$##p" <<<"$files" | sort -u); do
	! compgen -G "$module/$folder/*.go" >/dev/null || echo "$folder"
done
