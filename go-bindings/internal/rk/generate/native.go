package main

import (
	"fmt"
	"strings"
)

// native writes the back end that calls the library through cgo.
func (h *header) native(w *writer) {
	w.line("/*")
	for _, f := range h.functions {
		w.line("#cgo noescape %s\n#cgo nocallback %s", f.name, f.name)
	}
	w.line("#include <rangekeeper.h>\n*/")
	w.line("import \"C\"\n")
	w.line("import (\n\"runtime\"\n\"unsafe\"\n)\n")
	for _, handle := range h.handles {
		w.line("// %s is an object of the library, in its memory.", exported(handle))
		w.line("type %s handle\n", exported(handle))
		w.line("// IsAlone reports that the object has to be freed.")
		w.line("func (*%s) IsAlone() bool { return false }\n", exported(handle))
	}
	w.line("// FirstFault returns nothing: the library writes to stderr what a fault says.")
	w.line("func FirstFault() string { return \"\" }\n")
	w.line("// The structs that cross without a conversion have the size that they have in C.")
	w.line("var (")
	for _, s := range h.structs {
		if h.plain(s) {
			w.line("_ [C.sizeof_%s]byte = [unsafe.Sizeof(%s{})]byte{}", s.name, exported(s.name))
		}
	}
	w.line(")\n")
	w.line("// aligned is a struct as C aligns it: cgo does not know that there are 64-bit numbers in its union.")
	w.line("type aligned[T any] struct {\n_ [0]uint64\nc T\n}\n")
	for _, s := range h.structs {
		if s.union || h.plain(s) {
			continue
		}
		if s.input {
			h.nativeTo(w, s)
		} else {
			h.nativeFrom(w, s)
		}
	}
	for i := range h.functions {
		h.nativeFunction(w, &h.functions[i])
	}
}

// freeing returns the name of the function that frees an object in the library's memory.
func freeing(handle string) string { return "free" + exported(handle) }

// cField returns how Go spells a field of a C struct.
func cField(name string) string {
	if name == "range" {
		return "_range"
	}
	return name
}

func (h *header) nativeTo(w *writer, s *structure) {
	w.line("func (s *%s) toC(pinner *runtime.Pinner) (c C.%s) {", exported(s.name), s.name)
	for _, m := range members(s) {
		inner := h.structure(m.kind)
		name, c := exported(m.name), cField(m.name)
		switch {
		case m.list:
			data, elements := "unsafe.SliceData(s."+name+")", "s."+name
			if m.goType() == "string" {
				data = "unsafe.StringData(s." + name + ")"
			}
			w.line("if len(%s) > 0 {", elements)
			if inner != nil && !h.plain(inner) {
				w.line("items := make([]C.%s, len(s.%s))", m.kind, name)
				w.line("for i := range items {\nitems[i] = s.%s[i].toC(pinner)\n}", name)
				data = "unsafe.SliceData(items)"
			}
			w.line("data := unsafe.Pointer(%s)\npinner.Pin(data)", data)
			w.line("c.%s, c.%s = (*C.%s)(data), C.size_t(len(s.%s))\n}", c, cField(m.length), m.kind, name)
		case inner == nil:
			w.line("c.%s = C.%s(s.%s)", c, m.kind, name)
		case inner.union:
			for _, u := range members(inner) {
				from := h.structure(u.kind)
				value := fmt.Sprintf("*(*C.%s)(unsafe.Pointer(s.%s.%s))", u.kind, name, exported(u.name))
				if !h.plain(from) {
					value = fmt.Sprintf("s.%s.%s.toC(pinner)", name, exported(u.name))
				}
				w.line("if s.%s.%s != nil {\n*(*C.%s)(unsafe.Pointer(&c.%s)) = %s\n}", name, exported(u.name), u.kind, c, value)
			}
		case h.plain(inner):
			w.line("c.%s = *(*C.%s)(unsafe.Pointer(&s.%s))", c, m.kind, name)
		default:
			w.line("c.%s = s.%s.toC(pinner)", c, name)
		}
	}
	w.line("return c\n}\n")
}

func (h *header) nativeFrom(w *writer, s *structure) {
	w.line("func (s *%s) fromC(c *C.%s) {", exported(s.name), s.name)
	for _, m := range members(s) {
		inner := h.structure(m.kind)
		name, c := exported(m.name), cField(m.name)
		switch {
		case m.field.length != "":
			w.line("s.%s = C.GoStringN(&c.%s[0], C.int(c.%s))", name, c, cField(m.length))
		case inner == nil:
			w.line("s.%s = %s(c.%s)", name, goType(m.kind), c)
		case inner.union:
			for _, u := range members(inner) {
				w.line("s.%s.%s = *(*%s)(unsafe.Pointer(&c.%s))", name, exported(u.name), goType(u.kind), c)
			}
		case h.plain(inner):
			w.line("s.%s = *(*%s)(unsafe.Pointer(&c.%s))", name, goType(m.kind), c)
		default:
			w.line("s.%s.fromC(&c.%s)", name, c)
		}
	}
	w.line("}\n")
}

func (h *header) nativeFunction(w *writer, f *function) {
	w.line("// %s is %s.", exported(f.name), f.name)
	w.line("%s {", h.signature(f, false))
	if of, frees := strings.CutSuffix(f.name, "_free"); frees {
		w.line("(*handle)(%s).close()\n}\n", local(f.parameters[0].name))
		w.line("func %s(c unsafe.Pointer) {\nC.%s((*C.%s)(c))\n}\n", freeing(of), f.name, of)
		return
	}
	for _, a := range h.arguments(f) {
		if a.form == handle {
			w.line("c_%s, entered := (*handle)(%s).enter()", a.name, local(a.name))
			w.line("if entered != ResultOK {\nreturn entered\n}\ndefer (*handle)(%s).leave()", local(a.name))
		}
	}
	var call, after []string
	pinned := false
	pin := func() {
		if !pinned {
			w.line("var pinner runtime.Pinner\ndefer pinner.Unpin()")
		}
		pinned = true
	}
	lengths := map[string]string{}
	for _, a := range h.arguments(f) {
		name := local(a.name)
		s := h.structure(a.kind)
		converted := s != nil && !h.plain(s)
		if a.length != "" {
			length := "len(" + name + ")"
			if a.factor > 1 {
				length = fmt.Sprintf("len(%s)/%d", name, a.factor)
			}
			lengths[a.length] = "C.size_t(" + length + ")"
		}
		pointer := fmt.Sprintf("(*C.%s)(unsafe.Pointer(%s))", a.kind, name)
		switch {
		case a.form == newHandle:
			w.line("var c_%s *C.%s", a.name, a.kind)
			pointer = "&c_" + a.name
			after = append(after, fmt.Sprintf("if result == C.RK_RESULT_OK {\n*%s = (*%s)(newHandle(unsafe.Pointer(c_%s), %s))\n}",
				name, exported(a.kind), a.name, freeing(a.kind)))
		case a.form == handle:
			pointer = fmt.Sprintf("(*C.%s)(c_%s)", a.kind, a.name)
		case a.form == text:
			pointer = fmt.Sprintf("(*C.char)(unsafe.Pointer(unsafe.StringData(%s)))", name)
		case a.form == listIn && converted:
			pin()
			w.line("c_%s := make([]C.%s, len(%s))", a.name, a.kind, name)
			w.line("for i := range c_%s {\nc_%s[i] = %s[i].toC(&pinner)\n}", a.name, a.name, name)
			pointer = "unsafe.SliceData(c_" + a.name + ")"
		case a.form == listOut && converted:
			w.line("c_%s := make([]C.%s, len(%s))", a.name, a.kind, name)
			pointer = "unsafe.SliceData(c_" + a.name + ")"
			after = append(after, fmt.Sprintf("if result == C.RK_RESULT_OK {\nfor i := range c_%s[:min(len(c_%s), int(*%s))] {\n%s[i].fromC(&c_%s[i])\n}\n}",
				a.name, a.name, local(a.written), name, a.name))
		case a.form == listIn, a.form == listOut:
			pointer = fmt.Sprintf("(*C.%s)(unsafe.Pointer(unsafe.SliceData(%s)))", a.kind, name)
		case a.form == oneIn && converted:
			pin()
			w.line("var c_%s aligned[C.%s]\nvar p_%s *C.%s", a.name, a.kind, a.name, a.kind)
			w.line("if %s != nil {\nc_%s.c = %s.toC(&pinner)\np_%s = &c_%s.c\n}", name, a.name, name, a.name, a.name)
			pointer = "p_" + a.name
		case a.form == oneOut && converted:
			w.line("var c_%s aligned[C.%s]", a.name, a.kind)
			pointer = "&c_" + a.name + ".c"
			condition := "=="
			if a.kind == "rk_error" {
				condition = "!="
			}
			after = append(after, fmt.Sprintf("if result %s C.RK_RESULT_OK {\n%s.fromC(&c_%s.c)\n}", condition, name, a.name))
		case a.form == scalar:
			pointer = fmt.Sprintf("C.%s(%s)", a.kind, name)
		}
		call = append(call, a.name+"\x00"+pointer)
	}
	values := map[string]string{}
	for _, one := range call {
		name, value, _ := strings.Cut(one, "\x00")
		values[name] = value
	}
	var arguments []string
	for _, p := range f.parameters {
		if length, ok := lengths[p.name]; ok && p.pointers == 0 {
			arguments = append(arguments, length)
		} else {
			arguments = append(arguments, values[p.name])
		}
	}
	text := fmt.Sprintf("C.%s(%s)", f.name, strings.Join(arguments, ", "))
	switch {
	case f.result == "void":
		w.line("%s\n}\n", text)
	case f.result == "const char *":
		w.line("return C.GoString(%s)\n}\n", text)
	case f.result == "uint32_t":
		w.line("return uint32(%s)\n}\n", text)
	case len(after) == 0:
		w.line("return Result(%s)\n}\n", text)
	default:
		w.line("result := %s\n%s\nreturn Result(result)\n}\n", text, strings.Join(after, "\n"))
	}
}
