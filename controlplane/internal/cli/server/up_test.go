package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/embedded"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/apiservertest"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/etcdtest"
)

// upArgs run an unchanged server: what is tested here does not depend on who allocates.
func upArgs(t *testing.T, flags ...string) (args []string, address string) {
	t.Helper()
	port := etcdtest.FreePort(t)
	return slices.Concat([]string{
		"up", "--kube-apiserver", apiservertest.Program(t, apiservertest.Config{Version: apiservertest.Newest}), "--data-dir", filepath.Join(t.TempDir(), "it's a cluster"),
		"--secure-port", fmt.Sprint(port), "--etcd-port", "0",
	}, flags, []string{"--", "--own-loops"}), net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
}

func serves(address string) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// until reads lines up to one that contains the word, and returns them.
func until(t *testing.T, lines *bufio.Scanner, word string) (read []string) {
	t.Helper()
	for lines.Scan() {
		read = append(read, lines.Text())
		fmt.Fprintln(t.Output(), lines.Text())
		if strings.Contains(lines.Text(), word) {
			return read
		}
	}
	t.Fatalf("no line has %q", word)
	return nil
}

// TestUp types what is printed when the servers are ready, and interrupts.
func TestUp(t *testing.T) {
	args, address := upArgs(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout, w := io.Pipe()
	var errs syncBuilder
	ended := make(chan int, 1)
	go func() {
		ended <- Program.Run(ctx, args, w, &errs)
		w.Close()
	}()
	out := bufio.NewScanner(stdout)
	printed := until(t, out, "Ctrl-C")
	var kubeconfig, endpoints string
	for _, line := range printed {
		if _, after, ok := strings.Cut(line, "kubectl --kubeconfig "); ok && strings.HasSuffix(line, " get services") {
			kubeconfig = strings.TrimSuffix(after, " get services")
		}
		if _, after, ok := strings.Cut(line, " audit --endpoints "); ok {
			endpoints = after
		}
	}
	if !strings.HasPrefix(kubeconfig, "'") || !strings.HasSuffix(kubeconfig, "'") {
		t.Fatalf("%q is not one word for a shell", kubeconfig)
	}
	kubeconfig = strings.ReplaceAll(kubeconfig[1:len(kubeconfig)-1], `'\''`, "'")
	if config, err := apiConfig(kubeconfig); err != nil || config.Host != "https://"+address {
		t.Errorf("%v, %v", config, err)
	}
	eventually(t, func() error { // a server that is ready makes its endpoints and namespaces a little later
		code, report, stderr := command.Output(t, "audit", "--endpoints", endpoints)
		if code != exitOK || stderr != "" || !slices.Contains(strings.Split(report, "\n"), "ok: nothing found in 1 Service") {
			return fmt.Errorf("exit code %d, %s%s", code, report, stderr)
		}
		return nil
	})
	cancel()
	go io.Copy(io.Discard, stdout)
	select {
	case code := <-ended:
		if code != exitOK {
			t.Errorf("exit code %d: %s", code, errs.String())
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if serves(address) {
		t.Error("the server outlives it")
	}
	for _, line := range []string{"starting etcd", "starting kube-apiserver 1", "kube-apiserver 1 is ready", "stopping kube-apiserver 1", "stopping etcd"} {
		if !strings.Contains(errs.String(), "rangekeeper: "+line) {
			t.Errorf("it does not say %q: %s", line, errs.String())
		}
	}
}

// syncBuilder is text that one goroutine writes and another reads.
type syncBuilder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuilder) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuilder) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestUpIsKilled kills the process: its server does not outlive it, and the next run is
// not kept from the data.
func TestUpIsKilled(t *testing.T) {
	args, address := upArgs(t)
	for range 2 {
		p := etcdtest.StartProcess(t, rangekeeperRole, args...)
		out := bufio.NewScanner(p.Stdout)
		until(t, out, "Ctrl-C")
		if !serves(address) {
			t.Error("no server")
		}
		p.Kill()
		for deadline := time.Now().Add(patience); serves(address); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the server outlives it")
			}
		}
	}
}

// TestUpInterrupted interrupts once while the server is ready and once before, and twice
// with a server that does not end: a paused one.
func TestUpInterrupted(t *testing.T) {
	args, address := upArgs(t)
	for _, c := range []struct {
		at    string // the line after which it is interrupted
		pause bool
		want  string
	}{
		{"starting kube-apiserver", false, "exit status 130"},
		{"Ctrl-C", false, ""},
		{"Ctrl-C", true, "signal: terminated"},
	} {
		p := etcdtest.StartProcess(t, rangekeeperRole, args...)
		out := bufio.NewScanner(p.Stdout)
		until(t, out, c.at)
		if c.pause {
			paused := children(t, p.Pid())
			if len(paused) != 1 {
				t.Fatal(paused)
			}
			if err := syscall.Kill(paused[0], syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(p.Pid(), syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			until(t, out, "stopping kube-apiserver 1")
		}
		go io.Copy(t.Output(), p.Stdout)
		err := p.Terminate()
		if (err != nil || c.want != "") && fmt.Sprint(err) != c.want {
			t.Errorf("after %q: %v, want %q", c.at, err, c.want)
		}
		for deadline := time.Now().Add(patience); serves(address); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the server outlives it")
			}
		}
	}
}

// TestUpInterruptedAtStart interrupts while a server that never gets ready starts: that is no fault.
func TestUpInterruptedAtStart(t *testing.T) {
	dir := t.TempDir()
	silent := filepath.Join(dir, "silent")
	if err := os.WriteFile(silent, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said syncBuilder
	code := Program.Run(ctx, []string{
		"up", "--kube-apiserver", silent, "--data-dir", filepath.Join(dir, "cluster"), "--etcd-port", "0", "--secure-port", fmt.Sprint(etcdtest.FreePort(t)),
	}, io.Discard, writerFunc(func(b []byte) (int, error) {
		if strings.Contains(string(b), "starting kube-apiserver 1") {
			cancel()
		}
		return said.Write(b)
	}))
	if code != exitInterrupted || !strings.HasSuffix(said.String(), "\nrangekeeper: interrupted\n") || strings.Contains(said.String(), "canceled") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
}

// writerFunc is a function that writes.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// children are those that all threads of a process have started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, child)
		}
	}
	return pids
}

func TestUpUsage(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir, used := t.TempDir(), t.TempDir()
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(used, "etcd")})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	program := []string{"--kube-apiserver", "/bin/false", "--data-dir", dir}
	oldest := upVersions[len(upVersions)-1]
	for _, c := range []struct {
		code  int
		words []string
		args  []string
	}{
		{exitInput, []string{"extra"}, []string{"extra"}},
		{exitInput, []string{"extra"}, []string{"extra", "--", "--v=2"}},
		{exitInput, []string{"--kubernetes-version", "1.0.0", upVersions[0]}, []string{"--kubernetes-version", "1.0.0"}},
		{exitInput, []string{"kube-apiserver-rangekeeper-" + oldest, "dropin.sh " + oldest, "--kube-apiserver"}, []string{"--kubernetes-version", oldest}},
		{exitInput, []string{"/nonexistent"}, []string{"--kube-apiserver", "/nonexistent"}},
		{exitInput, []string{"kubernetes-version", "kube-apiserver"}, append(program, "--kubernetes-version", oldest)},
		{exitInput, []string{"--servers", "4"}, append(program, "--servers", "4")},
		{exitInput, []string{"--servers", "0"}, append(program, "--servers", "0")},
		{exitInput, []string{"--secure-port", "0"}, append(program, "--secure-port", "0")},
		{exitInput, []string{"--secure-port", taken.Addr().String()}, append(program, "--etcd-port", "0", "--secure-port", port)},
		{exitInput, []string{"--etcd-port", taken.Addr().String()}, append(program, "--etcd-port", port)},
		{exitInput, []string{"--endpoint-reconciler-type", "nonsense"}, append(program, "--endpoint-reconciler-type", "nonsense")},
		{exitInput, []string{"--service-cluster-ip-range", "10.0.0.0/40"}, append(program, "--service-cluster-ip-range", "10.0.0.0/40")},
		{exitInput, []string{"--service-node-port-range", "70000"}, append(program, "--service-node-port-range", "1-70000")},
		{exitUnreachable, []string{used, "in use"}, []string{"--kube-apiserver", "/bin/false", "--data-dir", used}},
		{exitFound, []string{"kube-apiserver 1", "exit status 1", filepath.Join(dir, "logs")}, append(program, "--etcd-port", "0", "--secure-port", fmt.Sprint(etcdtest.FreePort(t)))},
	} {
		code, stdout, stderr := command.Output(t, append([]string{"up"}, c.args...)...)
		if code != c.code || stdout != "" || !strings.HasPrefix(stderr, "rangekeeper: ") {
			t.Errorf("%v: exit code %d, want %d, stdout %q, stderr %q", c.args, code, c.code, stdout, stderr)
		}
		for _, word := range c.words {
			if !strings.Contains(stderr, word) {
				t.Errorf("%v: stderr %q, want %q", c.args, stderr, word)
			}
		}
	}
}
