#!/bin/bash
# Installs the library into an empty Debian system and builds README's C program there, as a user would: with pkg-config
# and with CMake, against the shared and the static library, and as a fully static program. Every one must print what
# the program of a checkout prints. The library comes from `make install`, and with DIST from the Debian packages and
# from the archive of a release. Needs root and debootstrap; the system goes to the folder ROOT, and is kept there for
# the next run.
#
#   ffi/tests/installed.sh ROOT [DIST]
set -euo pipefail
cd "$(dirname "$0")/../.."
system=${1:?usage: ffi/tests/installed.sh ROOT [DIST]}
dist=${2:-}
suite=bookworm

if [[ ! -e $system/.complete ]]; then
	echo "installed.sh: installing Debian $suite with a C compiler, pkg-config and CMake"
	rm -rf "$system"
	debootstrap --variant=minbase --include=gcc,libc6-dev,pkg-config,cmake,make "$suite" "$system" >"$system.log" 2>&1 ||
		{ tail -n 20 "$system.log" >&2; exit 1; }
	: >"$system/.complete"
fi
work=$system/try
in_system() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive chroot "$system" sh -euc "cd /try; $1"; }
remove() { # an earlier run may have been interrupted
	rm -rf "$work" "$system/usr/local"
	mkdir -p "$work"
	in_system 'dpkg --purge librangekeeper-dev librangekeeper0 rangekeeper >/dev/null 2>&1; ldconfig'
}
remove
expected=$(mktemp)
trap 'rm -f "$expected"' EXIT
${CC:-cc} -Iinclude -o "$work/expected" examples/c/allocate.c target/release/librangekeeper.a -lpthread -lm -ldl
"$work/expected" >"$expected"
[[ -s $expected ]]

sources() {
	cp examples/c/allocate.c "$work"
	cat >"$work/CMakeLists.txt" <<-'CMAKE'
	cmake_minimum_required(VERSION 3.16)
	project(allocate C)
	find_package(rangekeeper 0.1 REQUIRED)
	add_executable(cmake-shared allocate.c)
	target_link_libraries(cmake-shared rangekeeper::rangekeeper)
	add_executable(cmake-static allocate.c)
	target_link_libraries(cmake-static rangekeeper::rangekeeper-static)
	CMAKE
	mkdir "$work/newer"
	printf '%s\n' "cmake_minimum_required(VERSION 3.16)" "project(newer NONE)" "find_package(rangekeeper 0.2 REQUIRED)" >"$work/newer/CMakeLists.txt"
}
same() { # SOURCE PROGRAM...
	local program
	for program in "${@:2}"; do
		in_system "./$program" >"$work/$program.txt"
		cmp "$expected" "$work/$program.txt"
		echo "ok      $1: $program"
	done
}
needs() { readelf -d "$work/$1" | grep -q "NEEDED.*$2"; }
fail() { echo "FAILED  $*"; exit 1; }

# Builds and checks all programs against the library that the system's tools find.
installed() { # SOURCE
	sources
	in_system '
	cc -o shared allocate.c $(pkg-config --cflags --libs rangekeeper)
	cc -static -o fully-static allocate.c $(pkg-config --static --cflags --libs rangekeeper)
	cmake -S . -B build >cmake.log && cmake --build build >>cmake.log || { cat cmake.log; exit 1; }
	mv build/cmake-shared build/cmake-static .
	if cmake -S newer -B newer >/dev/null 2>&1; then echo "FAILED  CMake takes another minor version for compatible"; exit 1; fi
	'
	# The versioned name of the library, and only where it is meant to be.
	for program in shared cmake-shared; do
		needs "$program" '\[librangekeeper\.so\.[0-9]*\]' || fail "$program does not need the versioned library"
	done
	! needs cmake-static librangekeeper || fail "cmake-static needs the shared library"
	! needs fully-static . || fail "fully-static needs a library"
	same "$1" shared fully-static cmake-shared cmake-static
}

# Does the same with a tree in a folder that nobody has configured.
moved() { # SOURCE
	sources
	in_system '
	cmake -S . -B build -DCMAKE_PREFIX_PATH=/try/moved >cmake.log && cmake --build build >>cmake.log || { cat cmake.log; exit 1; }
	mv build/cmake-shared moved-shared
	export PKG_CONFIG_PATH=/try/moved/lib/pkgconfig
	cc -static -o moved-static allocate.c $(pkg-config --define-prefix --static --cflags --libs rangekeeper)
	'
	needs moved-shared '\[librangekeeper\.so\.[0-9]*\]' || fail "moved-shared does not need the versioned library"
	readelf -d "$work/moved-shared" | grep -q '\[/try/moved/lib\]' || fail "moved-shared takes the library from elsewhere"
	same "$1" moved-shared moved-static
	rm "$work"/moved/lib/librangekeeper.so*
	in_system '
	cmake -S . -B static-only -DCMAKE_PREFIX_PATH=/try/moved >cmake.log && cmake --build static-only >>cmake.log || { cat cmake.log; exit 1; }
	mv static-only/cmake-shared static-only-program
	'
	! needs static-only-program librangekeeper || fail "static-only-program needs the shared library"
	same "$1, without the shared library" static-only-program
}

# Debian's linker and loader search /usr/local/lib, after ldconfig. Without the shared library, -lrangekeeper is the
# static one.
DESTDIR=$system ffi/install.sh /usr/local
in_system ldconfig
installed "make install"
mkdir "$system/moved"
cp -r "$system/usr/local/include" "$system/usr/local/lib" "$system/moved"
remove
mv "$system/moved" "$work/moved"
moved "make install, moved"

[[ -n $dist ]] || exit 0
remove
cp "$dist"/librangekeeper*_amd64.deb "$work"
in_system 'dpkg --install ./*.deb >dpkg.log 2>&1 || { cat dpkg.log; exit 1; }'
installed "Debian packages"
in_system 'dpkg --purge librangekeeper-dev librangekeeper0 >dpkg.log 2>&1 || { cat dpkg.log; exit 1; }'
# The command, which needs no other package.
cp "$dist"/rangekeeper_*_amd64.deb "$work/command.deb"
in_system 'dpkg --install command.deb >dpkg.log 2>&1 || { cat dpkg.log; exit 1; }
rangekeeper explain RangeFull | grep -q "^Remedy" && test -e /usr/share/man/man1/rangekeeper-controller.1.gz'
echo "ok      Debian packages: rangekeeper"
in_system 'dpkg --purge rangekeeper >dpkg.log 2>&1 || { cat dpkg.log; exit 1; }'
left=$(find "$system/usr" "$system/etc" -name '*rangekeeper*')
[[ -z $left ]] || fail "the Debian packages leave files behind: $left"
remove
mkdir "$work/moved"
tar -xzf "$dist"/librangekeeper_*_linux_amd64.tar.gz --strip-components=1 -C "$work/moved"
moved "archive"
