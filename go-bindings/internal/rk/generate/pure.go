package main

import (
	"fmt"
	"slices"
	"strings"
)

// pure writes the back end that calls the library as Go.
func (h *header) pure(w *writer) {
	for _, handle := range h.handles {
		w.line("// %s is an object of the library.", exported(handle))
		w.line("type %s object\n", exported(handle))
		w.line("// IsAlone reports whether the object's memory is collected with it, so that it need not be freed.")
		w.line("func (o *%s) IsAlone() bool { return o.alone }\n", exported(handle))
	}
	for _, s := range h.structs {
		if s.union {
			continue
		}
		if h.stored(s) {
			h.store(w, s)
		}
		if h.loaded(s) {
			h.load(w, s)
		}
	}
	for _, f := range append(slices.Clone(h.functions), h.exchange...) {
		// A pass and a committer are in different instances: exchange.go has these functions.
		if !f.takes("rk_repair_pass") || !f.takes("rk_committer") {
			h.pureFunction(w, &f)
		}
	}
}

// adders are the functions without a list that add to their object, one by one.
var adders = []string{
	"rk_allocator_dry_run", "rk_audit_add_service_cidr", "rk_audit_compare_bitmap", "rk_committer_handle", "rk_index_insert_cidr", "rk_index_reserve", "rk_index_reserve_address", "rk_index_confirm", "rk_index_created",
	"rk_index_added", "rk_ledger_apply", "rk_shared_ledger_submit", "rk_shared_ledger_poll",
}

// grows reports whether a function may add to its object what has no bound.
func (h *header) grows(f *function) bool {
	return slices.Contains(adders, f.name) || slices.ContainsFunc(h.arguments(f), func(a argument) bool {
		s := h.structure(a.kind)
		hasList := s != nil && slices.ContainsFunc(members(s), func(m member) bool { return m.list || h.hasList(m.kind) })
		return a.form == listIn || a.form == oneIn && hasList
	})
}

func (h *header) hasList(kind string) bool {
	s := h.structure(kind)
	return s != nil && slices.ContainsFunc(members(s), func(m member) bool { return m.list })
}

func (f *function) takes(handle string) bool {
	return slices.ContainsFunc(f.parameters, func(p parameter) bool { return p.kind == handle && p.pointers == 1 })
}

// stored and loaded report whether Go writes or reads a struct in the library's memory.
func (h *header) stored(s *structure) bool { return h.crosses(s, true) }
func (h *header) loaded(s *structure) bool { return h.crosses(s, false) }

func (h *header) crosses(s *structure, in bool) bool {
	for _, f := range append(slices.Clone(h.functions), h.exchange...) {
		for _, p := range f.parameters {
			if p.pointers == 1 && p.constant == in && h.contains(p.kind, s.name) {
				return true
			}
		}
	}
	return false
}

func (h *header) contains(outer, inner string) bool {
	if outer == inner {
		return true
	}
	if s := h.structure(outer); s != nil {
		for _, f := range s.fields {
			if h.contains(f.kind, inner) {
				return true
			}
		}
	}
	return false
}

// put returns a statement that writes a scalar at an offset of b.
func put(kind string, at uint32, value string) string {
	switch size := scalars[kind]; size {
	case "uint8", "byte":
		return fmt.Sprintf("b[%d] = %s", at, value)
	case "bool":
		return fmt.Sprintf("putBool(b[%d:], %s)", at, value)
	case "uint64", "int64":
		return fmt.Sprintf("endian.PutUint64(b[%d:], uint64(%s))", at, value)
	default:
		return fmt.Sprintf("endian.PutUint32(b[%d:], uint32(%s))", at, value)
	}
}

// get returns an expression that reads a scalar at an offset of b.
func get(kind string, at uint32) string {
	switch size := scalars[kind]; size {
	case "uint8", "byte":
		return fmt.Sprintf("b[%d]", at)
	case "bool":
		return fmt.Sprintf("b[%d] != 0", at)
	case "uint64":
		return fmt.Sprintf("endian.Uint64(b[%d:])", at)
	case "uint32":
		return fmt.Sprintf("endian.Uint32(b[%d:])", at)
	case "int64":
		return fmt.Sprintf("int64(endian.Uint64(b[%d:]))", at)
	default:
		return fmt.Sprintf("%s(endian.Uint32(b[%d:]))", size, at)
	}
}

func (h *header) store(w *writer, s *structure) {
	size, _ := h.size(s.name)
	w.line("func (s *%s) store(c *call, at uint32) {", exported(s.name))
	var lists, scalars, inner []string
	for _, m := range members(s) {
		name, at := exported(m.name), h.offset(s, m.name)
		of := h.structure(m.kind)
		switch {
		case m.list:
			lists = append(lists, h.storeList("list"+name, "c", m.kind, m.goType() == "string", "s."+name))
			scalars = append(scalars, put("size_t", at, "list"+name), put("size_t", h.offset(s, m.length), "len(s."+name+")"))
		case of == nil:
			scalars = append(scalars, put(m.kind, at, "s."+name))
		case of.union:
			for _, u := range members(of) {
				inner = append(inner, fmt.Sprintf("if s.%s.%s != nil {\ns.%s.%s.store(c, at+%d)\n}", name, exported(u.name), name, exported(u.name), at))
			}
		default:
			inner = append(inner, fmt.Sprintf("s.%s.store(c, at+%d)", name, at))
		}
	}
	for _, line := range lists {
		w.line("%s", line)
	}
	if len(scalars) > 0 {
		w.line("b := c.bytes(at, %d)", size)
	}
	// Where a field has padding behind it, old bytes remain, which nobody reads.
	for _, line := range append(scalars, inner...) {
		w.line("%s", line)
	}
	w.line("}\n")
}

// storeList returns statements that write a list and set a new variable to its address. call is a pointer to the call.
func (h *header) storeList(at, call, kind string, isText bool, value string) string {
	size, align := h.size(kind)
	switch {
	case isText:
		return fmt.Sprintf("%s := c.putText(%s)", at, value)
	case size == 1 && kind != "bool":
		return fmt.Sprintf("%s := c.putBytes(%s)", at, value)
	case kind == "uint32_t":
		return fmt.Sprintf("%s := c.putWords(%s)", at, value)
	case h.structure(kind) == nil:
		panic("a list of " + kind + " has no form that the generator knows")
	default:
		// A function for all types would let the list escape to the heap.
		return fmt.Sprintf("%s := c.allocateMany(len(%s), %d, %d)\nfor i := range %s {\n%s[i].store(%s, %s+uint32(i)*%d)\n}",
			at, value, size, align, value, value, call, at, size)
	}
}

func (h *header) load(w *writer, s *structure) {
	size, _ := h.size(s.name)
	w.line("func (s *%s) load(c *call, at uint32) {", exported(s.name))
	var lines []string
	for _, m := range members(s) {
		name, at := exported(m.name), h.offset(s, m.name)
		of := h.structure(m.kind)
		switch {
		case m.field.length != "":
			lines = append(lines, fmt.Sprintf("s.%s = string(b[%d:][:endian.Uint32(b[%d:])])", name, at, h.offset(s, m.length)))
		case of == nil:
			lines = append(lines, fmt.Sprintf("s.%s = %s", name, get(m.kind, at)))
		case of.union:
			for _, u := range members(of) {
				if h.structure(u.kind) == nil {
					lines = append(lines, fmt.Sprintf("s.%s.%s = %s", name, exported(u.name), get(u.kind, at)))
				} else {
					lines = append(lines, fmt.Sprintf("s.%s.%s.load(c, at+%d)", name, exported(u.name), at))
				}
			}
		default:
			lines = append(lines, fmt.Sprintf("s.%s.load(c, at+%d)", name, at))
		}
	}
	body := strings.Join(lines, "\n")
	if strings.Contains(body, "b[") {
		w.line("b := c.bytes(at, %d)", size)
	}
	w.line("%s\n}\n", body)
}

// moduleOf returns the module of WebAssembly that has a function: most programs need the core only.
func moduleOf(function string) string {
	switch {
	case strings.HasPrefix(function, "rk_bootstrap_"):
		return "bootstrap"
	case strings.HasPrefix(function, "rk_ledger_"), strings.HasPrefix(function, "rk_shared_ledger_"):
		return "ledger"
	default:
		return "core"
	}
}

// places are the instances for new objects that may be small. Others have one of their own, unless they are made of
// others.
var places = map[string]string{
	"rk_allocator":     "place(bitmapSize(theRange))",
	"rk_leak_counters": "place(bitmapSize(theRange))",
}

func (h *header) pureFunction(w *writer, f *function) {
	w.line("// %s is %s.", exported(f.name), f.name)
	w.line("%s {", h.signature(f, true))
	module := moduleOf(f.name)
	arguments := h.arguments(f)
	var objects []string
	made := ""
	for _, a := range arguments {
		switch a.form {
		case handle:
			objects = append(objects, fmt.Sprintf("(*object)(%s)", local(a.name)))
		case newHandle:
			made = a.kind
		}
	}
	if strings.HasSuffix(f.name, "_free") {
		w.line("%s.close(func(in *instance, at int32) { in.%s.X%s(at) })\n}\n", objects[0], module, f.name)
		return
	}
	var fields []string
	if place, ok := places[made]; ok && len(objects) == 0 {
		fields = append(fields, "instance: "+place)
	}
	for i, object := range objects {
		fields = append(fields, []string{"first", "second"}[i]+": "+object)
	}
	w.line("c := call{%s}", strings.Join(fields, ", "))
	if len(objects) == 2 {
		w.line("if result = c.together(); result != ResultOK {\ntheError.Message = %q\nreturn result\n}", "the audit is not the one of this pass")
	}
	if f.result == "rk_result" {
		w.line("if result = c.enter(&%sCalls); result != ResultOK {\nreturn result\n}\ndefer c.leave(&result)", module)
	} else {
		w.line("if c.enter(&%sCalls) != ResultOK {\nreturn result\n}\ndefer c.leave(new(Result))", module)
	}
	// Arguments of a fixed size come first, in memory that every instance has.
	fixed := map[string]string{}
	var total uint32
	for _, a := range arguments {
		size, align := uint32(4), uint32(4)
		switch a.form {
		case oneIn, oneOut:
			size, align = h.size(a.kind)
		case newHandle:
		default:
			continue
		}
		total = up(total, align)
		fixed[a.name] = fmt.Sprintf("fixed + %d", total)
		total += size
	}
	if total > 0 {
		w.line("fixed := c.next\nc.next += %d", up(total, 8))
	}
	var after []string
	values, lengths := map[string]string{}, map[string]string{}
	for _, a := range arguments {
		name := local(a.name)
		s := h.structure(a.kind)
		at := "at" + exported(a.name)
		if a.length != "" {
			length := "len(" + name + ")"
			if a.factor > 1 {
				length = fmt.Sprintf("len(%s)/%d", name, a.factor)
			}
			lengths[a.length] = "int32(" + length + ")"
		}
		var size, align uint32
		if !h.isHandle(a.kind) {
			size, align = h.size(a.kind)
		}
		switch a.form {
		case scalar:
			switch {
			case a.kind == "uint64_t":
				values[a.name] = "int64(" + name + ")"
			case a.kind == "bool":
				values[a.name] = "number(" + name + ")"
			case a.kind == "size_t":
				values[a.name] = "size(" + name + ")"
			default:
				values[a.name] = "int32(" + name + ")"
			}
			continue
		case handle:
			values[a.name] = fmt.Sprintf("(*object)(%s).address()", name)
			continue
		case newHandle:
			w.line("%s := %s", at, fixed[a.name])
			after = append(after, fmt.Sprintf("if result == ResultOK {\n*%s = (*%s)(c.object(%s))\n}", name, exported(a.kind), at))
		case text:
			w.line("%s := c.putText(%s)", at, name)
		case listIn:
			w.line("%s", h.storeList(at, "&c", a.kind, false, name))
		case oneIn:
			w.line("var %s uint32\nif %s != nil {\n%s = %s", at, name, at, fixed[a.name])
			if s == nil {
				w.line("endian.PutUint64(c.bytes(%s, 8), uint64(*%s))", at, name)
			} else {
				w.line("%s.store(&c, %s)", name, at)
			}
			w.line("}")
		case listOut:
			count := "len(" + name + ")"
			w.line("%s := c.allocateMany(%s, %d, %d)", at, count, size, align)
			if a.written != "" {
				count = fmt.Sprintf("min(%s, int(*%s))", count, local(a.written))
			}
			switch {
			case s != nil:
				after = append(after, fmt.Sprintf("if result == ResultOK {\nfor i := range %s[:%s] {\n%s[i].load(&c, %s+uint32(i)*%d)\n}\n}", name, count, name, at, size))
			case a.kind == "bool":
				after = append(after, fmt.Sprintf("if result == ResultOK {\nc.getBools(%s[:%s], %s)\n}", name, count, at))
			case size == 1:
				after = append(after, fmt.Sprintf("if result == ResultOK {\ncopy(%s, c.bytes(%s, %s))\n}", name, at, count))
			case scalars[a.kind] == "uint":
				after = append(after, fmt.Sprintf("if result == ResultOK {\nc.getSizes(%s[:%s], %s)\n}", name, count, at))
			case scalars[a.kind] == "uint64":
				after = append(after, fmt.Sprintf("if result == ResultOK {\nc.getNumbers(%s[:%s], %s)\n}", name, count, at))
			default:
				panic("a list of " + a.kind + " has no form that the generator knows")
			}
		case oneOut:
			w.line("%s := %s", at, fixed[a.name])
			switch {
			case a.kind == "rk_error":
				after = append(after, fmt.Sprintf("if result != ResultOK {\n%s.load(&c, %s)\n}", name, at))
			case s != nil:
				after = append(after, fmt.Sprintf("if result == ResultOK {\n%s.load(&c, %s)\n}", name, at))
			default:
				w.line("{\nb := c.bytes(%s, %d)\n%s\n}", at, size, put(a.kind, 0, "*"+name))
				// Before the lists, which need it.
				after = append([]string{fmt.Sprintf("{\nb := c.bytes(%s, %d)\n*%s = %s\n}", at, size, name, get(a.kind, 0))}, after...)
			}
		}
		values[a.name] = "int32(" + at + ")"
	}
	var call []string
	for _, p := range f.parameters {
		if length, ok := lengths[p.name]; ok && p.pointers == 0 {
			call = append(call, length)
		} else {
			call = append(call, values[p.name])
		}
	}
	if h.grows(f) {
		w.line("c.grow()")
	}
	text := fmt.Sprintf("c.%s.X%s(%s)", module, f.name, strings.Join(call, ", "))
	switch f.result {
	case "rk_result":
		w.line("result = Result(%s)\nc.done = true", text)
		for _, line := range after {
			w.line("%s", line)
		}
		w.line("return result\n}\n")
	case "const char *":
		w.line("at := %s\nc.done = true\nreturn c.text(uint32(at))\n}\n", text)
	default:
		w.line("number := uint32(%s)\nc.done = true\nreturn number\n}\n", text)
	}
}
