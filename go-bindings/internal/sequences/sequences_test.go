package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The two back ends give equal answers in every sequence: in 4,000, or in 200,000 with RANGEKEEPER_NIGHTLY set, as
// `make nightly` does.
func TestBackEndsAgree(t *testing.T) {
	want := 4_000
	if os.Getenv("RANGEKEEPER_NIGHTLY") != "" {
		want = 200_000
	}
	files := storedValues(t)
	number, distinct := compare(t, append([]string{"0", fmt.Sprint(want)}, files...)...)
	t.Logf("%d sequences are equal in both back ends; %d have answers of their own", number, distinct)
	if number < want || distinct < want*3/4 {
		t.Errorf("%d sequences with %d different answers, want %d", number, distinct, want)
	}
}

// The two back ends give equal answers to the inputs of fuzz targets: to the seeds, and to those that a run of the
// fuzzer has found, of which there are at least RANGEKEEPER_CORPUS_FLOOR if that is set.
func TestBackEndsAgreeOnCorpora(t *testing.T) {
	floor := 500
	if text := os.Getenv("RANGEKEEPER_CORPUS_FLOOR"); text != "" {
		var err error
		if floor, err = strconv.Atoi(text); err != nil {
			t.Fatalf("RANGEKEEPER_CORPUS_FLOOR: %v", err)
		}
	}
	if output, err := exec.Command("../../../testing/fuzz/seeds.sh").CombinedOutput(); err != nil {
		t.Fatalf("testing/fuzz/seeds.sh: %v\n%s", err, output)
	}
	number, distinct := compare(t, "corpora", "../../../testing/fuzz/corpus")
	t.Logf("%d inputs have equal answers in both back ends; %d have answers of their own", number, distinct)
	if number < floor || distinct < floor/2 {
		t.Errorf("%d inputs with %d different answers, want %d", number, distinct, floor)
	}
}

// compare plays the same with both back ends, and returns the number of lines and of different digests.
func compare(t *testing.T, arguments ...string) (number, distinct int) {
	t.Helper()
	names, tags := []string{"native", "pure"}, []string{"rangekeeper_native", ""}
	answers, errs := make([][]byte, len(tags)), make([]error, len(tags))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { answers[i], errs[i] = digests(filepath.Join(t.TempDir(), name), tags[i], arguments) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("%s: %v", names[i], err)
		}
	}
	digests := map[string]bool{}
	native, pure := bytes.Lines(answers[0]), slices.Collect(bytes.Lines(answers[1]))
	for line := range native {
		if number == len(pure) || !bytes.Equal(line, pure[number]) {
			t.Fatalf("%snative Go differs from pure Go: compare SEQUENCES_LOG=1 go run ./internal/sequences for it alone with the same and -tags %s",
				line, tags[0])
		}
		_, digest, _ := strings.Cut(string(line), " ")
		digests[digest] = true
		number++
	}
	if number != len(pure) {
		t.Fatalf("pure Go has %d answers, native Go %d", len(pure), number)
	}
	return number, len(digests)
}

func digests(program, tag string, arguments []string) ([]byte, error) {
	build := exec.Command("go", "build", "-tags", tag, "-o", program, ".")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w (was `make library purego` run?)\n%s", err, output)
	}
	play := exec.Command(program, arguments...)
	play.Stderr = os.Stderr
	return play.Output()
}

// storedValues unpacks the values that kube-apiservers stored.
func storedValues(t *testing.T) []string {
	t.Helper()
	packed, err := filepath.Glob("../../../testing/testdata/kube-*/*.bin.gz")
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
