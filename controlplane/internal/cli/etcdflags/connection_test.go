package etcdflags

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestPasswordPrompt answers the prompt for a password on a terminal.
func TestPasswordPrompt(t *testing.T) {
	e := etcdtest.Start(t, "")
	c, ctx := e.Client(), t.Context()
	_, err := c.UserAdd(ctx, "root", "secret")
	if err == nil {
		_, err = c.UserGrantRole(ctx, "root", "root")
	}
	if err == nil {
		_, err = c.AuthEnable(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	defer keyboard.Close()
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if _, err := keyboard.WriteString("secret\n"); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	o := Connection{options: clusterstate.ConnectOptions{Endpoints: e.Endpoints(), User: "root"}, stdin: terminal, stderr: &stderr}
	client, err := o.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	if stderr.String() != "Password: \n" {
		t.Errorf("%q", stderr.String())
	}
}
