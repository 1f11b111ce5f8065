// Package process measures whole runs of a program.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Run is one run of a program.
type Run struct {
	// Seconds is the time that it took, CPU the processor time of its own.
	Seconds, CPU float64
	// MiB is the peak of the resident memory.
	MiB            float64
	Stdout, Stderr []byte
}

// Measure runs a program to its end, which must have one of these exit codes.
func Measure(ctx context.Context, codes []int, program string, args ...string) (r Run, err error) {
	command := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	begin := time.Now()
	if err := command.Start(); err != nil {
		return r, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	r.MiB, err = peak(command.Process.Pid, ended)
	r.Seconds = time.Since(begin).Seconds()
	r.Stdout, r.Stderr = stdout.Bytes(), stderr.Bytes()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return r, err
	}
	state := command.ProcessState
	r.CPU = (state.UserTime() + state.SystemTime()).Seconds()
	for _, code := range codes {
		if state.ExitCode() == code {
			return r, nil
		}
	}
	return r, fmt.Errorf("%s %s: %v\n%s%s", program, strings.Join(args, " "), state, r.Stdout, r.Stderr)
}

// peak waits for the end of a process and returns the most memory that it had in MiB, and its error. It reads the
// kernel's high-water mark every 10 ms: the one that wait4 returns begins with the memory of the process that started
// it.
func peak(pid int, ended <-chan error) (mib float64, err error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return mib, err
		case <-tick.C:
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if err != nil {
				continue // it has ended
			}
			for line := range strings.Lines(string(status)) {
				var kib float64
				if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
					mib = kib / 1024
				}
			}
		}
	}
}
