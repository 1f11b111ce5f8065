#!/bin/bash
# Installs the library into an empty Debian system and builds README's C program there, as a user would: with pkg-config and with
# CMake, against the shared and the static library, and as a fully static program. Every one must print what the program of a
# checkout prints. Needs root and debootstrap; the system goes to the folder ROOT, and is kept there for the next run.
#
#   ffi/tests/installed.sh ROOT
set -euo pipefail
cd "$(dirname "$0")/../.."
system=${1:?usage: ffi/tests/installed.sh ROOT}
suite=bookworm

if [[ ! -e $system/.complete ]]; then
	echo "installed.sh: installing Debian $suite with a C compiler, pkg-config and CMake"
	rm -rf "$system"
	debootstrap --variant=minbase --include=gcc,libc6-dev,pkg-config,cmake,make "$suite" "$system" >"$system.log" 2>&1 ||
		{ tail -n 20 "$system.log" >&2; exit 1; }
	: >"$system/.complete"
fi
work=$system/work
rm -rf "$work" "$system/usr/local"
mkdir -p "$work"
DESTDIR=$system ffi/install.sh /usr/local
cp examples/c/allocate.c "$work"
cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(allocate C)
find_package(rangekeeper 0.1 REQUIRED)
add_executable(cmake-shared allocate.c)
target_link_libraries(cmake-shared rangekeeper::rangekeeper)
add_executable(cmake-static allocate.c)
target_link_libraries(cmake-static rangekeeper::rangekeeper-static)
CMAKE

in_system() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$system" sh -euc "cd /work; $1"; }
# Debian's linker and loader search /usr/local/lib, after ldconfig. Without the shared library, -lrangekeeper is the static one.
in_system '
ldconfig
cc -o shared allocate.c $(pkg-config --cflags --libs rangekeeper)
cc -static -o fully-static allocate.c $(pkg-config --static --cflags --libs rangekeeper)
cmake -S . -B build >cmake.log && cmake --build build >>cmake.log || { cat cmake.log; exit 1; }
mv build/cmake-shared build/cmake-static .
mkdir moved && cp -r /usr/local/include /usr/local/lib moved
cmake -S . -B moved-build -DCMAKE_PREFIX_PATH=/work/moved >cmake.log && cmake --build moved-build >>cmake.log || { cat cmake.log; exit 1; }
mv moved-build/cmake-shared moved-shared
mkdir newer && printf "%s\n" "cmake_minimum_required(VERSION 3.16)" "project(newer NONE)" "find_package(rangekeeper 0.2 REQUIRED)" >newer/CMakeLists.txt
if cmake -S newer -B newer >/dev/null 2>&1; then echo "FAILED  CMake takes another minor version for compatible"; exit 1; fi
'
# The versioned name of the library, and only where it is meant to be.
for program in shared cmake-shared moved-shared; do
	readelf -d "$work/$program" | grep -q 'NEEDED.*\[librangekeeper\.so\.[0-9]*\]' || { echo "FAILED  $program does not need the versioned library"; exit 1; }
done
readelf -d "$work/cmake-static" | grep -q librangekeeper && { echo "FAILED  cmake-static needs the shared library"; exit 1; }
readelf -d "$work/fully-static" | grep -q NEEDED && { echo "FAILED  fully-static needs a library"; exit 1; }
readelf -d "$work/moved-shared" | grep -q '\[/work/moved/lib\]' || { echo "FAILED  moved-shared takes the library from elsewhere"; exit 1; }

${CC:-cc} -Iinclude -o "$work/expected" examples/c/allocate.c target/release/librangekeeper.a -lpthread -lm -ldl
"$work/expected" >"$work/expected.txt"
[[ -s $work/expected.txt ]]
for program in shared fully-static cmake-shared cmake-static moved-shared; do
	in_system "./$program" >"$work/$program.txt"
	cmp "$work/expected.txt" "$work/$program.txt"
	echo "ok      $program"
done
