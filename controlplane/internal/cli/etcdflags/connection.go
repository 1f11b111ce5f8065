// Package etcdflags has the flags by which commands reach a running etcd.
package etcdflags

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/term"

	"github.com/rangekeeper/rangekeeper/controlplane/clusterstate"
	"github.com/rangekeeper/rangekeeper/controlplane/internal/cli/usage"
)

// Connection is how a running etcd is reached.
type Connection struct {
	options      clusterstate.ConnectOptions
	passwordFile string
	// Elsewhere reports whether the command line names another store; nil for never. ETCDCTL_ENDPOINTS does not count
	// then.
	Elsewhere func() bool
	// Restored is [clusterstate.ConnectOptions.Restored].
	Restored func(ctx context.Context, what error) error
	stdin    *os.File
	stderr   io.Writer
}

// environment are the flags that etcdctl reads from a variable, too.
var environment = []string{"endpoints", "cacert", "cert", "key", "user", "password", "dial-timeout"}

// EnvironmentHelp says so.
const EnvironmentHelp = `The flags of etcd are those of etcdctl. ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ETCDCTL_CERT,
ETCDCTL_KEY, ETCDCTL_USER, ETCDCTL_PASSWORD and ETCDCTL_DIAL_TIMEOUT stand for flags that
are not there; a command that can use the kubeconfig ignores ETCDCTL_ENDPOINTS. The password of --user comes from --password-file, ETCDCTL_PASSWORD or a
prompt; one on the command line can be seen by other users.`

// AddFlags adds the flags, which etcd's tools have under the same names.
func (o *Connection) AddFlags(c *cobra.Command, endpointsUsage string) {
	f := c.Flags()
	f.StringSliceVar(&o.options.Endpoints, "endpoints", nil, endpointsUsage+" (http, https or unix)")
	f.StringVar(&o.options.CACert, "cacert", "", "authorities that may have signed etcd's certificate (PEM file)")
	f.StringVar(&o.options.Cert, "cert", "", "client certificate (PEM file)")
	f.StringVar(&o.options.Key, "key", "", "key of the client certificate (PEM file)")
	f.StringVar(&o.options.User, "user", "", "etcd user, or user:password")
	f.StringVar(&o.options.Password, "password", "", "password of the etcd user")
	f.StringVar(&o.passwordFile, "password-file", "", "file with the password of the etcd user")
	f.DurationVar(&o.options.DialTimeout, "dial-timeout", clusterstate.DefaultDialTimeout, "how long to wait for etcd's first answer")
	usage.AddRule(c, func([]string) error {
		o.stdin, o.stderr = os.Stdin, c.ErrOrStderr()
		return o.readEnvironment(c)
	})
	usage.Exclusive(c, "password", "password-file")
	usage.NotEmpty(c, "endpoints")
	usage.NotEmpty(c, "password-file")
	usage.AddRule(c, func([]string) error {
		p := &o.options
		switch {
		case !o.Given() && p.CACert+p.Cert+p.Key+p.User+p.Password+o.passwordFile != "":
			return usage.Error(c, "--cacert, --cert, --key, --user and --password are for --endpoints")
		case p.DialTimeout <= 0:
			return usage.Error(c, "--dial-timeout is positive, not %s", p.DialTimeout)
		}
		return nil
	})
	c.MarkFlagFilename("password-file")
	usage.CompleteNothing(c, "endpoints", "user", "password", "dial-timeout")
}

// AddPrefix adds --prefix, that of all keys of the cluster. It is not empty: nobody would know whether that means the
// default or the root.
func AddPrefix(c *cobra.Command, prefix *string) {
	c.Flags().StringVar(prefix, "prefix", clusterstate.DefaultPrefix, "kube-apiserver's --etcd-prefix")
	usage.NotEmpty(c, "prefix")
	usage.CompleteNothing(c, "prefix")
}

// readEnvironment sets the flags that are not there from etcdctl's variables, if a running etcd is named.
func (o *Connection) readEnvironment(c *cobra.Command) error {
	if o.Elsewhere != nil && o.Elsewhere() {
		return nil
	}
	for _, name := range environment {
		if name != "endpoints" && !o.Given() {
			return nil
		}
		variable := "ETCDCTL_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value := os.Getenv(variable)
		if value == "" || c.Flags().Changed(name) || name == "password" && o.passwordFile != "" {
			continue
		}
		if err := c.Flags().Set(name, value); err != nil {
			return usage.Error(c, "%s cannot be %q", variable, value)
		}
		if name == "endpoints" {
			fmt.Fprintf(o.stderr, "rangekeeper: using the etcd at %s, as %s says\n", o, variable)
		}
	}
	return nil
}

// Given reports whether a running etcd was named.
func (o *Connection) Given() bool { return len(o.options.Endpoints) > 0 }

// Connect connects to the etcd, and asks for a password at a terminal if one is missing.
func (o *Connection) Connect(ctx context.Context) (*clientv3.Client, error) {
	return o.ConnectTo(ctx, o.options.Endpoints)
}

// ConnectTo is Connect to the etcd at other URLs, with the same flags.
func (o *Connection) ConnectTo(ctx context.Context, endpoints []string) (*clientv3.Client, error) {
	options := o.options
	options.Restored, options.Endpoints = o.Restored, endpoints
	var err error
	if options.Password, err = o.password(); err != nil {
		return nil, err
	}
	if user, password, ok := strings.Cut(options.User, ":"); ok && options.Password == "" {
		options.User, options.Password = user, password
	}
	if options.User != "" && options.Password == "" && o.stdin != nil && term.IsTerminal(int(o.stdin.Fd())) {
		fmt.Fprint(o.stderr, "Password: ")
		password, err := term.ReadPassword(int(o.stdin.Fd()))
		fmt.Fprintln(o.stderr)
		if err != nil {
			return nil, fmt.Errorf("read the password: %w", err)
		}
		options.Password = string(password)
		o.options.Password = options.Password // for the next etcd
	}
	return clusterstate.Connect(ctx, options)
}

// password returns the password of a flag or a file.
func (o *Connection) password() (string, error) {
	if o.passwordFile == "" {
		return o.options.Password, nil
	}
	content, err := os.ReadFile(o.passwordFile)
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(content), "\r\n")
	if password == "" {
		return "", fmt.Errorf("%s: holds no password", o.passwordFile)
	}
	return password, nil
}

// Endpoints are the URLs of the etcd.
func (o *Connection) Endpoints() []string { return o.options.Endpoints }

// String names the etcd in errors.
func (o *Connection) String() string { return strings.Join(o.options.Endpoints, ",") }
