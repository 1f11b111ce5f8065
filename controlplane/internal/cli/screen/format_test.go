package screen

import (
	"bytes"
	"os"
	"testing"
)

// TestWriteOneOf writes two documents, which a reader of many finds.
func TestWriteOneOf(t *testing.T) {
	for format, want := range map[string]string{
		FormatJSON: `{"a":[1]}` + "\n" + `{"b":"<"}` + "\n",
		FormatYAML: "---\na:\n- 1\n---\nb: <\n",
	} {
		var b bytes.Buffer
		for _, document := range []any{map[string][]int{"a": {1}}, map[string]string{"b": "<"}} {
			if err := WriteOneOf(&b, document, format); err != nil {
				t.Fatal(err)
			}
		}
		if b.String() != want {
			t.Errorf("%s: %q, want %q", format, b.String(), want)
		}
	}
}

// TestTerminalOfMessages looks for the terminal behind the messages that are written to it.
func TestTerminalOfMessages(t *testing.T) {
	if file, _ := Terminal(Messages{Writer: os.Stderr, Program: "kubectl rangekeeper"}); file != os.Stderr {
		t.Errorf("%v", file)
	}
}
