# What the scripts of Debian packages share, for `source` after release.sh.
# shellcheck shell=bash

# debian_package ROOT NOTICES ARCHITECTURE DEPENDS SECTION SUMMARY [FIELD...] packs ROOT/usr and ROOT/etc into a package
# in the folder out; it has the name of ROOT's last folder. The description is read from standard input. What is in
# ROOT/DEBIAN is kept.
debian_package() {
	local root=$1 notices=$2 architecture=$3 name=${1##*/}
	install -d "$root/DEBIAN" "$root/usr/share/doc/$name"
	cat >"$root/usr/share/doc/$name/copyright" <<-COPYRIGHT
	Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
	Upstream-Name: rangekeeper
	Source: $repository

	Files: *
	Copyright: 2025-2026 The Rangekeeper authors
	License: Apache-2.0
	 On Debian systems the text of the licence is in /usr/share/common-licenses/Apache-2.0.
	 The package contains code by others: their licences are in THIRD_PARTY_NOTICES.gz.
	COPYRIGHT
	gzip -9n <"$notices" >"$root/usr/share/doc/$name/THIRD_PARTY_NOTICES.gz"
	printf 'rangekeeper (%s) unstable; urgency=medium\n\n  * %s/blob/main/CHANGELOG.md lists the changes.\n\n -- The Rangekeeper authors <rangekeeper@localhost>  %s\n' \
		"$version" "$repository" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$root/usr/share/doc/$name/changelog.gz"
	(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
	{
		cat <<-CONTROL
		Package: $name
		Source: rangekeeper
		Version: $version
		Architecture: $architecture
		Maintainer: The Rangekeeper authors <rangekeeper@localhost>
		Installed-Size: $(find "$root" -path "$root/DEBIAN" -prune -o -type f -printf '%s\n' | awk '{kib += int(($1 + 1023) / 1024)} END {print kib}')
		CONTROL
		[[ -z $4 ]] || echo "Depends: $4"
		[[ $# -lt 7 ]] || printf '%s\n' "${@:7}"
		printf '%s\n' "Section: $5" "Priority: optional" "Homepage: $repository" "Description: $6"
		sed 's/^/ /'
	} >"$root/DEBIAN/control"
	chmod -R u=rwX,go=rX "$root"
	dpkg-deb --root-owner-group -Zxz --build "$root" "$out/${name}_${version}_$architecture.deb" >/dev/null
}
