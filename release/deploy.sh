#!/bin/bash
# Writes the OCI image of OUT/programs, and what deploys it: OUT/image is an image layout;
# OUT/rangekeeper-deploy_VERSION.tar.gz has the folder deploy, whose manifests name the image by its digest; so does the
# chart OUT/rangekeeper-controller-VERSION.tgz.
#
#   release/deploy.sh OUT
set -euo pipefail
out=$(realpath "${1:?usage: release/deploy.sh OUT}")
cd "$(dirname "$0")/.."
. release/release.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

rm -rf "$out/image"
programs=()
for architecture in amd64 arm64; do
	programs+=("linux/$architecture=$out/programs/linux_$architecture/rangekeeper")
done
digest=$(cd release && "${GO:-go}" run ./image -out "$out/image" -version "$version" -revision "$commit" \
	-created "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" -license ../LICENSE \
	-notices "$out/programs/linux_amd64/rangekeeper.notices" "${programs[@]}")
# It may be copied by another user than the one who builds it.
find "$out/image" -type f -exec chmod 644 {} +
find "$out/image" -type d -exec chmod 755 {} +
tool() { (cd release && "${GO:-go}" tool "$@"); }

name=rangekeeper-deploy_v$version
mkdir "$work/$name"
cp -r release/deploy "$work/$name/deploy"
cp LICENSE "$work/$name"
cat >>"$work/$name/deploy/base/kustomization.yaml" <<IMAGES
images:
- name: rangekeeper
  digest: $digest
IMAGES
chart=$work/$name/deploy/chart
sed -i "s/^  digest: \"\"$/  digest: $digest/" "$chart/values.yaml"
grep -q "^  digest: $digest\$" "$chart/values.yaml"
grep -q "^version: $version\$" "$chart/Chart.yaml" && grep -q "^appVersion: $version\$" "$chart/Chart.yaml" ||
	{ echo "deploy.sh: deploy/chart/Chart.yaml is not of version $version" >&2; exit 1; }
tool helm lint --strict "$chart" --set serviceClusterIPRange=10.96.0.0/12,serviceNodePortRange=30000-32767 >"$work/log" || { cat "$work/log" >&2; exit 1; }
# helm package writes the time of the run into the archive.
mkdir "$work/chart"
cp LICENSE "$chart"
cp -r "$chart" "$work/chart/rangekeeper-controller"
pack_tar "$work/chart" "$out/rangekeeper-controller-$version.tgz"
mkdir "$work/all"
mv "$work/$name" "$work/all"
pack_tar "$work/all" "$out/$name.tar.gz"
echo "image $digest"
