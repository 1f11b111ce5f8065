package cli

import (
	"time"

	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
)

// All documents of tests have one time, so that two can be compared.
func init() {
	source.Now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
}
