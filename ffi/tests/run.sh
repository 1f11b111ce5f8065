#!/bin/bash
# Builds the C programs of this folder against the static library and runs each one plain, under AddressSanitizer and
# UndefinedBehaviorSanitizer, and under valgrind; then one beside another static library in Rust, and one against an
# installed copy by pkg-config, with the shared and with the static library. BUILT says where the built libraries are
# (target/release); with PROFILE=test they are those of `make library PROFILE=test`. A program that does not end within
# twenty minutes has failed; on a busy machine valgrind takes some.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
libdir=${BUILT:-$root/target/release}
cc=${CC:-gcc}
flags="-std=c11 -Wall -Wextra -Werror -pedantic -g -O1 -I$root/include"
libs="$libdir/librangekeeper.a -lgcc_s -lutil -lrt -lpthread -lm -ldl"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

step() { # NAME COMMAND...: runs the command and counts how it ended
	local name=$1
	shift
	if timeout 1200 "$@" > "$work/log" 2>&1; then
		passed=$((passed + 1))
		echo "ok      $name"
	else
		failed=$((failed + 1))
		echo "FAILED  $name: $*"
		cat "$work/log"
	fi
}

stored=()
for packed in "$root"/testing/testdata/*/*.bin.gz; do
	file=$work/$(basename "$(dirname "$packed")")-$(basename "$packed" .gz)
	gunzip -c "$packed" > "$file" || exit 1
	stored+=("$file")
done

step "shared library: exports the symbol list and nothing else" sh -c \
	"nm -D --defined-only $libdir/librangekeeper.so | awk '{ print \$3 }' | LC_ALL=C sort | diff - $root/ffi/symbols.txt"
# C++ programs include the header as well.
step "header: is C++" ${CXX:-g++} -std=c++17 -Wall -Wextra -Werror -pedantic -fsyntax-only -x c++ "$root/include/rangekeeper.h"
step "header: a compiler warns of an ignored result" sh -c \
	"printf '#include \"rangekeeper.h\"\nvoid f(rk_allocator *a, rk_value *v) { rk_allocator_allocate(a, v); }\n' |
	$cc -std=c11 -I$root/include -c -o /dev/null -x c - 2>&1 | grep -q warn_unused_result"
for source in "$here"/*.c; do
	name=$(basename "$source" .c)
	arguments=()
	[ "$name" = range_allocation ] && arguments=("${stored[@]}")
	[ "$name" = committer_scripts ] && arguments=("$root"/testing/testdata/commit/*.txt)
	step "$name: build" $cc $flags "$source" -o "$work/$name" $libs
	step "$name: run" "$work/$name" "${arguments[@]}"
	step "$name: build with sanitizers" $cc $flags -fsanitize=address,undefined -fno-sanitize-recover=all "$source" -o "$work/$name-sanitized" $libs
	step "$name: run with sanitizers" "$work/$name-sanitized" "${arguments[@]}"
	# Without --fair-sched, valgrind lets a thread that never waits run for ever, and the others never.
	step "$name: run under valgrind" valgrind --quiet --fair-sched=yes --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect,possible \
		--errors-for-leak-kinds=definite,indirect,possible "$work/$name" "${arguments[@]}"
done

# Only link-time optimisation leaves one object, whose symbols ffi/localise.sh can hide.
if [ "${PROFILE:-release}" = release ]; then
	step "static library: its own object exports the symbol list and nothing else" sh -c \
		"ar p $libdir/librangekeeper.a \$(ar t $libdir/librangekeeper.a | grep '^rangekeeper\.') >$work/own.o &&
		nm -g --defined-only $work/own.o | awk '\$3 !~ /^DW\.ref\./ { print \$3 }' | LC_ALL=C sort | diff - $root/ffi/symbols.txt"
	step "beside Rust: build the other library" "${RUSTC:-rustc}" --edition 2024 --crate-type staticlib -O -o "$work/libsecond.a" "$here/second/second.rs"
	for static in "" -static; do
		ours=$libs
		[ -z "$static" ] || ours=${libs/-lgcc_s/-lgcc_eh}
		for order in "$ours $work/libsecond.a" "$work/libsecond.a $ours"; do
			step "beside Rust: build $static" $cc $flags $static "$here/second/beside.c" -Wl,--start-group $order -Wl,--end-group -o "$work/beside"
			step "beside Rust: run $static" "$work/beside"
			rm -f "$work/beside"
		done
	done
else
	echo "skipped beside Rust: needs the library of make library"
fi

prefix=$work/prefix
step "install" env BUILT="$libdir" "$root/ffi/install.sh" "$prefix"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
step "installed: build, shared" sh -c "$cc -std=c11 -I$here $here/allocator.c -o $work/shared \$(pkg-config --cflags --libs rangekeeper)"
step "installed: run, shared" env LD_LIBRARY_PATH="$prefix/lib" "$work/shared"
step "installed: needs the versioned soname" sh -c "readelf -d $work/shared | grep -q 'NEEDED.*\[librangekeeper\.so\.[0-9]*\]'"
rm -f "$prefix"/lib/*.so*
step "installed: build, static" sh -c "$cc -std=c11 -I$here $here/allocator.c -o $work/static \$(pkg-config --static --cflags --libs rangekeeper)"
step "installed: run, static" "$work/static"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
