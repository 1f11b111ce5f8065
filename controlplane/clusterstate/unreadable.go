package clusterstate

import (
	"fmt"
	"strconv"
)

// Unreadable is an object that cannot be decoded, or whose name is not that of its key.
type Unreadable struct {
	// Kind is the kind of the objects at its place, such as Service.
	Kind string
	// Key is its key, or over the Kubernetes API its namespace and name.
	Key string
	// Problem says why.
	Problem string
}

// UnreadableError says that a state has objects that cannot be decoded: nothing may be written on the strength of it,
// as they may use or record any value.
type UnreadableError struct{ Objects []Unreadable }

func (e *UnreadableError) Error() string {
	first, rest := e.Objects[0], ""
	if n := len(e.Objects) - 1; n > 0 {
		rest = fmt.Sprintf(" (and %d more)", n)
	}
	key := first.Key
	if quoted := strconv.Quote(key); quoted != `"`+key+`"` { // a terminal must not get its control characters
		key = quoted
	}
	return fmt.Sprintf("key %s: %s%s: it may use or record any value, so nothing more is written; rangekeeper audit lists what cannot be read: "+
		"restore or delete it first", key, first.Problem, rest)
}

// CheckReadable returns an [UnreadableError] if there are objects that cannot be decoded.
func (s *State) CheckReadable() error {
	if len(s.Unreadable) == 0 {
		return nil
	}
	return &UnreadableError{s.Unreadable}
}

// CountUnreadable returns the number of objects of a kind that cannot be decoded.
func (s *State) CountUnreadable(kind string) (n int) {
	for _, u := range s.Unreadable {
		if u.Kind == kind {
			n++
		}
	}
	return n
}

// addUnreadable notes an object that cannot be decoded.
func (s *State) addUnreadable(k kind, key string, err error) {
	s.Unreadable = append(s.Unreadable, Unreadable{k.name, key, err.Error()})
}
