package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"
	"text/template"
)

// nativeModule is for programs that link the library in C. It imports the one of the platform, each of which is a
// module of its own, so that a build downloads no other.
const nativeModule = "go-bindings/native"

type platform struct {
	Architecture string
	Musl         bool
}

var platforms = []platform{{"amd64", false}, {"amd64", true}, {"arm64", false}, {"arm64", true}}

func (p platform) name() string {
	if p.Musl {
		return "linux-" + p.Architecture + "-musl"
	}
	return "linux-" + p.Architecture
}

func (p platform) Module() string  { return repository + nativeModule + "/" + p.name() }
func (p platform) Package() string { return strings.ReplaceAll(p.name(), "-", "") }

func (p platform) Library() string {
	if p.Musl {
		return "musl"
	}
	return "glibc"
}

// Constraint is the build constraint of a program that links the platform's library.
func (p platform) Constraint() string {
	musl := "!musl"
	if p.Musl {
		musl = "musl"
	}
	return fmt.Sprintf("cgo && rangekeeper_native && linux && %s && %s", p.Architecture, musl)
}

//go:embed native.go.tmpl
var sources string

var templates = template.Must(template.New("").Parse(sources))

func source(name string, data any) *fstest.MapFile {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		panic(err) // The templates are part of the program.
	}
	return &fstest.MapFile{Data: bytes.TrimLeft(text.Bytes(), "\n"), Mode: 0o644}
}

func goMod(path string, required ...platform) *fstest.MapFile {
	text := fmt.Sprintf("module %s\n\ngo 1.26.0\n\nrequire (\n", repository+path)
	for _, p := range required {
		text += fmt.Sprintf("\t%s v0.0.0\n", p.Module())
	}
	return &fstest.MapFile{Data: []byte(text + ")\n"), Mode: 0o644}
}

// noticesName is the file with the licences of what others have written.
const noticesName = "THIRD_PARTY_NOTICES"

// files has the library that lies in the folder libraries.
func (p platform) files(libraries string) (fstest.MapFS, error) {
	library, err := os.ReadFile(filepath.Join(libraries, p.name(), "librangekeeper.a"))
	if err != nil {
		return nil, fmt.Errorf("%w (was release/native.sh run?)", err)
	}
	notices, err := os.ReadFile(filepath.Join(libraries, p.name(), noticesName))
	if err != nil {
		return nil, err
	}
	return fstest.MapFS{
		noticesName:        {Data: notices, Mode: 0o644},
		"go.mod":           goMod(nativeModule + "/" + p.name()),
		"doc.go":           source("platform", p),
		"link.go":          source("link", p),
		"librangekeeper.a": {Data: library, Mode: 0o644},
	}, nil
}

func nativeFiles() fstest.MapFS {
	files := fstest.MapFS{
		"go.mod":         goMod(nativeModule, platforms...),
		"go.sum":         {Mode: 0o644},
		"doc.go":         source("native", nil),
		"unsupported.go": source("unsupported", nil),
	}
	for _, p := range platforms {
		files[p.Package()+".go"] = source("import", p)
	}
	return files
}
