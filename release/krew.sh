#!/bin/bash
# Writes the manifest for krew, kubectl's package manager, of the plugin's archives in OUT: OUT/rangekeeper.yaml.
#
#   release/krew.sh OUT
set -euo pipefail
out=$(realpath "${1:?usage: release/krew.sh OUT}")
cd "$(dirname "$0")/.."
. release/release.sh
shopt -s nullglob

{
	cat <<-MANIFEST
	apiVersion: krew.googlecontainertools.github.com/v1alpha2
	kind: Plugin
	metadata:
	  name: rangekeeper
	spec:
	  version: v$version
	  homepage: $repository
	  shortDescription: Audits ClusterIPs and node ports of Services
	  description: |
	    Finds Service ClusterIPs and node ports that are leaked, lost or used
	    twice, and says what to do about each: over the Kubernetes API with
	    read access to six resources, in an etcd, or in an etcd snapshot,
	    where it repairs them as well. preflight shows what stops or
	    surprises an upgrade of the API servers.
	  platforms:
	MANIFEST
	for archive in "$out"/kubectl-rangekeeper_v"$version"_*.{tar.gz,zip}; do
		file=${archive##*/}
		platform=${file#"kubectl-rangekeeper_v${version}_"}
		platform=${platform%%.*}
		program=kubectl-rangekeeper
		[[ $platform != windows_* ]] || program+=.exe
		cat <<-PLATFORM
		  - selector:
		      matchLabels:
		        os: ${platform%_*}
		        arch: ${platform#*_}
		    uri: $repository/releases/download/v$version/$file
		    sha256: $(sha256sum "$archive" | cut -d ' ' -f 1)
		    bin: $program
		    files:
		    - from: "*/$program"
		      to: .
		    - from: "*/LICENSE"
		      to: .
		PLATFORM
	done
} >"$out/rangekeeper.yaml"
