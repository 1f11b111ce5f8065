// Package tcpproxy carries TCP connections of a server to its etcd, so that a test can hold back, delay and reorder the
// requests of the server.
package tcpproxy

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	pieceSize = 16 << 10
	// maxHeld bounds the bytes that are held back, and maxQueued the delayed pieces of a connection. The proxy does not
	// read on until there is room again.
	maxHeld   = 64 << 20
	maxQueued = 256
)

// Proxy listens on 127.0.0.1 and connects each client to the target. Answers of the target are never held back. Its
// functions can be called by several goroutines, but only one may deliver.
type Proxy struct {
	listener net.Listener
	group    sync.WaitGroup

	mutex       sync.Mutex
	target      string
	room        *sync.Cond
	connections map[*connection]struct{}
	delay       time.Duration
	isHolding   bool
	isClosed    bool
	held        []piece // in the order of their arrival
	heldBytes   int
}

type connection struct {
	client, server net.Conn
	queue          chan piece
	closed         chan struct{}
	close          func()
}

// piece is what one read of a client returned. At the end of the client's stream data is nil.
type piece struct {
	connection *connection
	data       []byte
	due        time.Time
}

// Start returns a proxy to a target, "host:port". It is closed at the end of the test.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: listener, connections: make(map[*connection]struct{})}
	p.room = sync.NewCond(&p.mutex)
	t.Cleanup(p.Close)
	p.group.Go(p.accept)
	return p
}

// Address returns the "host:port" at which clients reach the target.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Delay makes each piece that arrives from now on reach the target after the given time.
func (p *Proxy) Delay(delay time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.delay = delay
}

// Hold holds back what clients send from now on.
func (p *Proxy) Hold() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.isHolding = true
}

// Held returns the number of bytes that are held back.
func (p *Proxy) Held() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.heldBytes
}

// Deliver sends the held pieces in the order of their arrival, with a gap between two of them, and ends the holding.
func (p *Proxy) Deliver(gap time.Duration) {
	p.deliver(gap, func() int { return 0 })
}

// DeliverShuffled is Deliver, but each piece is the next one of a random connection: the order is kept only within
// connections.
func (p *Proxy) DeliverShuffled(random *rand.Rand, gap time.Duration) {
	p.deliver(gap, func() int {
		chosen := p.held[random.IntN(len(p.held))].connection
		return slices.IndexFunc(p.held, func(piece piece) bool { return piece.connection == chosen })
	})
}

// deliver sends the pieces that next chooses. Pieces that arrive meanwhile have no gap, so it ends.
func (p *Proxy) deliver(gap time.Duration, next func() int) {
	p.mutex.Lock()
	withGap := len(p.held)
	p.mutex.Unlock()
	for ; ; withGap-- {
		p.mutex.Lock()
		if len(p.held) == 0 {
			p.isHolding = false
			p.room.Broadcast()
			p.mutex.Unlock()
			return
		}
		i := next()
		piece := p.held[i]
		p.held = slices.Delete(p.held, i, i+1)
		p.heldBytes -= len(piece.data)
		p.room.Broadcast()
		p.mutex.Unlock()
		piece.connection.send(piece)
		if withGap > 0 {
			time.Sleep(gap)
		}
	}
}

// Cut ends all connections. Clients may connect again.
func (p *Proxy) Cut() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for c := range p.connections {
		c.close()
	}
}

// Redirect ends all connections, and connects clients to another target from now on.
func (p *Proxy) Redirect(target string) {
	p.mutex.Lock()
	p.target = target
	p.mutex.Unlock()
	p.Cut()
}

// Close ends all connections and drops what is held back.
func (p *Proxy) Close() {
	p.mutex.Lock()
	p.isClosed = true
	p.held, p.heldBytes = nil, 0
	p.room.Broadcast()
	for c := range p.connections {
		c.close()
	}
	p.mutex.Unlock()
	p.listener.Close()
	p.group.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.mutex.Lock()
		target := p.target
		p.mutex.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil { // as if the target refused it
			client.Close()
			continue
		}
		c := &connection{client: client, server: server, queue: make(chan piece, maxQueued), closed: make(chan struct{})}
		c.close = sync.OnceFunc(func() {
			close(c.closed)
			client.Close()
			server.Close()
		})
		if !p.add(c) {
			c.close()
			return
		}
		p.group.Go(func() { p.read(c) })
		p.group.Go(c.write)
		p.group.Go(func() { p.answer(c) })
	}
}

func (p *Proxy) add(c *connection) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.isClosed {
		p.connections[c] = struct{}{}
	}
	return !p.isClosed
}

// read takes what the client sends.
func (p *Proxy) read(c *connection) {
	buffer := make([]byte, pieceSize)
	for {
		n, err := c.client.Read(buffer)
		if n > 0 {
			p.arrived(piece{connection: c, data: bytes.Clone(buffer[:n])})
		}
		if err != nil {
			p.arrived(piece{connection: c})
			return
		}
	}
}

// arrived holds a piece back, or queues it.
func (p *Proxy) arrived(piece piece) {
	p.mutex.Lock()
	for p.isHolding && !p.isClosed && p.heldBytes+len(piece.data) > maxHeld {
		p.room.Wait()
	}
	if p.isHolding && !p.isClosed {
		p.held = append(p.held, piece)
		p.heldBytes += len(piece.data)
		p.mutex.Unlock()
		return
	}
	piece.due = time.Now().Add(p.delay)
	p.mutex.Unlock()
	piece.connection.send(piece)
}

func (c *connection) send(piece piece) {
	select {
	case c.queue <- piece:
	case <-c.closed:
	}
}

// write sends queued pieces to the target when they are due. The end of the client's stream ends that to the target,
// which can still answer.
func (c *connection) write() {
	for {
		select {
		case piece := <-c.queue:
			select {
			case <-time.After(time.Until(piece.due)):
			case <-c.closed:
				return
			}
			if piece.data == nil {
				c.server.(*net.TCPConn).CloseWrite() // fails if the target has closed the connection
				return
			}
			if _, err := c.server.Write(piece.data); err != nil {
				c.close()
				return
			}
		case <-c.closed:
			return
		}
	}
}

// answer carries answers to the client until the target closes the connection. The client may be gone before that,
// while its requests are held back.
func (p *Proxy) answer(c *connection) {
	io.Copy(c.client, c.server)
	io.Copy(io.Discard, c.server)
	c.close()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.connections, c)
}
