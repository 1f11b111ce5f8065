#!/bin/bash
# Builds bin/kube-apiserver-rangekeeper-VERSION: the kube-apiserver of a release with the packages of
# go-bindings/dropin/_packages in the place of its own. Go refuses an overlay over its module cache, so this is a real
# copy of the module; it lies in target/dropin and is never committed. The first build takes minutes, so it says that it
# is under way; then Go has it cached.
#
#   scripts/dropin.sh VERSION [--sources]     --sources: the copy only, no program
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
go=${GO:-go}
copy=$PWD/target/dropin/v$version

module=go.mod
[[ $version == 1.36.3 ]] || module=v$version.mod
[[ -e apiserver/$module ]] || { echo "Kubernetes $version: Rangekeeper is put into 1.36.3 and 1.32.2" >&2; exit 2; }

# The release, as it was published.
released=$(cd apiserver && "$go" mod download -modfile="$module" -json k8s.io/kubernetes | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
[[ -d $released ]] || { echo "k8s.io/kubernetes@v$version: its source code could not be had" >&2; exit 1; }
if [[ ! -e $copy/.replaced ]]; then
	echo "kube-apiserver $version: copying its source code"
	rm -rf "$copy"
	mkdir -p "$(dirname "$copy")"
	cp -r "$released" "$copy"
	chmod -R u+w "$copy"
	: >"$copy/.replaced"
fi

# What was replaced last time is as published again, so that a file that is gone from here is gone there.
while read -r file; do
	if [[ -e $released/$file ]]; then
		cp "$released/$file" "$copy/$file"
		chmod u+w "$copy/$file"
	else
		rm -f "$copy/$file"
	fi
done <"$copy/.replaced"
: >"$copy/.replaced"
for from in go-bindings/dropin/_packages "go-bindings/dropin/_packages-$version"; do
	[[ -d $from ]] || continue
	(cd "$from" && find . -type f) >>"$copy/.replaced"
	cp -r "$from/." "$copy"
done
[[ ${2:-} != --sources ]] || exit 0

flags="-X k8s.io/component-base/version.gitVersion=v$version"
flags+=" -X k8s.io/component-base/version.gitMajor=${version%%.*}"
flags+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
program=bin/kube-apiserver-rangekeeper-$version
# Go does not notice that the static library has changed, and would leave the old program standing.
rm -f "$program"
start=$SECONDS
(cd go-bindings/dropin && exec "$go" build -trimpath -modfile="$module" -ldflags "$flags" -o "../../$program" ./cmd/kube-apiserver) &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT
while kill -0 $pid 2>/dev/null; do
	(((SECONDS - start) % 15 != 14)) || echo "kube-apiserver $version: building for $((SECONDS - start + 1)) s"
	sleep 1
done
wait $pid
trap - EXIT
echo "$program: built in $((SECONDS - start)) s"
