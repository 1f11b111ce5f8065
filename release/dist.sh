#!/bin/bash
# Writes a release into OUT (dist): docs/release.md lists what is in it. The same commit has the same bytes, in whatever
# folder it is built. With platforms, only programs for those are built; the image needs both of Linux.
#
#   release/dist.sh [OUT [OS/ARCHITECTURE...]]
set -euo pipefail
out=$(realpath -m "${1:-$(dirname "$0")/../dist}")
cd "$(dirname "$0")/.."
. release/release.sh
platforms=("${@:2}")
[[ ${#platforms[@]} -gt 0 ]] || platforms=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
[[ -z $(git status --porcelain) ]] || echo "dist.sh: uncommitted changes are built, too, as commit ${commit:0:12}" >&2
step() { echo "dist: $*"; }

.ci/setup.sh release
rm -rf "$out"
mkdir -p "$out/programs"
step "the libraries in C"
release/native.sh "$out"
for lib in "$out"/lib/*; do release/library.sh "$out" "${lib##*/}"; done
release/sbom.sh "$out/librangekeeper_v$version.cdx.json"

step "the crates"
# .ci/run builds them from their packages; here they are packed only.
"${CARGO:-cargo}" package --quiet --locked --no-verify --allow-dirty -p rangekeeper -p rangekeeper-bootstrap --target-dir target/packages
mkdir "$out/crates"
cp target/packages/package/{rangekeeper,rangekeeper-bootstrap}-"$version".crate "$out/crates"

step "the Go modules and the npm package"
release/modules.sh "$out"
release/npm.sh "$out"

step "the programs"
make --no-print-directory purego
(cd controlplane && "${GO:-go}" run ./internal/tools/clidocs "$out/clidocs")
for platform in "${platforms[@]}"; do
	release/programs.sh "$out" "${platform%/*}" "${platform#*/}"
done

step "the image, manifests and the chart"
release/deploy.sh "$out"
release/krew.sh "$out"

rm -r "$out/programs" "$out/clidocs" "$out/lib"
(cd "$out" && find . -type f ! -name checksums.txt -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >checksums.txt)
step "$(wc -l <"$out/checksums.txt") files in $out"
