// Runs etcd-rs against a real etcd and beside a Go store on the same key, and checks what it prints and stores. What is
// stored is decoded by Kubernetes' own types.
//
// run.sh builds it inside the module controlplane, so that it needs no go.mod of its own:
//
//	check ETCD-RS COMMAND [ARGUMENT...]
//
// The command is another test; it finds the URL of etcd in the environment variable ETCDCTL_ENDPOINTS.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
	"github.com/rangekeeper/rangekeeper/go-bindings/etcdstore"
)

const (
	key       = "/registry/ranges/serviceips"
	cidr      = "10.96.0.0/16"
	first     = "10.96.0.1"      // has offset 0
	timeLimit = 20 * time.Minute // of what takes a minute on a machine that has nothing else to do
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: check ETCD-RS COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "FAILED  etcd-rs: %v\n", err)
		os.Exit(1)
	}
}

func run(program string, test []string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "etcd-rs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer etcd.Close()
	parsed, err := rangekeeper.ParseCIDR(cidr)
	if err != nil {
		return err
	}
	store, err := etcdstore.Open(etcdstore.Config{
		Client: etcd.Client(), Key: key, Range: parsed, Strategy: rangekeeper.DynamicBandFirst,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	c := &check{
		ctx: ctx, program: program, test: test, endpoint: etcd.Endpoints()[0], client: etcd.Client(), store: store,
		owned: make(map[netip.Addr]bool),
	}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"its own tests", c.ownTests},
		{"bad input", c.badInput},
		{"initialise once", c.initialise},
		{"allocate beside a Go store", c.allocateTogether},
		{"release beside a Go store", c.releaseTogether},
		{"allocate while connections break", c.allocateThroughBreaks},
		{"fill a range", c.fill},
		{"fill etcd", c.fillEtcd},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("ok      etcd-rs: %s\n", step.name)
	}
	return nil
}

type check struct {
	ctx      context.Context
	program  string
	test     []string
	endpoint string
	client   *clientv3.Client
	store    *etcdstore.Store

	mu    sync.Mutex
	owned map[netip.Addr]bool
}

// own notes an allocation; nobody may own the address.
func (c *check) own(address netip.Addr) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owned[address] {
		return fmt.Errorf("%v was handed out twice", address)
	}
	c.owned[address] = true
	return nil
}

// result is how etcd-rs ended.
type result struct {
	code      int
	addresses []netip.Addr
	stderr    string
}

func (c *check) etcdRs(endpoint, key, cidr string, command ...string) (result, error) {
	process := exec.CommandContext(c.ctx, c.program, append([]string{endpoint, key, cidr}, command...)...)
	var stdout, stderr bytes.Buffer
	process.Stdout, process.Stderr = &stdout, &stderr
	err := process.Run()
	if exit := new(exec.ExitError); err != nil && !(errors.As(err, &exit) && exit.Exited()) {
		return result{}, err
	}
	r := result{code: process.ProcessState.ExitCode(), stderr: stderr.String()}
	for line := range strings.Lines(stdout.String()) {
		if address, err := netip.ParseAddr(strings.TrimSpace(line)); err == nil {
			r.addresses = append(r.addresses, address)
		}
	}
	return r, nil
}

// succeed runs etcd-rs, which must print so many addresses.
func (c *check) succeed(endpoint string, addresses int, command ...string) (result, error) {
	r, err := c.etcdRs(endpoint, key, cidr, command...)
	if err == nil && (r.code != 0 || len(r.addresses) != addresses) {
		err = fmt.Errorf("%s: exit code %d, %d addresses: %s", command[0], r.code, len(r.addresses), r.stderr)
	}
	return r, err
}

var statistics = regexp.MustCompile(`(\d+) (swaps|requests without an answer)`)

// statistic is what etcd-rs tells of itself.
func (r result) statistic(name string) int {
	for _, match := range statistics.FindAllStringSubmatch(r.stderr, -1) {
		if match[2] == name {
			n, _ := strconv.Atoi(match[1]) // it is digits
			return n
		}
	}
	return -1
}

// stored decodes what stands under the key.
func (c *check) stored(key string) (map[netip.Addr]bool, error) {
	response, err := c.client.Get(c.ctx, key)
	if err != nil {
		return nil, err
	}
	if len(response.Kvs) != 1 {
		return nil, fmt.Errorf("%s: %d keys", key, len(response.Kvs))
	}
	var envelope runtime.Unknown
	var object corev1.RangeAllocation
	if err := envelope.Unmarshal(bytes.TrimPrefix(response.Kvs[0].Value, []byte("k8s\x00"))); err != nil {
		return nil, err
	}
	if err := object.Unmarshal(envelope.Raw); err != nil {
		return nil, err
	}
	bits := new(big.Int).SetBytes(object.Data)
	all := make(map[netip.Addr]bool)
	address := netip.MustParseAddr(first)
	for i := range bits.BitLen() {
		if bits.Bit(i) == 1 {
			all[address] = true
		}
		address = address.Next()
	}
	return all, nil
}

// storedIsOwned checks that exactly the owned addresses are stored.
func (c *check) storedIsOwned() error {
	leaked, err := c.leaked()
	if err == nil && leaked != 0 {
		err = fmt.Errorf("%d more addresses are stored than the %d owned ones", leaked, len(c.owned))
	}
	return err
}

// storedIsOwnedOrLeaked checks that all owned addresses are stored.
func (c *check) storedIsOwnedOrLeaked() error {
	leaked, err := c.leaked()
	if err == nil {
		fmt.Printf("        %d addresses leaked\n", leaked)
	}
	return err
}

// leaked counts the addresses that are stored and not owned.
func (c *check) leaked() (int, error) {
	stored, err := c.stored(key)
	if err != nil {
		return 0, err
	}
	for address := range c.owned {
		if !stored[address] {
			return 0, fmt.Errorf("%v is owned and not stored", address)
		}
	}
	return len(stored) - len(c.owned), nil
}

func (c *check) ownTests() error {
	test := exec.CommandContext(c.ctx, c.test[0], c.test[1:]...)
	test.Env = append(os.Environ(), "ETCDCTL_ENDPOINTS="+c.endpoint)
	if output, err := test.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", test, err, output)
	}
	return nil
}

func (c *check) badInput() error {
	for _, bad := range []struct {
		endpoint, cidr string
		command        []string
		code           int
		names          string
	}{
		{c.endpoint, "10.96.0.0/40", []string{"init"}, 2, "10.96.0.0/40"},
		{"ftp://127.0.0.1:1", cidr, []string{"init"}, 2, "ftp://127.0.0.1:1"},
		{"http://127.0.0.1:1", cidr, []string{"init"}, 2, "Connection refused"},
		{c.endpoint, cidr, []string{"allocate", "-1"}, 2, `"-1"`},
		{c.endpoint, cidr, []string{"release", "10.96.0.256"}, 2, "10.96.0.256"},
		{c.endpoint, cidr, []string{"release"}, 2, "usage"},
		{c.endpoint, cidr, nil, 2, "usage"},
		{c.endpoint, cidr, []string{"allocate", "1"}, 1, "never initialised"},
	} {
		r, err := c.etcdRs(bad.endpoint, key, bad.cidr, bad.command...)
		if err != nil {
			return err
		}
		if r.code != bad.code || !strings.Contains(r.stderr, bad.names) || len(r.addresses) > 0 {
			return fmt.Errorf("%s %s %q: exit code %d: %s", bad.endpoint, bad.cidr, bad.command, r.code, r.stderr)
		}
	}
	return nil
}

func (c *check) initialise() error {
	if _, err := c.succeed(c.endpoint, 0, "init"); err != nil {
		return err
	}
	if created, err := c.store.Init(c.ctx); created || err != nil {
		return fmt.Errorf("created again: %v, %w", created, err)
	}
	r, err := c.etcdRs(c.endpoint, key, "10.96.0.0/20", "allocate", "1")
	if err == nil && (r.code != 1 || !strings.Contains(r.stderr, cidr)) {
		err = fmt.Errorf("another range: exit code %d: %s", r.code, r.stderr)
	}
	return errors.Join(err, c.storedIsOwned())
}

// beside runs several works while the Go store allocates 16 addresses at once, again and again after a pause.
func (c *check) beside(pause time.Duration, works ...func() error) error {
	var ended atomic.Bool
	errs := make(chan error)
	for range 16 {
		go func() {
			for !ended.Load() {
				a, err := c.store.AllocateNext(c.ctx)
				if err == nil {
					err = c.own(a.Value.Addr())
				}
				if err != nil {
					errs <- err
					return
				}
				time.Sleep(pause)
			}
			errs <- nil
		}()
	}
	for _, work := range works {
		go func() { errs <- work() }()
	}
	var err error
	for range works {
		err = errors.Join(err, <-errs)
	}
	ended.Store(true)
	for range 16 {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (c *check) allocateTogether() error {
	const count = 1000
	allocate := func() error {
		r, err := c.succeed(c.endpoint, count, "allocate", fmt.Sprint(count))
		if err != nil {
			return err
		}
		if swaps := r.statistic("swaps"); swaps < 1 || swaps > count/4 {
			return fmt.Errorf("%d swaps for %d allocations: they do not share them", swaps, count)
		}
		for _, address := range r.addresses {
			err = errors.Join(err, c.own(address))
		}
		fmt.Print("        ", r.stderr)
		return err
	}
	// On a busy machine the Go store may get no turn beside two short runs.
	for theirs := 0; len(c.owned) < theirs+count/10; theirs += 2 * count {
		if err := c.beside(0, allocate, allocate); err != nil {
			return err
		}
	}
	return c.storedIsOwned()
}

// releaseTogether lets etcd-rs release addresses that it or the Go store allocated.
func (c *check) releaseTogether() error {
	var released []netip.Addr
	for address := range c.owned {
		if released = append(released, address); len(released) == 900 {
			break
		}
	}
	var works []func() error
	for batch := range slices.Chunk(released, 150) {
		works = append(works, func() error { return c.release(slices.Clone(batch)) })
	}
	if err := c.beside(20*time.Millisecond, works...); err != nil {
		return err
	}
	if err := c.storedIsOwned(); err != nil {
		return err
	}
	free := slices.IndexFunc(released, func(address netip.Addr) bool { return !c.owned[address] })
	r, err := c.etcdRs(c.endpoint, key, cidr, "release", released[free].String())
	if err == nil && (r.code != 1 || len(r.addresses) > 0 || !strings.Contains(r.stderr, "free already")) {
		err = fmt.Errorf("twice: exit code %d: %s", r.code, r.stderr)
	}
	return err
}

// release gives addresses back. What etcd-rs leaves to a repair pass, as it could not see what others wrote meanwhile,
// is released once more.
func (c *check) release(addresses []netip.Addr) error {
	// Others may have them as soon as they are free.
	c.mu.Lock()
	for _, address := range addresses {
		delete(c.owned, address)
	}
	c.mu.Unlock()
	for range 100 {
		command := []string{"release"}
		for _, address := range addresses {
			command = append(command, address.String())
		}
		r, err := c.etcdRs(c.endpoint, key, cidr, command...)
		if err != nil {
			return err
		}
		fmt.Print("        ", strings.SplitAfter(r.stderr, "\n")[0])
		addresses = slices.DeleteFunc(addresses, func(a netip.Addr) bool { return slices.Contains(r.addresses, a) })
		if len(addresses) == 0 {
			return nil
		}
		if strings.Count(r.stderr, "left to a repair pass") != len(addresses) {
			return errors.New(r.stderr)
		}
	}
	return fmt.Errorf("%v are not released", addresses)
}

// allocateThroughBreaks cuts the connections, each after some swaps and before the answer to the last one. What is
// printed is to be right nevertheless, and what may have been allocated besides is never handed out.
func (c *check) allocateThroughBreaks() error {
	const count = 4000
	b, err := listen(c.ctx, strings.TrimPrefix(c.endpoint, "http://"))
	if err != nil {
		return err
	}
	defer b.listener.Close()
	r, err := c.succeed("http://"+b.listener.Addr().String(), count, "allocate", fmt.Sprint(count))
	if err != nil {
		return err
	}
	unanswered, breaks := r.statistic("requests without an answer"), int(b.breaks.Load())
	if unanswered < 1 || breaks < 3 {
		return fmt.Errorf("%d breaks and %d requests without an answer show nothing", breaks, unanswered)
	}
	for _, address := range r.addresses {
		err = errors.Join(err, c.own(address))
	}
	fmt.Printf("        %s        %d breaks\n", r.stderr, breaks)
	return errors.Join(err, c.storedIsOwnedOrLeaked())
}

// fill lets two etcd-rs have more addresses than there are.
func (c *check) fill() error {
	const key, cidr, size, count = "/registry/ranges/secondaryserviceips", "10.96.0.0/26", 62, 40
	if _, err := c.etcdRs(c.endpoint, key, cidr, "init"); err != nil {
		return err
	}
	results := make(chan result)
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			r, err := c.etcdRs(c.endpoint, key, cidr, "allocate", fmt.Sprint(count))
			errs <- err
			results <- r
		}()
	}
	clear(c.owned)
	full := 0
	for range 2 {
		r := <-results
		err := <-errs
		for _, address := range r.addresses {
			err = errors.Join(err, c.own(address))
		}
		if err != nil {
			return err
		}
		if r.code == 1 && strings.Contains(r.stderr, "full") {
			full++
		}
	}
	stored, err := c.stored(key)
	if err == nil && (len(stored) != size || len(c.owned) != size || full == 0) {
		err = fmt.Errorf("of %d addresses %d are handed out and %d stored; %d were told", size, len(c.owned), len(stored), full)
	}
	return err
}

// fillEtcd allocates from an etcd that soon has no space.
func (c *check) fillEtcd() error {
	dir, err := os.MkdirTemp("", "etcd-rs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	etcd, err := embedded.Start(c.ctx, embedded.Config{Dir: dir, Quota: 1 << 20})
	if err != nil {
		return err
	}
	defer etcd.Close()
	endpoint := etcd.Endpoints()[0]
	c.client = etcd.Client()
	if _, err := c.succeed(endpoint, 0, "init"); err != nil {
		return err
	}
	r, err := c.etcdRs(endpoint, key, cidr, "allocate", "60000")
	if err != nil {
		return err
	}
	if r.code != 1 || len(r.addresses) == 0 || !strings.Contains(r.stderr, "database space exceeded") {
		return fmt.Errorf("exit code %d, %d addresses: %s", r.code, len(r.addresses), r.stderr)
	}
	clear(c.owned)
	for _, address := range r.addresses {
		err = errors.Join(err, c.own(address))
	}
	return errors.Join(err, c.storedIsOwnedOrLeaked())
}

// breaker forwards connections to etcd and breaks them.
type breaker struct {
	listener net.Listener
	etcd     string
	breaks   atomic.Int64
}

func listen(ctx context.Context, etcd string) (*breaker, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &breaker{listener: listener, etcd: etcd}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go b.forward(client)
		}
	}()
	return b, nil
}

// forward passes some swaps and their answers on, then for a while only what etcd is told.
func (b *breaker) forward(client net.Conn) {
	const some, while = 64 << 10, 50 * time.Millisecond
	defer client.Close()
	etcd, err := net.Dial("tcp", b.etcd)
	if err != nil {
		return
	}
	defer etcd.Close()
	var silent atomic.Bool
	go io.Copy(writer(func(p []byte) (int, error) {
		if silent.Load() {
			return len(p), nil
		}
		return client.Write(p)
	}), etcd)
	if _, err := io.CopyN(etcd, client, some); err != nil {
		return // the client is gone
	}
	silent.Store(true)
	client.SetReadDeadline(time.Now().Add(while))
	io.Copy(etcd, client)
	b.breaks.Add(1)
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
