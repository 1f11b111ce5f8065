package screen

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// Printable shows a text that someone wrote where an address belongs without
// handing control characters to the terminal.
func Printable(value string) string {
	if quoted := fmt.Sprintf("%q", value); quoted != `"`+value+`"` {
		return quoted
	}
	return value
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// Quoted is a word for a shell.
func Quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// several is "at least 3 leaks" if the source may not show all.
func several(n audit.Count, what string) string {
	if n.IsAtLeast {
		return "at least " + Count(n.Found, what)
	}
	return Count(n.Found, what)
}

// Count is a number of things, in words: "1 leak", "2 leaks".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
