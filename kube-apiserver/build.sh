#!/bin/bash
# Builds a kube-apiserver of the module in a folder, which reports itself as the release VERSION. The first build takes
# minutes, so the script prints that it has begun; Go caches the result.
#
#   kube-apiserver/build.sh VERSION FOLDER PACKAGE PROGRAM [OPTION...]
#
# PROGRAM is a path from the project's root, and each OPTION one of go build.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 folder=$2 package=$3 program=$4
module=v$version.mod
[[ -e $folder/$module ]] || module=go.mod # the newest release
start=$SECONDS

flags="-X k8s.io/component-base/version.gitVersion=v$version"
flags+=" -X k8s.io/component-base/version.gitMajor=${version%%.*}"
flags+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
.ci/patiently.sh "kube-apiserver $version" .ci/whole.sh "$program" \
	"${GO:-go}" -C "$folder" build -trimpath -modfile="$module" "${@:5}" -ldflags "$flags" -o '{}' "$package"
echo "$program: built in $((SECONDS - start)) s"
