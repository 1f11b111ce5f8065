package main

import (
	"fmt"
	"regexp"
	"strings"
)

// header is the part of rangekeeper.h that the binding uses.
type header struct {
	constants []constant
	structs   []*structure // a struct follows those in its fields
	handles   []string
	functions []function
	// exchange are the functions that only pure Go has.
	exchange []function
}

type constant struct{ name, value string }

// structure is a struct or a union.
type structure struct {
	name   string
	union  bool
	fields []field
	// input: the library only reads it.
	input bool
}

type field struct {
	name, kind string // kind is a C type without const and struct
	constant   bool
	pointer    bool
	length     string // of an array in the struct
}

type function struct {
	name, result string
	parameters   []parameter
}

type parameter struct {
	name, kind string
	constant   bool
	pointers   int
}

var (
	comments     = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	defines      = regexp.MustCompile(`(?m)^#define (RK_\w+) (\d+)(?:ull)?$`)
	enumMembers  = regexp.MustCompile(`(?m)^  (RK_\w+) = (\d+),$`)
	numbers      = regexp.MustCompile(`(?m)^typedef (uint\d+_t) (rk_\w+);$`)
	opaque       = regexp.MustCompile(`(?m)^typedef struct (rk_\w+) rk_\w+;$`)
	declarations = regexp.MustCompile(`(?m)^typedef (struct|union) (rk_\w+) \{\n([^}]*)\} rk_\w+;$`)
	prototypes   = regexp.MustCompile(`(?m)^([\w ]+?[ *]*)(rk_\w+)\(([^)]*)\);$`)
	fieldForm    = regexp.MustCompile(`^(const )?(?:struct |union )?(\w+) (\*?)(\w+)(?:\[(\w+)\])?$`)
	typeForm     = regexp.MustCompile(`^(const )?(?:struct )?(\w+) ((?:\*(?:const )?)*)(\w+)$`)
)

func parse(text string) (*header, error) {
	text, _, found := strings.Cut(text, "/* The rest is written by hand")
	if !found {
		return nil, fmt.Errorf("the header has no part that is written by hand")
	}
	text = strings.ReplaceAll(comments.ReplaceAllString(text, ""), "RK_MUST_CHECK ", "")
	for _, match := range numbers.FindAllStringSubmatch(text, -1) {
		if match[2] != "rk_result" { // Go has a type of its own for it alone
			text = regexp.MustCompile(`\b`+match[2]+`\b`).ReplaceAllString(text, match[1])
		}
	}
	h := new(header)
	for _, match := range append(defines.FindAllStringSubmatch(text, -1), enumMembers.FindAllStringSubmatch(text, -1)...) {
		h.constants = append(h.constants, constant{match[1], match[2]})
	}
	for _, match := range opaque.FindAllStringSubmatch(text, -1) {
		h.handles = append(h.handles, match[1])
	}
	for _, match := range declarations.FindAllStringSubmatch(text, -1) {
		s := &structure{name: match[2], union: match[1] == "union"}
		for _, line := range statements(match[3]) {
			f := fieldForm.FindStringSubmatch(line)
			if f == nil {
				return nil, fmt.Errorf("%s: field %q has no form that the generator knows", s.name, line)
			}
			s.fields = append(s.fields, field{name: f[4], kind: f[2], constant: f[1] != "", pointer: f[3] != "", length: f[5]})
		}
		h.structs = append(h.structs, s)
	}
	var err error
	if h.functions, err = parseFunctions(text); err != nil {
		return nil, err
	}
	h.findInputs()
	return h, nil
}

// parseFunctions returns the functions of a header without comments.
func parseFunctions(text string) ([]function, error) {
	var all []function
	for _, match := range prototypes.FindAllStringSubmatch(text, -1) {
		f := function{name: match[2], result: strings.TrimSpace(match[1])}
		for _, text := range strings.Split(match[3], ",") {
			text = strings.Join(strings.Fields(text), " ")
			if text == "void" {
				continue
			}
			p := typeForm.FindStringSubmatch(text)
			if p == nil {
				return nil, fmt.Errorf("%s: parameter %q has no form that the generator knows", f.name, text)
			}
			f.parameters = append(f.parameters, parameter{
				name: p[4], kind: p[2], constant: p[1] != "", pointers: strings.Count(p[3], "*"),
			})
		}
		all = append(all, f)
	}
	return all, nil
}

func statements(body string) []string {
	var all []string
	for _, statement := range strings.Split(body, ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			all = append(all, statement)
		}
	}
	return all
}

// findInputs marks the structs that no function writes.
func (h *header) findInputs() {
	written := map[string]bool{}
	for _, f := range h.functions {
		for _, p := range f.parameters {
			if p.pointers == 1 && !p.constant {
				written[p.kind] = true
			}
		}
	}
	for i := len(h.structs) - 1; i >= 0; i-- {
		s := h.structs[i]
		s.input = !written[s.name]
		if !s.input {
			for _, f := range s.fields {
				written[f.kind] = true
			}
		}
	}
}

func (h *header) structure(name string) *structure {
	for _, s := range h.structs {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (h *header) isHandle(name string) bool {
	for _, handle := range h.handles {
		if handle == name {
			return true
		}
	}
	return false
}
