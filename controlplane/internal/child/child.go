// Package child runs programs that do not outlive this process.
package child

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process is a child in a process group of its own, so that a Ctrl-C in the terminal is for
// this process alone. Linux kills it when this process ends, however that happens;
// elsewhere it lives on if this process is killed.
type Process struct {
	process *os.Process
	ended   chan struct{}
	err     error
}

// Start starts a command. It sets its SysProcAttr.
func Start(command *exec.Cmd) (*Process, error) {
	return start(command, attributes(), func() error { return nil })
}

// start calls prepare on the thread that has started the command. If that fails, the process is killed.
func start(command *exec.Cmd, attributes *syscall.SysProcAttr, prepare func() error) (*Process, error) {
	command.SysProcAttr = attributes
	p := &Process{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal is sent at the death of the thread that forked, so that has to live on.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		p.process = command.Process
		if err == nil {
			if err = prepare(); err != nil {
				p.process.Kill()
				command.Wait() // its error is that it was killed
			}
		}
		started <- err
		if err == nil {
			p.err = command.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err says how the process has ended, nil for exit code 0. It is for the time after
// [Process.Ended].
func (p *Process) Err() error { return p.err }

// Signal sends a signal to the process. It fails if the process has ended.
func (p *Process) Signal(s os.Signal) error { return p.process.Signal(s) }

// Kill ends the process by SIGKILL and returns when it is gone. It can be called again.
func (p *Process) Kill() {
	p.process.Kill() // fails only if it has ended
	<-p.ended
}
