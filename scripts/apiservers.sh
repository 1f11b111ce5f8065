#!/bin/bash
# Builds the kube-apiservers that tests run, of apiserver/ with the module file of each release. The first build takes
# minutes, so it says that it is under way; then Go has it cached.
set -euo pipefail
cd "$(dirname "$0")/../apiserver"

# build VERSION MODULE-FILE
build() {
	local version=$1 file=$2 flags start=$SECONDS
	flags="-X k8s.io/component-base/version.gitVersion=v$version"
	flags+=" -X k8s.io/component-base/version.gitMajor=${version%%.*}"
	flags+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
	"${GO:-go}" build -trimpath -modfile="$file" -ldflags "$flags" -o "../bin/kube-apiserver-$version" . &
	pid=$!
	trap 'kill $pid 2>/dev/null || true' EXIT
	while kill -0 $pid 2>/dev/null; do
		(((SECONDS - start) % 15 != 14)) || echo "kube-apiserver $version: building for $((SECONDS - start + 1)) s"
		sleep 1
	done
	wait $pid
	trap - EXIT
	echo "bin/kube-apiserver-$version: built in $((SECONDS - start)) s"
}

build 1.36.3 go.mod
build 1.32.2 v1.32.2.mod
