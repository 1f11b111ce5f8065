# What the scripts of a release share, for `source` from the root of the checkout: version, commit, SOURCE_DATE_EPOCH,
# and archives whose bytes depend on their content and on the commit only.
# shellcheck shell=bash
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
repository=$(sed -n 's/^repository = "\(.*\)"/\1/p' Cargo.toml)
commit=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022

# pack_tar FOLDER FILE.tar.gz packs what is in a folder.
pack_tar() {
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --mode=u=rwX,go=rX --format=posix \
		--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime -C "$1" -cf - $(ls -A "$1") | gzip -9n >"$2"
}

# pack_zip FOLDER FILE.zip does the same.
pack_zip() {
	find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	rm -f "$2"
	(cd "$1" && find . -type f -printf '%P\n' | LC_ALL=C sort | TZ=UTC zip -q -X -D "$2" -@)
}
