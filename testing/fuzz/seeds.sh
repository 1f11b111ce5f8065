#!/bin/bash
# Fills corpus/ with seeds made from testing/testdata/: stored objects of real clusters, and the inputs of the tables
# that the reference's own packages wrote; and from the examples of docs/bootstrap-json.md. Targets that take operation
# sequences begin with nothing.
set -euo pipefail
cd "$(dirname "$0")"
testdata=../testdata

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir -p "$made"/{address,bootstrap_plan,range_allocation_json,range_allocation_protobuf,range_allocation_yaml,lease,ranges,snapshot}

for packed in "$testdata"/kube-*/*.bin.gz; do
	name=$(basename "$(dirname "$packed")")-$(basename "$packed" .bin.gz)
	gunzip -c "$packed" >"$made/range_allocation_protobuf/$name"
done

# column TABLE NAME: the column's texts, one per line; those with escapes are left out.
column() { sed -n "s/.*\"$2\":\"\([^\"\\\\]*\)\".*/\1/p" "$testdata/reference/$1.json"; }

line=0
while read -r value; do
	line=$((line + 1))
	base64 -d <<<"$value" >"$made/range_allocation_protobuf/reference-$line"
done < <(column envelopes protobuf)
line=0
while read -r value; do
	line=$((line + 1))
	base64 -d <<<"$value" >"$made/range_allocation_json/reference-$line"
done < <(column envelopes json)
line=0
while read -r value; do
	line=$((line + 1))
	base64 -d <<<"$value" >"$made/range_allocation_yaml/reference-$line"
done < <(column envelopes yaml)

line=0
while IFS= read -r value; do
	line=$((line + 1))
	printf '%s' "$value" >"$made/address/reference-$line"
done < <(column ips input)
line=0
while IFS= read -r value; do
	line=$((line + 1))
	printf '%s' "$value" >"$made/ranges/reference-$line"
done < <(column cidrs input && column ports input)

# A range's length in two bytes, what was set before in one, and then a bitmap: the 344 bytes of it that stand before
# the last four bytes of each stored object of ports. They fit 2768 ports, and do not fit 1000.
for packed in "$testdata"/kube-*/*-servicenodeports.bin.gz; do
	name=$(basename "$(dirname "$packed")")-$(basename "$packed" .bin.gz)
	{ printf '\012\320\125' && gunzip -c "$packed" | tail -c 348 | head -c 344; } >"$made/snapshot/$name"
	{ printf '\003\350\125' && gunzip -c "$packed" | tail -c 348 | head -c 344; } >"$made/snapshot/$name-past"
done

# The questions of the document, and the leases in its examples, whose values begin with k8s and a zero byte.
awk -v folder="$made/bootstrap_plan" '
	$0 == "```" { file = "" }
	file != "" { print > file }
	$0 == "```json Question" { file = folder "/document-" ++n; printf "" > file }' ../../docs/bootstrap-json.md
line=0
while read -r value; do
	line=$((line + 1))
	base64 -d <<<"$value" >"$made/lease/document-$line"
done < <(grep -o '"value": "azhz[^"]*"' ../../docs/bootstrap-json.md | cut -d '"' -f 4 | sort -u)
printf '%s' '{"kind":"Endpoints","metadata":{"generation":7},"subsets":[{"addresses":[{"ip":"10.0.0.1"}]}]}' >"$made/lease/json"
printf 'apiVersion: v1\nkind: Endpoints\nmetadata:\n  generation: 7\nsubsets:\n- addresses:\n  - ip: 10.0.0.1\n' >"$made/lease/yaml"

# At once, and only what is new: a fuzzer, or a test of another make, may read the folder.
(cd "$made" && find . -type f) | while read -r file; do
	! cmp -s "$made/$file" "corpus/$file" || continue
	mkdir -p "corpus/$(dirname "$file")"
	cp "$made/$file" "corpus/.new.$$"
	mv "corpus/.new.$$" "corpus/$file"
done
