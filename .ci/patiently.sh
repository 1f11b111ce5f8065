#!/bin/bash
# Runs a command that can take minutes, and says every 15 s that it still works.
#
#   .ci/patiently.sh WHAT COMMAND [ARGUMENT...]
set -euo pipefail
what=$1
shift
# A compiler in Go collects its garbage for a seventh of its time, if it may not use some hundred MiB more.
export GOGC=${GOGC:-400}
# The sleep may outlive this script, and must not keep a pipe open.
while sleep 15 >/dev/null 2>&1; do echo "$what: building for $SECONDS s" >&2; done &
clock=$!
trap 'kill $clock 2>/dev/null || true' EXIT
"$@"
