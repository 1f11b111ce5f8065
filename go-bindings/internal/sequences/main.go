// Command sequences plays random sequences of operations, or the inputs of fuzz targets, and prints a digest of the
// answers of each, one per line. Two programs that differ only in their back end print the same: the tests compare
// them.
//
//	go run ./internal/sequences FIRST NUMBER [FILE...]
//	go run ./internal/sequences corpora FOLDER
//
// A line with a sequence that differs is found out with NUMBER 1, or a folder with the one input, and the environment
// variable SEQUENCES_LOG=1, which prints the answers. The files are stored RangeAllocations, which some sequences
// decode, whole or damaged.
package main

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
)

// sequence has the choices of one sequence; its answers are written to out.
type sequence struct {
	*rand.Rand
	out    io.Writer
	stored [][]byte
}

// answer writes an answer.
func (s *sequence) answer(what string, values ...any) {
	fmt.Fprintln(s.out, append([]any{what}, values...)...)
}

var kinds = []func(*sequence){allocations, allocations, indexes, leaks, audits, commits, decodings, parsings}

// digest plays a sequence and returns the digest of its answers, which are also written to log unless that is nil.
func digest(log io.Writer, play func(out io.Writer)) uint64 {
	digest := fnv.New64a()
	if log == nil {
		play(digest)
	} else {
		play(io.MultiWriter(digest, log))
	}
	return digest.Sum64()
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sequences:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 2 {
		return fmt.Errorf("usage: sequences FIRST NUMBER [FILE...], or sequences corpora FOLDER")
	}
	var log io.Writer
	if os.Getenv("SEQUENCES_LOG") != "" {
		log = os.Stderr
	}
	out := bufio.NewWriter(os.Stdout)
	if arguments[0] == "corpora" {
		if err := playCorpora(arguments[1], out, log); err != nil {
			return err
		}
		return out.Flush()
	}
	first, err := strconv.ParseUint(arguments[0], 10, 64)
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(arguments[1], 10, 64)
	if err != nil {
		return err
	}
	var stored [][]byte
	for _, name := range arguments[2:] {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		stored = append(stored, content)
	}
	for i := range number {
		number := first + i
		fmt.Fprintf(out, "%d %016x\n", number, digest(log, func(out io.Writer) {
			kinds[number%uint64(len(kinds))](&sequence{rand.New(rand.NewPCG(number, 18)), out, stored})
		}))
	}
	return out.Flush()
}
