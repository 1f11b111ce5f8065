#!/bin/bash
# What differs from the last commit, or in a clean checkout what the last commit changed: nothing where its parent is
# not there, as in a shallow clone.
#
#   .ci/changed.sh MODULE                prints the packages of a Go module with such a file
#   .ci/changed.sh --beside FOLDER...    fails unless there is such a file beside these folders
set -euo pipefail
cd "$(dirname "$0")/.."
changed() { git diff --name-only "$1" && git ls-files --others --exclude-standard; }
module=${1:?usage: .ci/changed.sh MODULE, or .ci/changed.sh --beside FOLDER...}
files=$(changed HEAD)
[[ -n $files ]] || ! git rev-parse --quiet --verify HEAD~1 >/dev/null || files=$(changed HEAD~1)
if [[ $module == --beside ]]; then
	shift
	folders=$(printf '|%s' "$@")
	grep -qvE "^(${folders#|})/" <<<"$files"
	exit
fi
for folder in $(sed -n "s#^$module/#./#p" <<<"$files" | sed -n 's#/[^/]*\.go$##p' | sort -u); do
	! compgen -G "$module/$folder/*.go" >/dev/null || echo "$folder"
done
