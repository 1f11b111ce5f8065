#!/bin/bash
# Builds rangekeeper and kubectl-rangekeeper for a platform of Go into a folder, stripped, and fails if the plugin is
# larger than it may be.
#
#   controlplane/programs.sh GOOS GOARCH FOLDER      both for a platform, as they are released
#   controlplane/programs.sh FOLDER [PROGRAM]        both, or one, for this machine
#
# With BACKEND=native, for this machine only, they call the core through cgo, in the librangekeeper.a of the folder
# LIBRARY_PATH (target/release).
set -euo pipefail
cd "$(dirname "$0")/.."
# The plugin is downloaded by everybody who tries it: at most so many bytes of it are released.
most=24600000
flags="-s -w -X github.com/rangekeeper/rangekeeper/controlplane/internal/cli/version.Commit=$(git rev-parse --short=12 HEAD 2>/dev/null || true)"
if (($# == 3)); then
	export GOOS=$1 GOARCH=$2
	shift 2
fi
tags=grpcnotrace,netgo,osusergo cgo=0
export LIBRARY_PATH=${LIBRARY_PATH:-$PWD/target/release}
case ${BACKEND:-purego} in
purego) ;;
native) tags+=,rangekeeper_native cgo=1 ;;
*) echo "BACKEND is native or purego, not $BACKEND" >&2; exit 2 ;;
esac
if [[ $cgo == 1 && -n ${GOOS:-} ]]; then
	echo "BACKEND=native builds programs for this machine only" >&2
	exit 2
fi
programs=${2:-rangekeeper kubectl-rangekeeper}
mkdir -p "$1"
out=$(realpath "$1")
suffix=$("${GO:-go}" -C controlplane env GOEXE)

# Git's state is not recorded: files beside the sources would change the bytes. The commit is in the version.
build() { # PROGRAM TAGS FLAGS [OPTION...]
	CGO_ENABLED=$cgo .ci/patiently.sh "$1" .ci/whole.sh "$out/$1$suffix" \
		"${GO:-go}" -C controlplane build -trimpath -buildvcs=false -tags "$2" -ldflags "$3" "${@:4}" -o '{}' "./cmd/$1"
}

# limit BYTES compares the size of the plugin.
limit() {
	local size
	size=$(stat -c %s "$out/kubectl-rangekeeper$suffix")
	((size <= $1)) || { echo "programs.sh: kubectl-rangekeeper has $size bytes, more than $1" >&2; exit 1; }
}

# The Makefile says why grpcnotrace.
if [[ -z ${GOOS:-} ]]; then
	# With the same options nothing is compiled twice. Those of a release save 2.3 MB of the plugin.
	for program in $programs; do build "$program" "$tags" "$flags"; done
	[[ $cgo == 1 || $programs != *kubectl-rangekeeper* ]] || limit $((most + 2300000))
	exit
fi
build rangekeeper "$tags" "$flags"
# client-go and gRPC bring golang.org/x/net/http2, so the copy of it in net/http is left out. Functions on amd64 are
# aligned to 32 bytes without -funcalign. What others have written is 1.6 MB smaller without inlining, Kubernetes'
# generated code, which decodes every type that there is, first of all.
plain=()
for modules in k8s.io sigs.k8s.io google.golang.org golang.org go.etcd.io go.uber.org go.yaml.in github.com/go-openapi github.com/google github.com/spf13 \
	crypto net encoding text os reflect time; do
	plain+=("-gcflags=$modules/...=-l")
done
build kubectl-rangekeeper "$tags,nethttpomithttp2" "$flags -funcalign=1" "${plain[@]}"
limit $most
