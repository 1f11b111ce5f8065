// Command clidocs writes what is installed beside the programs, into a folder for each: man pages (man), and for
// rangekeeper the completions of shells (completions); kubectl has its own for plugins.
//
//	clidocs FOLDER
//
// The pages are of the time in SOURCE_DATE_EPOCH, or else of now.
package main

import (
	"errors"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/plugin"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/server"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("clidocs: ")
	if len(os.Args) != 2 {
		log.Fatal("usage: clidocs FOLDER")
	}
	rangekeeper := server.Program.Command()
	for _, root := range []*cobra.Command{rangekeeper, plugin.Program.Command()} {
		if err := writePages(root, filepath.Join(os.Args[1], root.Name(), "man")); err != nil {
			log.Fatal(err)
		}
	}
	if err := writeCompletions(rangekeeper, filepath.Join(os.Args[1], rangekeeper.Name(), "completions")); err != nil {
		log.Fatal(err)
	}
}

func writePages(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	version, _, _ := strings.Cut(root.Version, " ")
	for _, c := range append(root.Commands(), root) {
		c.Long = keepTables(c.Long)
		c.DisableAutoGenTag = true
	}
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: root.Name() + " " + version, Manual: "Rangekeeper"}, folder)
}

// writeCompletions writes files with the names that each shell looks for.
func writeCompletions(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	path := func(name string) string { return filepath.Join(folder, name) }
	return errors.Join(
		root.GenBashCompletionFileV2(path("rangekeeper.bash"), true),
		root.GenZshCompletionFile(path("_rangekeeper")),
		root.GenFishCompletionFile(path("rangekeeper.fish"), true),
		root.GenPowerShellCompletionFileWithDesc(path("rangekeeper.ps1")),
	)
}

// keepTables makes paragraphs with lines that begin with spaces, which are tables, blocks of code in Markdown, which
// the pages are made of.
func keepTables(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		title, table, ok := strings.Cut(p, "\n")
		if !ok || !strings.Contains("\n"+table, "\n  ") {
			continue
		}
		paragraphs[i] = title + "\n\n    " + strings.ReplaceAll(table, "\n", "\n    ")
	}
	return strings.Join(paragraphs, "\n\n")
}
