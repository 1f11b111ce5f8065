// Package clitest runs commands in tests.
package clitest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Command runs a command line, and returns its exit code.
type Command func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// Output runs a command line, and returns its exit code and output.
func (c Command) Output(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = c(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// OK runs a command line that must end with exit code 0 and without output on stderr, and returns the lines of its
// output.
func (c Command) OK(t *testing.T, args ...string) []string {
	t.Helper()
	code, stdout, stderr := c.Output(t, args...)
	if code != 0 || stderr != "" {
		t.Fatalf("%v: exit code %d, %s", args, code, stderr)
	}
	lines := slices.Collect(strings.Lines(stdout))
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\n")
	}
	return lines
}

// Fails runs a command line that must end with the code, and say why in one line that has the words.
func (c Command) Fails(t *testing.T, want int, words []string, args ...string) {
	t.Helper()
	code, stdout, stderr := c.Output(t, args...)
	if code != want || stdout != "" || !strings.HasPrefix(stderr, "rangekeeper: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%v: exit code %d, want %d, stdout %q, stderr %q", args, code, want, stdout, stderr)
	}
	for _, word := range words {
		if !strings.Contains(stderr, word) {
			t.Errorf("%v: stderr %q, want %q", args, stderr, word)
		}
	}
}

// Completions asks for the words that complete a command line, as the scripts for the shells do.
func (c Command) Completions(t *testing.T, line ...string) (words []string) {
	t.Helper()
	code, stdout, stderr := c.Output(t, append([]string{"__complete"}, line...)...)
	for line := range strings.Lines(stdout) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if !strings.HasPrefix(word, ":") && !strings.HasPrefix(word, "--") {
			words = append(words, word)
		}
	}
	if code != 0 || strings.Contains(stderr, "rangekeeper:") {
		t.Errorf("%v: exit code %d, stderr %q", line, code, stderr)
	}
	return words
}

// OnTerminal runs a command line on a pseudo terminal of that width, and returns what the terminal gets.
func (c Command) OnTerminal(t *testing.T, width uint16, args ...string) (code int, shown string) {
	t.Helper()
	primary, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Close()
	fd := int(primary.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width})
	}
	if err != nil {
		t.Fatal(err)
	}
	secondary, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b, _ := io.ReadAll(primary) // ends with an error once the other side is closed
		read <- string(b)
	}()
	var stderr strings.Builder
	code = c(t.Context(), args, secondary, &stderr)
	secondary.Close()
	if stderr.Len() > 0 {
		t.Errorf("%v: %s", args, stderr.String())
	}
	return code, strings.ReplaceAll(<-read, "\r\n", "\n")
}

// FitsTerminal reads the help of the program and of all its commands on a terminal of that width. It returns their
// names; cobra's own commands are not among them.
func (c Command) FitsTerminal(t *testing.T, width uint16) (names []string) {
	t.Helper()
	_, list, _ := strings.Cut(strings.Join(c.OK(t, "--help"), "\n"), "\nAvailable Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		if name := strings.Fields(line)[0]; name != "completion" && name != "help" {
			names = append(names, name)
		}
	}
	for _, name := range append(names, "", "help", "completion") {
		args := append(strings.Fields(name), "--help")
		code, shown := c.OnTerminal(t, width, args...)
		if code != 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
		for line := range strings.Lines(shown) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > int(width) {
				t.Errorf("%v: %d columns: %q", args, n, line)
			}
		}
	}
	return names
}
