#!/bin/bash
# Builds ledger-rs and lets several processes at once write a ledger in SQLite and in a real etcd, and one in redb.
# Then it tests what etcd refuses by its size.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

make --silent restored-etcd examples-rust >&2

cat >"$work/play" <<'PLAY'
#!/bin/bash
# play PROGRAM WORK STORE PROCESSES: so many processes allocate 40 VNIs each, one after the other; then all again.
set -euo pipefail
program=$1 work=$2 store=$3 processes=$4
[[ $store != etcd ]] || store=http://${ETCDCTL_ENDPOINTS#http://}
ledger() { "$program" --store "$store" --key /vnis --range 4096-16777215 --exclude 4100-4199 "$@"; }
for round in 1 2; do
	pids=()
	for ((process = 0; process < processes; process++)); do
		for ((owner = 0; owner < 40; owner++)); do ledger allocate "$process/$owner"; done >"$work/$process" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do wait "$pid"; done
	for ((process = 0; process < processes; process++)); do cat "$work/$process"; done | sort >"$work/given-$round"
done
cmp "$work/given-1" "$work/given-2" # the same owners get the same
count=$(cut -f 2 "$work/given-1" | sort -u | wc -l)
((count == 40 * processes)) || { echo "$count VNIs for $((40 * processes)) owners"; exit 1; }
if cut -f 2 "$work/given-1" | grep -qE '^41[0-9][0-9]$'; then echo "an excluded VNI was given"; exit 1; fi
ledger show | awk -F '\t' '{ print $2 "\t" $1 "\t1" }' | sort | cmp - "$work/given-1"
ledger release 0/0 0/1 0/0 >"$work/released"
printf '0/0\t1 released\n0/1\t1 released\n0/0\t0 released\n' | cmp - "$work/released"
ledger allocate --run 2 0/2 2>"$work/refused" && exit 1
grep -q "0/2: 0/2 has [0-9]* already" "$work/refused"
((($(ledger show | wc -l)) == 40 * processes - 2))
PLAY
chmod +x "$work/play"

play() { # STORE PROCESSES [COMMAND...]: with COMMAND in front
	local store=$1 processes=$2
	shift 2
	if "$@" "$work/play" target/debug/ledger-rs "$work" "$store" "$processes" >"$work/output" 2>&1; then
		echo "ok      ledger-rs: ${store%%:*}, processes: $processes"
	else
		echo "FAILED  ledger-rs: ${store%%:*}, processes: $processes"
		cat "$work/output"
		failed=1
	fi
}
play "sqlite:$work/ledger.sqlite" 4
play "redb:$work/ledger.redb" 1
play etcd 4 target/restored-etcd testing/testdata/kube-1.32-dual-stack/clean.db.gz
if target/restored-etcd testing/testdata/kube-1.32-dual-stack/clean.db.gz make --silent examples-rust-tests TESTS=etcd >"$work/output" 2>&1; then
	echo "ok      ledger-rs: what is too large for etcd"
else
	echo "FAILED  ledger-rs: what is too large for etcd"
	cat "$work/output"
	failed=1
fi
exit $failed
