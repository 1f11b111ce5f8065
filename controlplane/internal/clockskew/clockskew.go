// Package clockskew gives a child process a wall clock that is ahead or behind, so that a test can run servers whose
// clocks differ. Time namespaces shift only the monotonic clock, and libraries that replace the functions of libc do
// not reach programs in Go.
package clockskew
