#!/bin/bash
# Reports functions of controlplane that neither its programs and tests call nor those of kube-apiserver/dropin.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

functions() { # FOLDER PACKAGE...
	(cd "$1" && $DEADCODE -test -filter '/rangekeeper/controlplane/' "${@:2}") | sed 's#^.*controlplane/##; s/:[0-9]*:[0-9]*:/:/'
}
CGO_ENABLED=0 functions controlplane ./... >"$work/programs"
# shellcheck disable=SC2086 # a list of packages
functions kube-apiserver/dropin ./... $DROPIN_PACKAGES >"$work/dropin"
# The drop-in calls nothing of the packages that it does not link.
# shellcheck disable=SC2086
(cd kube-apiserver/dropin && "${GO:-go}" list -deps -test ./... $DROPIN_PACKAGES) | sed -n 's#.*/rangekeeper/controlplane/##p' >"$work/linked"
dead=$(awk '
	FILENAME ~ /linked$/ { linked[$1]; next }
	FILENAME ~ /dropin$/ { uncalled[$0]; next }
	{ folder = $1; sub(/\/[^\/]*$/, "", folder) }
	!(folder in linked) || $0 in uncalled' "$work/linked" "$work/dropin" "$work/programs")
[[ -z $dead ]] || { printf 'nothing calls these functions of controlplane:\n%s\n' "$dead" >&2; exit 1; }
