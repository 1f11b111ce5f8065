#!/bin/bash
# The main job on real input: repairs the etcd snapshot of a damaged cluster, restores it into an etcd and audits it
# there. Only the findings remain that need the owners of Services.
set -euo pipefail
cd "$(dirname "$0")/.."
rangekeeper=bin/rangekeeper
damaged=testing/testdata/kube-1.32-dual-stack/drift.db.gz
page=target/audit.html
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
repaired=$work/repaired.db

say() { printf '\n== %s\n\n' "$*"; }

# Exit code 1 says that something was found, which this run is about. What is more is a failure.
findings_expected() {
	local status=0
	"$@" || status=$?
	[ "$status" -le 1 ] || { printf '%s failed with exit code %d\n' "$1" "$status" >&2; exit "$status"; }
}

controlplane/programs.sh bin rangekeeper

say "1. Repairing $damaged into $repaired"
findings_expected $rangekeeper repair --etcd-snapshot "$damaged" --to-file "$repaired"

say "2. A page for a ticket about the damaged cluster"
findings_expected $rangekeeper audit --etcd-snapshot "$damaged" -o html >"$work/page"
.ci/whole.sh "$page" cp "$work/page" '{}'
echo "$page"

say "3. Restoring $repaired into an etcd and auditing it over the network: the remaining findings need the owners of Services"
# shellcheck disable=SC2016 # the inner shell knows the endpoint
findings_expected target/restored-etcd "$repaired" \
	sh -c 'echo "rangekeeper audit --endpoints $ETCDCTL_ENDPOINTS"; echo; exec "$0" audit --endpoints "$ETCDCTL_ENDPOINTS"' "$rangekeeper"
