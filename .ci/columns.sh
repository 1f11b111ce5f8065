#!/bin/bash
# Checks that comments have at most 120 columns; a tab counts as 4.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.rs' '*.go' '*.c' '*.h' '*.sh' Makefile | grep -v '_generated\.go$' | xargs awk '
	/^[ \t]*(\/\/|\/\*|\*)/ && !/^\/\/go:/ || /^[ \t]*#/ && FILENAME ~ /(\.sh|Makefile)$/ {
		line = $0
		gsub(/\t/, "    ", line)
		if (length(line) > 120) {
			printf "%s:%d: a comment of %d columns, and at most 120 are read\n", FILENAME, FNR, length(line)
			found = 1
		}
	}
	END { exit found }'
