#!/bin/bash
# Checks that the files exist to which the documents of this repository link.
set -euo pipefail
cd "$(dirname "$0")/.."
dead=0
while IFS=: read -r document link; do
	target=${link#](}
	target=${target%%[#)]*}
	[[ -z $target || $target == *://* || $target == mailto:* || -e $(dirname "$document")/$target ]] && continue
	echo "$document: links to $target, which does not exist"
	dead=1
done < <(git ls-files -s '*.md' | awk '$1 != 120000 { print $4 }' | xargs grep -HoE '\]\([^) ]+[)#]')
exit $dead
