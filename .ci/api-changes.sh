#!/bin/bash
# Shows what has changed in the C ABI and the Go modules since a commit, and what breaks users of the crates. Fails if
# users of a version break that is released, that is, has a tag: docs/release.md says what a version means.
#
#   .ci/api-changes.sh COMMIT
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git rev-parse --verify "${1:?usage: .ci/api-changes.sh COMMIT}^{commit}")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
root=$PWD work=$(mktemp -d) breaks=()
trap 'git worktree remove --force "$work/before" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/before" "$commit"

say() { printf '\n== %s\n' "$*"; }

say "C: declarations that are gone or changed, and new ones"
declarations() { "${CC:-cc}" -E -P "$1/include/rangekeeper.h" | tr '\n' ' ' | sed 's/  */ /g; s/;/;\n/g' | grep '\brk_' | sort; }
declarations "$work/before" >"$work/c-before"
declarations "$root" >"$work/c-after"
comm -23 "$work/c-before" "$work/c-after" | sed 's/^ */- /' | tee "$work/c-gone"
comm -13 "$work/c-before" "$work/c-after" | sed 's/^ */+ /'
number() { sed -n 's/^#define RK_ABI_VERSION //p' "$1/include/rangekeeper.h"; }
[[ ! -s $work/c-gone || $(number "$root") != "$(number "$work/before")" ]] || breaks+=("the C ABI, and RK_ABI_VERSION is the same")

for crate in rangekeeper rangekeeper-bootstrap; do
	say "Rust: $crate"
	"${CARGO:-cargo}" semver-checks --package "$crate" --baseline-root "$work/before" --release-type patch && status=0 || status=$?
	case $status in
	0) ;;
	100) breaks+=("the crate $crate") ;; # something that users may have is gone or another
	*) exit "$status" ;;
	esac
done

# With the native back end, as the code of the pure Go one would have to be made for both sides.
export GOWORK=off CGO_ENABLED=1 GOFLAGS=-tags=rangekeeper_native
apidiff() { "${GO:-go}" run golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4 "$@" 2>"$work/errors" || { cat "$work/errors" >&2; exit 1; }; }
for module in go-bindings go-bindings/etcdstore controlplane compat; do
	path=github.com/rangekeeper/rangekeeper/$module
	say "Go: $path"
	(cd "$work/before/$module" && apidiff -m -w "$work/go-before" "$path")
	(cd "$module" && apidiff -m -w "$work/go-after" "$path")
	apidiff -m "$work/go-before" "$work/go-after" | tee "$work/go-changes"
	! grep -q '^Incompatible changes:' "$work/go-changes" || breaks+=("the Go module $path")
done

[[ ${#breaks[@]} -gt 0 ]] || { say "nothing breaks"; exit 0; }
say "breaking"
printf '%s\n' "${breaks[@]}"
if git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null; then
	echo "version $version is released: raise it" >&2
	exit 1
fi
echo "version $version is not released, so it may"
