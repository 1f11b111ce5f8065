package etcdtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreePort returns a port that nobody has at the addresses 127.0.0.1 to 127.0.0.3, for
// programs that do not share it with [ReservePort]. It is below those that the system
// gives to connections, so only another test could take it: that one does not get it
// either, in whatever process it is, as this one has the same port of UDP until it ends.
func FreePort(t testing.TB) int {
	t.Helper()
next:
	for range 1000 {
		port := 20000 + rand.IntN(10000)
		claim, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		t.Cleanup(func() { claim.Close() })
		for i := range 3 {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%d", 1+i, port))
			if err != nil {
				continue next
			}
			l.Close()
		}
		return port
	}
	t.Fatal("no port is free")
	return 0
}
