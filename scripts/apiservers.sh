#!/bin/bash
# Builds the kube-apiservers that tests run, of apiserver/ with the module file of each release.
set -euo pipefail
cd "$(dirname "$0")/.."
while read -r release; do
	scripts/build-apiserver.sh "$release" apiserver . "bin/kube-apiserver-$release"
done <controlplane/kubernetes/releases.txt
