package cli

import (
	"context"
	"io"

	"github.com/rangekeeper/rangekeeper/controlplane/audit"
	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/screen"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/source"
)

// open opens the store that a command changes. On a terminal it says first which cluster that is; programs that read
// the command's output get nothing but values.
func open(ctx context.Context, s *ranges.Store, mayCreate bool, out io.Writer) error {
	if err := s.Open(ctx, mayCreate); err != nil {
		return err
	}
	if _, ok := screen.Terminal(out); !ok {
		return nil
	}
	state, err := clusterstate.ReadIdentity(ctx, s.Client, s.Prefix)
	if err != nil {
		return err
	}
	text := screen.New(out, false)
	text.Source(source.About(audit.FromEtcd, s.String(), state))
	return text.Print(out)
}
