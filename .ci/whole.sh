#!/bin/bash
# Runs a command that writes a file, whose name is {} in its arguments. A program that reads or runs the file meanwhile,
# such as another make in this checkout, has the old one or the whole new one. If the command fails, the old one stays.
#
#   .ci/whole.sh FILE COMMAND [ARGUMENT...]
set -euo pipefail
file=$(realpath -m "$1")
shift
mkdir -p "$(dirname "$file")"
new=$(mktemp "$file.XXXXXX")
trap 'rm -f "$new"' EXIT
chmod "$(printf %o $((0666 & ~$(umask))))" "$new"
# Go does not link a program again that is up to date.
[[ ! -e $file ]] || cp -p "$file" "$new"
command=()
for argument; do
	[[ $argument != '{}' ]] || argument=$new
	command+=("$argument")
done
"${command[@]}"
mv "$new" "$file"
