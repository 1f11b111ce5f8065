// Command header arranges what cbindgen writes, so that rangekeeper.h can be read from the top: a section for each
// subject, with its constants, types and functions in the order of the sources. Constants become an enum beside their
// type.
//
//	go run header/main.go GENERATED src inline.h
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sections are the header's subjects in its order, each with the modules of ffi/src that it shows. A type comes before
// its users.
var sections = []struct {
	title   string
	modules []string
}{
	{"Version", []string{"version"}},
	{"Results", []string{"result"}},
	{"Errors", []string{"error"}},
	{"Values", []string{"value"}},
	{"Ranges, and the CIDRs of ServiceCIDR objects", []string{"range", "service_cidr"}},
	{"Allocators", []string{"allocator"}},
	{"Stored objects", []string{"range_allocation"}},
	{"Leak counters", []string{"leak", "leak_tracker"}},
	{"Batches of Services and of IPAddress objects", []string{"services"}},
	{"Audits", []string{"audit", "ranges"}},
	{"Findings and reports", []string{"finding", "report"}},
	{"Committers", []string{"committer_input", "committer_output", "committer", "edit"}},
	{"Repair passes", []string{"repair_pass"}},
	{"The index of addresses, and repairs of IPAddress objects", []string{"index", "ip_address"}},
	{"Ledgers", []string{"ledger_value", "ledger"}},
	{"Ledgers in a store that several programs write", []string{"shared_ledger"}},
	{"The bootstrap controller", []string{"bootstrap"}},
}

// columns is the length of a line up to which a comment stays on one.
const columns = 120

// An item is a declaration with its comment.
type item struct{ comment, text string }

var (
	defined  = regexp.MustCompile(`^#define (RK_\w+) (\w+)$`)
	handle   = regexp.MustCompile(`^typedef struct (rk_\w+) rk_\w+;$`)
	typedef  = regexp.MustCompile(`(?s)^typedef .*?(rk_\w+);$`)
	numbered = regexp.MustCompile(`(?s)^enum (rk_\w+)\n.*?\n \{\n(.*?)\n\};`)
	function = regexp.MustCompile(`(?s)^[^(]*?(rk_\w+)\(.*\);$`)
	freeing  = regexp.MustCompile(`^rk_\w+_free$`)
	comments = regexp.MustCompile(`(?s)/\*.*?\*/`)
	// A word that may be the name of a type.
	mentioned = regexp.MustCompile(`\brk_\w+`)
	tagged    = regexp.MustCompile(`\b(?:struct|union) (rk_\w+ )`)
	lines     = regexp.MustCompile(`(?m)^( *)/\*\*\n *\* (.*)\n *\*/$`)
	// What a source exports, and the type of a constant.
	exported = regexp.MustCompile(`(?m)^pub (?:unsafe )?(?:extern "C" fn|struct|union|enum|type|const) (\w+)(?:: (\w+))?`)
)

func main() {
	header, err := arrange(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "header:", err)
		os.Exit(1)
	}
	fmt.Print(header)
}

func arrange(generated, sources, inline string) (string, error) {
	raw, err := os.ReadFile(generated)
	if err != nil {
		return "", err
	}
	helpers, err := os.ReadFile(inline)
	if err != nil {
		return "", err
	}
	preamble, rest, _ := strings.Cut(string(raw), "\n/**\n")
	all, err := parse("/**\n" + rest)
	if err != nil {
		return "", fmt.Errorf("%s: %w", generated, err)
	}

	var names [][]string // of each section, in the order of the sources
	members := map[string][]string{}
	for i, section := range sections {
		names = append(names, nil)
		for _, module := range section.modules {
			source, err := os.ReadFile(filepath.Join(sources, module+".rs"))
			if err != nil {
				return "", err
			}
			for _, name := range exported.FindAllStringSubmatch(string(source), -1) {
				if strings.HasPrefix(name[2], "rk_") {
					members[name[2]] = append(members[name[2]], name[1])
				} else {
					names[i] = append(names[i], name[1])
				}
			}
		}
	}

	var handles, body, last strings.Builder
	var write func(name string)
	write = func(name string) {
		it, there := all[name]
		if !there { // it is for Rust only, or stands before a type that has it
			return
		}
		delete(all, name)
		to := &body
		switch {
		case handle.MatchString(it.text):
			to = &handles
		case freeing.MatchString(name):
			to = &last
		default:
			for _, used := range mentioned.FindAllString(comments.ReplaceAllString(it.text, ""), -1) {
				write(used)
			}
		}
		to.WriteString(it.comment + it.text + "\n")
		if len(members[name]) > 0 {
			to.WriteString("enum {\n")
			for _, constant := range members[name] {
				fmt.Fprintf(to, "%s  %s = %s,\n", indented(all[constant].comment), constant, strings.Fields(all[constant].text)[2])
				delete(all, constant)
			}
			to.WriteString("};\n")
		}
		to.WriteString("\n")
	}
	for i, section := range sections {
		rule(&body, section.title)
		for _, name := range names[i] {
			write(name)
		}
	}
	for name := range all {
		return "", fmt.Errorf("%s stands in no section", name)
	}

	var out strings.Builder
	out.WriteString(preamble + "\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n")
	rule(&out, "Handles")
	out.WriteString(handles.String())
	out.WriteString(body.String())
	rule(&out, "Destroying handles")
	out.WriteString(last.String())
	rule(&out, "Helpers")
	out.WriteString(strings.TrimSpace(string(helpers)))
	out.WriteString("\n\n#ifdef __cplusplus\n} /* extern \"C\" */\n#endif\n\n#endif /* RANGEKEEPER_H */\n")
	return lines.ReplaceAllStringFunc(out.String(), func(comment string) string {
		parts := lines.FindStringSubmatch(comment)
		if one := parts[1] + "/** " + parts[2] + " */"; len(one) <= columns {
			return one
		}
		return comment
	}), nil
}

// parse returns the declarations by their names.
func parse(text string) (map[string]item, error) {
	all := map[string]item{}
	for _, part := range strings.Split(text, "\n\n") {
		part = strings.TrimSpace(part)
		if !strings.HasPrefix(part, "/**\n") { // a condition of the preprocessor
			continue
		}
		comment, declaration, _ := strings.Cut(part, "\n */\n")
		it := item{comment + "\n */\n", declaration}
		if match := numbered.FindStringSubmatch(declaration); match != nil {
			it.text = fmt.Sprintf("typedef uint32_t %s;\nenum {\n%s\n};", match[1], match[2])
			all[match[1]] = it
			continue
		}
		forms := []*regexp.Regexp{defined, typedef, function}
		at := slices.IndexFunc(forms, func(form *regexp.Regexp) bool { return form.MatchString(declaration) })
		if at < 0 {
			return nil, fmt.Errorf("%q has no form that is known", declaration)
		}
		name := forms[at].FindStringSubmatch(declaration)[1]
		switch {
		case forms[at] == function:
			it.text = filled(untagged(declaration))
		case !handle.MatchString(declaration):
			first, rest, _ := strings.Cut(declaration, "\n")
			it.text = strings.TrimSuffix(first+"\n"+untagged(rest), "\n")
		}
		all[name] = it
	}
	return all, nil
}

// rule begins a section.
func rule(to *strings.Builder, title string) {
	fmt.Fprintf(to, "/* %s %s */\n\n", strings.Repeat("-", columns-len("/*   */")-len(title)), title)
}

func indented(comment string) string {
	return "  " + strings.TrimSuffix(strings.ReplaceAll(comment, "\n", "\n  "), "  ")
}

// untagged leaves out the words struct and union, as each type has a name without.
func untagged(text string) string { return tagged.ReplaceAllString(text, "$1") }

// filled writes a function in as few lines as it needs, its further parameters below the first one.
func filled(text string) string {
	name, parameters, _ := strings.Cut(strings.Join(strings.Fields(text), " "), "(")
	name, must := strings.CutPrefix(name, "RK_MUST_CHECK ")
	line := name + "("
	at := len(line)
	var out strings.Builder
	if must {
		out.WriteString("RK_MUST_CHECK\n")
	}
	for i, parameter := range strings.SplitAfter(parameters, ", ") {
		if i > 0 && len(line)+len(strings.TrimSpace(parameter)) > columns {
			out.WriteString(strings.TrimRight(line, " ") + "\n")
			line = strings.Repeat(" ", at)
		}
		line += parameter
	}
	return out.String() + line
}
