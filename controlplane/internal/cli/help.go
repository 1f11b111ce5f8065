package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
)

// wrappedUsage is a usage with the help of flags at the width of a terminal. Cobra has templates for it, with which
// text/template would be linked: it calls methods by name, so that the linker keeps all exported methods of the
// program.
func wrappedUsage(print func(*cobra.Command) error, width int) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		out := c.OutOrStderr()
		var text strings.Builder
		c.SetOut(&text)
		err := print(c)
		c.SetOut(out)
		if err != nil {
			return err
		}
		wide := c.LocalFlags().FlagUsages()
		narrow := c.LocalFlags().FlagUsagesWrapped(width - 5) // pflag takes up to 5 columns more
		if width < widthOfColumns {
			narrow = stacked(wide, width)
		}
		shown := strings.Replace(text.String(), strings.TrimSpace(wide), strings.TrimSpace(narrow), 1)
		if at := strings.LastIndex(shown, "\nUse \""); at >= 0 { // the hint at the end
			shown = shown[:at+1] + strings.Join(screen.Wrapped(shown[at+1:], width, 0), "\n")
		}
		_, err = io.WriteString(out, shown)
		return err
	}
}

// widthOfColumns is the width from which on flags and their usage stand side by side.
const widthOfColumns = 72

// stacked puts the usage of each flag below it.
func stacked(flags string, width int) string {
	var b strings.Builder
	for line := range strings.Lines(flags) {
		name, usage, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(&b, "  %s\n", name)
		for _, line := range screen.Wrapped(strings.TrimSpace(usage), width-6, 0) {
			fmt.Fprintf(&b, "      %s\n", line)
		}
	}
	return b.String()
}

// reflowed breaks the paragraphs of a text at a width. Those that are indented or have a table stay as they are.
func reflowed(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") && !strings.Contains("\n"+p, "\n\t") {
			paragraphs[i] = strings.Join(screen.Wrapped(strings.ReplaceAll(p, "\n", " "), width, 0), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// call puts the name of the program into usage and examples.
func call(root *cobra.Command, program string) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: program}
	for _, c := range root.Commands() {
		c.Example = strings.ReplaceAll(c.Example, "  rangekeeper ", "  "+program+" ")
	}
}
