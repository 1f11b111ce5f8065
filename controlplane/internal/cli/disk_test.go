package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// fullDiskRole is a command whose files cannot become larger than some bytes.
const fullDiskRole = "fullDisk"

func runOnFullDisk(args []string) error {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit)
	limit.Cur = 256
	if err = errors.Join(err, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)); err != nil {
		return err
	}
	os.Exit(program.Run(context.Background(), args, os.Stdout, os.Stdout))
	return nil
}

// TestFullDisk writes files to a disk that takes no more: the exit code is not that of wrong usage, the message names
// the file, and nothing of it is there.
func TestFullDisk(t *testing.T) {
	snapshot, dir, temporary := etcdtest.Fixture(etcdtest.SingleStack, "drift.db.gz"), t.TempDir(), t.TempDir()
	plain := filepath.Join(t.TempDir(), "plain.db")
	runJSON[any](t, exitFound, "repair", "--etcd-snapshot", snapshot, "--to-file", plain)
	etcd := strings.Join(etcdtest.Start(t, snapshot).Endpoints(), ",")
	t.Setenv("TMPDIR", temporary)
	repaired, compressed, plan := filepath.Join(dir, "repaired.db"), filepath.Join(dir, "repaired.db.gz"), filepath.Join(dir, "plan.json")
	for _, c := range []struct {
		name string
		args []string
	}{
		{"write " + repaired, []string{"repair", "--etcd-snapshot", plain, "--to-file", repaired}},
		{"write " + compressed, []string{"repair", "--etcd-snapshot", plain, "--to-file", compressed}},
		{"write " + plan, []string{"repair", "--endpoints", etcd, "--plan-to", plan}},
		{temporary, []string{"audit", "--etcd-snapshot", snapshot}},
	} {
		p := etcdtest.StartProcess(t, fullDiskRole, c.args...)
		said, err := io.ReadAll(p.Stdout)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		message := lines[len(lines)-1]
		if err := p.Terminate(); fmt.Sprint(err) != fmt.Sprint("exit status ", exitDisk) || !strings.Contains(message, c.name) || !strings.Contains(message, "file too large") ||
			strings.Contains(message, "/proc/") {
			t.Errorf("%v: %v, %s", c.args, err, said)
		}
		for _, folder := range []string{dir, temporary} {
			if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
				t.Errorf("%v: left behind: %v, %v", c.args, entries, err)
			}
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, format := range []string{"table", "json", "html", "prometheus"} {
		var log strings.Builder
		if code := program.Run(t.Context(), []string{"audit", "--etcd-snapshot", plain, "-o", format}, full, &log); code != exitDisk || !strings.Contains(log.String(), "write /dev/full: no space left on device") {
			t.Errorf("%s: exit code %d, %s", format, code, log.String())
		}
	}
}

// TestEtcdHasNoSpace allocates from an etcd that is full.
func TestEtcdHasNoSpace(t *testing.T) {
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Quota: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	etcd := []string{"--endpoints", strings.Join(e.Endpoints(), ",")}
	runOK(t, append([]string{"init", "serviceips", "10.96.0.0/24"}, etcd...)...)
	for i := 0; err == nil; i++ {
		_, err = e.Client().Put(t.Context(), fmt.Sprint("filler", i), strings.Repeat("x", 1<<18))
	}
	for _, command := range [][]string{{"allocate", "serviceips"}, {"init", "servicenodeports", "30000-32767"}} {
		runFails(t, exitDisk, []string{"database space exceeded"}, append(command, etcd...)...)
	}
}
