#!/bin/bash
# Builds and runs the example programs, compares what they print with what it must be, and checks that README.md
# shows them, and the audit, as they are. Expectations come from the tables that the reference's own packages wrote
# (testing/testdata/reference), from a value that a kube-apiserver wrote, or are worked out by hand; never from our own
# output.
set -euo pipefail
cd "$(dirname "$0")/.."
cc=${CC:-cc}
cargo=${CARGO:-cargo}
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
.ci/setup.sh

same() { # NAME EXPECTED FOUND: compares two files
	if cmp -s "$2" "$3"; then
		echo "ok      $1"
	else
		failed=1
		echo "FAILED  $1"
		diff -u "$2" "$3" || true
	fi
}

# What the reference stores in the row of this name, as base64.
reference() { # FIELD NAME
	sed -n "s/.*\"name\":\"$2\",.*\"$1\":\"\([^\"]*\)\".*/\1/p" testing/testdata/reference/envelopes.json
}

# Rust: of three Services one is not recorded and one is its duplicate; 10.96.0.7 has no Service. That leaves the first
# and the tenth address.
first_and_tenth=$(reference data "first and tenth address" | base64 -d | od -An -v -tx1 | tr -s ' ' ',' | sed 's/^,//; s/,/, /g')
cat >"$work/rust-expected" <<-EXPECTED
	ClusterIPNotAllocated dns 10.96.0.10
	ClusterIPAlreadyAllocated copy-of-dns 10.96.0.10
	set 10.96.0.10
	clear 10.96.0.7
	data to store: [$first_and_tenth]
EXPECTED
# Built as the tests in Rust are, which build all examples, too.
make --silent examples-rust >&2
target/debug/examples/repair >"$work/rust-output"
# The messages for people are not compared, only the address that they name.
sed -E 's/^(\w+ [a-z-]+): ClusterIP ([0-9.]+) .*/\1 \2/' "$work/rust-output" >"$work/rust-found"
same "rust/repair.rs" "$work/rust-expected" "$work/rust-found"

# Rust: worked out by hand. 4789 is far above, the first /28 is excluded, and a /26 begins at a multiple of 64.
target/debug/examples/vnis >"$work/vnis-found"
cat >"$work/vnis-expected" <<-EXPECTED
	VNI 4096
	VNI 4097
	VNI 4096
	1 released
	small: 1 from 10.0.0.16/28
	large: 4 from 10.0.0.64/28
	small is gone and has 10.0.0.16/28
EXPECTED
same "rust/vnis.rs" "$work/vnis-expected" "$work/vnis-found"

# JavaScript, with the npm package: four programs at once give 200 owners the lowest VNIs, but for 4789 of a pool that
# begins a little below it.
release/npm.sh "$work/npm"
js=$work/js
mkdir -p "$js/node_modules/rangekeeper" "$js/vnis"
tar -xzf "$work/npm"/rangekeeper-*.tgz -C "$js/node_modules/rangekeeper" --strip-components=1
sed 's/4096-/4700-/' examples/js/vnis.js >"$js/vnis.mjs"
programs=()
for program in 1 2 3 4; do
	owners=()
	for owner in {1..50}; do owners+=("$program/$owner"); done
	node "$js/vnis.mjs" "$js/vnis" "${owners[@]}" >"$js/found-$program" &
	programs+=($!)
done
for program in "${programs[@]}"; do wait "$program"; done
seq 4700 4900 | grep -vx 4789 >"$work/js-expected"
cut -d ' ' -f 2 "$js"/found-* | sort -n >"$work/js-found"
same "js/vnis.js" "$work/js-expected" "$work/js-found"

# Threads of a program have one pid, as have programs of several containers. A program ends with an error if one of its
# threads does.
cat >"$js/threads.mjs" <<'THREADS'
import { once } from "node:events";
import { Worker } from "node:worker_threads";

for (let round = 1; round <= 5; round++) {
  const threads = [1, 2, 3, 4].map((i) => new Worker("./vnis.mjs", { argv: ["threads", `${round}/${i}`] }));
  await Promise.all(threads.map((thread) => once(thread, "exit")));
}
THREADS
mkdir "$js/threads"
(cd "$js" && node threads.mjs 2>&1 || true) | cut -d ' ' -f 2 | sort -n >"$work/threads-found"
seq 4700 4719 >"$work/threads-expected"
same "js/vnis.js in threads" "$work/threads-expected" "$work/threads-found"

# A file that is empty or cut off is no new ledger.
mkdir "$js/damaged"
node "$js/vnis.mjs" "$js/damaged" early >/dev/null
for size in 0 20; do
	head -c "$size" "$js/damaged/1" >"$js/damaged/2"
	(cd "$js" && node vnis.mjs damaged late 2>&1 || true) | sed -nE 's/^(late|Error:) (\S+).*/\1 \2/p'
done >"$work/damaged-found"
printf 'Error: damaged/2:\nError: damaged/2:\n' >"$work/damaged-expected"
same "js/vnis.js with a damaged file" "$work/damaged-expected" "$work/damaged-found"

# C: the first address stays allocated, as in the reference's row "lowest bit".
prefix=$PWD/target/examples/prefix
mkdir -p target/examples
exec {lock}>target/examples/lock # until the last program has used the folder
flock "$lock"
rm -rf "$prefix"
make --silent install PREFIX="$prefix" >&2
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# pkg-config gives several words.
# shellcheck disable=SC2046
$cc -std=c11 -Wall -Wextra -Werror -pedantic $(pkg-config --cflags rangekeeper) -o "$work/allocate" \
	examples/c/allocate.c $(pkg-config --libs rangekeeper)
LD_LIBRARY_PATH=$prefix/lib "$work/allocate" >"$work/c-found"
{
	echo "next: 10.96.0.1"
	echo "stored: $(reference protobuf "lowest bit" | base64 -d | od -An -v -tx1 | tr -d ' \n')"
} >"$work/c-expected"
same "c/allocate.c" "$work/c-expected" "$work/c-found"

# Go, in pure Go, with the static library and with the installed shared one: in a real cluster's value of 10.96.0.0/12
# exactly one bit changes, from 0 to 1: that of the address printed, and it lies above the static band, whose 256
# offsets a /12 spares. Behind the bitmap stand four more bytes. Go's cache keeps the folder that pkg-config named with
# the compiled package, so it is the same one in each run, and without -trimpath no other checkout shares the package.
gunzip -c testing/testdata/kube-1.32-dual-stack/clean-serviceips.bin.gz >"$work/before"
size=$(stat -c %s "$work/before")
for tags in "" rangekeeper_native rangekeeper_dynamic; do
	flags=${GOFLAGS:-}
	if [[ $tags == rangekeeper_dynamic ]]; then flags+=" -trimpath=false"; fi
	if ! (cd examples/go && GOFLAGS=$flags LD_LIBRARY_PATH=$prefix/lib $go run -tags "$tags" . \
		<"$work/before" >"$work/after" 2>"$work/go-found"); then
		cat "$work/go-found" >&2
		exit 1
	fi
	read -r position old new < <(cmp -l "$work/before" "$work/after") || true
	changed=$((8#${old:-0} ^ 8#${new:-0}))
	bit=0
	while ((changed >> bit > 1)); do bit=$((bit + 1)); done
	offset=$(((size - 4 - ${position:-0}) * 8 + bit))
	if (($(cmp -l "$work/before" "$work/after" | wc -l) == 1 && changed == 1 << bit && (8#$new & changed) && offset >= 256)); then
		address=$((0x0a600001 + offset))
		echo "$((address >> 24)).$((address >> 16 & 255)).$((address >> 8 & 255)).$((address & 255))" >"$work/go-expected"
	else
		echo "one more bit above offset 255, not byte ${position:-none} from ${old:-none} to ${new:-none}" >"$work/go-expected"
	fi
	same "go/main.go${tags:+ -tags $tags}" "$work/go-expected" "$work/go-found"
done
exec {lock}>&-

# Most of the core as Go source are the bootstrap controller and ledgers, which few programs need.
(cd examples/go && $go build -o "$work/allocates" .)
for module in bootstrap ledger; do
	$go tool nm "$work/allocates" | grep -c "wasm/$module.*Module).fn" | awk '{ print ($1 < 100) ? "no" : "yes" }' >"$work/$module-found"
	echo no >"$work/$module-expected"
	same "go/main.go: has it the code of the module $module" "$work/$module-expected" "$work/$module-found"
done

# These check themselves.
examples/etcd-rs/run.sh || failed=1
examples/axum-rs/run.sh || failed=1
examples/ledger-rs/run.sh || failed=1
examples/go-operator/run.sh || failed=1
# A minute and a half of compilers for the crate kube, which nothing else here needs.
if [[ -n ${RANGEKEEPER_NIGHTLY:-} ]]; then
	examples/bootstrap-rs/run.sh || failed=1
else
	echo "left    bootstrap-rs: examples/bootstrap-rs/run.sh plays it, and make nightly"
fi

# README.md: its only block of each language is a part of the example.
for example in rust:examples/rust/repair.rs c:examples/c/allocate.c go:go-bindings/etcdstore/example_test.go; do
	shown=$(awk -v fence='```'"${example%%:*}" '$0 == "```" { inside = 0 } inside; $0 == fence { inside = 1 }' README.md)
	if [[ -n $shown && $(<"${example#*:}") == *"$shown"* ]]; then
		echo "ok      README.md shows a part of ${example#*:}"
	else
		echo "FAILED  README.md shows what is not in ${example#*:}:"
		echo "$shown"
		failed=1
	fi
done

# README.md: each line of the audit stands in the command's output.
make --silent build >&2
prompt='    $ bin/rangekeeper audit '
arguments=$(sed -n "s|^$prompt||p" README.md)
# Its arguments are several words; exit code 1 says that something was found.
# shellcheck disable=SC2086
bin/rangekeeper audit $arguments >"$work/audit" || [ $? -eq 1 ]
awk -v prompt="$prompt" 'index($0, prompt) == 1 { inside = 1; next } inside && /^[^ ]/ { exit } inside' README.md |
	sed -n 's/^    //p' | grep -vxF '[...]' >"$work/shown"
grep -xFf "$work/shown" "$work/audit" | grep . >"$work/printed" || true
same "README.md shows the audit" "$work/printed" "$work/shown"
exit $failed
