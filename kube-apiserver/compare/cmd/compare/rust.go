package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// memcpy is a work of the Rust program that the reference does not have: it copies as many bytes as a snapshot of a
// half-full /12 has. It is the lower limit of snapshot/12/rust, so its result compares snapshot/12/rust with the copy
// instead of the reference.
const memcpy = "memcpy/12/rust"

// compareRust runs the Rust program and the reference in turn. Each line of the program's output is the result of a
// work, whose name ends in "/rust".
func compareRust(path string) ([]result, error) {
	var order []string
	rust := map[string][]float64{}
	reference := map[string][]float64{}
	runs := map[string]func() float64{}
	for range rounds {
		lines, err := runRust(path)
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			if _, known := rust[line.Name]; !known {
				order = append(order, line.Name)
				if runs[line.Name], err = referenceOf(line.Name); err != nil {
					return nil, err
				}
			}
			rust[line.Name] = append(rust[line.Name], line.NS)
			if run := runs[line.Name]; run != nil {
				reference[line.Name] = append(reference[line.Name], run())
			}
		}
	}
	reference[memcpy] = rust[memcpy]
	rust[memcpy] = rust["snapshot/12/rust"]
	var results []result
	for _, name := range order {
		if len(rust[name]) != rounds {
			return nil, fmt.Errorf("%s: reported %s %d times in %d runs", path, name, len(rust[name]), rounds)
		}
		results = append(results, newResult(name, reference[name], rust[name]))
	}
	return results, nil
}

// referenceOf returns the reference's side of a work of the Rust program; memcpy has none.
func referenceOf(name string) (func() float64, error) {
	if name == memcpy {
		return nil, nil
	}
	for _, work := range works {
		if work.name+"/rust" == name {
			reference, _ := work.prepare()
			count := operationsFor(reference)
			return func() float64 { return measure(reference, count) }, nil
		}
	}
	return nil, fmt.Errorf("the Rust program reports the unknown work %q", name)
}

type rustLine struct {
	Name string  `json:"name"`
	NS   float64 `json:"ns"`
}

func runRust(path string) ([]rustLine, error) {
	command := exec.Command(path)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var lines []rustLine
	for scanner := bufio.NewScanner(bytes.NewReader(output)); scanner.Scan(); {
		if strings.TrimSpace(scanner.Text()) == "" {
			continue
		}
		var line rustLine
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s printed %q: %w", path, scanner.Text(), err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}
