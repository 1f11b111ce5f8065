#!/bin/bash
# Writes the licences and notices of what others have written and a release contains: the crates in the library in C and
# Rust's standard library, and with a PROGRAM of Go its modules and Go's standard library, too.
#
#   release/notices.sh FILE [PROGRAM]
set -euo pipefail
file=$(realpath -m "${1:?usage: release/notices.sh FILE [PROGRAM]}")
program=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
export LC_ALL=C

# part NAME FOLDER [LICENCE] prints the files of a folder that a licence asks to keep, or else the name of the licence.
part() {
	local found=() text
	mapfile -t found < <(find "$2" -maxdepth 1 -type f -iregex '.*/\(licen[cs]e\|copying\|copyright\|notice\|unlicense\|patents\)[^/]*' ! -name '*.go' ! -name '*.html' | sort)
	printf '\n======================================================================\n%s\n' "$1"
	[[ -z ${3:-} ]] || printf 'Licence: %s\n' "$3"
	for text in "${found[@]}"; do
		printf -- '---------------------------------------------------------- %s\n' "${text##*/}"
		tr -d '\r' <"$text"
	done
	if [[ ${#found[@]} == 0 && -z ${3:-} ]]; then
		echo "notices.sh: $1 has no file with its licence" >&2
		return 1
	fi
}

crates() {
	local names
	names=$(for target in x86_64-unknown-linux-gnu wasm32-unknown-unknown; do
		"${CARGO:-cargo}" tree --locked -p rangekeeper-ffi -e normal,no-proc-macro --prefix none --target "$target" -f '{p}'
	done | sed -n 's/^\([^ ]*\) v\([^ ]*\).*/\1 \2/p' | sort -u)
	while read -r name version manifest license; do
		part "crate $name $version" "${manifest%/*}" "$license"
	done < <("${CARGO:-cargo}" metadata --locked --format-version 1 |
		jq -r '.packages[] | select(.source != null) | "\(.name) \(.version) \(.manifest_path) \(.license)"' | sort |
		awk 'NR == FNR {wanted[$1 " " $2]; next} ($1 " " $2) in wanted' <(echo "$names") -)
}

{
	echo "Rangekeeper contains code by others, with these licences and notices."
	crates
	licenses=$(rustc --print sysroot)/share/doc/rust/licenses
	printf '\n======================================================================\n%s\n' "Rust's standard library: MIT OR Apache-2.0, with parts of LLVM: Apache-2.0 WITH LLVM-exception"
	cat "$licenses/MIT.txt" "$licenses/LLVM-exception.txt"
	if [[ -n $program ]]; then
		part "Go's standard library" "$("${GO:-go}" env GOROOT)"
		(cd controlplane && "${GO:-go}" version -m "$program" | awk '$1 == "dep" {print $2 " " $3}' | while read -r path version; do
			[[ $path != github.com/rangekeeper/* ]] || continue
			part "Go module $path $version" "$("${GO:-go}" list -m -f '{{.Dir}}' "$path")"
		done)
	fi
} >"$file.new"
mv "$file.new" "$file"
