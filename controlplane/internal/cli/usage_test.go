package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestUsageErrors makes each kind of wrong usage: one sentence that names the input, and how to get help.
func TestUsageErrors(t *testing.T) {
	snapshot := []string{"--etcd-snapshot", etcdtest.Fixture(etcdtest.SingleStack, "clean.db.gz")}
	// Neither exists: usage is checked before any I/O.
	none, etcd := []string{"--etcd-snapshot", "none.db"}, []string{"--endpoints", "http://127.0.0.1:1"}
	for want, args := range map[string][]string{
		`there is no command "nosuch"; see rangekeeper --help`:                                                                                           {"nosuch"},
		`there is no command "audt" (did you mean audit?); see rangekeeper --help`:                                                                       {"audt"},
		`there is no command "other"; see rangekeeper --help`:                                                                                            {"help", "other"},
		`there is no command "extra"; see rangekeeper audit --help`:                                                                                      {"help", "audit", "extra"},
		`there is no command "csh"; see rangekeeper completion --help`:                                                                                   {"completion", "csh"},
		`there is no flag --x; see rangekeeper audit --help`:                                                                                             {"audit", "--x"},
		`there is no flag -x; see rangekeeper audit --help`:                                                                                              {"audit", "-x"},
		`--prefix needs a value; see rangekeeper audit --help`:                                                                                           {"audit", "--prefix"},
		`--passes cannot be "256": value out of range; see rangekeeper repair --help`:                                                                    {"repair", "--passes", "256"},
		`--interval cannot be "soon": time: invalid duration "soon"; see rangekeeper repair --help`:                                                      {"repair", "--interval", "soon"},
		`--apply cannot be "perhaps": invalid syntax; see rangekeeper repair --help`:                                                                     {"repair", "--apply=perhaps"},
		`unexpected argument "extra"; see rangekeeper audit --help`:                                                                                      append(snapshot, "audit", "extra"),
		`IP|PORT|NAME|NAMESPACE/NAME|REASON or --filename is missing; see rangekeeper explain --help`:                                                    append(snapshot, "explain"),
		`"1" and --filename exclude each other; see rangekeeper explain --help`:                                                                          append(snapshot, "explain", "1", "-f", "none.yaml"),
		`--filename and --etcd-snapshot cannot both be the standard input; see rangekeeper explain --help`:                                               {"explain", "-f", "-", "--etcd-snapshot", "-"},
		`--filename is empty; see rangekeeper explain --help`:                                                                                            append(snapshot, "explain", "-f", ""),
		`--watch and --bundle exclude each other; see rangekeeper audit --help`:                                                                          append(etcd, "audit", "--watch", "--bundle", "x"),
		`--watch is for other formats than junit; see rangekeeper audit --help`:                                                                          append(etcd, "audit", "--watch", "-o", "junit"),
		`unexpected argument "2"; see rangekeeper explain --help`:                                                                                        append(snapshot, "explain", "1", "2"),
		`SPEC is missing; see rangekeeper init --help`:                                                                                                   {"init", "serviceips"},
		`RANGE is missing; see rangekeeper allocate --help`:                                                                                              {"allocate"},
		`unexpected argument "10.0.0.2"; see rangekeeper allocate --help`:                                                                                {"allocate", "serviceips", "10.0.0.1", "10.0.0.2"},
		`VALUE is missing; see rangekeeper release --help`:                                                                                               {"release", "serviceips"},
		`--etcd-snapshot or --endpoints is missing; see rangekeeper repair --help`:                                                                       {"repair"},
		`--mode bitmap is for --etcd-snapshot, --endpoints and --sqlite: the Kubernetes API does not serve bitmaps; see rangekeeper audit --help`:        {"audit", "--mode", "bitmap"},
		`--prefix is for --etcd-snapshot, --endpoints and --sqlite; see rangekeeper audit --help`:                                                        {"audit", "--prefix", "/x"},
		`--context is for the Kubernetes API, and --endpoints names an etcd; see rangekeeper audit --help`:                                               append(etcd, "audit", "--context", "x"),
		`--as is for the Kubernetes API, and --etcd-snapshot names a file; see rangekeeper show --help`:                                                  append(none, "show", "serviceips", "--as", "x"),
		`--service-node-port-range is for the Kubernetes API, and --etcd-snapshot names a file; see rangekeeper free --help`:                             append(none, "free", "serviceips", "--service-node-port-range", "1-2"),
		`--service-node-port-range: port range "2-1" ends at 1, below its first port 2; see rangekeeper free --help`:                                     {"free", "serviceips", "--service-node-port-range", "2-1"},
		`--probe is for the Kubernetes API: etcd has the bitmap of node ports; see rangekeeper audit --help`:                                             append(etcd, "audit", "--probe"),
		`--to is missing; see rangekeeper preflight --help`:                                                                                              append(none, "preflight"),
		`--to: "1.31" is not a supported release: expected 1.32, 1.33, 1.34, 1.35, 1.36, 1.37; see rangekeeper preflight --help`:                         append(none, "preflight", "--to", "1.31"),
		`--mode is for other commands: preflight looks at all records of ClusterIPs; see rangekeeper preflight --help`:                                   append(none, "preflight", "--to", "1.34", "--mode", "bitmap"),
		`--service-node-port-range is for the Kubernetes API, and --etcd-snapshot names a file; see rangekeeper preflight --help`:                        append(none, "preflight", "--to", "1.34", "--service-node-port-range", "1-2"),
		`--service-cluster-ip-range is one CIDR, or one of each IP family, not 10.0.0.0/24,10.1.0.0/24; see rangekeeper preflight --help`:                append(none, "preflight", "--to", "1.34", "--service-cluster-ip-range", "10.0.0.0/24,10.1.0.0/24"),
		`--count is at most 1000, not 1001; see rangekeeper free --help`:                                                                                 {"free", "serviceips", "--count", "1001"},
		`--etcd-snapshot and --endpoints exclude each other; see rangekeeper audit --help`:                                                               append(snapshot, "audit", "--endpoints", "http://127.0.0.1:1"),
		`--etcd-snapshot is empty; see rangekeeper audit --help`:                                                                                         {"audit", "--etcd-snapshot", ""},
		`--endpoints is empty; see rangekeeper audit --help`:                                                                                             {"audit", "--endpoints", ""},
		`--endpoints is empty; see rangekeeper repair --help`:                                                                                            {"repair", "--endpoints="},
		`--endpoints has an empty element; see rangekeeper show --help`:                                                                                  {"show", "serviceips", "--endpoints", "http://127.0.0.1:1,"},
		`--endpoints is empty; see rangekeeper init --help`:                                                                                              {"init", "serviceips", "10.96.0.0/12", "--endpoints", ""},
		`--endpoints is empty; see rangekeeper allocate --help`:                                                                                          {"allocate", "serviceips", "--endpoints", ""},
		`--endpoints is empty; see rangekeeper release --help`:                                                                                           {"release", "serviceips", "10.96.0.1", "--endpoints", ""},
		`--endpoints has an empty element; see rangekeeper watch --help`:                                                                                 {"watch", "serviceips", "--endpoints", ",http://127.0.0.1:1"},
		`--passes is at least 2, not 1; see rangekeeper repair --help`:                                                                                   append(etcd, "repair", "--apply", "--clean-leaks", "--passes", "1"),
		`--interval is at least 1m0s, as a Service that is being created has its value before it is written; not 59.999s; see rangekeeper repair --help`: append(etcd, "repair", "--apply", "--clean-leaks", "--interval", "59999ms"),
		`--passes and --interval are for --apply --clean-leaks; see rangekeeper repair --help`:                                                           append(etcd, "repair", "--apply", "--passes", "2"),
		`--clean-leaks is for --apply and --plan-to; see rangekeeper repair --help`:                                                                      append(etcd, "repair", "--clean-leaks"),
		`--apply is for --endpoints; --to-file writes a repaired snapshot; see rangekeeper repair --help`:                                                append(none, "repair", "--apply"),
		`--plan-to is for --endpoints; see rangekeeper repair --help`:                                                                                    append(none, "repair", "--plan-to", "x"),
		`--plan-to and --apply exclude each other; see rangekeeper repair --help`:                                                                        append(etcd, "repair", "--plan-to", "x", "--apply"),
		`--plan is for --apply; see rangekeeper repair --help`:                                                                                           append(etcd, "repair", "--plan", "x"),
		`--plan and --clean-leaks exclude each other: the plan says which leaks are cleaned; see rangekeeper repair --help`:                              append(etcd, "repair", "--apply", "--plan", "x", "--clean-leaks"),
		`JOURNAL is missing; see rangekeeper undo --help`:                                                                                                append(etcd, "undo"),
		`--endpoints is missing; see rangekeeper undo --help`:                                                                                            {"undo", "x"},
		`--timeout is positive, not 0s; see rangekeeper watch --help`:                                                                                    append(etcd, "watch", "serviceips", "--timeout", "0s"),
		`--dial-timeout is positive, not -1s; see rangekeeper audit --help`:                                                                              append(etcd, "audit", "--dial-timeout", "-1s"),
		`--password and --password-file exclude each other; see rangekeeper audit --help`:                                                                append(etcd, "audit", "--password", "x", "--password-file", "y"),
		`--sqlite and --endpoints exclude each other; see rangekeeper audit --help`:                                                                      append(etcd, "audit", "--sqlite", "x"),
		`--sqlite is empty; see rangekeeper audit --help`:                                                                                                {"audit", "--sqlite", ""},
		`--force is for VALUE; see rangekeeper allocate --help`:                                                                                          append(etcd, "allocate", "serviceips", "--force"),
		`--to-file is for --etcd-snapshot; see rangekeeper repair --help`:                                                                                append(etcd, "repair", "--to-file", "x"),
		`--force is for --to-file and --plan-to; see rangekeeper repair --help`:                                                                          append(none, "repair", "--force"),
		`--mode is auto or bitmap, not "xyz"; see rangekeeper repair --help`:                                                                             append(etcd, "repair", "--apply", "--mode", "xyz"),
		`--prefix is empty; see rangekeeper allocate --help`:                                                                                             append(etcd, "allocate", "serviceips", "--prefix="),
		`--prefix is empty; see rangekeeper audit --help`:                                                                                                append(none, "audit", "--prefix="),
		`--mode is auto or bitmap, not ""; see rangekeeper audit --help`:                                                                                 append(none, "audit", "--mode", ""),
		`--skip-hash-check is for --etcd-snapshot; see rangekeeper audit --help`:                                                                         append(etcd, "audit", "--skip-hash-check"),
		`unknown output format "x": expected table, wide, json, yaml, html, prometheus, junit; see rangekeeper audit --help`:                             append(none, "audit", "-o", "x"),
		`unknown output format "x": expected text, json; see rangekeeper watch --help`:                                                                   append(etcd, "watch", "serviceips", "-o", "x"),
		`--cacert, --cert, --key, --user and --password are for --endpoints; see rangekeeper audit --help`:                                               append(none, "audit", "--cert", "x"),
		`--cacert, --cert, --key, --user and --password are for --endpoints; see rangekeeper allocate --help`:                                            {"allocate", "serviceips", "--cert", "x"},
		`unknown range "x": expected serviceips, secondaryserviceips, servicenodeports; see rangekeeper allocate --help`:                                 append(etcd, "allocate", "x"),
		`--count is at least 1, not 0; see rangekeeper allocate --help`:                                                                                  append(etcd, "allocate", "serviceips", "-n", "0"),
		`--count and VALUE exclude each other; see rangekeeper allocate --help`:                                                                          append(etcd, "allocate", "serviceips", "10.0.0.1", "-n", "1"),
		`"" is neither an IP address nor a port; see rangekeeper allocate --help`:                                                                        append(etcd, "allocate", "serviceips", ""),
		`"x" is neither an IP address nor a port; see rangekeeper release --help`:                                                                        append(etcd, "release", "serviceips", "10.0.0.1", "x"),
		`"x" is no address, port, NAMESPACE/NAME or reason; a Service without a namespace needs --namespace; see rangekeeper explain --help`:             append(none, "explain", "x"),
		"10.0.0.0/30, 10.1.0.0/31 is a range, not one value; `rangekeeper show NAME` shows a range; see rangekeeper explain --help":                      append(none, "explain", "10.0.0.0/30, 10.1.0.0/31"),
		"30000-30009 is a range, not one value; `rangekeeper show NAME` shows a range; see rangekeeper explain --help":                                   append(none, "explain", "30000-30009"),
		`shop/web is in another namespace than --namespace default; see rangekeeper explain --help`:                                                      append(none, "explain", "shop/web", "-n", "default"),
		`unexpected argument "extra"; see rangekeeper completion bash --help`:                                                                            {"completion", "bash", "extra"},
		`unexpected argument "audit" after --; see rangekeeper --help`:                                                                                   {"--", "audit"},
		`there is no command "wach" (did you mean watch?); see rangekeeper --help`:                                                                       {"wach", "--", "x"},
		`there is no command ""; see rangekeeper --help`:                                                                                                 {""},
		`serviceips: CIDR "x" has no prefix length: expected ADDRESS/LENGTH; see rangekeeper init --help`:                                                append(etcd, "init", "serviceips", "x"),
		`--to-file is empty; see rangekeeper repair --help`:                                                                                              append(snapshot, "repair", "--to-file", ""),
	} {
		code, stdout, stderr := run(t, args...)
		if code != exitInput || stdout != "" || stderr != "rangekeeper: "+want+"\n" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q, want %q", args, code, stdout, stderr, want)
		}
	}
	if code, stdout, stderr := run(t, "help", "audit"); code != exitOK || !strings.Contains(stdout, "rangekeeper audit --etcd-snapshot") || stderr != "" {
		t.Errorf("help audit: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestRepairIntoCompressedFile repairs into a file whose name ends in .gz, and audits it.
func TestRepairIntoCompressedFile(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz")
	plain, compressed := filepath.Join(t.TempDir(), "x.db"), filepath.Join(t.TempDir(), "x.db.gz")
	for _, output := range []string{plain, compressed} {
		if code, _, stderr := run(t, "repair", "--etcd-snapshot", file, "--to-file", output); code > exitFound {
			t.Fatal(stderr)
		}
	}
	want, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if got := etcdtest.Gunzip(t, compressed); string(got) != string(want) {
		t.Errorf("%d bytes, not the %d of the plain file", len(got), len(want))
	}
	if all, err := os.ReadDir(filepath.Dir(compressed)); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
}
