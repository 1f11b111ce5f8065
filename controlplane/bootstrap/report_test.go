package bootstrap

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestKeysOfAFault logs what the core reports of a lease that cannot be read. Most readers of a line keep one value for
// each key.
func TestKeysOfAFault(t *testing.T) {
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Warn("a lease is wrong", faultAttributes(map[string]any{
		"unreadable": map[string]any{"key": "/registry/masterleases/192.0.2.9", "error": "unknown"}, "message": "the value cannot be read",
	})...)
	for _, key := range []string{"fault", "key", "cause", "error"} {
		if n := strings.Count(b.String(), `"`+key+`":`); n != 1 {
			t.Errorf("%s: %d times in %s", key, n, b.String())
		}
	}
}
