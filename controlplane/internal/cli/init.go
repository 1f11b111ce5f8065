package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/ranges"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

// mostStored is the size of the largest range of which a kube-apiserver keeps a bitmap: validateMaxCIDRRange in
// cmd/kube-apiserver/app/options/validation.go.
const mostStored = 1 << 20

func newInit(p *Program) *cobra.Command {
	c := &cobra.Command{
		Use:   "init RANGE SPEC",
		Short: "Create a range to allocate from",
		Long: `Creates the stored object of a range, with nothing allocated. SPEC is a CIDR, or for
servicenodeports a range of ports. If the object is there with the same SPEC, nothing
is changed; one with another SPEC is an error. A cluster that keeps ClusterIPs as
IPAddress objects, the default since Kubernetes 1.33, has no ranges of ClusterIPs.

` + p.rangesHelp(),
		Example: `  rangekeeper init serviceips 10.96.0.0/12 \
    --endpoints http://127.0.0.1:2379
  rangekeeper init servicenodeports 30000-32767 \
    --endpoints http://127.0.0.1:2379`,
		Args: usage.Arguments,
	}
	ranges.Add(c, p.AddLocal, func(c *cobra.Command, args []string, s *ranges.Store) error {
		name := args[0]
		values, err := clusterstate.ParseRange(name)(args[1])
		if err != nil {
			return usage.Error(c, "%s: %v", name, err)
		}
		if values.Size() > mostStored {
			return usage.Error(c, "%s: %s has more than %d values: no kube-apiserver starts with a larger range, and etcd stores no bitmap of one", name, values, mostStored)
		}
		if err := open(c.Context(), s, true, c.OutOrStdout()); err != nil {
			return err
		}
		created := false
		if isThere, err := s.IsThere(c.Context(), name, values); err != nil {
			return err
		} else if !isThere {
			if created, err = s.Create(c.Context(), name, values); err != nil {
				return err
			}
		}
		what := "unchanged"
		if created {
			what = "created"
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), name, values, what)
		return err
	})
	return c
}
