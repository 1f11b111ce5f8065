package screen

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// longestText is the number of bytes from which on a text of others is shown in part: names and keys of objects are
// shorter.
const longestText = 600

// Printable shows a text that someone wrote where an address belongs without
// handing control characters to the terminal.
func Printable(value string) string {
	value = clipped(value)
	if quoted := strconv.Quote(value); quoted != `"`+value+`"` {
		return quoted
	}
	return value
}

// unquoted takes back the quotes and backslashes of strconv.Quote.
var unquoted = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// escaped shows a sentence, which may have texts of others in it, without handing control characters to the terminal.
func escaped(sentence string) string {
	quoted := strconv.Quote(clipped(sentence))
	return unquoted.Replace(quoted[1 : len(quoted)-1])
}

// clipped returns the beginning of a long text, with its length.
func clipped(text string) string {
	if len(text) <= longestText {
		return text
	}
	end := longestText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes)", text[:end], len(text))
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
