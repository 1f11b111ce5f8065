#!/bin/bash
# Writes a software bill of materials in CycloneDX's JSON: the crates in the library in C and Rust's standard library,
# and with a PROGRAM of Go its modules, too, since the library is translated into it. Macros run in the compiler and are
# not in it.
#
#   release/sbom.sh FILE [PROGRAM]
set -euo pipefail
file=$(realpath -m "${1:?usage: release/sbom.sh FILE [PROGRAM]}")
program=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
. release/release.sh
spec=1.5
work=$(mktemp -d)
trap 'rm -rf "$work"; rm -f -- */"$name.json" */*/"$name.json"' EXIT
# cargo cyclonedx writes beside each crate's manifest, and names crates of the checkout by their folders.
name=.sbom-$$
target=x86_64-unknown-linux-gnu
[[ -z $program ]] || target=wasm32-unknown-unknown
cargo cyclonedx -q --manifest-path ffi/Cargo.toml --format json --spec-version "$spec" --target "$target" --no-build-deps --override-filename "$name"
linked=$("${CARGO:-cargo}" tree --locked -p rangekeeper-ffi -e normal,no-proc-macro --prefix none --target "$target" -f '{p}' | awk '{print $1 "@" substr($2, 2)}')
jq --arg linked "$linked" --arg rust "$(rustc --version | cut -d ' ' -f 2)" '
	($linked | split("\n")) as $linked
	| ([.components[] | select("\(.name)@\(.version)" | IN($linked[]) | not)["bom-ref"]]) as $macros
	| {"bom-ref": "pkg:generic/rust-std@\($rust)", type: "library", name: "rust-std", version: $rust, purl: "pkg:generic/rust-std@\($rust)",
		licenses: [{expression: "MIT OR Apache-2.0"}]} as $std
	| .components |= map(select(.["bom-ref"] | IN($macros[]) | not)) + [$std]
	| .dependencies |= map(select(.ref | IN($macros[]) | not) | if .dependsOn then .dependsOn -= $macros else . end)
	| .metadata.component["bom-ref"] as $top
	| (.dependencies[] | select(.ref == $top)).dependsOn += [$std["bom-ref"]]
	| walk(if type == "string" then gsub("path\\+file://[^ \"]*/(?<crate>core|bootstrap|ffi)#"; "path+file:\(.crate)#") else . end)' "ffi/$name.json" >"$work/rust.json"

if [[ -z $program ]]; then
	cp "$work/rust.json" "$file"
	exit
fi
(cd release && "${GO:-go}" tool cyclonedx-gomod bin -json -licenses -assert-licenses -noserial -notimestamp -output-version "$spec" -version "v$version" "$program") >"$work/go.json" 2>"$work/log" ||
	{ cat "$work/log" >&2; exit 1; }
# The modules of the checkout are named by their paths there; they have the version of the program. The binding depends
# on the crate that it is translated from.
jq --slurpfile rust "$work/rust.json" --arg version "v$version" \
	--arg go "$("${GO:-go}" version "$program" | sed 's/.*: go//')" --arg path github.com/rangekeeper/rangekeeper '
	def released: gsub("pkg:golang/\\.\\./(?<folder>[a-z/-]+)@\\(devel\\)"; "pkg:golang/" + $path + "/\(.folder)@" + $version);
	($rust[0].metadata.component | del(.components)) as $crate
	| {"bom-ref": "pkg:golang/std@\($go)", type: "library", name: "std", version: $go, purl: "pkg:golang/std@\($go)",
		licenses: [{license: {id: "BSD-3-Clause"}}]} as $std
	| walk(if type == "string" then released else . end)
	| (.components[] | select(.name | startswith("../"))) |= (.name |= sub("^\\.\\."; $path) | .version = $version)
	| .metadata.timestamp = $rust[0].metadata.timestamp
	| .metadata.tools |= map({vendor, name, version}) + $rust[0].metadata.tools
	| .components += [$std, $crate] + $rust[0].components
	| .dependencies[0].dependsOn += [$std["bom-ref"]]
	| (.dependencies[] | select(.ref | contains($path + "/go-bindings@"))).dependsOn += [$crate["bom-ref"]]
	| .dependencies += $rust[0].dependencies
' "$work/go.json" >"$file"
