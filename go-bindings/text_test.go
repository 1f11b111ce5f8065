package rangekeeper

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Every constant of an enum has a text. The constants are read from the source, as a new one would be missing in a
// list.
func TestEnumTexts(t *testing.T) {
	enums, constants, texts := map[string]bool{}, map[string][]string{}, map[string]bool{}
	for _, file := range must(filepath.Glob("*.go")) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		enum := "" // of the constant before: iota goes on with its type
		ast.Inspect(must(parser.ParseFile(token.NewFileSet(), file, nil, 0)), func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.TypeSpec:
				if of, ok := node.Type.(*ast.Ident); ok && (of.Name == "int" || of.Name == "uint32") {
					enums[node.Name.Name] = true
				}
			case *ast.GenDecl:
				enum = ""
			case *ast.ValueSpec:
				if of, ok := node.Type.(*ast.Ident); ok {
					enum = of.Name
				} else if len(node.Values) > 0 {
					enum = ""
				}
				for _, name := range node.Names {
					if name.Obj != nil && name.Obj.Kind == ast.Con {
						constants[enum] = append(constants[enum], name.Name)
					}
				}
			case *ast.KeyValueExpr:
				key, isName := node.Key.(*ast.Ident)
				if text, ok := node.Value.(*ast.BasicLit); isName && ok && text.Kind == token.STRING && text.Value != `""` {
					texts[key.Name] = true
				}
			}
			return true
		})
	}
	if len(enums) < 10 {
		t.Errorf("only %d enums found: %v", len(enums), enums)
	}
	for enum := range enums {
		if len(constants[enum]) == 0 {
			t.Errorf("%s has no constants", enum)
		}
		for _, name := range constants[enum] {
			if enum != "Reason" && !texts[name] { // the library has the texts of reasons
				t.Errorf("%s %s has no text", enum, name)
			}
		}
	}
	unknown := Reason(0).String()
	for i := range constants["Reason"] {
		if text := Reason(i + 1).String(); text == "" || text == unknown {
			t.Errorf("reason %d has no text", i+1)
		}
	}
	if text := StepSwap.String(); text != "compare-and-swap" {
		t.Error(text)
	}
	if text := Strategy(77).String(); text != "unknown (77)" {
		t.Error(text)
	}
}
