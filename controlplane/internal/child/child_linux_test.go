package child_test

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/child"
)

// TestProcessGroup looks where a Ctrl-C in the terminal goes to: not to the child.
func TestProcessGroup(t *testing.T) {
	command := exec.Command("sleep", "1000")
	p, err := child.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	own, err := syscall.Getpgid(0)
	if err != nil {
		t.Fatal(err)
	}
	if group, err := syscall.Getpgid(command.Process.Pid); err != nil || group == own {
		t.Errorf("group %d, %v, that of the parent is %d", group, err, own)
	}
}

func TestEnds(t *testing.T) {
	for script, want := range map[string]string{"exit 0": "", "exit 3": "exit status 3", "kill -TERM $$": "signal: terminated"} {
		p, err := child.Start(exec.Command("sh", "-c", script))
		if err != nil {
			t.Fatal(err)
		}
		<-p.Ended()
		if got := p.Err(); (got == nil) != (want == "") || got != nil && got.Error() != want {
			t.Errorf("%s: %v", script, got)
		}
		p.Kill()
		p.Kill()
		if p.Signal(syscall.SIGTERM) == nil {
			t.Errorf("%s: it still takes signals", script)
		}
	}
	if _, err := child.Start(exec.Command("/nonexistent")); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Error(err)
	}
}
