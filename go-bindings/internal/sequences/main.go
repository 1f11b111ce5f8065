// Command sequences plays random sequences of operations and prints a digest of the answers of each, one per line. Two programs
// that differ only in their back end print the same: the test compares them.
//
//	go run ./internal/sequences FIRST NUMBER [FILE...]
//
// A line with a sequence that differs is found out with NUMBER 1 and the environment variable SEQUENCES_LOG=1, which prints the
// answers. The files are stored RangeAllocations, which some sequences decode, whole or damaged.
package main

import (
	"bufio"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
)

// sequence has the choices of one sequence and the digest of its answers.
type sequence struct {
	*rand.Rand
	digest hash.Hash64
	log    io.Writer
	stored [][]byte
}

// answer adds an answer to the digest.
func (s *sequence) answer(what string, values ...any) {
	fmt.Fprintln(s.log, append([]any{what}, values...)...)
}

var kinds = []func(*sequence){allocations, allocations, indexes, leaks, audits, commits, decodings, parsings}

func play(number uint64, stored [][]byte, log io.Writer) uint64 {
	digest := fnv.New64a()
	s := &sequence{rand.New(rand.NewPCG(number, 18)), digest, io.MultiWriter(digest, log), stored}
	if log == io.Discard {
		s.log = digest
	}
	kinds[number%uint64(len(kinds))](s)
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
		return fmt.Errorf("usage: sequences FIRST NUMBER [FILE...]")
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
	log := io.Discard
	if os.Getenv("SEQUENCES_LOG") != "" {
		log = os.Stderr
	}
	out := bufio.NewWriter(os.Stdout)
	for i := range number {
		fmt.Fprintf(out, "%d %016x\n", first+i, play(first+i, stored, log))
	}
	return out.Flush()
}
