package rangekeeper

import (
	"strings"

	"github.com/rangekeeper/rangekeeper/go-bindings/internal/rk"
)

// eventOf is an event of a kind that nothing belongs to.
func eventOf(kind uint32) *rk.Event { return &rk.Event{Kind: kind} }

func (a *Answer) event() *rk.Event {
	header := rk.Header{ClusterID: a.ClusterID, Revision: uint64(a.Revision), RaftTerm: a.RaftTerm}
	if a.Held {
		return &rk.Event{Kind: rk.EventHeld, Data: rk.EventData{Held: &header}}
	}
	current := &rk.Current{Header: header, Key: keyToC(a.Key, a.Value)}
	return &rk.Event{Kind: rk.EventCurrent, Data: rk.EventData{Current: current}}
}

func refusal(reason string) *rk.Event {
	// The reason is a store's, for people: bytes that are not UTF-8 must not leave the request without an end.
	refused := &rk.Refused{Reason: strings.ToValidUTF8(reason, "\uFFFD")}
	return &rk.Event{Kind: rk.EventRefused, Data: rk.EventData{Refused: refused}}
}

func changed(changes []Change) *rk.Event {
	keys := make([]rk.Key, len(changes))
	for i, change := range changes {
		keys[i] = keyToC(change.Key, change.Value)
	}
	return &rk.Event{Kind: rk.EventWatched, Data: rk.EventData{Watched: &rk.Watched{Changes: keys}}}
}

func keyToC(state KeyState, value []byte) rk.Key { return rk.Key{State: state.toC(), Value: value} }

// toC returns an operation, and adds its requests to those of others.
func (o *Operation) toC(requests []rk.Value) (rk.Operation, []rk.Value) {
	c := rk.Operation{Kind: o.kind, Deadline: deadlineToC(o.deadline)}
	switch o.kind {
	case rk.OperationAllocate:
		c.Data.Allocate = &rk.Allocate{Requests: uint(len(o.values))}
		requests = append(requests, o.values...)
	case rk.OperationRelease:
		c.Data.Release = &rk.Release{Value: o.values[0], AsOf: uint64(o.owner.AsOf), Oldest: uint64(max(o.owner.Oldest, 0)), Store: o.owner.Store}
	}
	return c, requests
}
