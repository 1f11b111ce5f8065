#!/bin/bash
# Has a command write a file whose name is {} in its arguments, so that whoever runs or reads the file meanwhile, such as
# another make in this checkout, has the one of before or the whole new one. If the command fails, the file stays.
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
