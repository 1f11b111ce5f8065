// Command generate writes the Go side of the C ABI from include/rangekeeper.h: the constants and structs, and the
// functions of both back ends. With -check it only reports whether they are up to date.
//
//	go run ./internal/rk/generate ../include/rangekeeper.h ../ffi/exchange.h internal/rk
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
)

type writer struct{ bytes.Buffer }

func (w *writer) line(format string, arguments ...any) {
	fmt.Fprintf(&w.Buffer, format+"\n", arguments...)
}

func main() {
	check := flag.Bool("check", false, "only report whether the files are up to date")
	flag.Parse()
	if err := run(flag.Arg(0), flag.Arg(1), flag.Arg(2), *check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes the files into a folder. exchange has the functions that only pure Go has.
func run(from, exchange, folder string, check bool) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	h, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if text, err = os.ReadFile(exchange); err != nil {
		return err
	}
	if h.exchange, err = parseFunctions(comments.ReplaceAllString(string(text), "")); err != nil {
		return fmt.Errorf("%s: %w", exchange, err)
	}
	for name, write := range map[string]func(*writer){"types": h.types, "native": h.native, "pure": h.pure} {
		w := new(writer)
		w.line("// Code generated from include/rangekeeper.h by ffi/header.sh. DO NOT EDIT.\n")
		if name != "types" {
			w.line("//go:build %s\n", map[string]string{"native": nativeTags, "pure": "!(" + nativeTags + ")"}[name])
		}
		w.line("package rk\n")
		write(w)
		source, err := format.Source(w.Bytes())
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		path := filepath.Join(folder, name+"_generated.go")
		if !check {
			if err := os.WriteFile(path, source, 0o644); err != nil {
				return err
			}
		} else if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, source) {
			return fmt.Errorf("%s is not up to date: run make header", path)
		}
	}
	return nil
}

// nativeTags is the build constraint of the native back end; files that are written by hand have it, too.
const nativeTags = "cgo && (rangekeeper_native || rangekeeper_dynamic)"
