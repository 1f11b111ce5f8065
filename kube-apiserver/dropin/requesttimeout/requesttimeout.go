// Package requesttimeout holds the server's --request-timeout for the drop-in packages: kube-apiserver does not pass it
// to the code that creates them.
package requesttimeout

import (
	"sync/atomic"
	"time"
)

// Default is kube-apiserver's default.
const Default = 60 * time.Second

var current atomic.Int64

func init() { Set(Default) }

// Set stores the flag's value. The command calls it before it creates the server.
func Set(timeout time.Duration) { current.Store(int64(timeout)) }

// Get returns the flag's value: the time limit of a request that is not a watch.
func Get() time.Duration { return time.Duration(current.Load()) }
