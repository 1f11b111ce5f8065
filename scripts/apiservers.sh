#!/bin/bash
# Builds the kube-apiservers that tests run, of apiserver/ with the module file of each release.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build-apiserver.sh 1.36.3 apiserver go.mod . bin/kube-apiserver-1.36.3
scripts/build-apiserver.sh 1.32.2 apiserver v1.32.2.mod . bin/kube-apiserver-1.32.2
