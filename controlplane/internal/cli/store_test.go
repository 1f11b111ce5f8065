package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// cluster is an etcd without anything in it, and the flag that names it.
func cluster(t *testing.T) (*embedded.Etcd, []string) {
	t.Helper()
	e := etcdtest.Start(t, "")
	return e, []string{"--endpoints", strings.Join(e.Endpoints(), ",")}
}

// runOK runs a command that must end well and say nothing on stderr, and returns the
// lines of its output.
func runOK(t *testing.T, args ...string) []string {
	t.Helper()
	return command.OK(t, args...)
}

// runFails runs a command that must end with the code, and say why in one line.
func runFails(t *testing.T, want int, words []string, args ...string) {
	t.Helper()
	command.Fails(t, want, words, args...)
}

// allocated returns what an audit finds allocated in an etcd without Services.
func allocated(t *testing.T, name string, flags ...string) []string {
	t.Helper()
	_, stdout, stderr := run(t, append([]string{"audit", "-o", "json"}, flags...)...)
	var report audit.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || stderr != "" {
		t.Fatalf("%v, %s", err, stderr)
	}
	var values []string
	for _, leak := range report.Leaks {
		if leak.Range == name {
			values = append(values, leak.Value)
		}
	}
	return values
}

func TestInit(t *testing.T) {
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	for _, c := range []struct{ name, spec, canonical string }{
		{"serviceips", "10.96.0.0/28", "10.96.0.0/28"},
		{"secondaryserviceips", "fd00::/112", "fd00::/112"},
		{"servicenodeports", "30000+99", "30000-30099"},
	} {
		for _, what := range []string{"created", "unchanged"} {
			got := runOK(t, with("init", c.name, c.spec)...)
			if want := c.name + " " + c.canonical + " " + what; len(got) != 1 || got[0] != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if values := allocated(t, c.name, etcd...); values != nil {
			t.Errorf("%s: allocated %q", c.name, values)
		}
	}
	// Another way to write the same range.
	runOK(t, with("init", "serviceips", "010.096.000.005/28")...)
	stored := func() (all []string) {
		got, err := e.Client().Get(t.Context(), "", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range got.Kvs {
			all = append(all, fmt.Sprintf("%s %q", kv.Key, kv.Value))
		}
		return all
	}
	before := stored()
	runFails(t, exitInput, []string{"10.96.0.0/28", "10.96.0.0/27"}, with("init", "serviceips", "10.96.0.0/27")...)
	runFails(t, exitInput, []string{"30000-30099", "30000-32767"}, with("init", "servicenodeports", "30000-32767")...)
	runFails(t, exitInput, []string{"serviceips", "30000-32767", "CIDR"}, with("init", "serviceips", "30000-32767")...)
	runFails(t, exitInput, []string{"servicenodeports", "10.96.0.0/28", "port range"}, with("init", "servicenodeports", "10.96.0.0/28")...)
	runFails(t, exitInput, []string{"10.0.0.0/11 has more than 1048576 values"}, with("init", "serviceips", "10.0.0.0/11", "--prefix", "/wide")...)
	runOK(t, with("init", "serviceips", "10.96.0.0/12", "--prefix", "/wide")...)
	if _, err := e.Client().Delete(t.Context(), "/wide", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{"10.96.0.0/33"}, with("init", "serviceips", "10.96.0.0/33")...)
	runFails(t, exitInput, []string{"nonsense", "serviceips", "servicenodeports"}, with("init", "nonsense", "10.96.0.0/28")...)
	runFails(t, exitInput, []string{"10.96.0.0/28", "fd00::/112"}, with("init", "serviceips", "fd00::/112")...)
	if after := stored(); len(after) != 3 || !slices.Equal(before, after) {
		t.Errorf("got %q\nwant %q", after, before)
	}
	// Elsewhere.
	runOK(t, with("init", "serviceips", "10.0.0.0/24", "--prefix", "other")...)
	runFails(t, exitInput, []string{"secondaryserviceips 10.1.0.0/24", "serviceips is 10.0.0.0/24", "same IP family"}, with("init", "secondaryserviceips", "10.1.0.0/24", "--prefix", "other")...)
	runOK(t, with("init", "secondaryserviceips", "fd00::/112", "--prefix", "other")...)
	// Where Services are, an empty range would give what they have to others.
	if _, err := e.Client().Put(t.Context(), "/used/services/specs/default/web", "a Service"); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{"/used/ranges/serviceips", "the number of Services below /used/services/specs/ is 1:"}, with("init", "serviceips", "10.96.0.0/28", "--prefix", "/used")...)
	if _, err := e.Client().Delete(t.Context(), "/used/services/specs/default/web"); err != nil {
		t.Fatal(err)
	}
	if got := runOK(t, with("allocate", "serviceips", "10.0.0.77", "--prefix", "/other")...); !slices.Equal(got, []string{"10.0.0.77"}) {
		t.Errorf("%q", got)
	}
	// Beside the range with a value stands its witness.
	if after := stored(); len(after) != 6 || !strings.HasPrefix(after[1], "/other/ranges/serviceips ") || !strings.HasPrefix(after[2], "/other/ranges/serviceips/witness ") {
		t.Errorf("%q", after)
	}
}

func TestAllocateAndRelease(t *testing.T) {
	_, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	for _, c := range []struct {
		name, spec, outside, nonsense string
		all                           []string
	}{
		{"serviceips", "10.96.0.0/28", "10.96.0.15", "30000", addressesFrom("10.96.0.1", 14)},
		{"secondaryserviceips", "fd00::/124", "fd00::10", "fd00", addressesFrom("fd00::1", 15)},
		{"servicenodeports", "30000-30009", "30010", "10.0.0.1", portsFrom(30000, 10)},
	} {
		n := len(c.all)
		runFails(t, exitNone, []string{c.name, "rangekeeper init"}, with("allocate", c.name)...)
		runFails(t, exitNone, []string{c.name, "rangekeeper init"}, with("release", c.name, c.all[0])...)
		runOK(t, with("init", c.name, c.spec)...)

		got := runOK(t, with("allocate", c.name, c.all[1])...)
		runFails(t, exitFound, []string{c.all[1], "already allocated"}, with("allocate", c.name, c.all[1])...)
		runFails(t, exitInput, []string{c.outside, c.spec}, with("allocate", c.name, c.outside)...)
		runFails(t, exitInput, []string{c.nonsense}, with("allocate", c.name, c.nonsense)...)
		got = append(got, runOK(t, with("allocate", c.name)...)...)
		got = append(got, runOK(t, with("allocate", c.name, "-n", fmt.Sprint(n-4))...)...)
		if left := n - len(got); left != 2 {
			t.Fatalf("%s: %d left", c.name, left)
		}
		// All or nothing.
		for _, count := range []string{"3", fmt.Sprint(n + 1), "4294967295"} {
			runFails(t, exitFound, []string{c.spec, "are free: none is allocated", count}, with("allocate", c.name, "--count", count)...)
		}
		if values := allocated(t, c.name, etcd...); len(values) != n-2 {
			t.Errorf("%s: %q", c.name, values)
		}
		got = append(got, runOK(t, with("allocate", c.name, "-n", "2")...)...)
		runFails(t, exitFound, []string{c.spec, "full"}, with("allocate", c.name)...)
		slices.Sort(got)
		want := slices.Sorted(slices.Values(c.all))
		if !slices.Equal(got, want) || !slices.Equal(slices.Sorted(slices.Values(allocated(t, c.name, etcd...))), want) {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}

		// One value that is not in the range, and nothing is freed.
		runFails(t, exitInput, []string{c.outside, c.spec}, with("release", c.name, c.all[0], c.outside)...)
		runFails(t, exitInput, []string{c.nonsense}, with("release", c.name, c.nonsense, c.all[0])...)
		if values := allocated(t, c.name, etcd...); len(values) != n {
			t.Errorf("%s: %q", c.name, values)
		}
		line := func(i int, what string) string { return c.name + " " + c.all[i] + " " + what }
		if out := runOK(t, with("release", c.name, c.all[0], c.all[2])...); !slices.Equal(out, []string{line(0, "released"), line(2, "released")}) {
			t.Errorf("%q", out)
		}
		if out := runOK(t, with("release", c.name, c.all[2], c.all[3], c.all[0])...); !slices.Equal(out, []string{line(2, "free"), line(3, "released"), line(0, "free")}) {
			t.Errorf("%q", out)
		}
		if values := allocated(t, c.name, etcd...); len(values) != n-3 || slices.Contains(values, c.all[3]) {
			t.Errorf("%s: %q", c.name, values)
		}
		again := runOK(t, with("allocate", c.name, "-n", "3")...)
		if slices.Sort(again); !slices.Equal(again, slices.Sorted(slices.Values([]string{c.all[0], c.all[2], c.all[3]}))) {
			t.Errorf("%s: %q", c.name, again)
		}
	}
}

func addressesFrom(first string, n int) (all []string) {
	for addr := netip.MustParseAddr(first); len(all) < n; addr = addr.Next() {
		all = append(all, addr.String())
	}
	return all
}

func portsFrom(first, n int) (all []string) {
	for port := first; len(all) < n; port++ {
		all = append(all, fmt.Sprint(port))
	}
	return all
}

// TestAllocateMany allocates and releases thousands of values with one command each.
// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// TestAllocatedButNotPrinted allocates values that cannot be printed: the error names them.
func TestAllocatedButNotPrinted(t *testing.T) {
	e := etcdtest.Start(t, "")
	etcd := []string{"--endpoints", e.Endpoints()[0]}
	runOK(t, append([]string{"init", "servicenodeports", "30000-30002"}, etcd...)...)
	var stderr strings.Builder
	code := program.Run(t.Context(), append([]string{"allocate", "servicenodeports", "-n", "2"}, etcd...), fullDisk{}, &stderr)
	_, names, _ := strings.Cut(strings.TrimSpace(stderr.String()), "the disk is full: these values are allocated, and could not be printed: ")
	got := strings.Fields(names)
	slices.Sort(got)
	if want := ports(t, e); code != exitFound || len(want) != 2 || !slices.Equal(got, want) {
		t.Errorf("exit code %d, %s, allocated %q", code, stderr.String(), want)
	}
}

func TestAllocateMany(t *testing.T) {
	_, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "serviceips", "10.96.0.0/12")...)
	got := runOK(t, with("allocate", "serviceips", "-n", "100000")...)
	unique := slices.Compact(slices.Sorted(slices.Values(got)))
	if len(unique) != 100000 {
		t.Errorf("%d values, %d of them different", len(got), len(unique))
	}
	runOK(t, with(append([]string{"release", "serviceips"}, got[:5000]...)...)...)
	left := slices.Sorted(slices.Values(allocated(t, "serviceips", etcd...)))
	if !slices.Equal(left, slices.Sorted(slices.Values(got[5000:]))) {
		t.Errorf("%d values left", len(left))
	}
}

// TestForeignValues finds something else under the key, which must stay.
func TestForeignValues(t *testing.T) {
	e, etcd := cluster(t)
	for name, value := range map[string]string{
		"garbage":      "garbage",
		"encrypted":    "k8s:enc:aescbc:v1:key1:xxxx",
		"ports":        string(stored(t, "30000-32767", nil)),
		"past the end": string(stored(t, "10.96.0.0/28", []byte{0x40, 0})),
	} {
		if _, err := e.Client().Put(t.Context(), serviceIPsKey, value); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"init", "serviceips", "10.96.0.0/28"}, {"allocate", "serviceips"}, {"allocate", "serviceips", "10.96.0.1"},
			{"release", "serviceips", "10.96.0.1"}, {"watch", "serviceips"},
		} {
			t.Run(name+" "+args[0], func(t *testing.T) {
				runFails(t, exitInput, []string{serviceIPsKey}, append(args, etcd...)...)
			})
		}
		if got, err := e.Client().Get(t.Context(), serviceIPsKey); err != nil || string(got.Kvs[0].Value) != value {
			t.Errorf("%s: %v, %v", name, err, got)
		}
	}
	// An object that no server has initialised yet.
	if _, err := e.Client().Put(t.Context(), serviceIPsKey, string(stored(t, "", nil))); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitNone, []string{"rangekeeper init"}, append([]string{"allocate", "serviceips"}, etcd...)...)
	if got := runOK(t, append([]string{"init", "serviceips", "10.96.0.0/28"}, etcd...)...); !slices.Equal(got, []string{"serviceips 10.96.0.0/28 created"}) {
		t.Errorf("%q", got)
	}
}

func TestStoreUnreachable(t *testing.T) {
	t.Parallel() // it waits

	address := fmt.Sprintf("127.0.0.1:%d", etcdtest.ReservePort(t)) // nobody listens there
	runFails(t, exitUnreachable, []string{address}, "allocate", "serviceips", "--endpoints", "http://"+address)
}

// TestStoreTLS allocates from an etcd that wants client certificates.
func TestStoreTLS(t *testing.T) {
	a := etcdtest.NewAuthority(t)
	cert, key := a.Leaf(t, "client")
	flags := []string{"--endpoints", "https://" + etcdtest.StartTLS(t, a), "--cacert", a.File, "--cert", cert, "--key", key}
	with := func(args ...string) []string { return append(args, flags...) }
	runOK(t, with("init", "serviceips", "10.96.0.0/28")...)
	got := runOK(t, with("allocate", "serviceips")...)
	runOK(t, with(append([]string{"release", "serviceips"}, got...)...)...)
}

// TestStoreAuth allocates from an etcd that asks for users.
func TestStoreAuth(t *testing.T) {
	e, etcd := cluster(t)
	c := e.Client()
	etcdtest.AddUser(t, c, "reader", "secret", clientv3.PermissionType(clientv3.PermRead), "/registry/")
	etcdtest.AddUser(t, c, "writer", "secret", clientv3.PermissionType(clientv3.PermReadWrite), "/registry/")
	etcdtest.EnableAuth(t, c, "secret")
	with := func(user string, args ...string) []string {
		return append(append(args, etcd...), "--user", user+":secret")
	}

	runOK(t, with("writer", "init", "serviceips", "10.96.0.0/28")...)
	runOK(t, with("writer", "allocate", "serviceips", "10.96.0.1")...)
	for _, args := range [][]string{{"allocate", "serviceips"}, {"release", "serviceips", "10.96.0.1"}, {"init", "secondaryserviceips", "fd00::/112"}} {
		runFails(t, exitNone, []string{"permission denied"}, with("reader", args...)...)
	}
	runFails(t, exitInput, []string{"asks for a user"}, append([]string{"allocate", "serviceips"}, etcd...)...)
	if got := allocated(t, "serviceips", append(etcd, "--user", "root:secret")...); !slices.Equal(got, []string{"10.96.0.1"}) {
		t.Errorf("%q", got)
	}
}
