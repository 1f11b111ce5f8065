// Package requesttimeout holds the --request-timeout of the API server that writes Services. An IPAddress object is
// created before its Service, so a repair waits for that time before it removes an object that no Service uses. The
// functions that make the repair have no parameter for it.
package requesttimeout

import (
	"sync/atomic"
	"time"
)

// Default is kube-apiserver's default.
const Default = 60 * time.Second

var current atomic.Int64

func init() { Set(Default) }

// Set stores the flag's value, which must be that of all servers of a cluster. Call it before the repair is made.
func Set(timeout time.Duration) { current.Store(int64(timeout)) }

// Get returns the flag's value: the time limit of a request that is not a watch.
func Get() time.Duration { return time.Duration(current.Load()) }
