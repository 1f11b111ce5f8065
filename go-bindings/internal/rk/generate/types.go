package main

import (
	"fmt"
	"strconv"
)

// member is a field of a Go struct, made of one to three fields of a C struct.
type member struct {
	field
	// list: the next field is the number of items.
	list   bool
	length string
}

// members merges pointers and arrays of text with their lengths.
func members(s *structure) []member {
	var all []member
	for i := 0; i < len(s.fields); i++ {
		m := member{field: s.fields[i]}
		if m.isReserved() {
			continue
		}
		switch {
		case m.kind == "size_t" && i+1 < len(s.fields) && s.fields[i+1].length != "":
			m = member{field: s.fields[i+1], length: m.name} // message_len, message
			i++
		case m.pointer:
			m.list, m.length = true, s.fields[i+1].name
			i++
			if i+1 < len(s.fields) && s.fields[i+1].name == m.name+"_capacity" {
				i++
			}
		}
		all = append(all, m)
	}
	return all
}

// isReserved: the field is room for later ones.
func (f *field) isReserved() bool { return f.name == "reserved" }

// plain: the struct has the same layout in Go on a 64-bit platform as in C.
func (h *header) plain(s *structure) bool {
	if s.union {
		return false
	}
	for _, f := range s.fields {
		if f.isReserved() {
			continue
		}
		if inner := h.structure(f.kind); f.pointer || f.length != "" || inner != nil && !h.plain(inner) {
			return false
		}
	}
	return true
}

func (m *member) goType() string {
	switch {
	case m.field.length != "", m.list && m.kind == "char" && m.constant:
		return "string"
	case m.list:
		return "[]" + goType(m.kind)
	default:
		return goType(m.kind)
	}
}

func (h *header) types(w *writer) {
	w.line("// The constants of the C library.")
	w.line("const (")
	for _, c := range h.constants {
		if len(c.name) > 10 && c.name[:10] == "RK_RESULT_" {
			w.line("%s Result = %s", constantName(c.name), c.value)
		} else {
			w.line("%s = %s", constantName(c.name), c.value)
		}
	}
	w.line(")\n")
	for _, s := range h.structs {
		switch {
		case !s.union:
			w.line("// %s is %s.", exported(s.name), s.name)
		case s.input:
			w.line("// %s is %s: the member that is not nil.", exported(s.name), s.name)
		default:
			w.line("// %s is %s: one member has a meaning.", exported(s.name), s.name)
		}
		w.line("type %s struct {", exported(s.name))
		for _, m := range members(s) {
			pointer := ""
			if s.union && s.input {
				pointer = "*"
			}
			w.line("%s %s%s", exported(m.name), pointer, m.goType())
		}
		if last := s.fields[len(s.fields)-1]; last.isReserved() && !s.union {
			w.line("_ [%s]%s", last.length, goType(last.kind))
		}
		w.line("}\n")
	}
}

// sizes returns the size and alignment of a C type in wasm32.
func (h *header) size(kind string) (size, align uint32) {
	switch kind {
	case "uint8_t", "bool", "char":
		return 1, 1
	case "uint32_t", "int32_t", "size_t", "rk_result":
		return 4, 4
	case "uint64_t", "int64_t":
		return 8, 8
	}
	s := h.structure(kind)
	if s == nil {
		panic(fmt.Sprintf("the size of %s is not known", kind))
	}
	align = 1
	for _, f := range s.fields {
		one, a := h.fieldSize(&f)
		align = max(align, a)
		if s.union {
			size = max(size, one)
		} else {
			size = up(size, a) + one
		}
	}
	return up(size, align), align
}

func (h *header) fieldSize(f *field) (size, align uint32) {
	if f.pointer {
		return 4, 4
	}
	size, align = h.size(f.kind)
	if f.length != "" {
		size *= h.number(f.length)
	}
	return size, align
}

func up(n, align uint32) uint32 { return (n + align - 1) / align * align }

// number returns a constant, or a number itself.
func (h *header) number(name string) uint32 {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(n)
	}
	for _, c := range h.constants {
		if c.name == name {
			var n uint32
			fmt.Sscan(c.value, &n)
			return n
		}
	}
	panic("there is no constant " + name)
}

// offset returns the place of a field in a struct in wasm32.
func (h *header) offset(s *structure, name string) uint32 {
	var at uint32
	for _, f := range s.fields {
		size, align := h.fieldSize(&f)
		if !s.union {
			at = up(at, align)
		}
		if f.name == name {
			return at
		}
		if !s.union {
			at += size
		}
	}
	panic(s.name + " has no field " + name)
}
