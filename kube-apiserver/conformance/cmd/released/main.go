// Command released runs releases' tests of the packages that Rangekeeper replaces, against Rangekeeper:
//
//	go run ./cmd/released VERSION...
//
// The tests are unchanged. They wait more than they work, so those of two releases run at a time. The exit code is 1 if
// one fails, or if a package has no tests or does not build.
//
// The newest release's tests of the packages that the module compat has run against that, too, with other imports.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rangekeeper/rangekeeper/controlplane/releases"
)

const (
	root = "k8s.io/kubernetes/pkg/"
	// dropin is the module that replaces packages of the release.
	dropin = "../dropin"
)

// packages are those that Rangekeeper replaces, and the two whose tests use them with an etcd.
var packages = []string{
	"registry/core/service/allocator/storage",
	"registry/core/service/ipallocator",
	"registry/core/service/ipallocator/controller",
	"registry/core/service/ipallocator/storage",
	"registry/core/service/portallocator",
	"registry/core/service/portallocator/controller",
	"registry/core/service/portallocator/storage",
	"registry/core/service/storage",
	"controlplane/reconcilers",
	"controlplane/controller/kubernetesservice",
	"controlplane/controller/systemnamespaces",
}

func main() {
	verbose := flag.Bool("v", false, "show the output of the tests of packages with failures")
	flag.Parse()
	outputs, errs := make([]bytes.Buffer, flag.NArg()), make([]error, flag.NArg())
	var group sync.WaitGroup
	slots := make(chan struct{}, 2)
	for i, release := range flag.Args() {
		group.Go(func() {
			slots <- struct{}{}
			errs[i] = run(&outputs[i], release, *verbose)
			if release == releases.All()[0] {
				errs[i] = errors.Join(errs[i], runCompat(&outputs[i], release, *verbose))
			}
			<-slots
		})
	}
	group.Wait()
	for i, release := range flag.Args() {
		os.Stdout.Write(outputs[i].Bytes())
		if errs[i] != nil {
			fmt.Fprintf(os.Stderr, "conformance with Kubernetes %s: %v\n", release, errs[i])
		}
	}
	if errors.Join(errs...) != nil {
		os.Exit(1)
	}
}

// moduleFile returns the drop-in's module file for the release.
func moduleFile(release string) string {
	own := "v" + release + ".mod"
	if _, err := os.Stat(filepath.Join(dropin, own)); err != nil {
		return "go.mod" // the newest release
	}
	return own
}

// files is what declared needs to know of packages.
const files = "{{.ImportPath}}\t{{.Dir}}{{range .TestGoFiles}}\t{{.}}{{end}}{{range .XTestGoFiles}}\t{{.}}{{end}}"

func run(w io.Writer, release string, verbose bool) error {
	all := make([]string, len(packages))
	for i, name := range packages {
		all[i] = root + name
	}
	modfile := "-modfile=" + moduleFile(release)
	expected, err := declared(dropin, append([]string{"list", modfile, "-f", files}, all...))
	if err != nil {
		return err
	}
	if expected, err = withoutOwn(release, expected); err != nil {
		return err
	}
	results, output, err := test(dropin, append([]string{"test", "-trimpath", "-vet=off", "-timeout=40m", modfile, "-count=1", "-json"}, all...))
	if err != nil {
		return err
	}

	fmt.Fprintf(w, "Kubernetes %s: tests of %d packages, against Rangekeeper\n\n", release, len(packages))
	if err := checkReplaced(release); err != nil {
		return err
	}
	return judge(w, root, packages, expected, results, output, verbose)
}

// judge prints how many of the expected tests of packages have passed. The error names those that did not, and packages
// without tests.
func judge(w io.Writer, root string, packages []string, expected map[string][]string, results map[string]map[string]string, output map[string]string, verbose bool) error {
	passed, failed, wrong := 0, 0, []string(nil)
	for _, name := range packages {
		functions := expected[root+name]
		ok := 0
		for _, function := range functions {
			if results[root+name][function] == "pass" {
				ok++
			}
		}
		fmt.Fprintf(w, "  %-50s %3d of %3d\n", name, ok, len(functions))
		if len(functions) == 0 {
			wrong = append(wrong, name+" has no tests")
		}
		passed, failed = passed+ok, failed+len(functions)-ok
		wrong = append(wrong, notPassed(w, name, functions, results[root+name])...)
		if verbose && ok < len(functions) {
			fmt.Fprintf(w, "%s\n", output[root+name])
		}
	}
	fmt.Fprintf(w, "\n%d passed, %d failed\n", passed, failed)
	if len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// checkReplaced returns an error unless the tested sources have the drop-in's files.
func checkReplaced(release string) error {
	copied := filepath.Join("..", "..", "target", "dropin", "v"+release)
	return eachFile(release, func(folder, name string, ours []byte) error {
		tested, err := os.ReadFile(filepath.Join(copied, name))
		if err == nil && !bytes.Equal(ours, tested) {
			err = fmt.Errorf("%s differs from the file in %s: run kube-apiserver/dropin.sh %s --sources", name, folder, release)
		}
		return err
	})
}

// eachFile calls fn with each file that the drop-in adds to the release, by its name there.
func eachFile(release string, fn func(folder, name string, content []byte) error) error {
	command := exec.Command(filepath.Join("..", "dropin.sh"), release, "--overlays")
	command.Stderr = os.Stderr
	folders, err := command.Output()
	if err != nil {
		return fmt.Errorf("list the overlays of the drop-in: %w", err)
	}
	seen := map[string]bool{}
	for _, folder := range slices.Backward(strings.Fields(string(folders))) {
		folder = filepath.Join("..", "..", folder)
		err := filesOf(folder, func(name string, content []byte) error {
			if seen[name] { // a later folder replaces the file
				return nil
			}
			seen[name] = true
			return fn(folder, name, content)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// filesOf calls fn with each file of a folder, by its name there.
func filesOf(folder string, fn func(name string, content []byte) error) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return fn(name, content)
	})
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w*)\(\w+ \*testing\.T\)`)

// withoutOwn returns the test functions of packages without those in the drop-in's files. These run and must pass, too,
// but are not counted as tests of the release.
func withoutOwn(release string, functions map[string][]string) (map[string][]string, error) {
	counted := maps.Clone(functions)
	err := eachFile(release, func(_, name string, content []byte) error {
		pkg := "k8s.io/kubernetes/" + filepath.ToSlash(filepath.Dir(name))
		for _, match := range testFunction.FindAllSubmatch(content, -1) {
			counted[pkg] = slices.DeleteFunc(slices.Clone(counted[pkg]), func(test string) bool { return test == string(match[1]) })
		}
		return nil
	})
	return counted, err
}

// notPassed prints the tests of a package that did not pass, and returns them.
func notPassed(w io.Writer, name string, functions []string, results map[string]string) (failures []string) {
	ran := slices.Sorted(maps.Keys(results))
	for _, test := range append(slices.Clone(functions), ran...) {
		// If a subtest fails, it is printed instead of its test.
		explained := slices.ContainsFunc(ran, func(part string) bool {
			return strings.HasPrefix(part, test+"/") && results[part] == "fail"
		})
		if result := results[test]; result != "pass" && !explained {
			fmt.Fprintf(w, "    %s: %s\n", test, result)
			failures = append(failures, fmt.Sprintf("%s %s: %q", name, test, result))
		}
	}
	return failures
}

// declared returns the test functions of packages, in the order of their declaration. The sources say so: `go test
// -list` would link each test once more.
func declared(folder string, arguments []string) (map[string][]string, error) {
	command := exec.Command(goCommand(), arguments...)
	command.Dir, command.Stderr = folder, os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(arguments, " "), err)
	}
	functions := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		for _, name := range fields[2:] {
			content, err := os.ReadFile(filepath.Join(fields[1], name))
			if err != nil {
				return nil, err
			}
			for _, match := range testFunction.FindAllSubmatch(content, -1) {
				functions[fields[0]] = append(functions[fields[0]], string(match[1]))
			}
		}
	}
	return functions, nil
}

// event is a line of `go test -json` (cmd/test2json).
type event struct {
	Action, Package, Test, Output string
}

// test runs tests and returns their results, and the output by package. A failed test is no error.
func test(folder string, arguments []string) (map[string]map[string]string, map[string]string, error) {
	command := exec.Command(goCommand(), arguments...)
	command.Dir, command.Stderr = folder, os.Stderr
	out, err := command.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return nil, nil, err
	}
	results, output := make(map[string]map[string]string), make(map[string]string)
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var e event
		if err := decoder.Decode(&e); err == io.EOF {
			return results, output, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("decode the output of go test: %w", err)
		}
		switch e.Action {
		case "output":
			output[e.Package] += e.Output
		case "pass", "fail", "skip":
			if e.Test == "" {
				continue
			}
			if results[e.Package] == nil {
				results[e.Package] = make(map[string]string)
			}
			results[e.Package][e.Test] = e.Action
		}
	}
}

func goCommand() string {
	if command := os.Getenv("GO"); command != "" {
		return command
	}
	return "go"
}
