#!/bin/bash
# Builds bin/kube-apiserver-rangekeeper-VERSION: the kube-apiserver of a release, with files of
# kube-apiserver/dropin/overlay instead of its own. Go refuses an overlay over its module cache, so the script copies
# the module to target/dropin.
#
#   kube-apiserver/dropin.sh VERSION [--sources | --overlays]
#   --sources: the copy only, no program; --overlays: prints the folders of files that the release gets
#
# With BACKEND=native, the default, the program calls the core through cgo, in the librangekeeper.a of the folder
# LIBRARY_PATH (target/release); with BACKEND=purego it has the core as Go.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
go=${GO:-go}
copy=$PWD/target/dropin/v$version

releases=$(<controlplane/releases/releases.txt)
grep -qxF "$version" <<<"$releases" || { echo "Kubernetes $version is not supported; supported releases:" $releases >&2; exit 2; }

# The Makefile says why these tags.
tags=grpcnotrace,netgo,osusergo
export LIBRARY_PATH=${LIBRARY_PATH:-$PWD/target/release}
case ${BACKEND:-native} in
native) options=(-tags "$tags,rangekeeper_native") ;;
purego) options=(-tags "$tags") ;;
*) echo "BACKEND is native or purego, not $BACKEND" >&2; exit 2 ;;
esac

# Where two of these scripts run at once, one after the other prepares the sources of a release.
if [[ ${LOCKED:-} != dropin ]]; then
	mkdir -p "$(dirname "$copy")"
	LOCKED=dropin flock --close "$copy.lock" kube-apiserver/dropin.sh "$version" "${2:---sources}"
	[[ -z ${2:-} ]] || exit 0
	program=bin/kube-apiserver-rangekeeper-$version
	kube-apiserver/build.sh "$version" kube-apiserver/dropin ./cmd/kube-apiserver "$program" "${options[@]}"
	exit
fi
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Makes PLACE the same as FILE. Somebody may read it meanwhile, to whom it is the one or the other.
put() { # FILE PLACE
	cmp -s "$1" "$2" && return
	mkdir -p "$(dirname "$2")"
	cp "$1" "$2.new"
	chmod u+w "$2.new"
	mv "$2.new" "$2"
}
files() { (cd "$1" && find . -type f | sort); } # FOLDER

# Each release gets the files that the drop-in shares, with the release's types and paths in their imports, then those
# of `all`, and then those of each folder named after its minor version or an older one.
minor=$(cut -d. -f2 <<<"$version")
shared=target/dropin/v$version.shared
service=pkg/registry/core/service
compat=github.com/rangekeeper/rangekeeper/compat
while read -r since from file; do
	((since > minor)) && continue
	to=$work/shared/$service/$file
	mkdir -p "$(dirname "$to")"
	sed -e "s#^\tapi \"k8s.io/api/core/v1\"\$#\tapi \"k8s.io/kubernetes/pkg/apis/core\"#" \
		-e "s#^\t\"$compat/\([a-z]*allocator\)\"\$#\t\"k8s.io/kubernetes/$service/\1\"#" \
		-e "s#^\t\"$compat/rangeallocation\"\$#\t\"k8s.io/kubernetes/pkg/registry/core/rangeallocation\"#" \
		"$from/$file" >"$to"
	if left=$(grep "$compat/" "$to"); then
		echo "kube-apiserver $version: $from/$file imports $left, which is not a package of the release" >&2
		exit 1
	fi
done <kube-apiserver/dropin/shared.txt
mkdir -p "$shared"
for file in $(comm -23 <(files "$shared") <(files "$work/shared")); do rm "$shared/$file"; done
for file in $(files "$work/shared"); do put "$work/shared/$file" "$shared/$file"; done
overlays=("$shared" kube-apiserver/dropin/overlay/all)
for from in kube-apiserver/dropin/overlay/1.*; do
	((${from##*.} > minor)) || overlays+=("$from")
done
if [[ $2 == --overlays ]]; then
	printf '%s\n' "${overlays[@]}"
	exit 0
fi

module=v$version.mod
[[ -e kube-apiserver/stock/$module ]] || module=go.mod # the newest release

# The published release.
released=$(cd kube-apiserver/stock && "$go" mod download -modfile="$module" -json k8s.io/kubernetes | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
[[ -d $released ]] || { echo "k8s.io/kubernetes@v$version: download of the source code failed" >&2; exit 1; }
if [[ ! -e $copy/.replaced ]]; then
	echo "kube-apiserver $version: copying its source code"
	rm -rf "$copy"
	cp -r "$released" "$copy"
	chmod -R u+w "$copy"
	: >"$copy/.replaced"
fi

# What this run replaces.
tree=$work/tree
mkdir "$tree"
for from in "${overlays[@]}"; do cp -r "$from/." "$tree"; done
replace() { # FILE LINE NEW-LINES
	local from=$released/$1
	[[ ! -e $tree/$1 ]] || from=$tree/$1
	[[ $(grep -c -F "$2" "$from") == 1 ]] || { echo "kube-apiserver $version: $1 must contain this line exactly once: $2" >&2; exit 1; }
	mkdir -p "$(dirname "$tree/$1")"
	sed "s/$2/$3/" "$from" >"$work/replaced"
	mv "$work/replaced" "$tree/$1"
}
# No added file can change the hooks and the storage that NewREST sets, or add a health check to the server.
replace pkg/registry/core/service/storage/storage.go 'statusStore.AfterDelete = genericStore.afterDelete' \
	'if err := genericStore.follow(\&statusStore, optsGetter); err != nil {\n\t\treturn nil, nil, nil, err\n\t}'
replace cmd/kube-apiserver/app/server.go 'return aggregatorServer, nil' 'return withRestoreCheck(aggregatorServer)'
files "$tree" >"$work/replaced"

# Restore the files that the last run replaced and this one does not, so that files deleted here disappear there. A run
# that is interrupted leaves the names of all.
sort -u "$copy/.replaced" "$work/replaced" >"$work/all"
put "$work/all" "$copy/.replaced"
while read -r file; do
	if [[ -e $tree/$file ]]; then
		put "$tree/$file" "$copy/$file"
	elif [[ -e $released/$file ]]; then
		put "$released/$file" "$copy/$file"
	else
		rm -f "$copy/$file"
	fi
done <"$work/all"
put "$work/replaced" "$copy/.replaced"
