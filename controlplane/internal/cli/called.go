package cli

import (
	"io"
	"regexp"
)

// commandNames are the commands in texts for people, such as those of the runbook.
var commandNames = regexp.MustCompile(`\b(?:kubectl )?rangekeeper (audit|repair|undo|show|explain|free|preflight|init|allocate|release|watch)\b`)

// called names the commands in a text as the user calls them: kubectl's plugin is not called rangekeeper.
func called(program, text string) string {
	return commandNames.ReplaceAllString(text, program+" $1")
}

// messages are the messages of a program for people.
type messages struct {
	io.Writer
	program string
}

// Write takes whole messages.
func (m messages) Write(message []byte) (int, error) {
	_, err := io.WriteString(m.Writer, called(m.program, string(message)))
	return len(message), err
}
