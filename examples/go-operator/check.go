//go:build ignore

// Runs two operators against a real kube-apiserver while Networks come and go and one of them is killed, and one while
// etcd is restored from a copy, and compares what the Networks have with the ledgers.
//
// run.sh builds it inside the module controlplane, so that go.mod has only what an operator needs:
//
//	check OPERATOR KUBE-APISERVER FOLDER
//
// The folder has crd.yaml and rbac.yaml.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/ledgerobject"
	"github.com/rangekeeper/rangekeeper/controlplane/localcluster"
	"github.com/rangekeeper/rangekeeper/controlplane/snapshotfile"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/ledgerstore"
)

const (
	timeLimit = 15 * time.Minute // of what takes half a minute on a machine that has nothing else to do
	poll      = 100 * time.Millisecond
	namespace = "default"
	user      = "system:serviceaccount:default:go-operator"
	vxlan     = 4789
	// The lowest VNIs are given first, so that this range comes to the one that is never given.
	vnis    = "4780-16777215"
	subnets = "10.0.0.0/16/28"
)

var networkResource = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "networks"}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: check OPERATOR KUBE-APISERVER FOLDER")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintf(os.Stderr, "FAILED  go-operator: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, apiserver, manifests string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "go-operator-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	port, claim, err := freePort()
	if err != nil {
		return err
	}
	defer claim.Close()
	c := &check{ctx: ctx, program: program, manifests: manifests, kubeconfig: filepath.Join(dir, "kubeconfig")}
	c.config = localcluster.Config{
		Dir: filepath.Join(dir, "cluster"), Program: apiserver, Servers: 1, SecurePort: port, EndpointReconcilerType: "lease",
		Flags: []string{"--own-loops", "--shutdown-watch-termination-grace-period=1s"},
	}
	if c.cluster, err = localcluster.Start(ctx, c.config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.cluster.Stop()) }()
	if err := c.connect(c.cluster.Kubeconfig()); err != nil {
		return err
	}
	defer c.gate.server.Close()
	// The operators end before their API server.
	defer func() {
		for _, o := range c.operators {
			o.kill()
			if err != nil {
				fmt.Fprintf(os.Stderr, "the log of an operator:\n%s", o.log.Bytes())
			}
		}
	}()
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"bad input", c.badInput},
		{"apply the manifests", c.apply},
		{"give to Networks", c.give},
		{"create and delete while an operator is killed", c.churn},
		{"the ledgers have what the Networks have", c.compare},
		{"release what has no owner any more", c.releaseLeaked},
		{"give the lowest free values", c.giveLowest},
		{"another range", c.otherRange},
		{"end in order", c.end},
		{"etcd is restored under an operator", c.restore},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("ok      go-operator: %s\n", step.name)
	}
	return nil
}

// freePort returns a port at which nobody listens, below those that the system gives to connections. While the claim,
// the same port of UDP, is open, nobody else gets it from this function.
func freePort() (port uint16, claim io.Closer, err error) {
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err != nil {
			continue
		}
		defer listener.Close()
		if claim, err = net.ListenPacket("udp", address); err == nil {
			return uint16(listener.Addr().(*net.TCPAddr).Port), claim, nil
		}
	}
	return 0, nil, err
}

type check struct {
	ctx     context.Context
	config  localcluster.Config
	cluster *localcluster.Cluster
	// gate has all requests of the operators.
	gate *gate
	// kubeconfig is that of the operators, which have no more rights than rbac.yaml gives them.
	program, manifests, kubeconfig string
	// client is that of an administrator, and asOperator has the rights of the operators.
	client, asOperator dynamic.Interface
	networks           dynamic.ResourceInterface
	vnis, subnets      *ledgerstore.Ledger
	operators          []*operator
	// expected are the names of the Networks that were created and not deleted.
	expected map[string]bool
}

func (c *check) connect(kubeconfig string) error {
	administrator, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return err
	}
	config, err := clientcmd.NewDefaultClientConfig(*administrator, nil).ClientConfig()
	if err != nil {
		return err
	}
	config.QPS = -1
	if c.client, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if c.gate, err = openGate(config); err != nil {
		return err
	}
	config.Impersonate.UserName = user
	if c.asOperator, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	for _, server := range administrator.Clusters {
		server.Server, server.CertificateAuthority, server.CertificateAuthorityData = c.gate.server.URL, "", nil
	}
	for _, u := range administrator.AuthInfos {
		u.Impersonate = user
	}
	if err := clientcmd.WriteToFile(*administrator, c.kubeconfig); err != nil {
		return err
	}
	c.expected = make(map[string]bool)
	c.networks = c.client.Resource(networkResource).Namespace(namespace)
	return c.open()
}

// open opens the ledgers, of which nothing is known then.
func (c *check) open() (err error) {
	open := func(name string, values rangekeeper.Pool) (*ledgerstore.Ledger, error) {
		return ledgerstore.New(ledgerobject.ConfigMap(c.client, namespace, name, "ledger"), values)
	}
	c.vnis, err = open("network-vnis", rangekeeper.Pool{
		Range: vnis, Choice: rangekeeper.Lowest, Exclude: []string{fmt.Sprint(vxlan)},
	})
	if err != nil {
		return err
	}
	c.subnets, err = open("network-subnets", rangekeeper.Pool{Range: subnets, Choice: rangekeeper.Lowest})
	return err
}

// operator is a process of the operator.
type operator struct {
	command *exec.Cmd
	log     bytes.Buffer  // read once it has ended
	ended   chan struct{} // is closed then
}

func (c *check) start(flags ...string) (*operator, error) {
	o := &operator{ended: make(chan struct{})}
	o.command = exec.CommandContext(c.ctx, c.program, append([]string{"--kubeconfig", c.kubeconfig}, flags...)...)
	o.command.Stderr = &o.log
	if err := o.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		o.command.Wait() // its error is the exit code
		close(o.ended)
	}()
	return o, nil
}

// startReplica starts an operator that runs until it is killed or stopped.
func (c *check) startReplica() error {
	o, err := c.start("--vnis", vnis, "--subnets", subnets, "--audit-interval", "1s")
	if err == nil {
		c.operators = append(c.operators, o)
	}
	return err
}

// wait returns the exit code, or -1 after a signal.
func (o *operator) wait() int {
	<-o.ended
	return o.command.ProcessState.ExitCode()
}

func (o *operator) kill() {
	o.command.Process.Kill() // fails only if it has ended
	o.wait()
}

// refused runs an operator, which must end with a code and name a text.
func (c *check) refused(code int, text string, flags ...string) error {
	o, err := c.start(flags...)
	if err != nil {
		return err
	}
	if got := o.wait(); got != code || !strings.Contains(o.log.String(), text) {
		return fmt.Errorf("%q: exit code %d, not %d, with %q: %s", flags, got, code, text, o.log.Bytes())
	}
	return nil
}

func (c *check) badInput() error {
	return errors.Join(
		c.refused(0, "usage", "--help"),
		c.refused(2, "more", "more"),
		c.refused(2, "0s", "--audit-interval", "0s"),
		c.refused(2, "10-20-30", "--vnis", "10-20-30"),
		c.refused(2, "4789", "--vnis", "5000-6000"),
		c.refused(1, "/no/such/file", "--kubeconfig", "/no/such/file"),
		c.refused(1, "forbidden"),
	)
}

func (c *check) apply() error {
	for _, name := range []string{"rbac.yaml", "crd.yaml"} {
		if name == "crd.yaml" {
			if err := c.until(c.rights); err != nil {
				return err
			}
			if err := c.refused(1, "crd.yaml", "--vnis", vnis); err != nil {
				return err
			}
		}
		file, err := os.Open(filepath.Join(c.manifests, name))
		if err != nil {
			return err
		}
		defer file.Close()
		for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
			object := new(unstructured.Unstructured)
			if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			client := c.client.Resource(resource).Namespace(object.GetNamespace())
			if _, err := client.Create(c.ctx, object, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return c.until(func() (string, error) {
		if _, err := c.networks.List(c.ctx, metav1.ListOptions{}); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
}

// rights says what the server still refuses to operators, though rbac.yaml allows it: a server learns of rights after
// the answer to their creation.
func (c *check) rights() (refused string, err error) {
	_, err = c.asOperator.Resource(networkResource).List(c.ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		maps := c.asOperator.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
		_, err = maps.Get(c.ctx, "network-vnis", metav1.GetOptions{})
	}
	switch {
	case apierrors.IsForbidden(err):
		return err.Error(), nil
	case apierrors.IsNotFound(err): // there is none yet
		return "", nil
	}
	return "", err
}

// until waits until a condition has nothing that it waits for. It fails if an operator ends.
func (c *check) until(condition func() (pending string, err error)) error {
	for {
		pending, err := condition()
		if err != nil || pending == "" {
			return err
		}
		for _, o := range c.operators {
			select {
			case <-o.ended:
				return fmt.Errorf("an operator has ended with exit code %d, while %s", o.wait(), pending)
			default:
			}
		}
		select {
		case <-time.After(poll):
		case <-c.ctx.Done():
			return fmt.Errorf("%w, while %s", context.Cause(c.ctx), pending)
		}
	}
}

func name(i int) string { return fmt.Sprintf("n-%d", i) }

// count is the number of subnets of a Network.
func count(i int) int64 { return int64(1 + i%3) }

func (c *check) create(i int) error {
	network := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Network", "metadata": map[string]any{"name": name(i)},
	}}
	if count(i) > 1 { // 1 is the default
		network.Object["spec"] = map[string]any{"subnets": count(i)}
	}
	_, err := c.networks.Create(c.ctx, network, metav1.CreateOptions{})
	c.expected[name(i)] = true
	return err
}

func (c *check) delete(i int) error {
	delete(c.expected, name(i))
	return c.networks.Delete(c.ctx, name(i), metav1.DeleteOptions{})
}

// settled waits until the expected Networks, and no others, are there, and have a status.
func (c *check) settled() (networks []unstructured.Unstructured, err error) {
	return networks, c.until(func() (string, error) {
		list, err := c.networks.List(c.ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		networks = list.Items
		for i := range networks {
			if !c.expected[networks[i].GetName()] {
				return networks[i].GetName() + " is not deleted", nil
			}
			if _, given, _ := unstructured.NestedMap(networks[i].Object, "status"); !given {
				return networks[i].GetName() + " has no status", nil
			}
		}
		if len(networks) != len(c.expected) {
			return "", fmt.Errorf("%d Networks, not %d", len(networks), len(c.expected))
		}
		return "", nil
	})
}

func (c *check) give() error {
	if err := errors.Join(c.startReplica(), c.startReplica()); err != nil {
		return err
	}
	for i := range 20 {
		if err := c.create(i); err != nil {
			return err
		}
	}
	_, err := c.settled()
	return err
}

// churn deletes Networks that have a status, and others that may have none yet.
func (c *check) churn() error {
	for i := range 20 {
		if err := c.create(20 + i); err != nil {
			return err
		}
		if i%2 == 0 {
			if err := errors.Join(c.delete(i), c.delete(20+i)); err != nil {
				return err
			}
		}
		if i == 10 {
			c.operators[0].kill()
			c.operators = c.operators[1:]
		}
		if i == 15 {
			if err := c.startReplica(); err != nil {
				return err
			}
		}
	}
	_, err := c.settled()
	return err
}

// compare waits until the ledgers have no more values than the Networks, and fails unless those are the same.
func (c *check) compare() error {
	networks, err := c.settled()
	if err != nil {
		return err
	}
	var total uint64
	for i := range networks {
		total += uint64(want(&networks[i]))
	}
	vnis, err := c.read(c.vnis, uint64(len(networks)))
	if err != nil {
		return err
	}
	defer vnis.Close()
	subnets, err := c.read(c.subnets, total)
	if err != nil {
		return err
	}
	defer subnets.Close()
	taken := make(map[string]string)
	for i := range networks {
		network := &networks[i]
		vni, prefixes := given(network)
		if vni == vxlan {
			return fmt.Errorf("%s has the VNI %d", network.GetName(), vni)
		}
		if int64(len(prefixes)) != want(network) {
			return fmt.Errorf("%s has %d subnets, not %d", network.GetName(), len(prefixes), want(network))
		}
		for _, text := range append(prefixes, fmt.Sprint(vni)) {
			if other, twice := taken[text]; twice {
				return fmt.Errorf("%s and %s have %s", other, network.GetName(), text)
			}
			taken[text] = network.GetName()
		}
		err := errors.Join(owns(vnis, network, fmt.Sprint(vni)), owns(subnets, network, prefixes...))
		if err != nil {
			return err
		}
	}
	return nil
}

// want is how many subnets a Network asks for.
func want(network *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(network.Object, "spec", "subnets")
	return n
}

// given is what the status of a Network has.
func given(network *unstructured.Unstructured) (vni int64, prefixes []string) {
	vni, _, _ = unstructured.NestedInt64(network.Object, "status", "vni")
	prefixes, _, _ = unstructured.NestedStringSlice(network.Object, "status", "subnets")
	return vni, prefixes
}

// read reads a ledger once no more than so many values of it are in use.
func (c *check) read(ledger *ledgerstore.Ledger, used uint64) (stored *rangekeeper.Ledger, err error) {
	return stored, c.until(func() (string, error) {
		if stored, err = ledger.Read(c.ctx); err != nil {
			return "", err
		}
		usage, err := stored.Usage()
		if err == nil && usage.Used > used {
			stored.Close()
			return fmt.Sprintf("%d values are in use, not %d", usage.Used, used), nil
		}
		return "", err
	})
}

// owns fails unless a Network owns just these values, and all in one allocation.
func owns(ledger *rangekeeper.Ledger, network *unstructured.Unstructured, values ...string) error {
	all, err := ledger.OwnedBy(string(network.GetUID()))
	if err != nil {
		return err
	}
	if len(all) != 1 || int(all[0].Len) != len(values) || all[0].First.String() != values[0] {
		return fmt.Errorf("%s has %q in its status, and in the ledger %v", network.GetName(), values, all)
	}
	for _, text := range values {
		value, err := ledger.ParseValue(text)
		if err != nil {
			return err
		}
		if owner, _, err := ledger.OwnerOf(value); err != nil || owner != string(network.GetUID()) {
			return fmt.Errorf("%s has %s in its status, and in the ledger %q has it, %w", network.GetName(), text, owner, err)
		}
	}
	return nil
}

// releaseLeaked leaves behind what an operator does that ends between an allocation and the retry of its write.
func (c *check) releaseLeaked() error {
	for _, ledger := range []*ledgerstore.Ledger{c.vnis, c.subnets} {
		if _, err := ledger.Allocate(c.ctx, rangekeeper.WantAny(), "a UID that no Network has"); err != nil {
			return err
		}
	}
	return c.compare()
}

// giveLowest fails unless a new Network is given the lowest values that no other has.
func (c *check) giveLowest() error {
	const i = 41 // asks for several subnets
	var wanted [2]rangekeeper.Allocation
	asks := []rangekeeper.Want{rangekeeper.WantAny(), rangekeeper.WantRun(uint32(count(i)))}
	for j, ledger := range []*ledgerstore.Ledger{c.vnis, c.subnets} {
		stored, err := ledger.Read(c.ctx)
		if err != nil {
			return err
		}
		defer stored.Close()
		if wanted[j], err = stored.Allocate(asks[j], "the next", time.Now()); err != nil {
			return err
		}
	}
	if err := c.create(i); err != nil {
		return err
	}
	if err := c.compare(); err != nil {
		return err
	}
	network, err := c.networks.Get(c.ctx, name(i), metav1.GetOptions{})
	if err != nil {
		return err
	}
	vni, prefixes := given(network)
	if fmt.Sprint(vni) != wanted[0].First.String() || prefixes[0] != wanted[1].First.String() {
		return fmt.Errorf("%d and %q were given, not %v", vni, prefixes, wanted)
	}
	return nil
}

func (c *check) otherRange() error {
	return errors.Join(c.refused(1, vnis, "--vnis", "4096-16777215"), c.refused(1, subnets, "--vnis", vnis, "--subnets", "10.1.0.0/16/28"))
}

func (c *check) end() error {
	for _, o := range c.operators {
		if err := o.command.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		if code := o.wait(); code != 0 {
			return fmt.Errorf("exit code %d", code)
		}
	}
	c.operators = nil
	return nil
}

// restore puts a copy of etcd back while an operator is at work, twice: what the operator does then is decided by what
// it knows of a history that never was.
func (c *check) restore() error {
	const unseen, released, given, later = 42, 45, 48, 51 // which ask for one subnet each
	if err := errors.Join(c.startReplica(), c.create(unseen), c.create(released)); err != nil {
		return err
	}
	if err := c.compare(); err != nil {
		return err
	}
	allocation, status := c.gate.hold("PATCH", "/network-vnis"), c.gate.hold("PUT", "/"+name(given)+"/status")
	if err := c.create(given); err != nil {
		return err
	}
	// The Network has the finalizer then, so that it will have the same resource version again.
	if err := c.await(allocation); err != nil {
		return err
	}
	if err := c.copyEtcd(); err != nil {
		return err
	}

	// It has written to a ledger what another Network is given after the restore, and then writes the status. It sees
	// only then that a Network was deleted.
	close(allocation.open)
	if err := c.await(status); err != nil {
		return err
	}
	lost, err := c.owned(given)
	if err != nil {
		return err
	}
	if err := c.operators[0].command.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	network, err := c.networks.Get(c.ctx, name(unseen), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := c.networks.Delete(c.ctx, name(unseen), metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := c.putBack(); err != nil {
		return err
	}
	// An audit releases it.
	if _, err := c.vnis.Allocate(c.ctx, rangekeeper.WantValue(lost.First), "a UID that no Network has"); err != nil {
		return err
	}
	close(status.open)
	if err := errors.Join(c.operators[0].command.Process.Signal(syscall.SIGCONT), c.create(later), c.repaired()); err != nil {
		return err
	}

	// It has seen that a Network is deleted, and then writes the release to a ledger.
	release := c.gate.hold("PATCH", "/network-vnis")
	if err := c.networks.Delete(c.ctx, name(released), metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := c.await(release); err != nil {
		return err
	}
	delete(c.expected, name(later)) // it was created after the copy
	if err := c.putBack(); err != nil {
		return err
	}
	// It looks at the Network again once another one was given something.
	again := c.gate.hold("GET", "/"+name(released))
	close(release.open)
	if err := errors.Join(c.await(again), c.create(later)); err != nil {
		return err
	}
	if _, err := c.settled(); err != nil {
		return err
	}
	close(again.open)
	log := &c.operators[0].log
	if err := errors.Join(c.repaired(), c.end()); err != nil {
		return err
	}
	if text := "owner=" + string(network.GetUID()); bytes.Contains(log.Bytes(), []byte("released ledger=vnis "+text)) {
		return fmt.Errorf("what %s has was released, and it is not deleted: %s", network.GetName(), log.Bytes())
	}
	return nil
}

// repaired waits until the ledgers have what the Networks have.
func (c *check) repaired() error {
	return c.until(func() (string, error) {
		if err := c.compare(); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
}

// await waits until a request is held.
func (c *check) await(h *hold) error {
	return c.until(func() (string, error) {
		select {
		case <-h.held:
			return "", nil
		default:
			return fmt.Sprintf("no %s of %s", h.method, h.path), nil
		}
	})
}

// owned returns the VNI that the ledger has for a Network.
func (c *check) owned(i int) (rangekeeper.Allocation, error) {
	network, err := c.networks.Get(c.ctx, name(i), metav1.GetOptions{})
	if err != nil {
		return rangekeeper.Allocation{}, err
	}
	return c.vnis.Allocate(c.ctx, rangekeeper.WantAny(), string(network.GetUID()))
}

// snapshot is the file that has a copy of etcd.
func (c *check) snapshot() string { return c.config.Dir + ".db" }

func (c *check) copyEtcd() error {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.cluster.EtcdEndpoints(), Context: c.ctx, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	content, err := client.Snapshot(c.ctx)
	if err != nil {
		return err
	}
	defer content.Close()
	file, err := os.Create(c.snapshot())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// putBack stops the API server, puts the copy of etcd back, and starts the server again.
func (c *check) putBack() (err error) {
	if err := c.cluster.Stop(); err != nil {
		return err
	}
	etcd := filepath.Join(c.config.Dir, "etcd")
	if err := os.RemoveAll(etcd); err != nil {
		return err
	}
	if err := embedded.Restore(c.ctx, c.snapshot(), etcd, snapshotfile.Options{}); err != nil {
		return err
	}
	if c.cluster, err = localcluster.Start(c.ctx, c.config); err != nil {
		return err
	}
	return c.open()
}

// gate passes requests on to the API server, but for those that it holds.
type gate struct {
	server *httptest.Server
	next   http.RoundTripper
	mutex  sync.Mutex
	holds  []*hold
}

// hold holds the first request with this method and this end of its path.
type hold struct {
	method, path string
	// held is closed once the request is held. Close open to let it go on.
	held, open chan struct{}
}

func openGate(config *rest.Config) (*gate, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	g := new(gate)
	if g.next, err = rest.TransportFor(config); err != nil {
		return nil, err
	}
	g.server = httptest.NewServer(&httputil.ReverseProxy{
		Transport: g, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, ErrorLog: log.New(io.Discard, "", 0),
	})
	return g, nil
}

func (g *gate) hold(method, path string) *hold {
	h := &hold{method, path, make(chan struct{}), make(chan struct{})}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.holds = append(g.holds, h)
	return h
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mutex.Lock()
	i := slices.IndexFunc(g.holds, func(h *hold) bool { return h.method == r.Method && strings.HasSuffix(r.URL.Path, h.path) })
	var h *hold
	if i >= 0 {
		h = g.holds[i]
		g.holds = slices.Delete(g.holds, i, i+1)
	}
	g.mutex.Unlock()
	if h != nil {
		close(h.held)
		select {
		case <-h.open:
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	return g.next.RoundTrip(r)
}
