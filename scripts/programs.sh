#!/bin/bash
# Builds rangekeeper and kubectl-rangekeeper for a platform of Go into a folder.
#
#   scripts/programs.sh [GOOS GOARCH] FOLDER    stripped with a platform, as they are released; without, for this machine
set -euo pipefail
cd "$(dirname "$0")/.."
flags=()
if (($# == 3)); then
	export GOOS=$1 GOARCH=$2
	flags=(-s -w)
	shift 2
fi
out=$(mkdir -p "$1" && realpath "$1")
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
suffix=$(cd controlplane && "${GO:-go}" env GOEXE)
for program in rangekeeper kubectl-rangekeeper; do
	# Without grpcnotrace gRPC links text/template, and with it all exported methods of everything that is linked.
	(cd controlplane && CGO_ENABLED=0 "${GO:-go}" build -trimpath -tags grpcnotrace \
		-ldflags "${flags[*]} -X github.com/rangekeeper/rangekeeper/controlplane/internal/cli.commit=$commit" \
		-o "$out/$program$suffix" "./cmd/$program")
done
