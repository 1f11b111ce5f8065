#!/bin/bash
# Builds go-operator and checks two of them against a real kube-apiserver.
set -euo pipefail
cd "$(dirname "$0")/../.."
go=${GO:-go}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The newest one, unless RELEASES names others.
release=${RELEASES:-$(head -n 1 controlplane/releases/releases.txt)}
release=${release%% *}
apiserver=$PWD/bin/kube-apiserver-$release
[[ -x $apiserver ]] || make --no-print-directory apiservers RELEASES="$release"
export CGO_ENABLED=0
(cd examples/go-operator && $go build -o "$work/go-operator" .)
check=$PWD/examples/go-operator/check.go
cd controlplane
$go vet "$check"
$go build -o "$work/check" "$check"
"$work/check" "$work/go-operator" "$apiserver" "${check%/*}"
