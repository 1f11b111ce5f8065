#!/bin/bash
# Builds a kube-apiserver of the module in a folder, which reports itself as the release VERSION. The first build takes
# minutes, so the script prints that it has begun; Go caches the result.
#
#   scripts/build-apiserver.sh VERSION FOLDER PACKAGE PROGRAM     PROGRAM: from the project's root
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 folder=$2 package=$3 program=$4
module=v$version.mod
[[ -e $folder/$module ]] || module=go.mod # the newest release
start=$SECONDS

flags="-X k8s.io/component-base/version.gitVersion=v$version"
flags+=" -X k8s.io/component-base/version.gitMajor=${version%%.*}"
flags+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
root=$PWD
(cd "$folder" && exec "${GO:-go}" build -trimpath -modfile="$module" -ldflags "$flags" -o "$root/$program" "$package") &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT
while kill -0 $pid 2>/dev/null; do
	(((SECONDS - start) % 15 != 14)) || echo "kube-apiserver $version: building for $((SECONDS - start + 1)) s"
	sleep 1
done
wait $pid
trap - EXIT
echo "$program: built in $((SECONDS - start)) s"
