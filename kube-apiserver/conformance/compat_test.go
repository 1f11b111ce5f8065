package upstream

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	compatModule = "github.com/rangekeeper/rangekeeper/compat"
	coreRegistry = "k8s.io/kubernetes/pkg/registry/core"
)

// compatPackages has the packages of the module compat that the reference has, too, and their folders there.
var compatPackages = map[string]string{
	"allocator":                "service/allocator",
	"allocator/storage":        "service/allocator/storage",
	"ipallocator":              "service/ipallocator",
	"ipallocator/controller":   "service/ipallocator/controller",
	"portallocator":            "service/portallocator",
	"portallocator/controller": "service/portallocator/controller",
	"rangeallocation":          "rangeallocation",
}

// compatAdditions are the identifiers that the reference does not have, with the reason. That of a type covers its
// methods.
var compatAdditions = map[string]string{
	"allocator.Memory":                  "offsets of a range that the core knows, which the drop-in copies stored ranges into",
	"allocator.NewMemory":               "makes a Memory",
	"allocator.ValueAt":                 "what an offset stands for, for allocator/storage",
	"allocator.DryRun":                  "dry runs over any Interface (docs/differences.md, dry runs of addresses)",
	"allocator.AllocationBitmap.DryRun": "what a dry run calls, without visiting each offset",
	"allocator/storage.NewWithStorage":  "for embedders with a storage of their own",
	"allocator/storage.Etcd.DryRun":     "what a dry run calls, with its error",
	"allocator/storage.Etcd.RepairRange": "repair passes that share writes with allocations, so that nothing which was " +
		"allocated meanwhile is released",
	"portallocator.PortAllocator.DryRun": "what a dry run of an operation calls (docs/differences.md, dry runs of ports)",
}

// TestCompatAPI compares the exported identifiers of the module compat with the reference's: constants with their
// values, types with their exported fields and methods, all with their types. The internal types of the reference stand
// for those of k8s.io/api.
func TestCompatAPI(t *testing.T) {
	var ours, theirs []string
	for name, folder := range compatPackages {
		ours, theirs = append(ours, path.Join(compatModule, name)), append(theirs, path.Join(coreRegistry, folder))
	}
	compat, reference := exported(t, "../../compat", ours), exported(t, ".", theirs)
	compared := 0
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(compatPackages)) {
		have, want := compat[path.Join(compatModule, name)], reference[path.Join(coreRegistry, compatPackages[name])]
		if len(want) == 0 {
			t.Errorf("the reference's package %s has no exported identifiers", name)
		}
		for _, identifier := range slices.Sorted(maps.Keys(want)) {
			compared++
			if got, ok := have[identifier]; !ok {
				t.Errorf("%s.%s is missing: %s", name, identifier, want[identifier])
			} else if got != want[identifier] {
				t.Errorf("%s.%s is\n  %s\nnot\n  %s", name, identifier, got, want[identifier])
			}
		}
		for _, identifier := range slices.Sorted(maps.Keys(have)) {
			if _, ok := want[identifier]; ok || strings.HasSuffix(identifier, ofValue) {
				continue
			}
			full := name + "." + identifier
			of := full
			if at := strings.LastIndex(identifier, "."); at >= 0 {
				if _, ok := compatAdditions[full]; !ok {
					of = name + "." + identifier[:at]
				}
			}
			if _, ok := compatAdditions[of]; !ok {
				t.Errorf("%s is not in the reference: %s", full, have[identifier])
			}
			used[of] = true
		}
	}
	for addition := range compatAdditions {
		if !used[addition] {
			t.Errorf("%s is no addition", addition)
		}
	}
	t.Logf("%d identifiers compared, %d additions", compared, len(compatAdditions))
}

// exported returns the exported identifiers of packages, by package path, as text.
func exported(t *testing.T, folder string, packages []string) map[string]map[string]string {
	t.Helper()
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}, packages...)...)
	list.Dir, list.Stderr = folder, os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[name] = file
	}
	all := map[string]map[string]string{}
	from := importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) { return os.Open(files[name]) })
	for _, name := range packages {
		pkg, err := from.Import(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = identifiers(pkg.Scope())
	}
	return all
}

// ofValue is the end of the names of methods that a type has without a pointer to it.
const ofValue = " of the value"

// identifiers returns the exported identifiers of a package: Name, and Type.Name for fields and methods.
func identifiers(scope *types.Scope) map[string]string {
	found := map[string]string{}
	for _, name := range scope.Names() {
		object := scope.Lookup(name)
		if !object.Exported() {
			continue
		}
		switch object := object.(type) {
		case *types.Const:
			found[name] = fmt.Sprintf("const %s = %s", typeText(object.Type()), object.Val())
		case *types.Var:
			found[name] = "var " + typeText(object.Type())
		case *types.Func:
			found[name] = typeText(object.Type())
		case *types.TypeName:
			found[name] = "type " + typeText(object.Type().Underlying())
			switch underlying := object.Type().Underlying().(type) {
			case *types.Struct:
				found[name] = "type struct"
				for field := range underlying.Fields() {
					if field.Exported() {
						found[name+"."+field.Name()] = "field " + typeText(field.Type())
					}
				}
			case *types.Interface:
				found[name] = "type interface"
			}
			add := func(of types.Type, suffix string) {
				for method := range types.NewMethodSet(of).Methods() {
					if method.Obj().Exported() {
						found[name+"."+method.Obj().Name()+suffix] = typeText(method.Type())
					}
				}
			}
			if types.IsInterface(object.Type()) {
				add(object.Type(), "")
			} else {
				add(types.NewPointer(object.Type()), "")
				add(object.Type(), ofValue)
			}
		}
	}
	return found
}

// typeText returns a type without the names of parameters, and with the paths of the reference and of k8s.io/api.
func typeText(of types.Type) string {
	if signature, ok := of.(*types.Signature); ok {
		return fmt.Sprintf("func%s %s, variadic: %v", tupleText(signature.Params()), tupleText(signature.Results()), signature.Variadic())
	}
	return types.TypeString(of, func(pkg *types.Package) string {
		if name, ok := strings.CutPrefix(pkg.Path(), compatModule+"/"); ok {
			if folder, ok := compatPackages[name]; ok {
				return path.Join(coreRegistry, folder)
			}
		}
		if pkg.Path() == "k8s.io/kubernetes/pkg/apis/core" {
			return "k8s.io/api/core/v1"
		}
		return pkg.Path()
	})
}

func tupleText(of *types.Tuple) string {
	var all []string
	for one := range of.Variables() {
		all = append(all, typeText(one.Type()))
	}
	return "(" + strings.Join(all, ", ") + ")"
}
