package outcometest

import (
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy forwards connections to an etcd, until it loses what is sent.
type proxy struct {
	address           string
	requests, answers direction
	// lost is closed when the first bytes are discarded.
	lost chan struct{}
	once sync.Once

	mu     sync.Mutex
	closed bool
	open   []net.Conn
}

// direction is one of two.
type direction struct {
	// loses makes it discard all bytes. Connections stay open until disconnect.
	loses atomic.Bool
	// sending is held while bytes are forwarded.
	sending sync.Mutex
}

// newProxy returns a proxy of an etcd at a URL.
func newProxy(t *testing.T, etcd string) *proxy {
	t.Helper()
	server, err := url.Parse(etcd)
	if err != nil {
		t.Fatal(err)
	}
	network := "tcp"
	target := server.Host
	if server.Scheme == "unix" || server.Scheme == "unixs" {
		network, target = "unix", server.Host+server.Path
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: "http://" + listener.Addr().String(), lost: make(chan struct{})}
	t.Cleanup(func() {
		listener.Close()
		p.disconnect()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, target)
			if err != nil {
				client.Close()
				continue
			}
			if p.add(client, server) {
				go p.forward(server, client, &p.requests)
				go p.forward(client, server, &p.answers)
			}
		}
	}()
	return p
}

// add records connections to be closed by disconnect; false if that was called.
func (p *proxy) add(all ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		for _, c := range all {
			c.Close()
		}
		return false
	}
	p.open = append(p.open, all...)
	return true
}

func (p *proxy) forward(to, from net.Conn, d *direction) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && d.loses.Load() {
			p.once.Do(func() { close(p.lost) })
		} else if n > 0 {
			d.sending.Lock()
			_, err := to.Write(buffer[:n])
			d.sending.Unlock()
			if err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// disconnect closes all connections, and new ones at once.
func (p *proxy) disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.open {
		c.Close()
	}
}
