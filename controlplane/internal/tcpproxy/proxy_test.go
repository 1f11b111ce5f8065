package tcpproxy_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/tcpproxy"
)

// timeout bounds waiting for what happens in microseconds.
const timeout = time.Minute

// lines is a target that sends each line that it receives, of all connections, to a channel, and answers it.
func lines(t *testing.T) (address string, received chan string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	received = make(chan string, 1000)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var line []byte
				for one := make([]byte, 1); ; {
					if _, err := c.Read(one); err != nil {
						received <- "end"
						return
					}
					line = append(line, one[0])
					if one[0] == '\n' {
						received <- strings.TrimSpace(string(line))
						c.Write(bytes.ToUpper(line))
						line = nil
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), received
}

func dial(t *testing.T, p *tcpproxy.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// send sends a line, and waits until the proxy has as many held bytes more.
func send(t *testing.T, p *tcpproxy.Proxy, c net.Conn, line string) {
	t.Helper()
	before := p.Held()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(timeout); p.Held() != before+len(line)+1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q is not held back", line)
		}
	}
}

func receive(t *testing.T, received chan string) string {
	t.Helper()
	select {
	case line := <-received:
		return line
	case <-time.After(timeout):
		t.Fatal("nothing arrives")
		return ""
	}
}

// TestHold sends lines over two connections while the proxy holds them back, and delivers them in the order of their
// arrival. A busy machine needs a longer gap, so that the target receives them in this order, too.
func TestHold(t *testing.T) {
	for gap := 5 * time.Millisecond; !hold(t, gap) && !t.Failed(); gap *= 8 {
		if gap > time.Second {
			t.Error("the order is not that of the arrival")
		}
	}
}

// hold returns whether the lines come in the order of their arrival.
func hold(t *testing.T, gap time.Duration) (inOrder bool) {
	address, received := lines(t)
	p := tcpproxy.Start(t, address)
	first, second := dial(t, p), dial(t, p)
	fmt.Fprintln(first, "open")
	if line := receive(t, received); line != "open" {
		t.Fatal(line)
	}
	p.Hold()
	var sent []string
	for i := range 20 {
		c, name := first, "first"
		if i%2 == 1 {
			c, name = second, "second"
		}
		sent = append(sent, fmt.Sprintf("%s %d", name, i))
		send(t, p, c, sent[i])
	}
	if len(received) > 0 {
		t.Fatalf("%q arrives though it is held back", <-received)
	}
	first.Close() // what it has sent arrives nevertheless
	p.Deliver(gap)
	var got []string
	for len(got) < len(sent)+1 {
		got = append(got, receive(t, received))
	}
	want := append(slices.Clone(sent), "end")
	if inOrder = slices.Equal(got, want); !inOrder {
		t.Logf("with a gap of %v in the order %q, want %q", gap, got, want)
	}
	answer := make([]byte, 9)
	if _, err := io.ReadFull(second, answer); err != nil || string(answer) != "SECOND 1\n" {
		t.Errorf("answer %q, %v", answer, err)
	}
	fmt.Fprintln(second, "after")
	if line := receive(t, received); line != "after" {
		t.Errorf("%q after the delivery", line)
	}
	return inOrder
}

// TestShuffled keeps the order of each connection, and not that of all.
func TestShuffled(t *testing.T) {
	address, received := lines(t)
	p := tcpproxy.Start(t, address)
	connections := []net.Conn{dial(t, p), dial(t, p), dial(t, p)}
	p.Hold()
	const each = 20
	for i := range len(connections) * each {
		send(t, p, connections[i/each], fmt.Sprintf("%d %d", i/each, i%each))
	}
	p.DeliverShuffled(rand.New(rand.NewPCG(1, 2)), 5*time.Millisecond)
	next, switches, last := make([]int, len(connections)), 0, -1
	for range len(connections) * each {
		var c, i int
		if line := receive(t, received); line != "" {
			if _, err := fmt.Sscan(line, &c, &i); err != nil {
				t.Fatal(err)
			}
		}
		if i != next[c] {
			t.Fatalf("connection %d: line %d arrives instead of %d", c, i, next[c])
		}
		next[c]++
		if c != last {
			switches, last = switches+1, c
		}
	}
	if switches <= len(connections) {
		t.Errorf("the connections are delivered one after the other")
	}
}

// TestDelay sends a line with a delay, and another one without on a second connection.
func TestDelay(t *testing.T) {
	address, received := lines(t)
	p := tcpproxy.Start(t, address)
	first, second := dial(t, p), dial(t, p)
	fmt.Fprintln(first, "open")
	receive(t, received)
	fmt.Fprintln(second, "open")
	receive(t, received)
	const delay = 200 * time.Millisecond
	p.Delay(delay)
	start := time.Now()
	fmt.Fprintln(first, "delayed")
	if line := receive(t, received); line != "delayed" || time.Since(start) < delay {
		t.Errorf("%q arrives after %v", line, time.Since(start))
	}
	p.Delay(0)
	fmt.Fprintln(second, "at once")
	if line := receive(t, received); line != "at once" {
		t.Error(line)
	}
}

// TestClose ends connections, also one whose bytes are held back.
func TestClose(t *testing.T) {
	address, received := lines(t)
	p := tcpproxy.Start(t, address)
	c := dial(t, p)
	p.Hold()
	send(t, p, c, "held")
	p.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
	if _, err := net.Dial("tcp", p.Address()); err == nil {
		t.Error("the proxy listens")
	}
	if line := receive(t, received); line != "end" {
		t.Errorf("%q arrives", line)
	}
}
