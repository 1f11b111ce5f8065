#!/bin/bash
# Makes the functions of the C ABI the only global symbols of librangekeeper.a's own object: FILE, or a copy of it, TO.
# Rust makes some of its standard library global, too, so that the linker would refuse another static library in Rust
# beside it. Link-time optimisation leaves all of both in one object; the others are the compiler's own functions, which
# are weak.
set -euo pipefail
library=$(realpath "${1:?usage: ffi/localise.sh FILE [TO]}")
to=$(realpath -m "${2:-$library}")
sysroot=$(rustc --print sysroot)
host=$(rustc -vV | sed -n 's/^host: //p')
# rustc's own, which knows all architectures; it is in no rustup component on some systems.
objcopy=$sysroot/lib/rustlib/$host/bin/rust-objcopy
[[ -x $objcopy ]] || objcopy=objcopy
# Beside the result, so that it can be put there at once: another build may read that.
mkdir -p "$(dirname "$to")"
work=$(mktemp -d "$to.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export LD_LIBRARY_PATH=$sysroot/lib
# The standard library's bitcode is of no use here, and of a version that binutils' plugins complain about.
"$objcopy" --remove-section=.llvmbc --remove-section=.llvmcmd "$library" changed.a
object=$(ar t changed.a | grep '^rangekeeper[.-]' || true)
[[ $(wc -w <<<"$object") == 1 ]] || { echo "localise.sh: $library must have one object of its own, not: ${object:-none}" >&2; exit 1; }
ar x changed.a "$object"
"$objcopy" --wildcard --keep-global-symbol='rk_*' --keep-global-symbol='DW.ref.*' "$object"
ar rD changed.a "$object"
cmp -s changed.a "$to" || mv changed.a "$to"
