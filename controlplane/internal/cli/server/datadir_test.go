package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// TestDataDir keeps ranges in an etcd in the process.
func TestDataDir(t *testing.T) {
	var all []string // the addresses of 10.96.0.0/28, sorted as text
	for last := range 14 {
		all = append(all, fmt.Sprint("10.96.0.", last+1))
	}
	slices.Sort(all)
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", "relative/is/ignored")
	byHome, byXDG, byFlag := filepath.Join(home, ".local/share/rangekeeper"), filepath.Join(home, "xdg/rangekeeper"), filepath.Join(home, "flag")
	for _, c := range []struct {
		dir   string
		xdg   string
		flags []string
	}{
		{dir: byHome},
		{dir: byXDG, xdg: filepath.Join(home, "xdg")},
		{dir: byFlag, flags: []string{"--data-dir", byFlag}},
	} {
		if c.xdg != "" {
			t.Setenv("XDG_DATA_HOME", c.xdg)
		}
		with := func(args ...string) []string { return append(args, c.flags...) }
		for _, args := range [][]string{{"allocate", "serviceips"}, {"release", "serviceips", "10.96.0.1"}, {"watch", "serviceips"}, {"init", "serviceips", "nonsense"}} {
			command.Fails(t, exitInput, nil, with(args...)...)
			if _, err := os.Stat(c.dir); err == nil {
				t.Errorf("%v: left %s behind", args, c.dir)
			}
		}
		code, stdout, stderr := command.Output(t, with("init", "serviceips", "10.96.0.0/28")...)
		if code != exitOK || stdout != "serviceips 10.96.0.0/28 created\n" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.dir+"\n") {
			t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
		}
		command.OK(t, with("init", "servicenodeports", "30000-32767")...)
		// Each command finds what the one before has left.
		var got []string
		for range 14 {
			got = append(got, command.OK(t, with("allocate", "serviceips")...)...)
		}
		if slices.Sort(got); !slices.Equal(got, all) {
			t.Errorf("%q", got)
		}
		command.Fails(t, exitFound, []string{"full"}, with("allocate", "serviceips")...)
		if _, shown := command.OnTerminal(t, 200, with("init", "serviceips", "10.96.0.0/28")...); !strings.HasPrefix(shown, "etcd "+c.dir+", revision ") {
			t.Errorf("%q does not name the directory first", shown)
		}
		command.OK(t, with("release", "serviceips", got[3])...)
		if again := command.OK(t, with("allocate", "serviceips")...); !slices.Equal(again, got[3:4]) {
			t.Errorf("%q", again)
		}
	}
	// What reads clusters says how it reads these ranges; there is none of the kubeconfig.
	t.Setenv("KUBECONFIG", filepath.Join(home, "none"))
	command.Fails(t, exitInput, []string{"no cluster", "are in " + byXDG + ": name its member/snap/db"}, "audit")
	if lines := command.OK(t, "show", "serviceips", "--etcd-snapshot", filepath.Join(byXDG, "member/snap/db"), "--skip-hash-check"); !slices.Contains(lines, "serviceips  10.96.0.0/28  bitmap  14    14    0") {
		t.Errorf("%q", lines)
	}
	t.Setenv("XDG_DATA_HOME", filepath.Join(home, "empty"))
	t.Setenv("HOME", filepath.Join(home, "empty"))
	if _, _, stderr := command.Output(t, "audit"); !strings.HasSuffix(stderr, "ETCDCTL_ENDPOINTS has no effect on this command\n") {
		t.Errorf("%q", stderr)
	}

	// Another process has it, in which it is reached over the network.
	other, err := embedded.Start(t.Context(), embedded.Config{Dir: byFlag})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	command.Fails(t, exitUnreachable, []string{byFlag, "in use"}, "allocate", "serviceips", "--data-dir", byFlag)
	command.Fails(t, exitFound, []string{"full"}, "allocate", "serviceips", "--endpoints", other.Endpoints()[0])
	// Else each command would add a value to the database.
	if _, err := other.Client().Get(t.Context(), "/registry/ranges/serviceips", clientv3.WithRev(2)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("the history is kept: %v", err)
	}

	damaged := t.TempDir()
	if err := os.MkdirAll(filepath.Join(damaged, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "member", "snap", "db"), bytes.Repeat([]byte("x"), 1<<16), 0o600); err != nil {
		t.Fatal(err)
	}
	command.Fails(t, exitInput, []string{damaged}, "allocate", "serviceips", "--data-dir", damaged)
	file := etcdtest.Write(t, []byte("x"))
	command.Fails(t, exitInput, []string{file}, "init", "serviceips", "10.96.0.0/28", "--data-dir", file)

	t.Setenv("HOME", "")
	t.Setenv("XDG_DATA_HOME", "")
	command.Fails(t, exitInput, []string{"--data-dir"}, "allocate", "serviceips")
}

func TestStoreUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{
		{"init"},
		{"init", "serviceips"},
		{"init", "serviceips", "10.96.0.0/28", "extra"},
		{"allocate"},
		{"allocate", "serviceips", "10.96.0.1", "extra"},
		{"allocate", "serviceips", ""},
		{"allocate", "serviceips", "-n", "0"},
		{"allocate", "serviceips", "-n", "-1"},
		{"allocate", "serviceips", "-n", "4294967296"},
		{"allocate", "serviceips", "10.96.0.1", "-n", "1"},
		{"allocate", "kubernetes"},
		{"allocate", "serviceips", "--cacert", "ca.crt"},
		{"allocate", "serviceips", "--endpoints", "http://127.0.0.1:1"},
		{"allocate", "serviceips", "--etcd-snapshot", "backup.db"},
		{"release"},
		{"release", "serviceips"},
		{"release", "nonsense", "10.96.0.1"},
		{"watch"},
		{"watch", "serviceips", "extra"},
		{"watch", "serviceips", "-o", "yaml"},
	} {
		code, stdout, stderr := command.Output(t, append(args, "--data-dir", dir)...)
		if code != exitInput || stdout != "" || !strings.HasPrefix(stderr, "rangekeeper: ") {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("left %s behind", dir)
	}
	for _, name := range []string{"init", "allocate", "release", "watch"} {
		if help := strings.Join(command.OK(t, name, "--help"), "\n"); !strings.Contains(help, "Examples:\n  rangekeeper "+name) {
			t.Errorf("%s: %s", name, help)
		}
	}
}

// TestWatchDataDir is reached by other commands while it runs.
func TestWatchDataDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if code, _, stderr := command.Output(t, "init", "serviceips", "10.96.0.0/24", "--data-dir", dir); code != exitOK {
		t.Fatal(stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stdout, out := io.Pipe()
	stderr, errs := io.Pipe()
	ended := make(chan int, 1)
	go func() { ended <- Program.Run(ctx, []string{"watch", "serviceips", "--data-dir", dir}, out, errs) }()
	lines := bufio.NewScanner(stderr)
	_, endpoint, _ := strings.Cut(until(t, lines, "--endpoints ")[0], "--endpoints ")
	until(t, lines, "watching")
	command.Fails(t, exitUnreachable, []string{dir, "in use"}, "allocate", "serviceips", "--data-dir", dir)
	until(t, bufio.NewScanner(stdout), "allocated "+command.OK(t, "allocate", "serviceips", "--endpoints", endpoint)[0]+" ")
	cancel()
	if code := <-ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if got := command.OK(t, "allocate", "serviceips", "-n", "253", "--data-dir", dir); len(got) != 253 {
		t.Errorf("%d values", len(got))
	}
}
