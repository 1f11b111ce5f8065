package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
)

// connection is how a running etcd is reached.
type connection struct {
	options clusterstate.ConnectOptions
}

// addFlags adds the flags, which etcd's tools have under the same names.
func (o *connection) addFlags(c *cobra.Command, endpointsUsage string) {
	f := c.Flags()
	f.StringSliceVar(&o.options.Endpoints, "endpoints", nil, endpointsUsage)
	f.StringVar(&o.options.CACert, "cacert", "", "authorities that may have signed etcd's certificate (PEM file)")
	f.StringVar(&o.options.Cert, "cert", "", "client certificate (PEM file)")
	f.StringVar(&o.options.Key, "key", "", "key of the client certificate (PEM file)")
	f.StringVar(&o.options.User, "user", "", "etcd user, or user:password")
	f.StringVar(&o.options.Password, "password", "", "password of the etcd user")
	notEmpty(c, "endpoints")
	addRule(c, func([]string) error {
		if p := &o.options; !o.given() && p.CACert+p.Cert+p.Key+p.User+p.Password != "" {
			return usageError(c, "--cacert, --cert, --key, --user and --password are for --endpoints")
		}
		return nil
	})
	completeNothing(c, "endpoints", "user", "password")
}

// given reports whether a running etcd was named.
func (o *connection) given() bool { return len(o.options.Endpoints) > 0 }

func (o *connection) connect(ctx context.Context) (*clientv3.Client, error) {
	options := o.options
	if user, password, ok := strings.Cut(options.User, ":"); ok && options.Password == "" {
		options.User, options.Password = user, password
	}
	return clusterstate.Connect(ctx, options)
}

// String names the etcd in errors.
func (o *connection) String() string { return strings.Join(o.options.Endpoints, ",") }

// completeNothing keeps the shell from offering files for these flags.
func completeNothing(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}
