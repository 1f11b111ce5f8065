package edit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	strictjson "sigs.k8s.io/json"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/newfile"
	rangekeeper "github.com/rangekeeper/rangekeeper/go-bindings"
)

// The kinds of the files of a reviewed repair.
const (
	KindReviewedPlan = "ReviewedPlan"
	KindJournal      = "RepairJournal"
)

// maxDocument is the most bytes of a document. All ports and a million addresses take less.
const maxDocument = 64 << 20

// Changes is the document of a plan for review, and of the journal of what was written by it.
type Changes struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Time       time.Time `json:"time"`
	// Cluster is the only one that the document is for.
	Cluster clusterstate.Identity `json:"cluster"`
	// Revision is that of the state that the changes were made from.
	Revision int64 `json:"revision"`
	// Mark is that of a journal in etcd.
	Mark   string         `json:"mark,omitempty"`
	Ranges []RangeChanges `json:"ranges"`
	// file is where the document was read from.
	file string
}

// RangeChanges are the changes of one range.
type RangeChanges struct {
	Name  string      `json:"name"`
	Range string      `json:"range"`
	Set   []UsedValue `json:"set"`
	Clear []string    `json:"clear"`
	// Outcome is that of a journal's write of the range.
	Outcome string `json:"outcome,omitempty"`
	// WrittenRevision is that of the write, 0 while its outcome is unknown.
	WrittenRevision int64 `json:"writtenRevision,omitempty"`

	// What stands in a document that was read.
	values     rangekeeper.Range
	set, clear []rangekeeper.Value
}

// UsedValue is a value with the Services that use it.
type UsedValue struct {
	Value    string   `json:"value"`
	Services []string `json:"services"`
}

// isDone reports whether nothing of it is to be written any more.
func (r *RangeChanges) isDone() bool {
	return r.Outcome == OutcomeWritten || len(r.Set)+len(r.Clear) == 0
}

// names returns those of all ranges.
func (c *Changes) names() (all []string) {
	for _, one := range c.Ranges {
		all = append(all, one.Name)
	}
	return all
}

// SetValues returns the values of Set.
func (r *RangeChanges) SetValues() []string {
	all := []string{} // never nil, which is null in JSON
	for _, set := range r.Set {
		all = append(all, set.Value)
	}
	return all
}

// CheckCluster refuses a document of another cluster than that of a state, or of another history: etcd was restored
// since. Of a plan that was not begun only the revision tells. It needs no more: nothing of it depends on what was
// before its first look.
func (c *Changes) CheckCluster(ctx context.Context, stored *ranges.Store, state *clusterstate.State) error {
	if difference := c.Cluster.Differs(state.Identity); difference != "" {
		return fmt.Errorf("%s: is for another cluster: %s; nothing was written", c.file, difference)
	}
	made := c.Revision
	for _, one := range c.Ranges {
		made = max(made, one.WrittenRevision)
	}
	if state.Revision < made {
		return fmt.Errorf("%s: is of revision %d, and etcd is at %d: it was restored from an older state since; nothing was written", c.file, made, state.Revision)
	}
	return c.checkMark(ctx, stored, state)
}

// undoableText says what undo can take back: it frees no value that a Service uses.
func (c *Changes) undoableText() string {
	set, cleared := 0, 0
	for _, one := range c.Ranges {
		set, cleared = set+len(one.Set), cleared+len(one.Clear)
	}
	var parts []string
	if cleared > 0 {
		parts = append(parts, screen.Count(cleared, "cleared value"))
	}
	if set > 0 {
		them := map[bool]string{true: "it", false: "them"}[set == 1]
		parts = append(parts, screen.Count(set, "set value")+" unless a Service uses "+them+" by then")
	}
	return strings.Join(parts, ", and ")
}

// ReadDocument reads a document of a kind, and accepts only what [Changes.Create] can have written.
func ReadDocument(path, kind string) (*Changes, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxDocument+1))
	if err != nil {
		return nil, err
	}
	c, err := parseChanges(content, kind)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c.file = path
	return c, nil
}

func parseChanges(content []byte, kind string) (*Changes, error) {
	switch {
	case len(content) > maxDocument:
		return nil, fmt.Errorf("is larger than %d MiB", maxDocument>>20)
	case len(bytes.TrimSpace(content)) == 0:
		return nil, errors.New("is empty")
	}
	c := new(Changes)
	strict, err := strictjson.UnmarshalStrict(content, c)
	if err != nil {
		return nil, explainDocument(err, content)
	}
	if c.APIVersion == "" || c.Kind == "" {
		return nil, fmt.Errorf("has no apiVersion or no kind; expected %s %s", audit.APIVersion, kind)
	}
	if c.APIVersion != audit.APIVersion || c.Kind != kind {
		return nil, fmt.Errorf("is %s %s, not %s %s", c.APIVersion, c.Kind, audit.APIVersion, kind)
	}
	if len(strict) > 0 {
		return nil, strict[0]
	}
	return c, c.check()
}

// explainDocument returns an error of the JSON package with its place, and without the names of our types.
func explainDocument(err error, content []byte) error {
	if isSyntax, offset := strictjson.SyntaxErrorOffset(err); isSyntax {
		return fmt.Errorf("line %d: %w", 1+bytes.Count(content[:min(offset, int64(len(content)))], []byte("\n")), err)
	}
	wrong, badTime := (*json.UnmarshalTypeError)(nil), (*time.ParseError)(nil)
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("is a JSON %s, not an object", wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s cannot be a JSON %s", wrong.Field, wrong.Value)
	case errors.As(err, &badTime):
		return fmt.Errorf("time is one of RFC 3339, such as 2006-01-02T15:04:05Z, not %s", badTime.Value)
	}
	return err
}

// clockSkew is how far the clock of the machine that wrote a document may be ahead.
const clockSkew = 5 * time.Minute

// check refuses what no command writes.
func (c *Changes) check() error {
	outcomes := []string{""}
	if c.Kind == KindJournal {
		outcomes = []string{OutcomePending, OutcomeUnknown, OutcomeWritten}
	}
	switch {
	case c.Time.IsZero():
		return errors.New("has no time")
	case time.Until(c.Time) > clockSkew:
		return fmt.Errorf("its time %s is in the future", c.Time.Format(time.RFC3339))
	case c.Cluster.Prefix == "":
		return errors.New("has no prefix of its cluster's keys")
	case c.Revision < 1:
		return fmt.Errorf("revision is at least 1, not %d", c.Revision)
	case (c.Mark != "") != (c.Kind == KindJournal):
		return fmt.Errorf("has the mark %q; a %s has one, and no other document", c.Mark, KindJournal)
	}
	names := sets.New[string]()
	for i := range c.Ranges {
		one := &c.Ranges[i]
		if !slices.Contains(ranges.Names, one.Name) {
			return fmt.Errorf("unknown range %q", one.Name)
		}
		if names.Has(one.Name) {
			return fmt.Errorf("range %s is there twice", one.Name)
		}
		names.Insert(one.Name)
		if !slices.Contains(outcomes, one.Outcome) {
			return fmt.Errorf("range %s: a %s never has the outcome %q", one.Name, c.Kind, one.Outcome)
		}
		if err := one.parse(); err != nil {
			return fmt.Errorf("range %s: %w", one.Name, err)
		}
	}
	return nil
}

// parse reads the values, and refuses what no command writes.
func (r *RangeChanges) parse() (err error) {
	switch {
	case r.Outcome == OutcomeWritten && r.WrittenRevision < 1:
		return fmt.Errorf("writtenRevision is at least 1, not %d", r.WrittenRevision)
	case r.Outcome != OutcomeWritten && r.WrittenRevision != 0:
		return fmt.Errorf("writtenRevision is of the outcome %q only", OutcomeWritten)
	}
	if r.values, err = clusterstate.ParseRange(r.Name)(r.Range); err != nil {
		return err
	}
	if r.values.String() != r.Range {
		return fmt.Errorf("%q is written %s", r.Range, r.values)
	}
	seen := sets.New[string]()
	for _, text := range slices.Concat(r.SetValues(), r.Clear) {
		value, err := rangekeeper.ParseValue(text)
		if err != nil {
			return err
		}
		if value.String() != text {
			return fmt.Errorf("%q is written %s", text, value)
		}
		if _, in := r.values.OffsetOf(value); !in {
			return fmt.Errorf("%s is not in %s", text, r.values)
		}
		if seen.Has(text) {
			return fmt.Errorf("%s is there twice", text)
		}
		seen.Insert(text)
		r.set = append(r.set, value)
	}
	r.set, r.clear = r.set[:len(r.Set)], r.set[len(r.Set):]
	return nil
}

// Create writes the document to a new file; with force it replaces one.
func (c *Changes) Create(path string, force bool) error {
	var content bytes.Buffer
	if err := screen.WriteDocument(&content, c, screen.FormatJSON); err != nil {
		return err
	}
	return newfile.Target{Path: path, Overwrite: force}.Write(content.Bytes())
}
