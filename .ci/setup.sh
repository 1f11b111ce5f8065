#!/bin/bash
# Installs missing tools that tests and examples need in addition to Rust, Go and a C compiler; with the argument
# `release` those that make and check a release instead, which link programs for other platforms.
set -euo pipefail
missing=()
if [[ ${1:-} == release ]]; then
	for tool in zip unzip jq; do command -v "$tool" >/dev/null || missing+=("$tool"); done
	command -v musl-gcc >/dev/null || missing+=(musl-tools)
	command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
	python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
else
	command -v valgrind >/dev/null || missing+=(valgrind)
	command -v pkg-config >/dev/null || missing+=(pkg-config)
	# For the npm package; version 20 or later.
	command -v node >/dev/null || missing+=(nodejs)
	# For etcd-client, with the descriptions of the well-known types, which Debian has in a package of their own.
	protoc=$(command -v protoc) && [ -e "$(dirname "$(readlink -f "$protoc")")/../include/google/protobuf/struct.proto" ] ||
		missing+=(protobuf-compiler libprotobuf-dev)
	# For the test of the HTML page.
	command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
fi
# For an empty system that the library is installed into.
command -v debootstrap >/dev/null || missing+=(debootstrap)
# For the Go binding on other architectures.
command -v qemu-s390x-static >/dev/null && command -v qemu-aarch64-static >/dev/null || missing+=(qemu-user-static)
[ ${#missing[@]} -gt 0 ] || exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
	echo "setup: please install: ${missing[*]}" >&2
	exit 1
fi
# One after the other: apt-get fails while another one runs.
[[ ${LOCKED:-} == setup ]] || LOCKED=setup exec flock --close /tmp/rangekeeper-setup.lock "${BASH_SOURCE[0]}" "$@"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}"
