package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestExplainNoServer: in an etcd in which no server has run there is nothing to explain.
func TestExplainNoServer(t *testing.T) {
	from := []string{"--endpoints", etcdtest.Start(t, "").Endpoints()[0]}
	runOK(t, append([]string{"init", "servicenodeports", "30000-30003"}, from...)...)
	code, text, stderr := run(t, append([]string{"explain", "default/kubernetes"}, from...)...)
	if code != exitNone || !strings.Contains(stderr, "default/kubernetes") {
		t.Errorf("exit code %d: %s%s", code, text, stderr)
	}
}

// TestServerObjectIsWritten writes Endpoints only if no server has got a lease since they were judged. That another
// server has renewed its lease, or that one is gone, does not matter.
func TestServerObjectIsWritten(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"))
	ctx, client := t.Context(), etcd.Client()
	s := &source.Source{Client: client, Linked: program.Linked}
	const lease = "/registry/masterleases/10.0.9.9"
	object := audit.ServerObject{Action: audit.ActionWrite, Kind: audit.KindEndpoints, Name: "kubernetes", Key: "/registry/written", Value: []byte("x")}
	for _, c := range []struct {
		what    string
		does    func() error
		written bool
	}{
		{"nothing", func() error { return nil }, true},
		{"a lease is renewed", func() error { _, err := client.Put(ctx, lease, "y"); return err }, true},
		{"a server starts", func() error { _, err := client.Put(ctx, "/registry/masterleases/10.0.9.8", "y"); return err }, false},
		{"all leases are gone", func() error {
			_, err := client.Delete(ctx, "/registry/masterleases/", clientv3.WithPrefix())
			return err
		}, true},
		{"the object is written", func() error { _, err := client.Put(ctx, object.Key, "y"); return err }, false},
	} {
		got, err := client.Get(ctx, object.Key)
		if err != nil {
			t.Fatal(err)
		}
		if object.ModRevision = 0; got.Count > 0 {
			object.ModRevision = got.Kvs[0].ModRevision
		}
		look, judged, err := s.Look(ctx, nil)
		if err == nil {
			err = c.does()
		}
		if err != nil {
			t.Fatal(err)
		}
		if written, err := s.WriteServerObject(ctx, object, judged, look); written != c.written || err != nil {
			t.Errorf("%s: written %t, %v", c.what, written, err)
		}
	}
}

// TestServerObjectOfAnotherHistory puts etcd back between a look at the Endpoints and their write, and between the two
// looks of a repair. In the other history they have another address of a server without a lease, and the same revision.
func TestServerObjectOfAnotherHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	t.Parallel()
	const live, endpoints, slice = "10.0.9.9", "/registry/services/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes"
	etcd := etcdtest.StartCluster(t, 1)
	ctx, client := t.Context(), etcd.Client()
	stored := func() *mvccpb.KeyValue {
		got, err := client.Get(ctx, endpoints)
		if err != nil || got.Count != 1 {
			t.Fatal(got, err)
		}
		return got.Kvs[0]
	}
	runOK(t, "init", "servicenodeports", "30000-30003", "--endpoints", etcd.Endpoints()[0])
	backup := etcd.CopyData(0)
	target := etcdtest.Revision(t, client) + 10
	var histories, values []string
	leases := make(chan clientv3.LeaseID, 2)
	go func() { // the live server is alive in both histories
		var all []clientv3.LeaseID
		for ctx.Err() == nil {
			select {
			case id := <-leases:
				all = append(all, id)
			case <-time.After(time.Second):
			}
			for _, id := range all {
				client.KeepAliveOnce(ctx, id) // an error says that it is one of the other history
			}
		}
	}()
	for _, other := range []string{"10.0.9.7", "10.0.9.8"} {
		etcd.PutBack(0, backup)
		etcdtest.Fill(t, client, target)
		const ports, name = `"ports":[{"name":"https","port":26443,"protocol":"TCP"}]`, `"metadata":{"namespace":"default","name":"kubernetes","labels":`
		values = append(values, `{"apiVersion":"v1","kind":"Endpoints",`+name+`{"endpointslice.kubernetes.io/skip-mirror":"true"}},
			"subsets":[{"addresses":[{"ip":"`+other+`"},{"ip":"`+live+`"}],`+ports+`}]}`)
		granted, err := client.Grant(ctx, 15)
		if err == nil {
			leases <- granted.ID
			value := `{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":""},"subsets":[{"addresses":[{"ip":"` + live + `"}]}]}`
			_, err = client.Put(ctx, "/registry/masterleases/"+live, value, clientv3.WithLease(granted.ID))
		}
		if err == nil {
			_, err = client.Put(ctx, slice, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4",`+name+`{"kubernetes.io/service-name":"kubernetes"}},
				"endpoints":[{"addresses":["`+other+`"]},{"addresses":["`+live+`"]}],`+ports+`}`)
		}
		if err == nil {
			_, err = client.Put(ctx, endpoints, values[len(values)-1])
		}
		if err != nil {
			t.Fatal(err)
		}
		histories = append(histories, etcd.CopyData(0))
	}
	putBack := func(history int) *mvccpb.KeyValue {
		etcd.PutBack(0, histories[history])
		return stored() // once the client has its connection again
	}

	s := &source.Source{Client: client, Linked: program.Linked, ForServers: true}
	object := audit.ServerObject{Action: audit.ActionWrite, Kind: audit.KindEndpoints, Name: "kubernetes", Key: endpoints, Value: []byte("x")}
	object.ModRevision = putBack(0).ModRevision
	look, judged, err := s.Look(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if now := putBack(1); now.ModRevision != object.ModRevision {
		t.Fatalf("the Endpoints are of revision %d and of %d", object.ModRevision, now.ModRevision)
	}
	if done, err := s.WriteServerObject(ctx, object, judged, look); done || err != nil || string(stored().Value) != values[1] {
		t.Errorf("written %t, %v: %q", done, err, stored().Value)
	}

	putBack(0)
	var said strings.Builder
	program.Run(ctx, []string{"repair", "--apply", "--endpoints", etcd.Endpoints()[0]}, t.Output(), writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("to look again")) {
			putBack(1)
		}
		return said.Write(b)
	}))
	if !strings.Contains(said.String(), "restored") || string(stored().Value) != values[1] {
		t.Errorf("%s: %q", said.String(), stored().Value)
	}
}

// TestRepairTellsUnknown: what the repair does not know is in its plan.
func TestRepairTellsUnknown(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"))
	if _, err := etcd.Client().Put(t.Context(), "/registry/masterleases/10.0.9.8", "k8s:enc:aescbc:v1:key:x"); err != nil {
		t.Fatal(err)
	}
	const encrypted = "values are encrypted at rest"
	plan := runJSON[audit.Plan](t, exitFound, "repair", "--endpoints", etcd.Endpoints()[0])
	if len(plan.Unknown) != 1 || !strings.Contains(plan.Unknown[0].Message, encrypted) {
		t.Errorf("%+v", plan.Unknown)
	}
	if _, text, _ := run(t, "repair", "--endpoints", etcd.Endpoints()[0]); !strings.Contains(text, "breaks traffic now\n        not shown: endpoints of API servers that have ended\n") {
		t.Error(text)
	}
}

// TestPausedServerStays: a server that writes its lease between the two looks of a repair, and is paused again before
// the second one, stays in the endpoints. The address of a dead server goes.
func TestPausedServerStays(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute")
	}
	t.Parallel()
	const live, paused, dead = "10.0.9.9", "10.0.9.8", "10.0.9.7"
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"))
	ctx, client := t.Context(), etcd.Client()
	const directory, endpoints = "/registry/masterleases/", "/registry/services/endpoints/default/kubernetes"
	got, err := client.Get(ctx, directory+live)
	if err != nil || got.Count != 1 {
		t.Fatal(got, err)
	}
	lease := func(address string, ttl int64) {
		granted, err := client.Grant(ctx, ttl)
		if err == nil {
			_, err = client.Put(ctx, directory+address, strings.Replace(string(got.Kvs[0].Value), live, address, 1), clientv3.WithLease(granted.ID))
		}
		if err != nil {
			t.Error(err)
		}
	}
	lease(live, 15)
	_, err = client.Put(ctx, endpoints, `{"apiVersion":"v1","kind":"Endpoints","metadata":{"namespace":"default","name":"kubernetes","labels":{"endpointslice.kubernetes.io/skip-mirror":"true"}},
		"subsets":[{"addresses":[{"ip":"`+dead+`"},{"ip":"`+paused+`"},{"ip":"`+live+`"}],"ports":[{"name":"https","port":26443,"protocol":"TCP"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	stop, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Second):
			}
			lease(live, 15)
		}
	}()
	if _, text, _ := run(t, "audit", "--endpoints", etcd.Endpoints()[0]); !strings.Contains(nextSteps(text), "show the repair of 3 of 3; add --apply to write it") {
		t.Error(text)
	}
	if _, text, _ := run(t, "repair", "--endpoints", etcd.Endpoints()[0]); !strings.Contains(text, "0 set, 0 cleared, 3 findings to look at again (not applied)") {
		t.Error(text)
	}
	var out bytes.Buffer
	code := program.Run(ctx, []string{"repair", "--apply", "-o", "json", "--endpoints", etcd.Endpoints()[0]}, &out, writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("to look again")) {
			lease(paused, 2)
		}
		return t.Output().Write(b)
	}))
	close(stop)
	<-written
	var plan audit.Plan
	if err := json.Unmarshal(out.Bytes(), &plan); err != nil || code != exitFound {
		t.Fatal(code, err)
	}
	if len(plan.ServerObjects) != 2 || plan.ServerObjects[0].Kind != audit.KindEndpoints {
		t.Errorf("%+v", plan.ServerObjects)
	}
	now, err := client.Get(ctx, endpoints)
	if err != nil || now.Count != 1 {
		t.Fatal(now, err)
	}
	value := string(now.Kvs[0].Value)
	if !strings.Contains(value, live) || !strings.Contains(value, paused) || strings.Contains(value, dead) {
		t.Errorf("%q", value)
	}
}

// TestExplainManyServers shows some of them, and the text of a reason once.
func TestExplainManyServers(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"))
	for i := range 300 {
		if _, err := etcd.Client().Put(t.Context(), fmt.Sprintf("/registry/masterleases/10.1.0.%d", i), "damaged"); err != nil {
			t.Fatal(err)
		}
	}
	code, text, _ := run(t, "explain", "kubernetes", "--endpoints", etcd.Endpoints()[0])
	if code != exitFound || strings.Count(text, "\n") > 200 || !strings.Contains(text, "API servers: 301\n") || !strings.Contains(text, "  and 281 more (-o json shows all)\n") ||
		strings.Count(text, "and 280 more (-o json shows all)\n") != 2 || strings.Count(text, "Risk:") != 2 {
		t.Errorf("%d: %s", code, text)
	}
	if all := runJSON[audit.Explanations](t, exitFound, "explain", "kubernetes", "--endpoints", etcd.Endpoints()[0]); len(all.Servers) != 301 || len(all.Findings) != 600 {
		t.Errorf("%d servers, %d findings", len(all.Servers), len(all.Findings))
	}
}

// TestKeysOfOthers: a key that somebody wrote into etcd reaches a terminal as text, and in part if it is long.
func TestKeysOfOthers(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"))
	const directory, evil = "/registry/masterleases/", "10.0.0.9\x1b[31m\r\n\u202e\xff"
	for _, key := range []string{evil, strings.Repeat("long", 5000)} {
		if _, err := etcd.Client().Put(t.Context(), directory+key, "damaged"); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"many-0", "many-1", "many-2", "many-3", "evil\x1b[31m\n"} {
		quoted, err := json.Marshal(name)
		if err == nil {
			_, err = etcd.Client().Put(t.Context(), "/registry/endpointslices/default/"+name, `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","addressType":"IPv4",
				"endpoints":[{"addresses":["10.0.9.9"]}],"metadata":{"namespace":"default","name":`+string(quoted)+`,"labels":{"kubernetes.io/service-name":"kubernetes"}}}`)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{{"audit"}, {"audit", "-o", "wide"}, {"repair"}, {"repair", "-o", "wide"}, {"explain", "kubernetes"}} {
		code, text, stderr := run(t, append(command, "--endpoints", etcd.Endpoints()[0])...)
		if code != exitFound || !strings.Contains(text, `10.0.0.9\`) {
			t.Errorf("%q: %d: %s%s", command, code, text, stderr)
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); len(line) > 2500 || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q: %q", command, line)
			}
		}
		if isShort := strings.Contains(text, "and 3 more\"  "); isShort != (command[0] == "explain") {
			t.Errorf("%q: %s", command, text)
		}
	}
}

var writtenAgo = regexp.MustCompile(`written [0-9] s ago at revision [0-9]+, expires in [56][0-9] s unless the server writes it again`)

// TestExplainServers tells which API server is announced until when: of a snapshot that a server has left behind, of
// the same in a running etcd, and without the Service.
func TestExplainServers(t *testing.T) {
	file := etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz")
	text := strings.Join(runOK(t, "explain", "default/kubernetes", "--etcd-snapshot", file), "\n")
	for _, part := range []string{"API servers: 1", "10.0.9.9  yes        kubernetes  written at revision 1125, expires 15 s after the start of etcd"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	etcd := etcdtest.Start(t, file)
	ctx, client := t.Context(), etcd.Client()
	const key = "/registry/masterleases/10.0.9.9"
	got, err := client.Get(ctx, key)
	if err != nil || got.Count != 1 {
		t.Fatal(got, err)
	}
	granted, err := client.Grant(ctx, 60)
	if err == nil {
		_, err = client.Put(ctx, key, string(got.Kvs[0].Value), clientv3.WithLease(granted.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	running := []string{"explain", "kubernetes", "--endpoints", etcd.Endpoints()[0]}
	if text := strings.Join(runOK(t, running...), "\n"); !writtenAgo.MatchString(text) {
		t.Error(text)
	}
	if _, err := client.Delete(ctx, "/registry/services/specs/default/kubernetes"); err != nil {
		t.Fatal(err)
	}
	code, text, stderr := run(t, running...)
	if code != exitFound || !strings.Contains(text, "KubernetesServiceMissing: ") || !strings.Contains(text, "Remedy: ") {
		t.Errorf("exit code %d: %s%s", code, text, stderr)
	}
	e := runJSON[audit.Explanations](t, exitFound, running...)
	if len(e.Servers) != 1 || e.Servers[0].Lease.LeftSeconds < 30 || len(e.Findings) != 1 || len(e.Values) != 0 {
		t.Errorf("%+v", e)
	}
}

// TestNoServerLives: it is not known which endpoints are right, and nothing is wrong with a cluster whose servers hold
// no leases.
func TestNoServerLives(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.Fixture(etcdtest.DualStack, "clean.db.gz"))
	if _, err := etcd.Client().Delete(t.Context(), "/registry/masterleases/10.0.9.9"); err != nil {
		t.Fatal(err)
	}
	const unknown = "no server holds a lease"
	from := []string{"--endpoints", etcd.Endpoints()[0]}
	text := strings.Join(runOK(t, append([]string{"audit", "--strict"}, from...)...), " ")
	if !strings.Contains(text, "ok: nothing found") || !strings.Contains(strings.Join(strings.Fields(text), " "), unknown) {
		t.Error(text)
	}
	e := runJSON[audit.Explanations](t, exitOK, append([]string{"explain", "kubernetes"}, from...)...)
	if len(e.Unknown) != 1 || !strings.Contains(e.Unknown[0].Message, unknown) {
		t.Errorf("%+v", e)
	}
	text = strings.Join(runOK(t, append([]string{"preflight", "--to", "1.33"}, from...)...), " ")
	if strings.Contains(text, unknown) {
		t.Error(text)
	}
}
