package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The two back ends give equal answers in every sequence. With -short there are fewer sequences.
func TestBackEndsAgree(t *testing.T) {
	want := 200_000
	if testing.Short() {
		want = 4_000
	}
	files := storedValues(t)
	names, tags := []string{"native", "pure"}, []string{"rangekeeper_native", ""}
	answers, errs := make([][]byte, len(tags)), make([]error, len(tags))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { answers[i], errs[i] = digests(filepath.Join(t.TempDir(), name), tags[i], want, files) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: %v", names[i], err)
		}
	}
	number, distinct := 0, map[string]bool{}
	native, pure := bufio.NewScanner(bytes.NewReader(answers[0])), bufio.NewScanner(bytes.NewReader(answers[1]))
	for native.Scan() && pure.Scan() {
		if native.Text() != pure.Text() {
			t.Fatalf("sequence %s in native Go, %s in pure Go: compare SEQUENCES_LOG=1 go run ./internal/sequences NUMBER 1 with the same and -tags %s",
				native.Text(), pure.Text(), tags[0])
		}
		_, digest, _ := strings.Cut(native.Text(), " ")
		number, distinct[digest] = number+1, true
	}
	t.Logf("%d sequences are equal in both back ends; %d have answers of their own", number, len(distinct))
	if number < want || len(distinct) < want*3/4 {
		t.Errorf("%d sequences with %d different answers, want %d", number, len(distinct), want)
	}
}

func digests(program, tag string, number int, files []string) ([]byte, error) {
	build := exec.Command("go", "build", "-tags", tag, "-o", program, ".")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w (was `make library purego` run?)\n%s", err, output)
	}
	play := exec.Command(program, append([]string{"0", fmt.Sprint(number)}, files...)...)
	play.Stderr = os.Stderr
	return play.Output()
}

// storedValues unpacks the values that kube-apiservers stored.
func storedValues(t *testing.T) []string {
	t.Helper()
	packed, err := filepath.Glob("../../../testdata/kube-*/*.bin.gz")
	if err != nil || len(packed) == 0 {
		t.Fatal("no stored values in testdata", err)
	}
	var files []string
	for i, name := range packed {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(name, err)
		}
		content, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(name, err)
		}
		file.Close()
		files = append(files, filepath.Join(t.TempDir(), fmt.Sprint(i)))
		if err := os.WriteFile(files[i], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
