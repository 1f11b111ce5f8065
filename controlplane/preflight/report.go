package preflight

import (
	"slices"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
)

// Kind is that of the document.
const Kind = "Preflight"

// Level says what a check means for the upgrade.
type Level string

const (
	// Must be done first: without it the upgrade stops, or a fault stays that the new release cannot repair.
	Must Level = "mustBeDoneFirst"
	// Surprise: the new release changes or reports something.
	Surprise Level = "maySurprise"
	// Unknown: the source does not show it.
	Unknown Level = "unknown"
	// OK: there is nothing to do.
	OK Level = "ok"
)

// Levels are all of them, the worst first.
var Levels = []Level{Must, Surprise, Unknown, OK}

// Report is the document of a preflight. Checks are sorted by level.
type Report struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Source     *audit.Source `json:"source"`
	// From is the release that the cluster runs, empty if it is not known; To is the minor release of the upgrade.
	From string `json:"from"`
	To   string `json:"to"`
	// FirstRepair is what a kube-apiserver of the new release writes before it is ready.
	FirstRepair Writes  `json:"firstRepair"`
	Checks      []Check `json:"checks"`
	Summary     Summary `json:"summary"`
}

// Check is one result.
type Check struct {
	// Name is that of the check, or the reason of an audit's findings.
	Name  string `json:"name"`
	Level Level  `json:"level"`
	// Message and Remedy are for people. A check that is OK has no remedy.
	Message string `json:"message"`
	// Values are the addresses, ports or objects that it is about.
	Values []string `json:"values"`
	Remedy string   `json:"remedy,omitempty"`
	// Command does what the remedy says, or shows more.
	Command string `json:"command,omitempty"`
	// Words are those of the command that are not broken.
	Words []string `json:"-"`
}

// Writes counts what the first repair pass writes.
type Writes struct {
	ServiceCIDRs int `json:"serviceCIDRs"`
	// Created and Removed are IPAddress objects. One that is replaced counts in both.
	Created int `json:"created"`
	Removed int `json:"removed"`
	// Bitmaps are RangeAllocations; of those that the source does not show, it is not known whether they change.
	Bitmaps audit.Amount `json:"bitmaps"`
}

// requests is the number of requests that are made one after another.
func (w Writes) requests() int { return w.ServiceCIDRs + w.Created + w.Removed + int(w.Bitmaps.N) }

// Summary counts checks.
type Summary struct {
	MustBeDoneFirst int `json:"mustBeDoneFirst"`
	MaySurprise     int `json:"maySurprise"`
	Unknown         int `json:"unknown"`
	OK              int `json:"ok"`
}

// Of returns the checks of a level.
func (r *Report) Of(level Level) (checks []Check) {
	for _, c := range r.Checks {
		if c.Level == level {
			checks = append(checks, c)
		}
	}
	return checks
}

// Ready reports whether nothing must be done first.
func (r *Report) Ready() bool { return r.Summary.MustBeDoneFirst == 0 }

func (r *Report) finish() {
	slices.SortStableFunc(r.Checks, func(a, b Check) int {
		return slices.Index(Levels, a.Level) - slices.Index(Levels, b.Level)
	})
	r.Summary = Summary{len(r.Of(Must)), len(r.Of(Surprise)), len(r.Of(Unknown)), len(r.Of(OK))}
}
