package apiservertest

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// child is a process that Linux kills when the test's process ends, however that
// happens.
type child struct {
	process *os.Process
	// ended is closed when it has ended; err then says how.
	ended chan struct{}
	err   error
}

func startChild(command *exec.Cmd) (*child, error) {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c := &child{ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal is sent at the death of the thread that forked, so that has to live on.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		c.process = command.Process
		started <- err
		if err == nil {
			c.err = command.Wait()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}
