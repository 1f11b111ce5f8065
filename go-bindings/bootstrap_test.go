package rangekeeper

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// The questions of the document have the answers that stand behind them.
func TestBootstrapPlansOfTheDocument(t *testing.T) {
	document := string(must(os.ReadFile("testdata/bootstrap-json.md")))
	value := func(text string) (v any) {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return v
	}
	asked := 0
	for _, part := range strings.Split(document, "```json Question\n")[1:] {
		question, rest, _ := strings.Cut(part, "\n```\n")
		expected, _, isPlan := strings.Cut(strings.TrimPrefix(rest, "```json Plan\n"), "\n```\n")
		if !isPlan || !strings.HasPrefix(rest, "```json Plan\n") {
			t.Fatalf("a question without an answer: %s", question)
		}
		var answer []byte
		for range 2 { // the second time into the same memory
			answer = must(BootstrapPlan([]byte(question), answer))
			if !reflect.DeepEqual(value(string(answer)), value(expected)) {
				t.Errorf("%s\ngives\n%s", question, answer)
			}
		}
		asked++
	}
	if asked < 7 {
		t.Errorf("only %d questions found", asked)
	}
}

func TestBootstrapPlanErrors(t *testing.T) {
	for _, text := range []string{
		"", "{", "nonsense", "{\"pods\": {}}", "{\"namespaces\": {\"existing\": \"default\"}}",
		// A wrong kind, an unknown field, and a missing one.
		`{"service": {"wanted": {"clusterIp": "10.0.0.1", "securePort": 1}, "existing": {"apiVersion": "v1", "kind": "Pod"}}}`,
		`{"lease": {"advertiseAddress": "192.0.2.10", "stage": "run", "read": {}}}`,
		`{"lease": {"advertiseAddress": "192.0.2.10", "stage": "run", "ttl": 1}}`,
		`{"lease": {"advertiseAddress": "192.0.2.10"}}`,
	} {
		var wrong *JSONError
		answer, err := BootstrapPlan([]byte(text), nil)
		if !errors.As(err, &wrong) || wrong.Offset > uint64(len(text)) || wrong.Message == "" || answer != nil {
			t.Errorf("%s: %q, %v", text, answer, err)
		}
	}
	pod := `{"service": {"existing": {"apiVersion": "v1", "kind": "Pod"}}}`
	var wrong *JSONError
	_, err := BootstrapPlan([]byte(pod), nil)
	place := uint64(strings.Index(pod, `"Pod"`))
	if !errors.As(err, &wrong) || wrong.Offset < place || wrong.Offset > place+5 || !strings.Contains(wrong.Message, "Pod") {
		t.Error(err)
	}
	for text, word := range map[string]string{
		`{"namespaces": {"existing": [], "wanted": ["A"]}}`:                                               "wanted",
		`{"service": {"wanted": {"clusterIp": "10.0.0.1", "securePort": 0}}}`:                             "securePort",
		`{"lease": {"advertiseAddress": "127.0.0.1", "stage": "run"}}`:                                    "advertiseAddress",
		`{"endpoints": {"advertiseAddress": "192.0.2.10", "mode": "lease", "stage": "run", "ports": []}}`: "leases",
	} {
		var config *ConfigError
		if _, err := BootstrapPlan([]byte(text), nil); !errors.As(err, &config) || !strings.Contains(config.Message, word) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := BootstrapPlan([]byte("{\"\xff\": 1}"), nil); !errors.Is(err, ErrInvalidUTF8) {
		t.Error(err)
	}
}

func TestBootstrapErrors(t *testing.T) {
	var wrong *JSONError
	if _, err := NewBootstrap([]byte(`{"advertiseAddres": ""}`)); !errors.As(err, &wrong) || wrong.Offset > 20 {
		t.Error(err)
	}
	var config *ConfigError
	if _, err := NewBootstrap([]byte(`{}`)); !errors.As(err, &config) {
		t.Error(err)
	}
	b := must(NewBootstrap([]byte(`{"advertiseAddress": "192.0.2.10"}`)))
	if err := b.Answered(0, 0, []byte(`"dun"`)); !errors.As(err, &wrong) || !strings.Contains(wrong.Message, "dun") {
		t.Error(err)
	}
	if step := must(b.Poll(0, nil)); !strings.Contains(string(step), `"ready"`) {
		t.Errorf("%s", step)
	}
	b.Close()
	for _, b := range []*Bootstrap{b, {}, nil} {
		_, poll := b.Poll(0, nil)
		for _, err := range []error{poll, b.Answered(0, 0, []byte(`"done"`)), b.Stop(0)} {
			if !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		}
		if b.Close() != nil {
			t.Error("Close fails")
		}
	}
}
