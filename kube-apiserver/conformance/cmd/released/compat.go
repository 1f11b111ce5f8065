package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rangekeeper/rangekeeper/controlplane/releases"
)

const (
	// compat is the module with the exported identifiers of the release, shims the files that the released tests need
	// beside it, and compatCopy where both are put together.
	compat     = "../../compat"
	shims      = "shims"
	compatCopy = "../../target/compat"
	// compatModule is the module's path.
	compatModule = "github.com/rangekeeper/rangekeeper/compat"
)

// compatPackages are the folders of the module with released tests, which have other paths in the release.
var compatPackages = []string{
	"allocator",
	"allocator/storage",
	"ipallocator",
	"ipallocator/controller",
	"ipallocator/storage",
	"portallocator",
	"portallocator/controller",
	"portallocator/storage",
}

// importsOfTests are the imports of released tests, and those of their copies. All others stay.
var importsOfTests = map[string]string{
	`api "k8s.io/kubernetes/pkg/apis/core"`:                                          `api "k8s.io/api/core/v1"`,
	`_ "k8s.io/kubernetes/pkg/apis/core/install"`:                                    ``,
	`"k8s.io/kubernetes/pkg/features"`:                                               `"` + compatModule + `/features"`,
	`"k8s.io/kubernetes/pkg/registry/registrytest"`:                                  `"` + compatModule + `/registrytest"`,
	`"k8s.io/kubernetes/pkg/registry/core/service/allocator"`:                        `"` + compatModule + `/allocator"`,
	`allocatorstore "k8s.io/kubernetes/pkg/registry/core/service/allocator/storage"`: `allocatorstore "` + compatModule + `/allocator/storage"`,
	`"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"`:                      `"` + compatModule + `/ipallocator"`,
	`"k8s.io/kubernetes/pkg/registry/core/service/portallocator"`:                    `"` + compatModule + `/portallocator"`,
}

// leftOut are the released tests that the module does not pass, each with the reason.
var leftOut = map[string]string{
	"TestCIDRAllocateDualWrite":          "the module never writes the bitmap beside IPAddress objects",
	"TestCIDRAllocateDualWriteCollision": "the module never writes the bitmap beside IPAddress objects",
}

// runCompat runs the release's tests of the packages of the module compat, with other imports. The release must be the
// newest one, whose identifiers the module has.
func runCompat(w io.Writer, release string, verbose bool) error {
	released, err := releasedFolder(release)
	if err != nil {
		return err
	}
	// Another make may do the same.
	lock, err := os.Create(compatCopy + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if err := copyCompat(released); err != nil {
		return err
	}
	arguments := []string{"list", "-mod=mod", "-f", files}
	run := []string{"test", "-mod=mod", "-trimpath", "-vet=off", "-timeout=40m", "-count=1", "-json", "-skip", "^(" + strings.Join(sortedKeys(leftOut), "|") + ")$"}
	for _, name := range compatPackages {
		arguments, run = append(arguments, "./"+name), append(run, "./"+name)
	}
	expected, err := declared(compatCopy, arguments)
	if err != nil {
		return err
	}
	left := 0
	for name, functions := range expected {
		expected[name] = slices.DeleteFunc(slices.Clone(functions), func(test string) bool {
			_, isLeft := leftOut[test]
			if isLeft {
				left++
			}
			return isLeft
		})
	}
	if left != len(leftOut) {
		return fmt.Errorf("the release has %d of the %d tests that are left out", left, len(leftOut))
	}
	results, output, err := test(compatCopy, run)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nKubernetes %s: tests of %d packages, against the module compat\n\n", release, len(compatPackages))
	err = judge(w, compatModule+"/", compatPackages, expected, results, output, verbose)
	for _, name := range sortedKeys(leftOut) {
		fmt.Fprintf(w, "left out: %s: %s\n", name, leftOut[name])
	}
	return err
}

// releasedFolder returns the folder of the released module.
func releasedFolder(release string) (string, error) {
	command := exec.Command(goCommand(), "list", "-m", "-f", "{{.Version}} {{.Dir}}", "k8s.io/kubernetes")
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("find the released module: %w", err)
	}
	version, folder, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if version != "v"+release || release != releases.All()[0] {
		return "", fmt.Errorf("go.mod has k8s.io/kubernetes %s, and the newest supported release is %s", version, releases.All()[0])
	}
	return folder, nil
}

// copyCompat puts the module without its own tests, the shims and the released tests together.
func copyCompat(released string) error {
	if err := os.RemoveAll(compatCopy); err != nil {
		return err
	}
	if err := copyFiles(compat, compatCopy, func(name string) bool {
		return !strings.HasSuffix(name, "_test.go")
	}); err != nil {
		return err
	}
	// go.mod is the folder's own.
	if err := copyFiles(shims, compatCopy, func(name string) bool { return strings.HasSuffix(name, ".go") }); err != nil {
		return err
	}
	// The copy is one folder deeper.
	file := filepath.Join(compatCopy, "go.mod")
	module, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(module), " => ../", " => ../../")), 0o644); err != nil {
		return err
	}
	for _, name := range compatPackages {
		tests, err := filepath.Glob(filepath.Join(released, "pkg/registry/core/service", name, "*_test.go"))
		if err != nil || len(tests) == 0 {
			return fmt.Errorf("no tests of %s in the release: %w", name, err)
		}
		for _, file := range tests {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if content, err = withImports(string(content)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if err := writeNew(filepath.Join(compatCopy, name, filepath.Base(file)), content); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyFiles copies the files of a folder whose names fit.
func copyFiles(from, to string, fits func(name string) bool) error {
	return filesOf(from, func(name string, content []byte) error {
		if !fits(name) {
			return nil
		}
		return writeNew(filepath.Join(to, name), content)
	})
}

// writeNew writes a file that does not exist yet.
func writeNew(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}

// withImports returns a released test with the imports of its copy. The error names one that is not known.
func withImports(source string) ([]byte, error) {
	before, rest, _ := strings.Cut(source, "\nimport (\n")
	imports, after, _ := strings.Cut(rest, "\n)\n")
	lines := strings.Split(imports, "\n")
	for i, line := range lines {
		to, ok := importsOfTests[strings.TrimSpace(line)]
		if ok {
			lines[i] = "\t" + to
		} else if strings.Contains(line, "k8s.io/kubernetes/") {
			return nil, fmt.Errorf("unknown import %s", line)
		}
	}
	return []byte(before + "\nimport (\n" + strings.Join(lines, "\n") + "\n)\n" + after), nil
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
