#!/bin/bash
# Checks the release in DIST (dist), which `make dist` writes, as its users meet it: what is in the archives, that the
# programs run, that krew installs the plugin, that the image runs without a user or a file of a host, that the chart
# and the manifests are the same.
#
#   release/check.sh [DIST]
set -euo pipefail
dist=$(realpath "${1:-$(dirname "$0")/../dist}")
cd "$(dirname "$0")/.."
. release/release.sh
[[ -e $dist/checksums.txt ]] || { echo "check.sh: $dist has no release: run \`make dist\` first" >&2; exit 1; }
.ci/setup.sh release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
snapshot=$PWD/testing/testdata/kube-1.32-dual-stack/drift.db.gz
failed=0 passed=0
shopt -s nullglob
tool() { (cd release && "${GO:-go}" tool "$@"); }

check() { # NAME COMMAND...
	# In the background, since bash ignores `set -e` within a condition.
	(set -euo pipefail; "${@:2}") >"$work/log" 2>&1 &
	if wait $!; then
		echo "ok      $1"
		passed=$((passed + 1))
	else
		echo "FAILED  $1"
		tail -n 20 "$work/log" | sed 's/^/        /'
		failed=$((failed + 1))
	fi
}

checksums() {
	cd "$dist"
	sha256sum --check --quiet checksums.txt
	diff <(find . -type f ! -name checksums.txt -printf '%P\n' | sort) <(sed 's/^[0-9a-f]*  //' checksums.txt | sort)
}

# unpack ARCHIVE prints the folder that an archive unpacks to, which has its name.
unpack() {
	local name=${1##*/}
	name=${name%.tar.gz}
	name=${name%.zip}
	if [[ ! -d $work/$name ]]; then
		if [[ $1 == *.zip ]]; then unzip -q "$1" -d "$work"; else tar -xzf "$1" -C "$work"; fi
	fi
	echo "$work/$name"
}

archive() { # FILE PROGRAM OS ARCHITECTURE
	local folder binary=$2 about
	folder=$(unpack "$1")
	cmp LICENSE "$folder/LICENSE"
	if [[ $3 != windows ]]; then
		[[ -s $folder/man/$2.1 && -s $folder/man/$2-audit.1 ]]
		[[ $2 != rangekeeper || -s $folder/completions/rangekeeper.bash ]]
	fi
	grep -x "crate $(crate_version serde_json | tr @ ' ')" "$folder/THIRD_PARTY_NOTICES"
	grep -x "Go module $(module_version github.com/spf13/cobra | tr @ ' ')" "$folder/THIRD_PARTY_NOTICES"
	[[ $3 != windows ]] || binary+=.exe
	about=$("${GO:-go}" version -m "$folder/$binary")
	grep -P "\tGOOS=$3$" <<<"$about"
	grep -P "\tGOARCH=$4$" <<<"$about"
	grep -P "\tCGO_ENABLED=0$" <<<"$about"
	if grep -a -F -e "$PWD" -e "${HOME:?}/" "$folder/$binary"; then
		echo "$binary names a folder of this machine"
		return 1
	fi
	if [[ $3 == linux ]] && readelf -ld "$folder/$binary" | grep -E 'NEEDED|INTERP'; then
		echo "$binary is not static"
		return 1
	fi
}

# audits runs an audit of a damaged cluster's snapshot, which ends with 1.
audits() { # COMMAND...
	local code=0
	"$@" audit --etcd-snapshot "$snapshot" >"$work/audit" || code=$?
	[[ $code == 1 ]] && grep -F '110 findings, 62 leaks, 1105 Services' "$work/audit"
}

plugin_flags() {
	local plugin=$1 flag
	"$plugin" audit --help >"$work/help"
	grep -F 'kubectl rangekeeper audit' "$work/help"
	for flag in --kubeconfig --context --as '-n, --namespace' '-A, --all-namespaces' '-o, --output' '-h, --help'; do
		grep -F -e "$flag" "$work/help" || { echo "audit has no flag $flag"; return 1; }
	done
	"$plugin" --version | grep -F "$version (commit ${commit:0:12})"
}

krew_validates() {
	# It wants the name of the plugin as the file's.
	tool validate-krew-manifest -manifest "$dist/rangekeeper.yaml" -skip-install
}
krew_hashes() { # of every archive
	local archive
	for archive in "$dist/kubectl-rangekeeper_v${version}"_*.{tar.gz,zip}; do
		grep -A 1 "/${archive##*/}\$" "$dist/rangekeeper.yaml" | grep "sha256: $(sha256sum "$archive" | cut -d ' ' -f 1)\$"
	done
}
krew_installs() {
	local archive=$dist/kubectl-rangekeeper_v${version}_linux_amd64.tar.gz
	export KREW_ROOT=$work/krew HOME=$work/home
	mkdir -p "$HOME"
	"$work/krew-program" install --manifest "$dist/rangekeeper.yaml" --archive "$archive"
	audits "$KREW_ROOT/bin/kubectl-rangekeeper"
}
krew_refuses() { # an archive that is not the manifest's
	export KREW_ROOT=$work/krew-refuses HOME=$work/home
	mkdir -p "$HOME"
	if "$work/krew-program" install --manifest "$dist/rangekeeper.yaml" --archive "$dist/kubectl-rangekeeper_v${version}_linux_arm64.tar.gz"; then
		return 1
	fi
	[[ ! -e $KREW_ROOT/bin/kubectl-rangekeeper ]]
}

blob() { echo "$dist/image/blobs/${1/://}"; }
image_digest() { jq -r '.manifests[0].digest' "$dist/image/index.json"; }
# image_root ARCHITECTURE unpacks the image into an empty folder and prints it.
image_root() {
	local manifest root=$work/root-$1 layer
	manifest=$(jq -r --arg a "$1" '.manifests[] | select(.platform == {os: "linux", architecture: $a}).digest' "$(blob "$(image_digest)")")
	mkdir "$root"
	for layer in $(jq -r '.layers[].digest' "$(blob "$manifest")"); do tar -xzf "$(blob "$layer")" -C "$root"; done
	jq -e '.config.User == "65532:65532" and .config.Entrypoint == ["/rangekeeper"]' "$(blob "$(jq -r .config.digest "$(blob "$manifest")")")" >&2
	echo "$root"
}
image_blobs() { # have the hashes that they are named by, and all users may read them
	local file
	for file in "$dist/image/blobs/sha256"/*; do
		[[ $(sha256sum "$file" | cut -d ' ' -f 1) == "${file##*/}" ]]
	done
	[[ -z $(find "$dist/image" -type f ! -perm 644) ]]
}
image_layers() {
	local manifest layer
	for manifest in $(jq -r '.manifests[].digest' "$(blob "$(image_digest)")"); do
		[[ $(jq '.layers | length' "$(blob "$manifest")") == 1 ]]
		layer=$(jq -r '.layers[0].digest' "$(blob "$manifest")")
		diff <(tar -tzvf "$(blob "$layer")" | awk '{print $1, $2, $6}') - <<-LIST
		drwxrwxrwt 0/0 tmp/
		-rwxr-xr-x 0/0 rangekeeper
		-rw-r--r-- 0/0 LICENSE
		-rw-r--r-- 0/0 THIRD_PARTY_NOTICES
		LIST
	done
}
image_runs() {
	local root
	root=$(image_root amd64)
	cp "$snapshot" "$root/drift.db.gz"
	snapshot=/drift.db.gz audits chroot --userspec=65532:65532 "$root" /rangekeeper
}
image_emulated() {
	local root
	root=$(image_root arm64)
	audits qemu-aarch64-static "$root/rangekeeper"
}

deployed() {
	local folder rendered
	folder=$(unpack "$dist/rangekeeper-deploy_v$version.tar.gz")
	tool kustomize build "$folder/deploy/base" >"$work/base.yaml"
	tool kustomize build "$folder/deploy/audit" | grep 'name: rangekeeper-audit'
	tool helm template rangekeeper "$dist/rangekeeper-controller-$version.tgz" --namespace kube-system \
		--set serviceClusterIPRange=10.96.0.0/12,serviceNodePortRange=30000-32767 >"$work/chart.yaml"
	for rendered in base chart; do
		[[ $(grep -c "image: rangekeeper@$(image_digest)$" "$work/$rendered.yaml") == 1 ]]
	done
	# make chart compares what the sources render.
	mkdir "$work/packed"
	tar -xzf "$dist/rangekeeper-controller-$version.tgz" -C "$work/packed"
	diff -r "$folder/deploy/chart" "$work/packed/rangekeeper-controller"
	diff -r -x values.yaml -x LICENSE "$folder/deploy/chart" release/deploy/chart
	diff -r -x kustomization.yaml "$folder/deploy/base" release/deploy/base
}

materials() { # FILE COMPONENT...
	jq -e '.bomFormat == "CycloneDX" and .specVersion == "1.5"' "$1"
	local component
	for component in "${@:2}"; do
		jq -e --arg c "$component" 'any(.components[]; "\(.name)@\(.version)" == $c)' "$1" || { echo "$component is missing"; return 1; }
	done
	jq -e 'any(.components[]; .name == "rust-std") and all(.components[]; .name != "serde_derive")' "$1"
	# Each dependency is a component.
	jq -e '([.dependencies[].dependsOn[]?] | unique) - [.components[]["bom-ref"]] == []' "$1"
	if grep -F -e "$PWD" -e '(devel)' "$1"; then return 1; fi
}
modules() { # FILE PROGRAM
	local at
	"${GO:-go}" version -m "$2" | awk '$1 == "dep" && $2 !~ /rangekeeper/ {print $2 "@" $3}' >"$work/linked"
	[[ $(wc -l <"$work/linked") -gt 30 ]]
	while read -r at; do
		jq -e --arg c "$at" 'any(.components[]; "\(.name)@\(.version)" == $c)' "$1" >/dev/null || { echo "$at is missing"; return 1; }
	done <"$work/linked"
}
crate_version() { sed -n "/^name = \"$1\"$/{n;s/^version = \"\(.*\)\"/$1@\1/p}" Cargo.lock | tail -n 1; }
module_version() { sed -n "s#^\t$1 \(v[^ ]*\).*#$1@\1#p" controlplane/go.mod | head -n 1; }

crate() { # NAME FOLDER
	mkdir -p "$work/crates"
	tar -xzf "$dist/crates/$1-$version.crate" -C "$work/crates"
	diff -r "$2/src" "$work/crates/$1-$version/src"
	cmp "$2/README.md" "$work/crates/$1-$version/README.md"
	cmp LICENSE "$work/crates/$1-$version/LICENSE"
}

npm_package() {
	mkdir -p "$work/npm/node_modules/rangekeeper"
	tar -xzf "$dist/rangekeeper-$version.tgz" -C "$work/npm/node_modules/rangekeeper" --strip-components=1
	cmp LICENSE "$work/npm/node_modules/rangekeeper/LICENSE"
	[[ -s $work/npm/node_modules/rangekeeper/THIRD_PARTY_NOTICES ]]
	cp examples/js/vnis.js "$work/npm/vnis.mjs"
	mkdir -p "$work/npm/vnis"
	[[ $(node "$work/npm/vnis.mjs" "$work/npm/vnis" red) == "red 4096" ]]
}

documented() { # all files that the installation names
	local file
	grep -o -E '\b(kubectl-|lib)?rangekeeper[a-z0-9-]*[_-]v?[0-9][a-z0-9._]*\.(tar\.gz|deb|tgz)' docs/install.md | sort -u >"$work/documented"
	[[ $(wc -l <"$work/documented") -gt 5 ]]
	while read -r file; do
		[[ -e $dist/$file ]] || { echo "$file is missing"; return 1; }
	done <"$work/documented"
}

# library PLATFORM checks the archive, and the Debian packages where there are some. ffi/tests/installed.sh uses those
# for amd64.
library() {
	local folder machine file of
	folder=$(unpack "$dist/librangekeeper_v${version}_$(tr - _ <<<"$1").tar.gz")
	cmp LICENSE "$folder/LICENSE"
	cmp include/rangekeeper.h "$folder/include/rangekeeper.h"
	grep -x "crate $(crate_version serde_json | tr @ ' ')" "$folder/THIRD_PARTY_NOTICES"
	case $1 in
	*amd64*) machine=X86-64 ;;
	*) machine=AArch64 ;;
	esac
	nm "$folder/lib/librangekeeper.a" 2>/dev/null | grep ' T rk_allocator_new$'
	readelf -h "$folder/lib/librangekeeper.a" 2>/dev/null | grep "Machine:.*$machine"
	if [[ $1 == *-musl ]]; then
		grep -e --eh-frame-hdr "$folder/lib/pkgconfig/rangekeeper.pc"
		return
	fi
	of=$work/deb-$1
	for file in "$dist/librangekeeper"{0,-dev}_"${version}_${1#linux-}.deb"; do
		[[ $(dpkg-deb --field "$file" Architecture) == "${1#linux-}" ]]
		dpkg-deb --extract "$file" "$of"
	done
	for file in librangekeeper.a "librangekeeper.so.0.$version" librangekeeper.so.$version; do
		[[ -e $folder/lib/$file ]] || continue
		cmp "$folder/lib/$file" "$(find "$of/usr/lib" -name "$file")"
	done
	readelf -d "$folder/lib/librangekeeper.so" | grep 'SONAME.*librangekeeper\.so\.0'
	readelf -h "$folder/lib/librangekeeper.so" | grep "Machine:.*$machine"
}

# command_package ARCHITECTURE checks the Debian package of the command; ffi/tests/installed.sh installs it.
command_package() {
	local file=$dist/rangekeeper_${version}_$1.deb of=$work/deb-command-$1 folder
	folder=$(unpack "$dist/rangekeeper_v${version}_linux_$1.tar.gz")
	[[ $(dpkg-deb --field "$file" Architecture) == "$1" && -z $(dpkg-deb --field "$file" Depends) ]]
	dpkg-deb --extract "$file" "$of"
	dpkg-deb --control "$file" "$of/DEBIAN"
	cmp "$folder/rangekeeper" "$of/usr/bin/rangekeeper"
	cmp "$folder/man/rangekeeper-controller.1" <(gzip -dc "$of/usr/share/man/man1/rangekeeper-controller.1.gz")
	[[ $(find "$of/usr/share/man/man1" -type f | wc -l) == $(find "$folder/man" -type f | wc -l) ]]
	cmp "$folder/completions/rangekeeper.bash" "$of/usr/share/bash-completion/completions/rangekeeper"
	cmp "$folder/THIRD_PARTY_NOTICES" <(gzip -dc "$of/usr/share/doc/rangekeeper/THIRD_PARTY_NOTICES.gz")
	cmp release/deploy/systemd/rangekeeper-controller.default "$of/etc/default/rangekeeper-controller"
	[[ $(cat "$of/DEBIAN/conffiles") == /etc/default/rangekeeper-controller ]]
	grep '^ExecStart=/usr/bin/rangekeeper controller ' "$of/usr/lib/systemd/system/rangekeeper-controller.service"
	(cd "$of" && md5sum --check --quiet DEBIAN/md5sums)
}

check "checksums.txt names every file and its hash" checksums
check "docs/install.md names files of the release" documented
for program in rangekeeper kubectl-rangekeeper; do
	for archive in "$dist/${program}_v${version}"_*.{tar.gz,zip}; do
		platform=${archive##*_v"${version}"_}
		platform=${platform%%.*}
		suffix=
		[[ $platform != windows_* ]] || suffix=.exe
		check "$program for $platform" archive "$archive" "$program" "${platform%_*}" "${platform#*_}"
		bill=$dist/${program}_v${version}_$platform.cdx.json
		check "$program's bill of materials for $platform" materials "$bill" "rangekeeper-ffi@$version" "$(crate_version serde_json)" \
			"$(module_version github.com/spf13/cobra)" "github.com/rangekeeper/rangekeeper/go-bindings@v$version"
		check "$program's bill of materials for $platform has all its modules" modules "$bill" "$(unpack "$archive")/$program$suffix"
	done
	amd64=$(unpack "$dist/${program}_v${version}_linux_amd64.tar.gz")
	arm64=$(unpack "$dist/${program}_v${version}_linux_arm64.tar.gz")
	check "$program audits a snapshot on amd64" audits "$amd64/$program"
	check "$program audits a snapshot on arm64" audits qemu-aarch64-static "$arm64/$program"
done
check "the library's bill of materials" materials "$dist/librangekeeper_v$version.cdx.json" "rangekeeper@$version" "$(crate_version parking_lot)"
check "flags and version of the plugin" plugin_flags "$(unpack "$dist/kubectl-rangekeeper_v${version}_linux_amd64.tar.gz")/kubectl-rangekeeper"
(cd release && "${GO:-go}" build -o "$work/krew-program" sigs.k8s.io/krew/cmd/krew)
check "krew's manifest is valid" krew_validates
check "krew's manifest has the hash of every archive" krew_hashes
check "krew installs the plugin" krew_installs
check "krew refuses another archive" krew_refuses
check "the image's blobs have their hashes" image_blobs
check "the image's layers have the program and licences only" image_layers
check "the image runs without root, on an empty base" image_runs
check "the image for arm64 runs" image_emulated
check "manifests and chart name the image by its digest" deployed
check "crate rangekeeper" crate rangekeeper core
check "crate rangekeeper-bootstrap" crate rangekeeper-bootstrap bootstrap
check "the npm package" npm_package
for architecture in amd64 arm64; do check "the Debian package of the command for $architecture" command_package "$architecture"; done
for platform in linux-amd64 linux-arm64 linux-amd64-musl linux-arm64-musl; do check "the library for $platform" library "$platform"; done
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
