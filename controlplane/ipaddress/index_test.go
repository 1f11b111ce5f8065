package ipaddress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// server is an API server of IPAddress objects whose watch reports events when it is told to.
type server struct {
	mu        sync.Mutex
	revision  uint64
	compacted uint64
	objects   map[string]*networkingv1.IPAddress
	unseen    []watch.Event
	watch     *watch.FakeWatcher
	refusals  int
}

// IsWatchListSemanticsUnSupported makes the informer list: the watch reports no initial events.
func (s *server) IsWatchListSemanticsUnSupported() bool { return true }

func (s *server) next(object *networkingv1.IPAddress) *networkingv1.IPAddress {
	s.revision++
	object = object.DeepCopy()
	object.ResourceVersion = strconv.FormatUint(s.revision, 10)
	return object
}

func (s *server) create(address netip.Addr) (*networkingv1.IPAddress, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := address.String()
	if s.objects[name] != nil {
		s.refusals++
		return nil, apierrors.NewAlreadyExists(networkingv1.Resource("ipaddresses"), name)
	}
	object := s.next(&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name}})
	s.objects[name] = object
	s.unseen = append(s.unseen, watch.Event{Type: watch.Added, Object: object})
	return object, nil
}

func (s *server) delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.next(s.objects[name])
	delete(s.objects, name)
	s.unseen = append(s.unseen, watch.Event{Type: watch.Deleted, Object: object})
}

// report has the watch report all that has happened.
func (s *server) report() {
	s.mu.Lock()
	events, reports := s.unseen, s.watch
	s.unseen = nil
	s.mu.Unlock()
	for _, event := range events {
		reports.Action(event.Type, event.Object)
	}
}

// interrupt ends the watch and compacts all revisions, as etcd does: the informer must list the objects, and is never
// told what has happened since the last report.
func (s *server) interrupt() {
	s.mu.Lock()
	ended := s.watch
	s.watch, s.compacted = watch.NewFake(), s.revision
	s.mu.Unlock()
	ended.Stop()
}

func (s *server) open(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after, err := strconv.ParseUint(options.ResourceVersion, 10, 64); err != nil || after < s.compacted {
		return nil, apierrors.NewResourceExpired("compacted")
	}
	return s.watch, nil
}

func (s *server) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &networkingv1.IPAddressList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(s.revision, 10)}}
	for _, object := range s.objects {
		list.Items = append(list.Items, *object)
	}
	s.unseen = nil
	return list, nil
}

// start returns a server with some objects, an index that follows it, and the index's CIDRs.
func start(t *testing.T, names []string, cidrs ...string) (*server, *index, []rangekeeper.ServiceCIDR) {
	t.Helper()
	s := &server{revision: 100, objects: map[string]*networkingv1.IPAddress{}, watch: watch.NewFake()}
	for _, name := range names {
		s.objects[name] = s.next(&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	lists := &cache.ListWatch{
		ListWithContextFunc:  s.list,
		WatchFuncWithContext: s.open,
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lists, s), &networkingv1.IPAddress{}, 0, cache.Indexers{})
	index, err := newIndex(informer, corev1.IPv4Protocol, func(netip.Addr) {})
	if err == nil {
		err = index.start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { index.close() })
	var all []rangekeeper.ServiceCIDR
	for _, text := range cidrs {
		cidr, err := rangekeeper.ParseServiceCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := index.insert(cidr); err != nil {
			t.Fatal(err)
		}
		all = append(all, cidr)
	}
	go informer.Run(t.Context().Done())
	eventually(t, "the informer has reported its objects", index.events.HasSynced)
	return s, index, all
}

// patience is far longer than what it limits takes.
const patience = 3 * time.Minute

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("after %v this does not hold: %s", patience, what)
		}
	}
}

// TestLaggingWatch fills a CIDR while the watch reports nothing: no address is tried twice, down to the last one.
func TestLaggingWatch(t *testing.T) {
	s, index, cidrs := start(t, []string{"10.0.0.9", "10.1.0.1", "no-address"}, "10.0.0.0/24", "10.0.1.0/28")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for {
				if _, _, err := index.createNext(cidrs, s.create); errors.Is(err, rangekeeper.ErrFull) {
					return
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if s.refusals != 0 || len(s.objects) != 254+14+2 {
		t.Errorf("%d objects, %d creations refused", len(s.objects), s.refusals)
	}
	if used, free := index.usage(cidrs[0]); used != 254 || free != 0 {
		t.Errorf("%d used, %d free", used, free)
	}
	s.delete("10.0.0.7")
	s.report()
	eventually(t, "a removed address is free", func() bool {
		_, free := index.usage(cidrs[0])
		return free == 1
	})
	if address, object, err := index.createNext(cidrs, s.create); err != nil || address.String() != "10.0.0.7" || object.Name != "10.0.0.7" {
		t.Error(address, object, err)
	}
}

// TestInterruptedWatch has objects created, deleted and recreated while the informer does not watch. It then reports a
// deletion without the last state of the object.
func TestInterruptedWatch(t *testing.T) {
	s, index, cidrs := start(t, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, "10.0.0.0/29")
	s.delete("10.0.0.3")
	s.report() // the informer watches now
	s.delete("10.0.0.1")
	s.delete("10.0.0.2")
	for _, name := range []string{"10.0.0.2", "10.0.0.4"} {
		if _, err := s.create(netip.MustParseAddr(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.interrupt()
	free := func() (all []string) {
		for i := range 6 {
			if address := netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}); !index.isTaken(address) {
				all = append(all, address.String())
			}
		}
		return all
	}
	eventually(t, "the index knows the objects that the informer has listed", func() bool {
		return slices.Equal(free(), []string{"10.0.0.1", "10.0.0.3", "10.0.0.5", "10.0.0.6"})
	})
	if used, free := index.usage(cidrs[0]); used != 2 || free != 4 {
		t.Errorf("%d used, %d free", used, free)
	}
}

// TestTakenElsewhere has addresses taken by a server whose creations the watch has not reported.
func TestTakenElsewhere(t *testing.T) {
	s, index, cidrs := start(t, nil, "10.0.0.0/29")
	for i := 1; i <= 5; i++ {
		if _, err := s.create(netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if address, _, err := index.createNext(cidrs, s.create); err != nil || address.String() != "10.0.0.6" {
		t.Error(address, err)
	}
	// Those that were refused are not tried again.
	before := s.refusals
	if _, _, err := index.createNext(cidrs, s.create); !errors.Is(err, rangekeeper.ErrFull) && s.refusals == before {
		t.Error(err)
	}
}

// TestNamedAddress asks for an address that the informer still reports as taken.
func TestNamedAddress(t *testing.T) {
	s, index, cidrs := start(t, []string{"10.0.0.1"}, "10.0.0.0/29")
	one := netip.MustParseAddr("10.0.0.1")
	if _, err := index.create(one, s.create); !apierrors.IsAlreadyExists(err) {
		t.Error(err)
	}
	s.delete("10.0.0.1")
	if _, err := index.create(one, s.create); err != nil {
		t.Error(err)
	}
	s.report()
	s.delete("10.0.0.1")
	s.report()
	eventually(t, "the address is free", func() bool { return !index.isTaken(one) })
	if _, err := index.create(netip.MustParseAddr("10.0.1.1"), s.create); !errors.Is(err, rangekeeper.ErrNotInRange) {
		t.Error(err)
	}
	if used, _ := index.usage(cidrs[0]); used != 0 {
		t.Error(used, "are used")
	}
}

// TestFailures creates nothing for certain, and perhaps. Both keep no address: an object that exists is refused by the
// API server.
func TestFailures(t *testing.T) {
	s, index, cidrs := start(t, nil, "10.0.0.0/30")
	forbidden, timeout := apierrors.NewForbidden(networkingv1.Resource("ipaddresses"), "x", nil), errors.New("connection lost")
	for _, failure := range []error{forbidden, timeout, timeout, timeout} {
		_, _, err := index.createNext(cidrs, func(netip.Addr) (*networkingv1.IPAddress, error) { return nil, failure })
		if !errors.Is(err, failure) {
			t.Error(err)
		}
		if used, _ := index.usage(cidrs[0]); used != 0 {
			t.Error(used, "are used after", failure)
		}
	}
	// The answer to a creation is lost.
	lost, _, err := index.createNext(cidrs, func(address netip.Addr) (*networkingv1.IPAddress, error) {
		if _, err := s.create(address); err != nil {
			t.Error(err)
		}
		return nil, timeout
	})
	if !errors.Is(err, timeout) {
		t.Error(err)
	}
	if address, _, err := index.createNext(cidrs, s.create); err != nil || address == lost {
		t.Error(address, "after", lost, err)
	}
}

// TestPeek looks at the only free address while it is reserved and released again.
func TestPeek(t *testing.T) {
	_, index, cidrs := start(t, []string{"10.0.0.1"}, "10.0.0.0/30")
	refused := errors.New("refused")
	var looks atomic.Int64
	stop := make(chan struct{})
	var peeking sync.WaitGroup
	for range 2 {
		peeking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = index.peek(cidrs) // it is taken now and then
					looks.Add(1)
				}
			}
		})
	}
	for tries := 0; tries < 10_000 || looks.Load() < 10_000; tries++ {
		if _, _, err := index.createNext(cidrs, func(netip.Addr) (*networkingv1.IPAddress, error) { return nil, refused }); !errors.Is(err, refused) {
			t.Errorf("one address is free: %v", err)
			break
		}
	}
	close(stop)
	peeking.Wait()
}
