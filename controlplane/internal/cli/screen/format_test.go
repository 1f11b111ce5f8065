package screen

import (
	"bytes"
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
