package servicetest

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	allocatorstorage "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"
	"k8s.io/kubernetes/pkg/registry/registrytest"
)

// members starts proxies before one etcd: to a client they are its members.
func members(t *testing.T, n int) (all []*proxy, config storagebackend.TransportConfig) {
	t.Helper()
	etcd, server := registrytest.NewEtcdStorage(t, "")
	t.Cleanup(func() { server.Terminate(t) })
	for range n {
		member := startProxy(t, etcd.Transport.ServerList[0])
		all = append(all, member)
		config.ServerList = append(config.ServerList, member.url)
	}
	return all, config
}

// useAll makes requests until each member has been asked.
func useAll(t *testing.T, client *clientv3.Client, members []*proxy) {
	t.Helper()
	asked := make(chan *proxy, len(members))
	for _, member := range members {
		member.before("/asked", func() { asked <- member })
	}
	answered := map[*proxy]bool{}
	for len(answered) < len(members) {
		if _, err := client.Get(t.Context(), "/asked"); err != nil {
			t.Fatal(err)
		}
		for len(asked) > 0 {
			answered[<-asked] = true
		}
	}
}

// TestFirstConnections connects clients to the members of an etcd. None of it may look like a restore: requests would
// be refused, and writes would read their objects from etcd until the server ends.
func TestFirstConnections(t *testing.T) {
	const clients = 100
	for _, n := range []int{1, 3} {
		members, config := members(t, n)
		before := allocatorstorage.Connections()
		var again atomic.Int64
		for range clients {
			client := must(allocatorstorage.Connect(config, func() { again.Add(1) }))
			useAll(t, client, members)
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}
		if now := allocatorstorage.Connections(); now != before {
			t.Errorf("%d members: %d changes of the connections of %d clients that lost none", n, now-before, clients)
		}
		for _, member := range members {
			if made := member.made(); made != clients {
				t.Errorf("%d members: %s has got %d connections from %d clients", n, member.url, made, clients)
			}
		}
		if got, want := again.Load(), int64(clients*(n-1)); got != want {
			t.Errorf("%d members: %d connections after a client's first, not %d", n, got, want)
		}
	}
}

// unreachable returns an address at which nobody listens, and nobody comes to listen during the test: its port is the
// test's own.
func unreachable(t *testing.T) string {
	t.Helper()
	fd := must(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", must(syscall.Getsockname(fd)).(*syscall.SockaddrInet4).Port)
}

// TestLostMember loses the connection to one member of three, of which one was never reached. Both that and the next
// connection count, though the client has made no more connections than there are members.
func TestLostMember(t *testing.T) {
	members, config := members(t, 2)
	config.ServerList = append(config.ServerList, "http://"+unreachable(t))
	client := must(allocatorstorage.Connect(config, nil))
	t.Cleanup(func() { client.Close() })
	useAll(t, client, members)
	before := allocatorstorage.Connections()
	members[0].cut()
	deadline := time.Now().Add(3 * time.Minute)
	for allocatorstorage.Connections() != before+2 {
		if time.Now().After(deadline) {
			t.Fatalf("%d changes of the connections, not 2", allocatorstorage.Connections()-before)
		}
		time.Sleep(time.Millisecond)
	}
	useAll(t, client, members)
}
