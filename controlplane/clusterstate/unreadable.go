package clusterstate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Unreadable is an object that cannot be decoded or has a CIDR that is none, or whose name is not that of its key.
type Unreadable struct {
	// Kind is the kind of the objects at its place, such as Service.
	Kind string
	// Key is its key, or over the Kubernetes API its namespace and name. Name is the key after the place of its kind.
	Key, Name string
	// Problem says why.
	Problem string
	// Encrypted is set if the value is encrypted at rest, so that an API server can read it; else nil.
	Encrypted *EncryptedError
}

// UnreadableError says that a state has objects that cannot be decoded: nothing may be written on the strength of it,
// as they may use or record any value.
type UnreadableError struct{ Objects []Unreadable }

// ReadOverAPI says what reads and repairs a cluster with values that are encrypted at rest.
const ReadOverAPI = "an audit over the Kubernetes API reads what is encrypted at rest, and rangekeeper controller repairs the ranges of such a cluster"

func (e *UnreadableError) Error() string {
	// An object that no server can read comes before one that only this program cannot.
	at, cure := slices.IndexFunc(e.Objects, func(u Unreadable) bool { return u.Encrypted == nil }), "rangekeeper audit lists what cannot be read: restore or delete it first"
	if at < 0 {
		at, cure = 0, ReadOverAPI
	}
	first, rest := e.Objects[at], ""
	if n := len(e.Objects) - 1; n > 0 {
		rest = fmt.Sprintf(" (and %d more)", n)
	}
	key := first.Key
	if quoted := strconv.Quote(key); quoted != `"`+key+`"` { // a terminal must not get its control characters
		key = quoted
	}
	return fmt.Sprintf("key %s: %s%s: it may use or record any value, so nothing more is written; %s", key, first.Problem, rest, cure)
}

// CheckReadable returns an [UnreadableError] if there are objects that cannot be decoded.
func (s *State) CheckReadable() error {
	if len(s.Unreadable) == 0 {
		return nil
	}
	return &UnreadableError{s.Unreadable}
}

// CountUnreadable returns the number of objects of a kind that cannot be decoded.
func (s *State) CountUnreadable(kind string) int { return len(s.UnreadableNames(kind)) }

// UnreadableNames returns the names of the objects of a kind that cannot be decoded.
func (s *State) UnreadableNames(kind string) (names []string) {
	for _, u := range s.Unreadable {
		if u.Kind == kind {
			names = append(names, u.Name)
		}
	}
	return names
}

func compareKeys(a, b Unreadable) int { return cmp.Compare(a.Key, b.Key) }

// addUnreadable notes an object that cannot be decoded, whose key is prefix and name.
func (s *State) addUnreadable(k kind, prefix, name string, err error) {
	u := Unreadable{Kind: k.name, Key: prefix + name, Name: name, Problem: err.Error()}
	errors.As(err, &u.Encrypted)
	s.Unreadable = append(s.Unreadable, u)
}
