package screen

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
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

// TestYAMLOfAnyText writes each character of the Basic Multilingual Plane that JSON has, and reads it with Kubernetes'
// library.
func TestYAMLOfAnyText(t *testing.T) {
	var text strings.Builder
	for r := rune(0); r <= 0xffff; r++ {
		if utf8.ValidRune(r) {
			text.WriteRune(r)
		}
	}
	var b bytes.Buffer
	var got map[string]string
	if err := WriteDocument(&b, map[string]string{"text": text.String()}, FormatYAML); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(b.Bytes(), &got); err != nil || got["text"] != text.String() {
		t.Errorf("%v: %d bytes, want %d", err, len(got["text"]), text.Len())
	}
}

// TestTerminalOfMessages looks for the terminal behind the messages that are written to it.
func TestTerminalOfMessages(t *testing.T) {
	if file, _ := Terminal(Messages{Writer: os.Stderr, Program: "kubectl rangekeeper"}); file != os.Stderr {
		t.Errorf("%v", file)
	}
}
