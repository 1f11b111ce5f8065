package screen

import (
	"io"
	"regexp"
)

// commandNames are the commands in texts for people, such as those of the runbook.
var commandNames = regexp.MustCompile(`\b(?:kubectl )?rangekeeper (audit|repair|undo|show|explain|free|preflight|init|allocate|release|watch)\b`)

// Called names the commands in a text as the user calls them: kubectl's plugin is not called rangekeeper.
func Called(program, text string) string {
	return commandNames.ReplaceAllString(text, program+" $1")
}

// Messages are the messages of a program for people.
type Messages struct {
	io.Writer
	Program string
}

// Write takes whole messages.
func (m Messages) Write(message []byte) (int, error) {
	_, err := io.WriteString(m.Writer, Called(m.Program, string(message)))
	return len(message), err
}
