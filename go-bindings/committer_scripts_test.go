package rangekeeper

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Runs the scripts of testing/testdata/commit, whose README says what their lines mean.
func TestCommitterScripts(t *testing.T) {
	scripts := must(filepath.Glob("testdata/commit/*.txt"))
	if len(scripts) == 0 {
		t.Fatal("no scripts")
	}
	for _, path := range scripts {
		var s *story
		for i, line := range strings.Split(string(must(os.ReadFile(path))), "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			if ports, begins := strings.CutPrefix(line, "committer "); begins {
				s = newStory(t, ports)
			} else if err := s.tryLine(strings.Split(line, " ")); err != nil {
				t.Fatalf("%s:%d: %s: %v", path, i+1, line, err)
			}
		}
	}
}

type story struct {
	r        Range
	c        *Committer
	empty    *RangeAllocation // what is stored before anything is in use
	now      time.Duration
	names    map[Ticket]string
	outcomes map[string]Finished
	stores   map[string]uint32 // that were known
	passes   *LeakTracker
	pass     *RepairPass // the last one that was started
}

func newStory(t *testing.T, ports string) *story {
	r := must(ParsePortRange(ports))
	create := func() *Committer {
		c := must(NewCommitter(r, CommitterConfig{Strategy: Contiguous, Grace: 6 * time.Minute, Seed: 1}))
		t.Cleanup(func() { c.Close() })
		return c
	}
	k := new(memoryKey)
	one(t, k, create(), CreateOperation(NoDeadline))
	return &story{
		r: r, c: create(), empty: must(DecodeRangeAllocation(k.value)), now: time.Second,
		names: map[Ticket]string{}, outcomes: map[string]Finished{}, stores: map[string]uint32{},
	}
}

// tryLine is line, but returns a panic, of must or for a word that is not there, as an error: it is reported with its
// place.
func (s *story) tryLine(words []string) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%v", panicked)
		}
	}()
	return s.line(words)
}

func (s *story) line(words []string) error {
	switch words[0] {
	case "clock":
		s.now = time.Duration(must(strconv.Atoi(words[1]))) * time.Millisecond
	case "submit":
		name, rest, deadline := words[1], words[2:], NoDeadline
		if rest[0] == "by" {
			rest, deadline = rest[2:], time.Duration(must(strconv.Atoi(rest[1])))*time.Millisecond
		}
		switch rest[0] {
		case "edit":
			s.names[must(s.c.SubmitEdit(deadline, s.edit(rest[1:])))] = name
		case "repair":
			s.names[must(s.c.SubmitRepair(deadline, s.pass, serviceList(rest[1:])))] = name
		default:
			s.names[must(s.c.Submit(s.operation(rest, deadline)))[0]] = name
		}
	case "cancel":
		for ticket, name := range s.names {
			if name == words[1] {
				return s.c.Cancel(ticket)
			}
		}
		return errors.New("no such operation")
	case "abandon":
		allocated, _ := s.outcomes[words[1]].Outcome.(Allocated)
		return s.c.Abandon(allocated)
	case "written":
		allocated, _ := s.outcomes[words[1]].Outcome.(Allocated)
		return s.c.Written(allocated.Values...)
	case "store":
		s.stores[words[1]] = s.c.Known().Store
	case "passes":
		interval := time.Duration(must(strconv.Atoi(words[2]))) * time.Millisecond
		s.passes = must(NewLeakTracker(uint8(must(strconv.Atoi(words[1]))), interval))
	case "pass", "pass-read", "pass-fenced", "pass-list":
		return s.passLine(words)
	case "handle":
		return s.handle(words[1:])
	case "poll":
		step, err := s.c.Poll(s.now)
		if err != nil {
			return err
		}
		if got, want := s.text(step), strings.Join(words[1:], " "); got != want {
			return fmt.Errorf("got %s", got)
		}
	default:
		return errors.New("an unknown line")
	}
	return nil
}

func port(word string) Value { return PortValue(uint16(must(strconv.Atoi(word)))) }

// passLine is a step of a repair pass.
func (s *story) passLine(words []string) error {
	switch words[0] {
	case "pass":
		s.pass = must(s.passes.Start())
		return s.c.BeginPass(s.pass)
	case "pass-read":
		view, isRead := s.outcomes[words[1]].Outcome.(View)
		if !isRead {
			return errors.New("no such read")
		}
		needsFence, err := s.c.PassRead(s.pass, view.Revision, view.Snapshot, s.now)
		if got := map[bool]string{true: "fence", false: "no-fence"}[needsFence]; err == nil && got != words[2] {
			return fmt.Errorf("got %s", got)
		}
		return err
	case "pass-fenced":
		return s.c.PassFenced(s.pass, int64(must(strconv.Atoi(words[1]))), uint64(must(strconv.Atoi(words[2]))))
	}
	audit := must(s.pass.Audit())
	var services Services
	for _, word := range words[1:] {
		services.Add("", nil)
		services.AddPort("TCP", int32(must(strconv.Atoi(word))))
	}
	if err := audit.Observe(&services); err != nil {
		return err
	}
	_, err := s.pass.Finish(audit)
	return err
}

// serviceList is how the Services of a pass were listed.
func serviceList(words []string) ServiceList {
	if words[0] == "elsewhere" {
		return ServiceList{}
	}
	guards, known := map[string]bool{"at": false, "guarding": true}[words[0]]
	if !known {
		panic("an unknown list")
	}
	return ServiceList{Revision: int64(must(strconv.Atoi(words[1]))), Guards: guards}
}

func (s *story) operation(words []string, deadline time.Duration) Operation {
	switch words[0] {
	case "create":
		return CreateOperation(deadline)
	case "read":
		return ReadOperation(deadline)
	case "release":
		owner := Ownership{AsOf: int64(must(strconv.Atoi(words[2]))), Oldest: int64(must(strconv.Atoi(words[3])))}
		if len(words) > 4 {
			known := false
			if owner.Store, known = s.stores[words[4]]; !known {
				panic("no such store")
			}
		}
		return ReleaseOperation(deadline, port(words[1]), owner)
	case "allocate":
	default:
		panic("an unknown operation")
	}
	var requests []Request
	for _, word := range words[1:] {
		if word == "any" {
			requests = append(requests, Any())
		} else {
			requests = append(requests, Named(port(word)))
		}
	}
	return AllocateOperation(deadline, requests...)
}

// edit is that of KIND LISTED SINCE and the lists of values that follow.
func (s *story) edit(words []string) Edit {
	number := func(word string) int64 { return int64(must(strconv.Atoi(word))) }
	kinds := map[string]EditKind{"change": EditChange, "force": EditForce, "plan": EditPlan, "undo": EditUndo}
	if _, known := kinds[words[0]]; !known {
		panic("an unknown kind")
	}
	edit := Edit{Kind: kinds[words[0]], Listed: number(words[1]), Since: number(words[2]), InUse: make([]byte, (s.r.Size()+7)/8), Look: 1}
	list := ""
	for _, word := range words[3:] {
		switch _, err := strconv.Atoi(word); {
		case err != nil:
			list = word
		case list == "set":
			edit.Set = append(edit.Set, port(word))
		case list == "clear":
			edit.Clear = append(edit.Clear, port(word))
		case list == "pick":
			edit.Pick = uint32(number(word))
		default:
			s.use(edit.InUse, word)
		}
	}
	return edit
}

func (s *story) handle(words []string) error {
	answer := Answer{ClusterID: 1, RaftTerm: 1}
	switch words[0] {
	case "held", "current", "past":
		answer.Revision, answer.Held = int64(must(strconv.Atoi(words[1]))), words[0] == "held"
		if len(words) > 2 {
			answer.Key, answer.Value = s.key(words[2:])
		}
		if words[0] == "past" {
			return s.c.Past(s.now, answer)
		}
		return s.c.Answered(s.now, answer)
	case "compacted":
		return s.c.Compacted(s.now)
	case "unknown":
		return s.c.Unknown(s.now)
	case "refused":
		return s.c.Refused(s.now, strings.Join(words[1:], " "))
	case "reconnected":
		return s.c.Reconnected(s.now)
	case "watched":
		state, value := s.key(words[1:])
		return s.c.Watched(s.now, Change{state, value})
	case "watch-ended":
		return s.c.WatchEnded(s.now)
	case "watch-failed":
		return s.c.WatchFailed(s.now)
	}
	return errors.New("an unknown event")
}

// key is a state and what is stored if these ports are in use.
func (s *story) key(words []string) (state KeyState, value []byte) {
	must(fmt.Sscanf(words[0], "%d/%d/%d", &state.ModRevision, &state.Version, &state.CreateRevision))
	data := make([]byte, (s.r.Size()+7)/8)
	for _, word := range words[1:] {
		s.use(data, word)
	}
	if err := s.empty.Set(s.r.String(), data); err != nil {
		panic(err)
	}
	return state, must(s.empty.Encode(nil))
}

// use sets the bit of a port.
func (s *story) use(data []byte, word string) {
	offset, _ := s.r.OffsetOf(port(word))
	data[len(data)-1-int(offset/8)] |= 1 << (offset % 8)
}

// ports are those in use, each after a space.
func (s *story) ports(snapshot []byte) (ports string) {
	for offset := range s.r.Size() {
		if at := len(snapshot) - 1 - int(offset/8); at >= 0 && snapshot[at]>>(offset%8)&1 == 1 {
			value, _ := s.r.ValueAt(offset)
			ports += " " + value.String()
		}
	}
	return ports
}

func (s *story) text(step Step) string {
	guard := fmt.Sprintf("%d/%d/%d", step.Guard.ModRevision, step.Guard.Version, step.Guard.CreateRevision)
	switch step.Kind {
	case StepIdle:
		return "idle"
	case StepWait:
		s.now = step.Until
		return "wait"
	case StepWatch:
		return fmt.Sprint("watch ", step.WatchFrom)
	case StepStopWatch:
		return "stop-watch"
	case StepRead:
		return "read"
	case StepReadAt:
		return fmt.Sprint("read-at ", step.At)
	case StepConfirm:
		return "confirm " + guard
	case StepSwap:
		stored := must(DecodeRangeAllocation(must(s.c.Value(nil))))
		if step.ServicesUnchangedSince != 0 {
			guard += fmt.Sprint(" list ", step.ServicesUnchangedSince)
		}
		if step.Look != 0 {
			guard += fmt.Sprint(" look ", step.Look)
		}
		return "swap " + guard + s.ports(must(stored.Data(nil)))
	}
	var texts []string
	for _, f := range step.Finished {
		name := s.names[f.Ticket]
		delete(s.names, f.Ticket)
		s.outcomes[name] = f
		texts = append(texts, name+" "+s.outcome(f))
	}
	return "finished " + strings.Join(texts, ", ")
}

func (s *story) outcome(f Finished) string {
	switch outcome := f.Outcome.(type) {
	case Allocated:
		text := "allocated "
		for _, value := range outcome.Values {
			text += value.String() + " "
		}
		return text + fmt.Sprint("at ", outcome.Revision)
	case Released:
		return map[bool]string{true: "freed", false: "not-freed"}[outcome.Freed]
	case Deferred:
		return map[bool]string{true: "deferred duplicate", false: "deferred"}[outcome.Duplicate]
	case View:
		return fmt.Sprint("read ", outcome.Revision) + s.ports(outcome.Snapshot)
	case Created:
		return map[bool]string{true: "created", false: "exists"}[outcome.Created]
	case Edited:
		text := map[bool]string{true: "edited", false: "not-edited"}[outcome.Done] + fmt.Sprint(" ", outcome.Revision)
		for _, one := range outcome.Values {
			text += " " + one.Value.String() + " " + strings.ReplaceAll(one.Fate.String(), " ", "-")
		}
		return text
	case Repaired:
		text := "repaired" + labelled(" set", outcome.Set) + labelled(" cleared", outcome.Cleared)
		if outcome.Changed > 0 {
			text += fmt.Sprint(" changed ", outcome.Changed)
		}
		return text
	case Unknown:
		return "unknown"
	}
	for reason, err := range map[string]error{
		"full": ErrFull, "in-use": ErrAlreadyAllocated, "not-initialised": ErrNotInitialised, "refused": ErrRefused,
		"stale-list": ErrStaleList, "services-written": ErrServicesWritten, "deadline": ErrDeadlineExceeded,
		"cancelled": ErrCancelled,
	} {
		if errors.Is(errOf(f), err) {
			return "failed " + reason
		}
	}
	return fmt.Sprintf("%+v", f)
}

// labelled are the values after a label, if there are any, each after a space.
func labelled(label string, values []Value) string {
	for i := range values {
		label += " " + values[i].String()
	}
	if len(values) == 0 {
		return ""
	}
	return label
}
