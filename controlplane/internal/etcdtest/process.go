package etcdtest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleVariable names the role of a process that [StartProcess] started.
const roleVariable = "RANGEKEEPER_TEST_ROLE"

// Role is the work of a process that a test has started. It ends when the function
// returns; an error is written to stderr.
type Role func(args []string) error

// terminateTimeout bounds waiting on a machine that does much else. It is longer than `rangekeeper up` waits for its
// servers.
const terminateTimeout = 3 * time.Minute

// roles is nil until [Main] was called.
var roles map[string]Role

// Main is for the TestMain of a package whose tests start processes: it runs
// the tests or, in such a process, the role, and does not return. A role of every
// package is to be a member of a [Cluster].
func Main(m *testing.M, own map[string]Role) {
	roles = map[string]Role{memberRole: runMember}
	for name, role := range own {
		roles[name] = role
	}
	name, isChild := os.LookupEnv(roleVariable)
	if !isChild {
		os.Exit(m.Run())
	}
	if err := roles[name](os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is the test's program, running once more in a [Role], so that a test can
// kill or pause it. It is killed when the test ends, and by Linux when the test's
// process does, however that happens.
type Process struct {
	// Stdin and Stdout are the process's. What it has written can be read after its end.
	Stdin  io.WriteCloser
	Stdout io.Reader
	cmd    *exec.Cmd
	end    sync.Once
}

// StartProcess starts a role that was given to [Main].
func StartProcess(t testing.TB, role string, args ...string) *Process {
	t.Helper()
	if roles[role] == nil {
		t.Fatalf("no role %q: TestMain must call etcdtest.Main with it", role)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdinOfChild, stdin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdinOfChild.Close()
	stdout, stdoutOfChild, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdoutOfChild.Close()
	t.Cleanup(func() { stdin.Close(); stdout.Close() })

	p := &Process{Stdin: stdin, Stdout: stdout, cmd: exec.Command(self, args...)}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdinOfChild, stdoutOfChild, os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	starter() <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// starter returns the thread that starts all processes and lives as long as this one:
// the signal at the parent's death is sent at the death of the thread that forked.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Pid is the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Kill ends the process by SIGKILL, paused or not, and returns when it is gone. It
// can be called again.
func (p *Process) Kill() {
	p.end.Do(func() {
		p.cmd.Process.Kill() // fails only if it has ended
		p.cmd.Wait()         // its error is that it was killed
	})
}

// Terminate asks the process by SIGTERM to end, and returns when it has; the error says
// how if not with exit code 0. One that does not end is killed.
func (p *Process) Terminate() error {
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	if err != nil {
		return err
	}
	late := time.AfterFunc(terminateTimeout, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	p.end.Do(func() { err = p.cmd.Wait() })
	return err
}

// Pause stops the process by SIGSTOP: its connections stay open and nobody answers. It returns when all its threads
// have stopped: the signal alone is only sent by then, and one of them could still answer.
func (p *Process) Pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		if err := unix.Waitid(unix.P_PID, p.Pid(), nil, unix.WSTOPPED, nil); err != unix.EINTR {
			return err
		}
	}
}

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
