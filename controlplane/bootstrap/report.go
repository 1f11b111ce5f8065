package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/servermetrics"
)

// report logs what the core reports, and returns the error of a fatal report.
func (c *Controller) report(text json.RawMessage) error {
	log := c.server.Log
	if name := strings.Trim(string(text), `"`); name == "started" {
		log.Info("the first repairs have succeeded")
		if c.server.Started != nil {
			c.server.Started()
		}
		return nil
	}
	type failing struct {
		Work    string  `json:"work"`
		Failure failure `json:"failure"`
	}
	var r struct {
		Failing   *failing `json:"failing"`
		Recovered *struct {
			Work     string `json:"work"`
			Failures int    `json:"failures"`
			LastedMs int64  `json:"lastedMs"`
		} `json:"recovered"`
		FaultFound map[string]any `json:"faultFound"`
		FaultGone  map[string]any `json:"faultGone"`
		Restored   *struct {
			Before   int64 `json:"before"`
			Revision int64 `json:"revision"`
		} `json:"restored"`
		Endpoints *servermetrics.Found `json:"endpoints"`
		Fatal     *failing             `json:"fatal"`
		Stopped   *struct {
			Removed bool `json:"removed"`
		} `json:"stopped"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read a report of the core: %w", err)
	}
	switch {
	case r.Failing != nil && r.Failing.Work == "removeStaleEndpoint":
		log.Warn("failed", "work", r.Failing.Work, "reason", r.Failing.Failure.Reason, "error", r.Failing.Failure.Message)
	case r.Failing != nil:
		c.failing.Store(r.Failing.Work, errors.New(r.Failing.Failure.Message))
		log.Warn("failed; retrying", "work", r.Failing.Work, "reason", r.Failing.Failure.Reason, "error", r.Failing.Failure.Message)
	case r.Recovered != nil:
		c.failing.Delete(r.Recovered.Work)
		log.Info("works again", "work", r.Recovered.Work, "failures", r.Recovered.Failures, "after", time.Duration(r.Recovered.LastedMs)*time.Millisecond)
	case r.FaultFound != nil:
		log.Warn("a lease is wrong", faultAttributes(r.FaultFound)...)
	case r.FaultGone != nil:
		log.Info("a lease is right again", faultAttributes(r.FaultGone)...)
	case r.Restored != nil:
		if c.server.Restored != nil {
			c.server.Restored()
		}
		log.Error("etcd has gone back to an older revision, as after a restore; restart the API server if it ran meanwhile",
			"before", r.Restored.Before, "revision", r.Restored.Revision)
	case r.Endpoints != nil:
		if c.server.Metrics != nil {
			c.server.Metrics.Set(*r.Endpoints)
		}
	case r.Fatal != nil:
		log.Error("cannot continue", "work", r.Fatal.Work, "reason", r.Fatal.Failure.Reason, "error", r.Fatal.Failure.Message)
		return fmt.Errorf("%w: %s: %s", ErrFatal, r.Fatal.Work, r.Fatal.Failure.Message)
	case r.Stopped != nil && (c.server.DryRun || c.config.Mode == None):
		log.Info("stopped")
	case r.Stopped != nil:
		log.Info("stopped", "endpoint removed", r.Stopped.Removed)
	default:
		return fmt.Errorf("unknown report of the core: %s", text)
	}
	return nil
}

// faultAttributes are the kind of a fault, what it is about, and its text, if there is one.
func faultAttributes(fault map[string]any) (attributes []any) {
	for kind, about := range fault {
		about, ok := about.(map[string]any)
		if !ok {
			continue
		}
		attributes = append(attributes, "fault", kind)
		for _, name := range slices.Sorted(maps.Keys(about)) {
			key := name
			if name == "error" { // of the value, beside the message about the lease
				key = "cause"
			}
			attributes = append(attributes, key, about[name])
		}
	}
	if message := fault["message"]; message != nil {
		attributes = append(attributes, "error", message)
	}
	return attributes
}
