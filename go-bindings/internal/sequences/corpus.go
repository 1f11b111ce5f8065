package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/rangekeeper/rangekeeper/go-bindings"
)

// corpora are the fuzz targets, each with what plays one of its inputs. An input of a target that reads operations is
// here the choices of a sequence, for the operations are encoded for Rust.
var corpora = map[string]func(s *sequence, input []byte){
	"address":                   text,
	"allocator":                 choices(allocations),
	"bitmap":                    choices(allocations),
	"bootstrap_plan":            plan,
	"index":                     choices(indexes),
	"ip_audit_batch":            choices(audits),
	"leak_counters":             choices(leaks),
	"lease":                     lease,
	"range_allocation_json":     decode,
	"range_allocation_protobuf": decode,
	"range_allocation_yaml":     decode,
	"ranges":                    text,
	"repair":                    choices(audits),
	"service_batch":             choices(audits),
	"snapshot":                  restore,
}

// playCorpora prints the digest of the answers to each file FOLDER/TARGET/FILE.
func playCorpora(folder string, out, log io.Writer) error {
	files, err := filepath.Glob(filepath.Join(folder, "*", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		input, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		target := filepath.Base(filepath.Dir(file))
		play := corpora[target]
		if play == nil {
			return fmt.Errorf("%s: there is no way to play inputs of target %s", file, target)
		}
		answers := digest(log, func(out io.Writer) { play(&sequence{out: out}, input) })
		fmt.Fprintf(out, "%s/%s %016x\n", target, filepath.Base(file), answers)
	}
	return nil
}

// inputSource returns the numbers of an input, and others after its end.
type inputSource struct {
	input []byte
	after *rand.PCG
}

func (s *inputSource) Uint64() uint64 {
	if len(s.input) == 0 {
		return s.after.Uint64()
	}
	// The number's upper bits decide most choices, so that one byte is enough for one.
	number := uint64(s.input[0])<<56 | s.after.Uint64()>>8
	s.input = s.input[1:]
	return number
}

func choices(play func(*sequence)) func(*sequence, []byte) {
	return func(s *sequence, input []byte) {
		s.Rand = rand.New(&inputSource{input, rand.NewPCG(0, 18)})
		play(s)
	}
}

// text reads an input as a range and as a value.
func text(s *sequence, input []byte) {
	r, err := rangekeeper.ParseCIDR(string(input))
	s.answer("cidr", r, r.Size(), r.StaticBand(), err)
	r, err = rangekeeper.ParsePortRange(string(input))
	s.answer("ports", r, r.Size(), r.StaticBand(), err)
	c, err := rangekeeper.ParseServiceCIDR(string(input))
	s.answer("service cidr", c.Size(), c.StaticBand(), err)
	s.answer("value", fmt.Sprint(rangekeeper.ParseValue(string(input))))
}

// decode reads an input as a stored RangeAllocation, and changes it.
func decode(s *sequence, input []byte) {
	o, err := rangekeeper.DecodeRangeAllocation(input)
	s.answer("decode", err)
	if err != nil {
		return
	}
	defer o.Close()
	s.answer("range", fmt.Sprint(o.Range()))
	data, err := o.Data(nil)
	s.answer("data", sum(data), err)
	encoded, err := o.Encode(nil)
	s.answer("encode", sum(encoded), err)
	s.answer("set", o.Set("10.0.0.0/24", []byte{5}))
	encoded, err = o.Encode(encoded)
	s.answer("encode", sum(encoded), err)
}

// restore reads an input as the size of a port range and a stored bitmap, as the fuzz target does.
func restore(s *sequence, input []byte) {
	if len(input) < 3 {
		return
	}
	text := fmt.Sprintf("0-%d", binary.BigEndian.Uint16(input))
	r, err := rangekeeper.ParsePortRange(text)
	s.answer("ports", r, err)
	a, err := rangekeeper.NewAllocator(r, rangekeeper.Contiguous, 0)
	s.answer("new", err)
	if err != nil {
		return
	}
	defer a.Close()
	s.answer("next", fmt.Sprint(a.AllocateNext()))
	s.answer("restore", a.Restore("1-65535", input[3:]), a.Restore(text, input[3:]), a.Used())
	s.answer("next", fmt.Sprint(a.AllocateNext()))
	snapshot, err := a.Snapshot(nil)
	s.answer("snapshot", sum(snapshot), err)
	for value := range a.All() {
		s.answer("in use", value)
	}
}

func plan(s *sequence, input []byte) {
	answer, err := rangekeeper.BootstrapPlan(input, nil)
	s.answer("plan", string(answer), utf8.Valid(answer), err)
}

// lease lets a server read an input as its own lease.
func lease(s *sequence, input []byte) {
	question, err := json.Marshal(map[string]any{"lease": map[string]any{
		"advertiseAddress": "192.0.2.10", "stage": "run",
		"read": map[string]any{"key": "/registry/masterleases/192.0.2.10", "value": input, "modRevision": 415, "leaseId": 7},
	}})
	if err != nil {
		panic(err) // Such a map is JSON.
	}
	plan(s, question)
}
