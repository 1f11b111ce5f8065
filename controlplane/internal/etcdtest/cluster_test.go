package etcdtest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

func TestMain(m *testing.M) {
	etcdtest.Main(m, map[string]etcdtest.Role{"idle": idle, "busy": busy})
}

// TestCluster takes the leader away by SIGKILL and by SIGSTOP and brings it back: the
// others go on, and it catches up.
func TestCluster(t *testing.T) {
	cluster := etcdtest.StartCluster(t, 3)
	client := cluster.Client()
	put := func(value string) {
		t.Helper()
		// A member that is paused never answers, so another one is asked after a while. A busy machine needs more.
		patience := time.Second
		for deadline := time.Now().Add(3 * time.Minute); ; {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, err := client.Put(ctx, "key", value)
			if ctx.Err() != nil {
				patience *= 2
			}
			cancel()
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	put("1")
	killed := cluster.Leader()
	cluster.Kill(killed)
	put("2")
	if leader := cluster.Leader(); leader == killed {
		t.Errorf("member %d leads, which was killed", leader)
	}
	cluster.Restart(killed)
	paused := cluster.Leader()
	cluster.Pause(paused)
	put("3")
	if leader := cluster.Leader(); leader == paused {
		t.Errorf("member %d leads, which is paused", leader)
	}
	cluster.Resume(paused)
	for _, endpoint := range cluster.Endpoints() {
		one, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := one.Get(t.Context(), "key")
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "3" {
			t.Errorf("%s: %v, %v", endpoint, got, err)
		}
		one.Close()
	}
}

// TestPutBack puts a copy of a running member's data back. A write since the copy is lost.
func TestPutBack(t *testing.T) {
	cluster := etcdtest.StartCluster(t, 1)
	client := cluster.Client()
	put := func(value string) {
		t.Helper()
		if _, err := client.Put(t.Context(), "key", value); err != nil {
			t.Fatal(err)
		}
	}
	put("kept")
	copied := cluster.CopyData(0)
	put("lost")
	cluster.PutBack(0, copied)
	got, err := client.Get(t.Context(), "key")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "kept" {
		t.Errorf("%v, %v", got, err)
	}
}

// parentVariable makes TestChildrenEndWithTheTest the process that is to be killed.
const parentVariable = "RANGEKEEPER_TEST_PARENT"

// TestChildrenEndWithTheTest kills a test that has started a process and paused it.
func TestChildrenEndWithTheTest(t *testing.T) {
	if _, isParent := os.LookupEnv(parentVariable); isParent {
		p := etcdtest.StartProcess(t, "idle")
		pid, err := bufio.NewReader(p.Stdout).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		fmt.Println("child", pid)
		time.Sleep(time.Hour)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.CommandContext(t.Context(), self, "-test.run=^TestChildrenEndWithTheTest$")
	parent.Env = append(os.Environ(), parentVariable+"=")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var child int
	if _, err := fmt.Fscanf(stdout, "child %d", &child); err != nil {
		t.Error(err)
	} else if !running(child) {
		t.Error("the child does not run")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Error(err)
	}
	parent.Wait() // its error says that it was killed
	for deadline := time.Now().Add(time.Minute); child != 0 && running(child); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the child outlives its parent")
		}
	}
}

func idle([]string) error {
	fmt.Println(os.Getpid())
	time.Sleep(time.Hour)
	return nil
}

// busy keeps several threads at work.
func busy([]string) error {
	fmt.Println(os.Getpid())
	for range 4 {
		go func() {
			//lint:ignore SA5002 that is the work
			for {
			}
		}()
	}
	select {}
}

// TestPause reads the state of all threads right after a pause.
func TestPause(t *testing.T) {
	p := etcdtest.StartProcess(t, "busy")
	if _, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid()))
		if err != nil || len(threads) == 0 {
			t.Fatal(err, len(threads))
		}
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if err != nil {
				t.Fatal(err)
			}
			if _, rest, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(rest, "T") {
				t.Fatalf("%s: %s", thread, stat)
			}
		}
		if err := p.Resume(); err != nil {
			t.Fatal(err)
		}
	}
}

// running reports whether a process lives; nobody may have taken note of its end.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
