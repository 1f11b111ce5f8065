#!/bin/bash
# A list of Kubernetes objects "at exactly revision N" can show objects that etcd does not have at revision N.
#
# When etcd is restored from a backup while a kube-apiserver keeps running, the server does not notice. Its watch cache
# keeps the objects of the lost history. Its etcd client resumes the watch after the last revision that it saw, so new
# events are applied on top of them as soon as the restored etcd is past that revision. Since Kubernetes 1.34 (feature
# ListFromCacheSnapshot, on by default), a list with resourceVersion=N&resourceVersionMatch=Exact is served from a
# snapshot of this cache. A list without a resource version is wrong, too: the server asks etcd for its current revision
# only, and serves the list from the cache. A GET of one object reads etcd and contradicts both. /readyz says ok.
#
# It hurts programs that take such a list for a read of etcd. A program that releases values which no listed object uses
# (ports, addresses, tenant IDs) releases values of live objects and hands them out again. Without the feature, the
# exact list is read from etcd and is right even then.
#
# The documentation of Kubernetes says that all API servers must be stopped before a restore, but no server
# checks that. After minutes, the server's consistency check (feature DetectCacheInconsistency) turns the snapshots off;
# the wrong objects stay in the cache. `etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted` ends the
# old watch, and the server lists again. The script shows both.
#
# Sources (k8s.io/apiserver v0.37.2, pkg/storage/cacher):
#   cacher.go                     Cacher.ShouldDelegateExactRV: asks etcd only if no snapshot is at or below N
#   store/watch_cache_storage.go  WatchCacheStorage.GetExactSnapshotLocked: compares revision numbers only
#   watch_cache.go                watchCache.waitAndListExactRV, waitAndListConsistent: serve lists from the cache
#   delegator.go                  CacheDelegator.Get: reads etcd if the request has no resource version
#   consistency/checker.go        Checker.check, every 5 to 7.5 minutes: ends in MarkConsistent(false)
#
# The script needs go, curl 7.82, jq and openssl. It builds a stock kube-apiserver and etcd, which takes minutes the
# first time, and then runs for up to 10 minutes. Downloads stay in Go's caches; the script deletes all else at its end.
# Exit code: 0 if the behaviour is as described, 1 if it has changed, 2 if the script could not find out.
set -Eeuo pipefail
kubernetes=1.37.2 etcd_version=3.7.0 # the etcd of this release of Kubernetes
work=$(mktemp -d)
etcd='' server=''
exec 3>&2 # for errors of commands whose own output goes to a file
cleanup() {
	for pid in $server $etcd; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'broken "line $LINENO failed"' ERR

broken() { # REASON
	{ echo "cannot tell: $1"; tail -n 5 "$work"/*.log; } >&3 2>&1
	exit 2
}
await() { # WHAT COMMAND...: repeats the command until it succeeds
	local end=$((SECONDS + 120))
	until "${@:2}" >/dev/null 2>&1; do
		((SECONDS < end)) || broken "$1: not within 2 minutes"
		sleep 0.2
	done
}
expect() { # WHAT EXPECTED SEEN
	printf '  %-52s %s\n' "$1" "$3"
	[[ $2 == "$3" ]] && return
	echo "CHANGED: $1: expected \"$2\", and saw \"$3\""
	exit 1
}

echo "building kube-apiserver $kubernetes and etcd $etcd_version, which takes minutes the first time"
mkdir "$work/build"
cd "$work/build"
export GOWORK=off PATH=$work/build:$PATH
{
	go mod init finding
	# k8s.io/kubernetes replaces its staging modules by folders, which only its own repository has.
	go mod download "k8s.io/kubernetes@v$kubernetes"
	sed -n "s|^\t\(k8s.io/[a-z-]*\) => ./staging/.*|-replace=\1=\1@v0.${kubernetes#*.}|p" \
		"$(go env GOMODCACHE)/cache/download/k8s.io/kubernetes/@v/v$kubernetes.mod" | xargs go mod edit
	go get "k8s.io/kubernetes/cmd/kube-apiserver@v$kubernetes" go.etcd.io/etcd/{server,etcdctl,etcdutl}/v3@v"$etcd_version"
	go build -trimpath -ldflags "-X k8s.io/component-base/version.gitVersion=v$kubernetes" -o ./ \
		k8s.io/kubernetes/cmd/kube-apiserver go.etcd.io/etcd/{server,etcdctl,etcdutl}/v3
	mv server etcd
} >"$work/build.log" 2>&1
echo "$(kube-apiserver --version), $(sed 1q <(etcd --version)), $(go version)"

free_port() {
	local port=$((20000 + RANDOM % 10000))
	while (exec 4<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
	echo "$port"
}
client=http://127.0.0.1:$(free_port) peer=http://127.0.0.1:$(free_port) port=$(free_port) token=$(openssl rand -hex 16)
export ETCDCTL_ENDPOINTS=$client
start_etcd() { # FOLDER
	etcd --data-dir "$1" --listen-client-urls "$client" --advertise-client-urls "$client" --listen-peer-urls "$peer" \
		>>"$work/etcd.log" 2>&1 &
	etcd=$!
	await "etcd answers" etcdctl endpoint health
}
restore() { # FOLDER [OPTION...]: puts etcd back to the backup, on the same port
	kill "$etcd"
	wait "$etcd" || true
	etcd=''
	etcdutl snapshot restore "$work/backup" --data-dir "$1" "${@:2}" >>"$work/etcd.log" 2>&1
	start_etcd "$1"
}
api() { # PATH [OPTION...]
	curl --silent --insecure --max-time 60 --header "Authorization: Bearer $token" "https://127.0.0.1:$port$1" "${@:2}"
}
configmaps=/api/v1/namespaces/default/configmaps
create() { # NAME: prints the revision
	api $configmaps --fail --json "{\"metadata\":{\"name\":\"$1\"}}" | jq -re .metadata.resourceVersion
}
get() { api "$configmaps/$1" --output /dev/null --write-out '%{http_code}'; } # NAME: prints the status
list() { # QUERY: the names, or the server's error
	api "$configmaps?$1" | jq -r 'if .items then [.items[].metadata.name] | sort | join(" ") else .message end'
}
exact() { list "resourceVersion=$1&resourceVersionMatch=Exact"; } # REVISION
stored() { # REVISION: the names in etcd
	etcdctl get --prefix /registry/configmaps/default/ --keys-only --rev "$1" | sed -n 's|.*/||p' | sort | paste -sd ' '
}
revision() { etcdctl get / --write-out json | jq .header.revision; }
listed() { [[ " $(list '') " == *" $1 "* ]]; } # NAME: the list without a resource version has it

start_etcd "$work/first"
openssl genrsa -out "$work/key" 2048 2>/dev/null
echo "$token,admin,admin,system:masters" >"$work/tokens"
kube-apiserver --etcd-servers "$client" --bind-address 127.0.0.1 --secure-port "$port" --advertise-address 192.0.2.1 \
	--cert-dir "$work" --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$work/key" \
	--service-account-signing-key-file "$work/key" --token-auth-file "$work/tokens" --authorization-mode RBAC \
	--service-cluster-ip-range 10.96.0.0/24 --endpoint-reconciler-type none >"$work/kube-apiserver.log" 2>&1 &
server=$!
await "kube-apiserver is ready" api /readyz --fail
await "the namespace exists" create kept

create deleted-after-backup >"$work/revisions"
etcdctl snapshot save "$work/backup" >"$work/snapshot.log" 2>&1
api $configmaps/deleted-after-backup --fail --request DELETE >"$work/deleted"
at=$(create created-after-backup)
echo "before the restore, at revision $at:"
expect "keys in etcd" 'created-after-backup kept' "$(stored "$at")"
expect "exact list" 'created-after-backup kept' "$(exact "$at")"
expect "list without a resource version" 'created-after-backup kept' "$(list '')"

lost=$(revision)
restore "$work/second"
while (($(revision) <= lost)); do etcdctl put filler '' >"$work/filler"; done
await "kube-apiserver writes again" create created-after-restore
at=$(api $configmaps/created-after-restore | jq -r .metadata.resourceVersion)
right='created-after-restore deleted-after-backup kept' wrong='created-after-backup created-after-restore kept'
await "the cache has the new object" listed created-after-restore
since=$SECONDS
echo "after the restore, at revision $at:"
expect "keys in etcd" "$right" "$(stored "$at")"
expect "exact list" "$wrong" "$(exact "$at")"
expect "list without a resource version" "$wrong" "$(list '')"
expect "GET deleted-after-backup, which neither list shows" 200 "$(get deleted-after-backup)"
expect "GET created-after-backup, which both lists show" 404 "$(get created-after-backup)"
expect "/readyz" ok "$(api /readyz)"

echo "waiting until the exact list at etcd's current revision is right (at most 9 minutes)"
until [[ $(exact "$(revision)") == "$right" ]]; do
	((SECONDS - since < 540)) || break
	# The write adds a snapshot. A compaction of etcd removes old ones, and lists at later revisions are right then.
	api $configmaps/kept --fail --request PATCH --header 'Content-Type: application/merge-patch+json' \
		--data "{\"data\":{\"at\":\"$SECONDS\"}}" >"$work/patched"
	sleep 2
done
expect "exact list, $((SECONDS - since)) s later" "$right" "$(exact "$(revision)")"
expect "list without a resource version, at the same time" "$wrong" "$(list '')"
expect "failed consistency checks of ConfigMaps" 1 "$(api /metrics |
	sed -n 's/^apiserver_storage_consistency_checks_total{.*"configmaps",status="failure"} //p')"

echo "restored again, with --bump-revision 1000000000 --mark-compacted:"
restore "$work/third" --bump-revision 1000000000 --mark-compacted
await "the list shows the object of the backup" listed deleted-after-backup
expect "keys in etcd" 'deleted-after-backup kept' "$(stored 0)"
expect "list without a resource version" 'deleted-after-backup kept' "$(list '')"
echo "The behaviour is as described."
