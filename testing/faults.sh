#!/usr/bin/env bash
# Puts faults into the commit protocol, one by one, and has the simulation find them: each within a minute.
#
#   testing/faults.sh all            all of them, and writes the table of docs/simulation.md
#   testing/faults.sh check          all of them, and compares the table
#   testing/faults.sh changed        those of shells that need no patch, and up to eight patches that the last commit
#                                    changed: a build of each takes half a minute
#   testing/faults.sh NUMBER...      these
#   testing/faults.sh compile        plays none: each patch must apply and compile
#
# A fault of the protocol is a patch in testing/simulation/faults, which is applied to a copy of the sources; its first
# lines have its number, what it is, and the fault without which other rules hide it. A fault of a shell is a switch of
# the simulation (testing/simulation/src/faults.rs).
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
# One after the other: they build in one folder.
[[ ${LOCKED:-} == faults ]] || { mkdir -p target; LOCKED=faults exec flock --close target/faults.lock testing/faults.sh "$@"; }
document=docs/simulation.md work=target/faults
cargo=${CARGO:-cargo}
begin='<!-- table of faults: written by testing/faults.sh all -->' end='<!-- end of the table -->'

fail() {
	echo "faults: $*" >&2
	exit 1
}

# Copies the sources that cargo needs, as they are in the checkout.
copy() {
	rm -rf "$work/tree" "$work/bin"
	mkdir -p "$work/tree" "$work/bin"
	git ls-files -z --cached --others --exclude-standard -- '*.rs' '*.toml' '*.md' Cargo.lock |
		while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done | xargs -0 cp --parents -p -t "$work/tree"
	# What was built last, by another run, has a patch, and cargo compares times.
	touch "$work/tree/core/src/lib.rs"
}

apply() { # PATCH...
	local file
	for file; do patch -p1 -s --no-backup-if-mismatch -d "$work/tree" <"$file" || fail "$file does not apply"; done
}

revert() { # PATCH..., as they were applied
	local i
	for ((i = $#; i > 0; i--)); do patch -p1 -s -R --no-backup-if-mismatch -d "$work/tree" <"${!i}"; done
}

# Checks that the crates compile with these patches.
compiles() { # PATCH...
	local code=0
	apply "$@"
	(cd "$work/tree" && "$cargo" check --locked --quiet -p rangekeeper-simulation --target-dir ../check) 2>"$work/errors" || code=$?
	revert "$@"
	return $code
}

# Checks that the crates compile with each of these patches: with as many at once as apply together, and if that fails,
# with each one of them.
compile() { # PATCH...
	local file together=() others=()
	for file; do
		if patch -p1 -s --dry-run -d "$work/tree" <"$file" >/dev/null; then
			apply "$file"
			together+=("$file")
		else
			others+=("$file")
		fi
	done
	revert "${together[@]}"
	if ! compiles "${together[@]}"; then
		for file in "${together[@]}"; do compiles "$file" || { cat "$work/errors" >&2; fail "it does not compile with $file"; }; done
	fi
	((${#others[@]} == 0)) || compile "${others[@]}"
}

# Builds the simulation with these patches into $work/bin/NAME.
build() { # NAME PATCH...
	local name=$1
	shift
	apply "$@"
	(cd "$work/tree" && "$cargo" build --release --locked --quiet -p rangekeeper-simulation --target-dir ../build \
		--config 'profile.release.debug=false' --config 'profile.release.codegen-units=16' --config 'profile.release.lto=false' --config 'profile.release.opt-level=1' --config 'profile.release.package."*".opt-level=2') 2>"$work/errors" ||
		{ cat "$work/errors" >&2; fail "it does not build with $*"; }
	cp "$work/build/release/simulate" "$work/bin/$name"
	revert "$@"
}

# The patch of a fault, if it is one.
patch_of() { # NUMBER
	local files=(testing/simulation/faults/"$(printf %02d "$1")"-*.patch)
	[[ ! -e ${files[0]} ]] || echo "${files[0]}"
}

shell_fault() { "$work/bin/none" --shell-faults | sed -n "s/^$1 \([0-9]*\) \(.*\)/\1 \2/p"; }

# The arguments of the simulation for the faults of shells among these. From 103 on a fault is one of schedules of
# another kind.
switches() { # NUMBER...
	local number
	case $1 in
	10[3-9]) printf -- '--retraced ' ;;
	11?) printf -- '--tokens ' ;;
	12?) printf -- '--ledgers ' ;;
	esac
	for number; do [[ -n $(patch_of "$number") ]] || printf -- '--fault %d ' "$number"; done
}

# The name of the build with the patches among these, which is made if it is not there yet.
built() { # NUMBER...
	local number file name=none patches=()
	for number; do
		file=$(patch_of "$number")
		[[ -z $file ]] || { patches+=("$file"); name=${name#none}${name:+}$number-; }
	done
	[[ $name == none || -e $work/bin/$name ]] || build "$name" "${patches[@]}"
	echo "$work/bin/$name"
}

# Prints the row of a fault.
play() { # NUMBER
	local number=$1 with name file both alone other seed last
	file=$(patch_of "$number")
	if [[ -n $file ]]; then
		name=$(sed -n '1s/^Fault [0-9]*: //p' "$file") with=$(sed -n '2s/^Together with: //p' "$file")
	else
		read -r with name <<<"$(shell_fault "$number")" || fail "there is no fault $number"
	fi
	[[ $with != 0 ]] || with=
	both=$(built "$number" $with)
	if [[ -z $with ]]; then
		seed=$("$both" --violations 1 $(switches "$number")) || fail "fault $number ($name) is not found"
	else
		# Neither of them alone breaks the schedule.
		alone=$(built "$number") other=$(built "$with")
		seed=$("$both" --violations 20000 --seconds 60 $(switches "$number" "$with") |
			"$alone" --holding $(switches "$number") | "$other" --holding $(switches "$with") | head -n 1)
		[[ -n $seed ]] || fail "fault $number ($name) with $with is not found"
		name+=", together with $with"
	fi
	last=$("$both" --seed "$seed" $(switches "$number" $with) | tail -n 1) || true
	sed -n "s/^seed \([0-9]*\), \([0-9]*\) steps: \(I[0-9]*\):.*/| $number | $name | \1 | \3 | \2 |/p" <<<"$last"
}

# Reads names of patches and prints their numbers.
patch_numbers() { sed -n 's!.*/0*\([0-9]*\)-.*!\1!p'; }

numbers() {
	{
		printf '%s\n' testing/simulation/faults/*.patch | patch_numbers
		"$work/bin/none" --shell-faults | cut -d ' ' -f 1
	} | sort -n
}

changed() {
	local number with
	{
		"$work/bin/none" --shell-faults | while read -r number with _; do [[ -n $(patch_of "$with") ]] || echo "$number"; done
		git diff --name-only HEAD~1 -- testing/simulation/faults 2>/dev/null | patch_numbers | head -n 8 || true
	} | sort -nu
}

for file in testing/simulation/faults/*.patch; do git apply --check "$file" || fail "$file does not apply: adapt it to the change"; done
copy
what=${1:?}
if [[ $what == compile ]]; then
	compile testing/simulation/faults/*.patch
	exit
fi
# That without a patch may be there already: SIMULATE names it.
if [[ -n ${SIMULATE:-} ]]; then cp "$SIMULATE" "$work/bin/none"; else build none; fi
case $what in
all | check) chosen=$(numbers) ;;
changed) chosen=$(changed) ;;
*) chosen=$* ;;
esac
rows=()
for number in $chosen; do
	row=$(play "$number")
	[[ -n $row ]] || fail "fault $number: the schedule holds when it is played again"
	echo "$row"
	rows+=("$row")
	rm -f "$work/bin/$number-"
done
echo "${#rows[@]} faults, all found"
case $what in
all)
	{
		sed "/$begin/q" "$document"
		printf '%s\n' '| fault | | seed | found by | after steps |' '|---|---|---|---|---|' "${rows[@]}"
		sed -n "/$end/,\$p" "$document"
	} >"$work/document"
	cp "$work/document" "$document"
	;;
*)
	for row in "${rows[@]}"; do
		grep -qxF "$row" "$document" || fail "$document has another row for: $row (testing/faults.sh all writes the table)"
	done
	;;
esac
