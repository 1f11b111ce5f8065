#!/bin/bash
# Builds the programs for a platform and packs each of them, with licences, man pages and completions:
# OUT/PROGRAM_vVERSION_OS_ARCHITECTURE.tar.gz, or .zip for Windows, with a bill of materials beside it; for Linux the
# command is a Debian package, too. Pages and completions are in OUT/clidocs. The programs stay in
# OUT/programs/OS_ARCHITECTURE.
#
#   release/programs.sh OUT OS ARCHITECTURE
set -euo pipefail
out=$(realpath "${1:?usage: release/programs.sh OUT OS ARCHITECTURE}")
os=${2:?usage: release/programs.sh OUT OS ARCHITECTURE}
architecture=${3:?usage: release/programs.sh OUT OS ARCHITECTURE}
cd "$(dirname "$0")/.."
. release/release.sh

built=$out/programs/${os}_$architecture
controlplane/programs.sh "$os" "$architecture" "$built"
for program in rangekeeper kubectl-rangekeeper; do
	file=$program
	[[ $os != windows ]] || file+=.exe
	size=$(stat -c %s "$built/$file")
	name=${program}_v${version}_${os}_$architecture
	work=$(mktemp -d)
	mkdir "$work/$name"
	release/notices.sh "$built/$program.notices" "$built/$file"
	cp "$built/$file" LICENSE "$work/$name"
	cp "$built/$program.notices" "$work/$name/THIRD_PARTY_NOTICES"
	if [[ $os != windows ]]; then
		cp -r "$out/clidocs/$program"/* "$work/$name"
		pack_tar "$work" "$out/$name.tar.gz"
	else
		[[ $program != rangekeeper ]] || cp "$out/clidocs/$program/completions/rangekeeper.ps1" "$work/$name"
		pack_zip "$work" "$out/$name.zip"
	fi
	rm -r "$work"
	[[ $os/$program != linux/rangekeeper ]] || release/command.sh "$out" "$architecture"
	release/sbom.sh "$out/$name.cdx.json" "$built/$file"
	echo "dist: $program for $os/$architecture, $((size / 1000)) kB"
done
