#!/bin/bash
# Packs the command of OUT/programs/linux_ARCHITECTURE as a Debian package: with man pages and completions, which are in
# OUT/clidocs, and the controller's unit of systemd, which nothing enables.
#
#   release/command.sh OUT ARCHITECTURE
set -euo pipefail
out=$(realpath "${1:?usage: release/command.sh OUT ARCHITECTURE}")
architecture=${2:?usage: release/command.sh OUT ARCHITECTURE}
cd "$(dirname "$0")/.."
. release/release.sh
. release/debian.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

root=$work/rangekeeper
built=$out/programs/linux_$architecture
documents=$out/clidocs/rangekeeper
systemd=release/deploy/systemd/rangekeeper-controller
install -D -t "$root/usr/bin" "$built/rangekeeper"
install -D -m 644 -t "$root/usr/share/man/man1" "$documents"/man/*.1
gzip -9n "$root"/usr/share/man/man1/*.1
install -D -m 644 -t "$root/usr/share/bash-completion/completions" "$documents/completions/rangekeeper.bash"
mv "$root"/usr/share/bash-completion/completions/rangekeeper{.bash,}
install -D -m 644 -t "$root/usr/share/zsh/vendor-completions" "$documents/completions/_rangekeeper"
install -D -m 644 -t "$root/usr/share/fish/vendor_completions.d" "$documents/completions/rangekeeper.fish"
install -D -m 644 -t "$root/usr/lib/systemd/system" "$systemd.service"
sed -i 's,^ExecStart=/usr/local/bin/,ExecStart=/usr/bin/,' "$root/usr/lib/systemd/system/rangekeeper-controller.service"
install -D -m 644 "$systemd.default" "$root/etc/default/rangekeeper-controller"

install -d "$root/DEBIAN"
echo /etc/default/rangekeeper-controller >"$root/DEBIAN/conffiles"
# script NAME: the rest is its text, for a system that systemd runs.
script() {
	printf '%s\n' '#!/bin/sh' 'set -e' '[ -d /run/systemd/system ] || exit 0' >"$root/DEBIAN/$1"
	cat >>"$root/DEBIAN/$1"
	chmod 755 "$root/DEBIAN/$1"
}
script postinst <<-'SCRIPT'
systemctl daemon-reload
# Only if it runs.
systemctl try-restart rangekeeper-controller.service
SCRIPT
script prerm <<-'SCRIPT'
[ "$1" != remove ] || systemctl disable --now rangekeeper-controller.service
SCRIPT
script postrm <<-'SCRIPT'
systemctl daemon-reload
SCRIPT
debian_package "$root" "$built/rangekeeper.notices" "$architecture" "" admin "repairs Kubernetes Services' addresses and ports" <<-DESCRIPTION
The command rangekeeper finds Service ClusterIPs and node ports that are
leaked, lost or used twice, in a cluster, an etcd or an etcd snapshot, and
repairs them. Its controller keeps the ranges and the endpoints of API
servers: a unit of systemd, which nothing enables.
DESCRIPTION
