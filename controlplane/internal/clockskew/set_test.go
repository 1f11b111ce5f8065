package clockskew_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/child"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/clockskew"
)

// clockVariable makes this program write its wall clock, in nanoseconds, and end.
const clockVariable = "RANGEKEEPER_TEST_CLOCK"

func TestMain(m *testing.M) {
	if _, isChild := os.LookupEnv(clockVariable); isChild {
		start := time.Now()
		time.Sleep(50 * time.Millisecond)
		fmt.Println(time.Now().UnixNano(), int64(time.Since(start)))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestSet compares the clocks of children with that of the test.
func TestSet(t *testing.T) {
	for _, offset := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), clockVariable+"=")
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		command.Stdout = in
		before := time.Now()
		process, err := child.StartPrepared(command, func(pid int) error { return clockskew.Set(pid, offset) })
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		var wall, slept int64
		_, err = fmt.Fscan(bufio.NewReader(out), &wall, &slept)
		<-process.Ended()
		after := time.Now()
		if err != nil || process.Err() != nil {
			t.Fatal(err, process.Err())
		}
		if got := time.Unix(0, wall); got.Before(before.Add(offset)) || got.After(after.Add(offset)) {
			t.Errorf("offset %v: the child's clock is %v, the test's %v to %v", offset, got, before, after)
		}
		if time.Duration(slept) > after.Sub(before) {
			t.Errorf("offset %v: the child has measured %v in %v", offset, time.Duration(slept), after.Sub(before))
		}
		in.Close()
		out.Close()
	}
}
