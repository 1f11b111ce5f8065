package child

import (
	"fmt"
	"os/exec"

	"golang.org/x/sys/unix"
)

// StartPrepared is Start, but calls prepare before the first instruction of the program. prepare may trace the process
// by its number until it returns.
func StartPrepared(command *exec.Cmd, prepare func(pid int) error) (*Process, error) {
	attributes := attributes()
	attributes.Ptrace = true
	return start(command, attributes, func() error {
		pid := command.Process.Pid
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
			return err
		}
		if !status.Stopped() {
			return fmt.Errorf("process %d has ended before its start", pid)
		}
		if err := prepare(pid); err != nil {
			return err
		}
		return unix.PtraceDetach(pid)
	})
}
