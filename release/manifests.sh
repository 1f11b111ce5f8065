#!/bin/bash
# Renders the Helm chart as release/deploy/base/controller.yaml, for kustomize; with --check, only reports whether that
# is up to date. The ranges are left out: they have no default, and an overlay sets them.
set -euo pipefail
cd "$(dirname "$0")/.."
base=release/deploy/base/controller.yaml
rendered=$(
	cat <<'COMMENT'
# Rendered from release/deploy/chart by release/manifests.sh: do not edit.
#
# An overlay sets the image, the ranges, and how etcd is reached; the paths are kubeadm's. The ranges have no default,
# since those of another cluster would do harm: add --service-cluster-ip-range and --service-node-port-range as the API
# servers have them. Without them the controller does not start.
COMMENT
	cd release
	"${GO:-go}" tool helm template rangekeeper deploy/chart --namespace kube-system \
		--set serviceClusterIPRange=10.96.0.0/12,serviceNodePortRange=30000-32767 |
		sed '1{/^---$/d}; /^# Source: /d; /^ *- --service-cluster-ip-range=/d; /^ *- --service-node-port-range=/d'
)
if [[ ${1:-} != --check ]]; then
	printf '%s\n' "$rendered" >$base
elif [[ $rendered != "$(cat $base)" ]]; then
	echo "manifests.sh: $base is not up to date: run make manifests" >&2
	exit 1
fi
