package main

import "strings"

// form says what one or two parameters of C are in Go.
type form int

const (
	scalar    form = iota
	handle         // *H
	newHandle      // **H that is written
	text           // string
	listIn         // []T that is read
	oneIn          // *T that is read, or nil
	listOut        // []T that is written
	oneOut         // *T that is written
)

type argument struct {
	parameter
	form form
	// length is the parameter that has the length of a list, and of several lists the last one.
	length string
	// factor is the number of items for each 1 of the length.
	factor int
	// written is the parameter that says how many items were written; all if it is empty.
	written string
}

// lengths of lists that C has only one number for.
var lengths = map[string]struct {
	length string
	factor int
}{
	"rk_allocator_allocate_batch.values": {"n", 1},
	"rk_committer_submit.tickets":        {"n", 1},
	"rk_range_changes.values":            {"capacity", 1},
	"rk_report_finding_texts.ends":       {"n", 2},
}

// arguments returns the parameters of a function in Go, and those that are lengths.
func (h *header) arguments(f *function) []argument {
	var all []argument
	counts := map[string]bool{}
	for i, p := range f.parameters {
		a := argument{parameter: p, factor: 1}
		next := parameter{}
		if i+1 < len(f.parameters) {
			next = f.parameters[i+1]
		}
		counted := next.kind == "size_t" && next.pointers == 0 && (next.name == "n" || next.name == "len" ||
			next.name == p.name+"_len" || strings.HasSuffix(next.name, "capacity"))
		special, isSpecial := lengths[f.name+"."+p.name]
		switch {
		case p.pointers == 0 && counts[p.name]:
			continue
		case p.pointers == 0:
			a.form = scalar
		case h.isHandle(p.kind) && p.pointers == 1:
			a.form = handle
		case h.isHandle(p.kind):
			a.form = newHandle
		case isSpecial:
			a.form, a.length, a.factor = listOut, special.length, special.factor
		case p.constant && counted && p.kind == "char":
			a.form, a.length = text, next.name
		case p.constant && counted:
			a.form, a.length = listIn, next.name
		case p.constant:
			a.form = oneIn
		case counted:
			a.form, a.length = listOut, next.name
		default:
			a.form = oneOut
		}
		if a.length != "" {
			counts[a.length] = true
		}
		if a.form == listOut {
			for _, later := range f.parameters[i+1:] {
				if later.kind == "size_t" && later.pointers == 1 && later.name != "ends" {
					a.written = later.name
				}
			}
			// Several lists, of which only the first has its number written.
			if f.name == "rk_committer_finished" && p.name != "finished" || p.name == "ends" || p.name == "buffer" && f.name == "rk_report_finding_texts" {
				a.written = ""
			}
		}
		all = append(all, a)
	}
	return all
}

func (a *argument) goType() string {
	switch a.form {
	case handle:
		return "*" + exported(a.kind)
	case newHandle:
		return "**" + exported(a.kind)
	case text:
		return "string"
	case listIn, listOut:
		return "[]" + goType(a.kind)
	case oneIn, oneOut:
		return "*" + goType(a.kind)
	default:
		return goType(a.kind)
	}
}

// signature returns the head of the Go function.
func (h *header) signature(f *function, named bool) string {
	var all []string
	for _, a := range h.arguments(f) {
		all = append(all, local(a.name)+" "+a.goType())
	}
	result := ""
	switch {
	case f.result == "uint32_t" && named:
		result = " (result uint32)"
	case f.result == "const char *" && named:
		result = " (result string)"
	case f.result == "rk_result" && named:
		result = " (result Result)"
	case f.result == "rk_result":
		result = " Result"
	case f.result == "uint32_t":
		result = " uint32"
	case f.result == "const char *":
		result = " string"
	}
	return "func " + exported(f.name) + "(" + strings.Join(all, ", ") + ")" + result
}
