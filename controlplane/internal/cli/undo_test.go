package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/edit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestUndoBeforeJournal undoes a plan whose repair waits to look again at a value to clear, so there is no journal yet.
// The repair stops, and a later one writes the plan.
func TestUndoBeforeJournal(t *testing.T) {
	shortenLeakAge(t)
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	putService(t, e, "web", 30001)
	runOK(t, with("allocate", "servicenodeports", "30002")...)
	file := filepath.Join(t.TempDir(), "plan.json")
	journal := file + edit.JournalSuffix
	runFails(t, exitInput, []string{journal, "no such file"}, with("undo", journal)...)
	runJSON[audit.Plan](t, exitFound, with("repair", "--clean-leaks", "--plan-to", file)...)
	apply := with("repair", "--apply", "--plan", file)
	undo := func(words string, args ...string) {
		t.Helper()
		code, stdout, stderr := run(t, with(append([]string{"undo", journal}, args...)...)...)
		if code != exitOK || stdout != "" || !strings.Contains(stderr, "no repair has written "+file+" yet") || !strings.Contains(stderr, words) {
			t.Errorf("exit code %d, %s%s", code, stdout, stderr)
		}
	}
	waited := false
	var said strings.Builder
	code := program.Run(t.Context(), apply, io.Discard, writerFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "look again at 1 value to clear") {
			waited = true
			undo("without --dry-run", "--dry-run")
			undo("; a run that waits to write it is stopped")
		}
		return said.Write(b)
	}))
	if !waited || code == exitOK || !strings.Contains(said.String(), edit.ErrUndoBegan.Error()) {
		t.Errorf("exit code %d, %s", code, said.String())
	}
	if got := ports(t, e); !slices.Equal(got, []string{"30002"}) {
		t.Fatalf("it has written: %q", got)
	}
	runJSON[audit.Plan](t, exitOK, apply...)
	if got := ports(t, e); !slices.Equal(got, []string{"30001"}) {
		t.Errorf("%q", got)
	}
}

// TestUndoSets reverses a repair that has set the ports 30001 and 30003 for two Services, of which one was deleted
// since.
func TestUndoSets(t *testing.T) {
	shortenLeakAge(t)
	type change func(t *testing.T, e *embedded.Etcd, journal string)
	putPort := func(name string, port int) change {
		return func(t *testing.T, e *embedded.Etcd, _ string) { putService(t, e, name, port) }
	}
	deleted := func(name string) change {
		return func(t *testing.T, e *embedded.Etcd, _ string) {
			if _, err := e.Client().Delete(t.Context(), "/registry/services/specs/default/"+name); err != nil {
				t.Error(err)
			}
		}
	}
	toggled := func(ports ...int) change {
		return func(t *testing.T, e *embedded.Etcd, _ string) {
			for _, port := range ports {
				if err := toggle(t.Context(), e.Client(), nodePortsKey, port); err != nil {
					t.Error(err)
				}
			}
		}
	}
	compacted := func(t *testing.T, e *embedded.Etcd, _ string) {
		got, err := e.Client().Get(t.Context(), nodePortsKey)
		if err == nil {
			_, err = e.Client().Compact(t.Context(), got.Header.Revision)
		}
		if err != nil {
			t.Error(err)
		}
	}
	interrupted := func(t *testing.T, e *embedded.Etcd, journal string) {
		j, err := edit.ReadDocument(journal, edit.KindJournal)
		if err != nil {
			t.Fatal(err)
		}
		interrupted := withOutcome(*j, edit.OutcomeUnknown, 0)
		if err := interrupted.Create(journal, true); err != nil {
			t.Fatal(err)
		}
	}
	unchanged := func(*testing.T, *embedded.Etcd, string) {}
	const api = "kept: used by default/api"
	for name, c := range map[string]struct {
		before, meanwhile []change
		web, api          string
		left              []string
	}{
		"unused": {
			meanwhile: []change{unchanged},
			web:       "released", api: api, left: []string{"30003"},
		},
		"freed": {
			before: []change{toggled(30001)},
			web:    "free", api: api, left: []string{"30003"},
		},
		"freed and recorded": {
			before: []change{toggled(30001, 30001)},
			web:    "kept: allocated again", api: api, left: []string{"30001", "30003"},
		},
		"freed and recorded, with versions of other ports": {
			before: []change{toggled(30002, 30001, 30000, 30001)},
			web:    "kept: allocated again", api: api, left: []string{"30000", "30001", "30002", "30003"},
		},
		"another port recorded": {
			before:    []change{toggled(30002)},
			meanwhile: []change{toggled(30000)},
			web:       "released", api: api, left: []string{"30000", "30002", "30003"},
		},
		"no versions since": {
			before: []change{toggled(30002, 30000), compacted},
			web:    "kept: may have been allocated again", api: api, left: []string{"30000", "30001", "30002", "30003"},
		},
		"no versions before it was freed and recorded": {
			before: []change{toggled(30002), compacted, toggled(30001, 30001)},
			web:    "kept: may have been allocated again", api: api, left: []string{"30001", "30002", "30003"},
		},
		"no versions needed": {
			before:    []change{compacted},
			meanwhile: []change{unchanged},
			web:       "released", api: api, left: []string{"30003"},
		},
		"unknown outcome": {
			before: []change{interrupted},
			web:    "kept: may have been allocated again", api: api, left: []string{"30001", "30003"},
		},
		"used again": {
			meanwhile: []change{putPort("late", 30001)},
			web:       "kept: used by default/late", api: api, left: []string{"30001", "30003"},
		},
		"freed meanwhile": {
			meanwhile: []change{toggled(30001)},
			web:       "free", api: api, left: []string{"30003"},
		},
		"freed and recorded meanwhile": {
			meanwhile: []change{toggled(30001, 30001)},
			web:       "kept: allocated again", api: api, left: []string{"30001", "30003"},
		},
		"unused for less than the time to wait": {
			meanwhile: []change{deleted("api")},
			web:       "released", api: api, left: []string{"30003"},
		},
		"unused for less than that, and freed": {
			meanwhile: []change{deleted("api"), toggled(30003)},
			web:       "released", api: "free",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, etcd := cluster(t)
			with := func(args ...string) []string { return append(args, etcd...) }
			runOK(t, with("init", "servicenodeports", "30000-30003")...)
			putService(t, e, "web", 30001)
			putService(t, e, "api", 30003)
			file := filepath.Join(t.TempDir(), "plan.json")
			journal := file + edit.JournalSuffix
			runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file)...)
			runJSON[audit.Plan](t, exitOK, with("repair", "--apply", "--plan", file)...)
			if got := ports(t, e); !slices.Equal(got, []string{"30001", "30003"}) {
				t.Fatalf("%q", got)
			}
			for _, change := range append(slices.Clone(c.before), deleted("web")) {
				change(t, e, journal)
			}
			waited := false
			var stdout strings.Builder
			code := program.Run(t.Context(), with("undo", journal), &stdout, writerFunc(func(b []byte) (int, error) {
				if !strings.Contains(string(b), "look again at 1 value to clear: a request that creates a Service may be under way") {
					t.Errorf("%s", b)
				}
				waited = true
				for _, change := range c.meanwhile {
					change(t, e, journal)
				}
				return len(b), nil
			}))
			if waited != (c.meanwhile != nil) {
				t.Errorf("waited: %t", waited)
			}
			want := fmt.Sprintf("servicenodeports 30001 %s\nservicenodeports 30003 %s\n", c.web, c.api)
			wantCode := exitOK
			if strings.Contains(want, "kept") {
				wantCode = exitFound
			}
			if stays := wantCode == exitFound; exists(t, journal) != stays || exists(t, journal+edit.UndoneSuffix) == stays {
				t.Errorf("the journal stays: %t", !stays)
			}
			if got := ports(t, e); code != wantCode || stdout.String() != want || !slices.Equal(got, c.left) {
				t.Errorf("exit code %d, %sleft %q; want %d, %sleft %q", code, stdout.String(), got, wantCode, want, c.left)
			}
		})
	}
}

// TestUndoInTwoRuns undoes a repair in two runs, as a Service uses a value at first. The second one ends it.
func TestUndoInTwoRuns(t *testing.T) {
	shortenLeakAge(t)
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	runOK(t, with("allocate", "servicenodeports", "30002")...)
	putService(t, e, "web", 30001)
	file := filepath.Join(t.TempDir(), "plan.json")
	journal := file + edit.JournalSuffix
	runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file, "--clean-leaks")...)
	runJSON[audit.Plan](t, exitOK, with("repair", "--apply", "--plan", file)...)
	undo := func(code int, results ...string) {
		t.Helper()
		got, stdout, _ := run(t, with("undo", journal)...)
		want := fmt.Sprintf("servicenodeports 30001 %s\nservicenodeports 30002 %s\n", results[0], results[1])
		if got != code || stdout != want || exists(t, journal) != (code == exitFound) {
			t.Errorf("exit code %d, %s; want %d, %s", got, stdout, code, want)
		}
	}
	undo(exitFound, "kept: used by default/web", "allocated")
	if _, err := e.Client().Delete(t.Context(), "/registry/services/specs/default/web"); err != nil {
		t.Fatal(err)
	}
	undo(exitOK, "released", "recorded")
	if got := ports(t, e); !slices.Equal(got, []string{"30002"}) {
		t.Errorf("left %q", got)
	}
}

// TestUndoStopsARun undoes a plan while a run of it is suspended between its look and its write, which depends on the
// look (TestEndLooks of etcdstoretest).
func TestUndoStopsARun(t *testing.T) {
	e, etcd, file := clusterWithPlan(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runJSON[audit.Plan](t, exitOK, with("repair", "--apply", "--plan", file)...)
	look := nodePortsKey + "/look/1"
	if _, err := e.Client().Put(t.Context(), look, ""); err != nil {
		t.Fatal(err)
	}
	runJSON[undoReport](t, exitFound, with("undo", "--dry-run", file+edit.JournalSuffix)...)
	if got, err := e.Client().Get(t.Context(), look); err != nil || got.Count != 1 {
		t.Error("a dry run has ended the look of another run", err)
	}
	runJSON[undoReport](t, exitFound, with("undo", file+edit.JournalSuffix)...)
	if got, err := e.Client().Get(t.Context(), look); err != nil || got.Count != 0 {
		t.Error("the look of the run is still there", err)
	}
}

// TestUndoInterrupted interrupts an undo that waits: nothing is written, and the journal stays.
func TestUndoInterrupted(t *testing.T) {
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	putService(t, e, "web", 30001)
	file := filepath.Join(t.TempDir(), "plan.json")
	runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file)...)
	runJSON[audit.Plan](t, exitOK, with("repair", "--apply", "--plan", file)...)
	if _, err := e.Client().Delete(t.Context(), "/registry/services/specs/default/web"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log strings.Builder
	code := program.Run(ctx, with("undo", file+edit.JournalSuffix), io.Discard, writerFunc(func(b []byte) (int, error) {
		cancel()
		return log.Write(b)
	}))
	if code == exitOK || !strings.Contains(log.String(), "interrupted before anything is written") || !slices.Equal(ports(t, e), []string{"30001"}) {
		t.Errorf("exit code %d, %s, left %q", code, log.String(), ports(t, e))
	}
	if _, err := os.Stat(file + edit.JournalSuffix); err != nil {
		t.Error(err)
	}
}

// TestUndoOtherRange undoes a repair of a range that is another one by now, or gone, as after an upgrade.
func TestUndoOtherRange(t *testing.T) {
	for name, now := range map[string]func(t *testing.T, e *embedded.Etcd, with func(...string) []string){
		"servicenodeports is 30000-30007, not 30000-30003": func(t *testing.T, e *embedded.Etcd, with func(...string) []string) {
			runOK(t, with("init", "servicenodeports", "30000-30007", "--prefix", "/other")...)
			other, err := e.Client().Get(t.Context(), "/other/ranges/servicenodeports")
			if err == nil {
				_, err = e.Client().Put(t.Context(), nodePortsKey, string(other.Kvs[0].Value))
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"servicenodeports: the stored range was never initialised": func(*testing.T, *embedded.Etcd, func(...string) []string) {},
	} {
		t.Run(name, func(t *testing.T) {
			e, etcd := cluster(t)
			with := func(args ...string) []string { return append(args, etcd...) }
			runOK(t, with("init", "servicenodeports", "30000-30003")...)
			putService(t, e, "web", 30001)
			file := filepath.Join(t.TempDir(), "plan.json")
			journal := file + edit.JournalSuffix
			runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file)...)
			runJSON[audit.Plan](t, exitOK, with("repair", "--apply", "--plan", file)...)
			if _, err := e.Client().Delete(t.Context(), nodePortsKey); err != nil {
				t.Fatal(err)
			}
			now(t, e, with)
			code := exitNone
			if strings.Contains(name, "not 30000-30003") {
				code = exitFound // the cluster has changed
			}
			runFails(t, code, []string{name}, with("undo", journal)...)
			if !exists(t, journal) {
				t.Error("the journal is gone")
			}
		})
	}
}

func exists(t *testing.T, file string) bool {
	t.Helper()
	_, err := os.Stat(file)
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	return err == nil
}

// TestAnotherCluster applies the plan and undoes the journal of one cluster on another one, whose etcd has the same id:
// the id is a hash of addresses and a token.
func TestAnotherCluster(t *testing.T) {
	shortenLeakAge(t)
	e, etcd := cluster(t)
	other, otherEtcd := cluster(t)
	for i, one := range []*embedded.Etcd{e, other} {
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"uid-%d"}}`, i)
		if _, err := one.Client().Put(t.Context(), "/registry/namespaces/kube-system", text); err != nil {
			t.Fatal(err)
		}
		runOK(t, append([]string{"init", "servicenodeports", "30000-30003", "--endpoints"}, one.Endpoints()[0])...)
		putService(t, one, "web", 30001)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	journal := file + edit.JournalSuffix
	runJSON[audit.Plan](t, exitFound, append([]string{"repair", "--plan-to", file}, etcd...)...)
	plan, err := edit.ReadDocument(file, edit.KindReviewedPlan)
	if err != nil || plan.Cluster.UID != "uid-0" || plan.Cluster.Prefix != "/registry" {
		t.Fatalf("%+v, %v", plan, err)
	}
	foreign := []string{"is for another cluster", "uid-0", "uid-1", "nothing was written"}
	runFails(t, exitInput, append(foreign, file), append([]string{"repair", "--apply", "--plan", file}, otherEtcd...)...)
	if exists(t, journal) {
		t.Error("a journal was written")
	}
	// What the servers of a cluster with the Namespace kube-system keep besides is missing.
	runJSON[audit.Plan](t, exitFound, append([]string{"repair", "--apply", "--plan", file}, etcd...)...)
	runFails(t, exitInput, append(foreign, journal), append([]string{"undo", journal}, otherEtcd...)...)
	if !exists(t, journal) || len(ports(t, other)) > 0 {
		t.Errorf("the other cluster has %q", ports(t, other))
	}
	// In the same etcd, below another prefix.
	if err := os.Remove(journal); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, []string{"is for another cluster: its --prefix is /registry, not /other"}, append([]string{"repair", "--apply", "--plan", file, "--prefix", "/other"}, etcd...)...)
}

// TestUndoInAnotherHistory undoes a repair, and goes on with one, in an etcd that was put back to before it, and has
// passed its revisions since. There an operator has recorded the port that the repair has set, and released the one
// that it has cleared.
func TestUndoInAnotherHistory(t *testing.T) {
	shortenLeakAge(t)
	etcd := etcdtest.StartCluster(t, 1)
	client := etcd.Client()
	with := func(args ...string) []string { return append(args, "--endpoints", etcd.Endpoints()[0]) }
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	runOK(t, with("allocate", "servicenodeports", "30002")...)
	const web = "/registry/services/specs/default/web"
	if _, err := client.Put(t.Context(), web, `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"default","name":"web"},"spec":{"clusterIP":"None","ports":[{"port":80,"nodePort":30001}]}}`); err != nil {
		t.Fatal(err)
	}
	backup := etcd.CopyData(0)
	file := filepath.Join(t.TempDir(), "plan.json")
	journal := file + edit.JournalSuffix
	runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file, "--clean-leaks")...)
	runJSON[audit.Plan](t, exitOK, with("repair", "--apply", "--plan", file)...)
	j, err := edit.ReadDocument(journal, edit.KindJournal)
	if err != nil {
		t.Fatal(err)
	}

	const marks = "/registry/ranges/journal/"
	mark := marks + j.Mark
	oldest, err := client.Get(t.Context(), marks, clientv3.WithFirstCreate()...)
	if err != nil {
		t.Fatal(err)
	}
	if len(oldest.Kvs) == 0 || string(oldest.Kvs[0].Key) == mark {
		t.Fatal("no mark from before the write")
	}

	etcd.PutBack(0, backup)
	etcdtest.Revision(t, client) // once the client has its connection again
	restored := []string{"it was restored from an older state since; nothing was written"}
	if _, err := client.Put(t.Context(), mark, ""); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, append(restored, fmt.Sprintf("%s: is of revision %d", journal, j.Ranges[0].WrittenRevision)), with("undo", journal)...)
	for _, gone := range []string{mark, web} {
		if _, err := client.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	// A backup from between the first mark and the write has that mark.
	if _, err := client.Put(t.Context(), string(oldest.Kvs[0].Key), ""); err != nil {
		t.Fatal(err)
	}
	runOK(t, with("allocate", "servicenodeports", "30001")...)
	runOK(t, with("release", "servicenodeports", "30002")...)
	etcdtest.Fill(t, client, j.Ranges[0].WrittenRevision+10)
	stored := readEtcd(t, client).Ranges
	unchanged := func() {
		t.Helper()
		if now := readEtcd(t, client).Ranges; !reflect.DeepEqual(now, stored) {
			t.Errorf("%+v, and %+v before", now, stored)
		}
	}
	runFails(t, exitInput, append(restored, journal), with("undo", journal)...)
	unchanged()
	unknown := withOutcome(*j, edit.OutcomeUnknown, 0)
	unknown.Time = time.Now().Add(-2 * edit.LeakAge)
	if err := unknown.Create(journal, true); err != nil {
		t.Fatal(err)
	}
	runFails(t, exitInput, append(restored, file), with("repair", "--apply", "--plan", file)...)
	unchanged()
}

// TestUndoDocument undoes a repair of ports and addresses as a dry run, and then, in the order of their values.
func TestUndoDocument(t *testing.T) {
	shortenLeakAge(t)
	e, etcd := cluster(t)
	with := func(args ...string) []string { return append(args, etcd...) }
	runOK(t, with("init", "serviceips", "10.0.0.0/24")...)
	runOK(t, with("init", "servicenodeports", "30000-30003")...)
	putService(t, e, "web", 30001)
	for _, address := range []string{"10.0.0.10", "10.0.0.9"} {
		runOK(t, with("allocate", "serviceips", address)...)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	journal := file + edit.JournalSuffix
	runJSON[audit.Plan](t, exitFound, with("repair", "--plan-to", file, "--clean-leaks")...)
	_, stdout, stderr := run(t, with("repair", "--apply", "--plan", file)...)
	if !strings.Contains(stderr, "rangekeeper: for 24 hours, rangekeeper undo "+journal+" takes back 2 cleared values, and 1 set value unless a Service uses it by then\n") {
		t.Errorf("%s%s", stdout, stderr)
	}
	stored := readEtcd(t, e.Client())
	code, stdout, _ := run(t, with("undo", journal, "--dry-run")...)
	const dry = `serviceips 10.0.0.9 allocated (dry run)
serviceips 10.0.0.10 allocated (dry run)
servicenodeports 30001 kept: used by default/web (dry run)
`
	if code != exitFound || stdout != dry || !reflect.DeepEqual(readEtcd(t, e.Client()).Ranges, stored.Ranges) || !exists(t, journal) {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	_, shown := onTerminal(t, 200, with("undo", journal, "--dry-run")...)
	if first, rest, _ := strings.Cut(shown, "\n\n"); !strings.HasPrefix(first, "etcd "+e.Endpoints()[0]+", revision ") || rest != dry {
		t.Errorf("%q", shown)
	}
	if _, shown := onTerminal(t, 200, with("undo", journal, "--dry-run", "-o", "json")...); !strings.HasPrefix(shown, "{") {
		t.Errorf("%q", shown)
	}
	if report := runJSON[undoReport](t, exitFound, with("undo", journal, "--dry-run")...); !report.DryRun || report.WrittenRevision != 0 {
		t.Errorf("%+v", report)
	}
	report := runJSON[undoReport](t, exitFound, with("undo", journal)...)
	var lines []string
	for _, value := range report.Values {
		lines = append(lines, strings.TrimSpace(value.Value+" "+value.Result+" "+value.Reason))
	}
	if want := []string{"10.0.0.9 allocated", "10.0.0.10 allocated", "30001 kept used by default/web"}; !slices.Equal(lines, want) || report.DryRun ||
		report.WrittenRevision <= stored.Revision || report.Source.Revision < stored.Revision || report.Source.Cluster != stored.Identity {
		t.Errorf("%+v", report)
	}
}
